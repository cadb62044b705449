"""Exporters: from what a framework calls a model to StableHLO bytecode, each in a process of its own.

A file `models/frontends/<framework>.py` holds one `FRONTEND` (see `base.Frontend`); what it needs besides is in
`<framework>_<what>.py`. Importing the former imports no framework, so that a listing, and a pytest process, can ask
which frontends there are and what they need.
"""

from __future__ import annotations

import ast
import importlib
from functools import cache
from importlib import metadata
from pathlib import Path

from opscope.models.frontends.base import Frontend

HERE = Path(__file__).resolve().parent
SHARED = ("base", "child", "__init__", "jax_tree")
"""Files of this folder that every exporter runs through, and that models import."""


def names() -> list[str]:
    """All frontends, sorted."""
    return sorted(path.stem for path in HERE.glob("*.py") if path.stem not in SHARED and "_" not in path.stem)


def get(framework: str) -> Frontend:
    """The frontend of a framework. Raises ValueError where there is none."""
    if framework not in names():
        raise ValueError(f"framework: expected one of {', '.join(names())}, got {framework!r}")
    return importlib.import_module(f"opscope.models.frontends.{framework}").FRONTEND


def versions(framework: str) -> dict[str, str]:
    """The packages that decide what the frontend exports, with their versions; what is absent has none ('')."""
    frontend = get(framework)
    found = {}
    for package in (*frontend.packages, *frontend.optional):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = ""
    return found


def missing(framework: str) -> str:
    """What of the framework is not installed, and the line that installs it; empty where all is there."""
    optional = get(framework).optional
    absent = [package for package, version in versions(framework).items() if not version and package not in optional]
    return f"{', '.join(absent)} not installed; try {install(framework)}" if absent else ""


def install(framework: str) -> str:
    """The command that installs what a frontend needs."""
    extra = get(framework).extra
    return f"pip install -e '.[{extra}]'" if extra else "pip install -e ."


@cache
def sources(framework: str) -> tuple[Path, ...]:
    """The files whose change makes what the frontend exported worthless: its own, and what these import from here."""
    found: list[Path] = []
    todo = [HERE / f"{name}.py" for name in (*SHARED, framework)]
    while todo:
        path = todo.pop()
        if path in found:
            continue
        found.append(path)
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(f"{__name__}."):
                here = HERE.joinpath(*str(node.module).removeprefix(__name__).split("."))
                imported = [here.with_suffix(".py"), *(here / f"{alias.name}.py" for alias in node.names)]
                todo += [file for file in imported if file.is_file()]
    return tuple(sorted(found))
