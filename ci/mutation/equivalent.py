"""Mutants that no test can notice, each with its reason: the table `equivalent.yaml`.

A row names file, function and the line before and after; a row that fits no mutant any more is a mistake.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import yaml

from ci.mutation.mutants import Mutant, of_file

TABLE = Path(__file__).with_name("equivalent.yaml")


@dataclass(frozen=True)
class Row:
    """A mutant that behaves as the original."""

    path: str
    function: str
    before: str
    after: str
    reason: str


def rows() -> list[Row]:
    """The table."""
    return [Row(**row) for row in yaml.safe_load(TABLE.read_text()) or []]


def marked(root: Path, mutants: Iterable[Mutant]) -> tuple[set[Mutant], list[Row]]:
    """Those of `mutants` that the table marks, and the rows that fit no mutant of their file."""
    by_file: dict[str, list[Row]] = {}
    for row in rows():
        by_file.setdefault(row.path, []).append(row)
    found: set[Mutant] = set()
    used: set[Row] = set()
    for path, table in by_file.items():
        functions = {row.function for row in table}
        for mutant in of_file(root, path) if (root / path).exists() else ():
            if mutant.function in functions:
                key = (mutant.function, *mutant.lines(root))
                fits = [row for row in table if (row.function, row.before, row.after) == key]
                used.update(fits)
                found.update([mutant] if fits else [])
    return found & set(mutants), [row for table in by_file.values() for row in table if row not in used]
