"""docs/dependencies.md has every dependency, with a reason: those of pyproject.toml say it there (`make tables`)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from ci.doc_tables import reasons

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
PYPROJECT = ROOT / "pyproject.toml"
PROJECT = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
SUPERSET = (ROOT / "dashboards" / "requirements.in").read_text(encoding="utf-8")


def rows(heading: str) -> Iterator[list[str]]:
    """The cells of each row of the table below a heading."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    for line in lines[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def names(cell: str) -> list[str]:
    """The packages that a cell names, as they stand in backticks."""
    return re.findall(r"`([^`]+)`", cell)


def package(requirement: str) -> str:
    """`xdsl` of `xdsl==0.74.0`."""
    return re.split(r"[=<>~!;\s]", requirement)[0]


def test_what_the_page_lists_is_what_the_project_needs() -> None:
    named = {
        (extra, name)
        for extra, requirements, _ in reasons(PYPROJECT.read_text(encoding="utf-8"))
        for name in requirements
    }
    extras = PROJECT["optional-dependencies"].items()
    needed = {(extra, name) for extra, requirements in extras for name in requirements}
    assert named == needed | {("", name) for name in PROJECT["dependencies"]}


def test_what_superset_needs_has_a_line() -> None:
    required = [line.partition("#")[0].strip() for line in SUPERSET.splitlines()]
    lines = [line for line in rows("Superset's own environment") if all(line)]
    assert sorted(name for dependencies, *_ in lines for name in names(dependencies)) == sorted(filter(None, required))


def test_nothing_that_is_needed_is_called_left_out() -> None:
    requirements = [*PROJECT["dependencies"], *chain.from_iterable(PROJECT["optional-dependencies"].values())]
    needed = {package(requirement) for requirement in requirements}
    left_out = {word for what, _ in rows("Left out on purpose") for word in re.findall(r"[\w-]+", what.lower())}
    assert not needed & left_out
