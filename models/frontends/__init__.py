"""Exporters turn the models of a framework into StableHLO bytecode, each in a process of its own.

A file `models/frontends/<framework>.py` holds one `FRONTEND`, a `base.Frontend`; its helpers are in
`<framework>_<what>.py`. Importing the former imports no framework, so that listings and pytest processes can find out
cheaply which frontends exist and what they need.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError
from pathlib import Path

from opscope.base import regular_file
from opscope.base.installing import install_command
from opscope.base.plugins import version
from opscope.models.frontends.base import Frontend

Versions = Callable[[str], str]
"""Finds the version of a package in some interpreter, or raises PackageNotFoundError."""
HERE = Path(__file__).resolve().parent
SHARED = ("base", "child", "__init__", "jax_tree")
"""Files of this folder that every exporter uses, and that models import."""


def names() -> list[str]:
    """Returns the names of all frontends, sorted."""
    return sorted(path.stem for path in HERE.glob("*.py") if path.stem not in SHARED and "_" not in path.stem)


def get(framework: str) -> Frontend:
    """Returns the frontend of a framework. Raises ValueError if there is none."""
    if framework not in names():
        raise ValueError(f"framework: expected one of {', '.join(names())}, got {framework!r}")
    return importlib.import_module(f"opscope.models.frontends.{framework}").FRONTEND


def versions(framework: str, model: Path | None = None, installed: Versions | None = None) -> dict[str, str]:
    """Returns the packages that decide what the frontend exports, with their versions ('' if not installed).

    Of the libraries that models of the framework may import, they are those that the file `model` imports, or without
    one all of them. `installed` looks in another interpreter.
    """
    frontend = get(framework)
    found = {}
    for package in (*frontend.packages, *frontend.optional, *_libraries(frontend, model)):
        try:
            found[package] = (installed or version)(package)
        except PackageNotFoundError:
            found[package] = ""
    return found


def _libraries(frontend: Frontend, model: Path | None) -> tuple[str, ...]:
    if model is None or not frontend.libraries:
        return frontend.libraries
    try:
        imported = _imports(regular_file.read_bytes(model))
    except (OSError, SyntaxError, ValueError):
        return frontend.libraries  # whoever reads the file next says what is wrong with it
    return tuple(package for package in frontend.libraries if package in imported)


@lru_cache(maxsize=1024)
def _imports(text: bytes) -> frozenset[str]:
    """The first words of what a Python file imports, wherever in it."""
    imported = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            imported.add(node.module.split(".")[0])
    return frozenset(imported)


def missing(framework: str, model: Path | None = None, installed: Versions | None = None) -> str:
    """Returns which packages of the framework are missing and the command that installs them; empty if none is.

    With the file of a model they are those that this model needs.
    """
    packages = absent(framework, model, installed)
    return f"{', '.join(packages)} not installed; try {install(framework)}" if packages else ""


def absent(framework: str, model: Path | None = None, installed: Versions | None = None) -> list[str]:
    """Returns the packages that the framework, or one model of it, needs and that are not installed."""
    optional = get(framework).optional
    return [
        package
        for package, number in versions(framework, model, installed).items()
        if not number and package not in optional
    ]


def install(framework: str) -> str:
    """Returns the command that installs what a frontend needs."""
    return install_command(get(framework).extra)


@cache
def sources(framework: str) -> tuple[Path, ...]:
    """Returns the files that cached exports of the framework depend on: its own, and what these import from here.

    An export holds the model's results in its framework too, so it also depends on what draws the arguments.
    """
    paths: list[Path] = [HERE.parent / "seeding.py"]
    todo = [HERE / f"{name}.py" for name in (*SHARED, framework)]
    while todo:
        path = todo.pop()
        if path in paths:
            continue
        paths.append(path)
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(f"{__name__}."):
                module = HERE.joinpath(*str(node.module).removeprefix(__name__).split("."))
                imported = [module.with_suffix(".py"), *(module / f"{alias.name}.py" for alias in node.names)]
                todo += [file for file in imported if file.is_file()]
    return tuple(sorted(paths))
