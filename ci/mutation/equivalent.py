"""Mutants that no test can notice, each with its reason: the table `equivalent.yaml`.

A row names file, function and the line before and after; a row that fits no mutant any more is a mistake.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from ci.mutation.mutants import Mutant, of_file

TABLE = Path(__file__).with_name("equivalent.yaml")


@dataclass(frozen=True)
class Row:
    """A change of one line, with the reason why it is in the table."""

    path: str
    function: str
    before: str
    after: str
    reason: str


def rows() -> list[Row]:
    """The table."""
    return [Row(**row) for row in yaml.load(TABLE.read_text(), yaml.CSafeLoader) or []]


def fitting(root: Path, table: Iterable[Row]) -> Mapping[Row, Sequence[Mutant]]:
    """The mutants that each row describes."""
    mutants_of: dict[Row, list[Mutant]] = {row: [] for row in table}
    for path in sorted({row.path for row in mutants_of}):
        own = [row for row in mutants_of if row.path == path]
        for mutant in of_file(root, path) if (root / path).exists() else ():
            if any(row.function == mutant.function for row in own):
                change = (mutant.function, *mutant.lines(root))
                for row in own:
                    if (row.function, row.before, row.after) == change:
                        mutants_of[row].append(mutant)
    return mutants_of


def marked(root: Path, mutants: Iterable[Mutant]) -> tuple[set[Mutant], list[Row]]:
    """Those of `mutants` that the table marks, and the rows that fit no mutant of their file."""
    mutants_of = fitting(root, rows())
    unfit = [row for row, fitting_mutants in mutants_of.items() if not fitting_mutants]
    return {mutant for of_row in mutants_of.values() for mutant in of_row} & set(mutants), unfit
