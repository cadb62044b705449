"""Exporters turn the models of a framework into StableHLO bytecode, each in a process of its own.

A file `models/frontends/<framework>.py` holds one `FRONTEND`, a `base.Frontend`; its helpers are in
`<framework>_<what>.py`. Importing the former imports no framework, so that listings and pytest processes can find out
cheaply which frontends exist and what they need.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from opscope.base import regular_file
from opscope.base.installing import install_command
from opscope.base.plugins import version
from opscope.base.python_text import parsed
from opscope.base.xla.xla_releases import number
from opscope.models.frontends.base import Frontend

Versions = Callable[[str], str]
"""Finds the version of a package in some interpreter, or raises PackageNotFoundError."""
HERE = Path(__file__).resolve().parent
_REQUIREMENT = re.compile(r"([\w.-]+?)((?:(?:<|>=)[\d.]+,?)+); extra == ['\"](\w+)")
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
    for package in (*frontend.packages, *frontend.either, *frontend.optional, *_libraries(frontend, model)):
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
    for node in ast.walk(parsed(text)):
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
    found, either = versions(framework, model, installed), get(framework).either
    lacking = [package for package, number in found.items() if not number and package not in (*optional, *either)]
    return lacking if not either or any(found[package] for package in either) else [*lacking, either[0]]


@dataclass(frozen=True)
class Beyond:
    """Packages at releases that their extra does not take."""

    installed: str
    """`torch 2.14.1`."""
    run: str
    """The releases of that extra's packages that were run: `torch>=2.13,<2.14, torchax>=0.0.13,<0.0.14`."""
    hint: str
    """The command that installs these."""


def beyond_bounds(framework: str, model: Path) -> Beyond | None:
    """Returns which of the packages that a model needs are at releases that were not run; None if there is none.

    Of several extras for one package, those count whose packages are all installed, or else the first.
    """
    frontend, bounds = get(framework), _bounds(tuple(sys.path))
    imported = _imports(regular_file.read_bytes(model)) if frontend.optional else frozenset()
    whole = [extra for extra, of in bounds.items() if all(map(installed, of))]
    strange: dict[str, str] = {}
    for package, release in versions(framework, model).items():
        if release and (package not in frontend.optional or package in imported):
            naming = [extra for extra in bounds if package in bounds[extra]]
            naming = [extra for extra in naming if extra in whole] or naming[:1]
            if naming and all(f"{package} {release}" in strangers(extra) for extra in naming):
                strange[f"{package} {release}"] = naming[0]
    if not strange:
        return None
    extras = sorted(set(strange.values()))
    return Beyond(", ".join(strange), ", ".join(map(releases_run, extras)), install_command(",".join(extras)))


def installed(package: str) -> str:
    """Returns the release of a package; empty if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def strangers(extra: str) -> list[str]:
    """Returns the packages of an extra that are installed at a release that it does not take: `torch 2.14.1`."""
    limits = _bounds(tuple(sys.path)).get(extra, {})
    found = ((package, installed(package), ends) for package, ends in limits.items())
    return [f"{package} {release}" for package, release, ends in found if release and not _takes(release, ends)]


def releases_run(extra: str) -> str:
    """Returns the releases of an extra's packages that were run: `torch>=2.13,<2.14 torchax>=0.0.13,<0.0.14`."""
    limits = _bounds(tuple(sys.path)).get(extra, {})
    return " ".join(package + ",".join(ends) for package, ends in limits.items())


@lru_cache(maxsize=8)
def _bounds(_folders: tuple[str, ...]) -> dict[str, dict[str, list[str]]]:
    """Our extra -> package -> the releases of it that it takes: `{"torch": {"torch": [">=2.13", "<2.14"]}}`."""
    try:
        required = requires("opscope") or []
    except PackageNotFoundError:  # run from its sources alone
        return {}
    bounds: dict[str, dict[str, list[str]]] = {}
    for name, limits, extra in (match.groups() for match in filter(None, map(_REQUIREMENT.match, required))):
        bounds.setdefault(extra, {})[name] = sorted(limits.split(","), reverse=True)
    return bounds


def _takes(release: str, limits: list[str]) -> bool:
    return all(_within(release, limit) for limit in limits)


def _within(release: str, limit: str) -> bool:
    """Whether a release is within a limit, `<2.14` or `>=2.13`."""
    return (number(release) < number(limit[1:])) if limit[1] != "=" else number(release) >= number(limit[2:])


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
        for node in ast.walk(parsed(path.read_bytes())):
            if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(f"{__name__}."):
                module = HERE.joinpath(*str(node.module).removeprefix(__name__).split("."))
                imported = [module.with_suffix(".py"), *(module / f"{alias.name}.py" for alias in node.names)]
                todo += [file for file in imported if file.is_file()]
    return tuple(sorted(paths))
