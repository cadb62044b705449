"""docs/dependencies.md has a line with a reason for every dependency of pyproject.toml, and no other line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
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


def test_every_dependency_of_a_run_has_a_line() -> None:
    documented = [
        name for dependencies, *reasons in rows("What a run needs") if all(reasons) for name in names(dependencies)
    ]
    assert sorted(package(name) for name in documented if not name.startswith(("==", ">="))) == sorted(
        package(requirement) for requirement in PROJECT["dependencies"]
    )


def test_every_dependency_of_every_extra_has_a_line() -> None:
    expected = {
        (extra, requirement)
        for extra, requirements in PROJECT["optional-dependencies"].items()
        for requirement in requirements
    }
    lines: list[tuple[str, str]] = []
    extra = ""
    for first, dependencies, reason in rows("Extras"):
        extra = names(first)[0] if first else extra
        assert reason, dependencies
        lines += [(extra, name) for name in names(dependencies)]
    assert sorted(lines) == sorted(expected)


def test_what_superset_needs_has_a_line() -> None:
    required = [line.partition("#")[0].strip() for line in SUPERSET.splitlines()]
    lines = [line for line in rows("Superset's own environment") if all(line)]
    assert sorted(name for dependencies, *_ in lines for name in names(dependencies)) == sorted(filter(None, required))


def test_nothing_that_is_needed_is_called_left_out() -> None:
    requirements = [*PROJECT["dependencies"], *chain.from_iterable(PROJECT["optional-dependencies"].values())]
    needed = {package(requirement) for requirement in requirements}
    left_out = {word for what, _ in rows("Left out on purpose") for word in re.findall(r"[\w-]+", what.lower())}
    assert not needed & left_out
