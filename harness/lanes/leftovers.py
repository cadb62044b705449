"""Decides whether a worker may run the next op, by what the last one left changed in it (`worker_hygiene.py`)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from opscope.base.visible_text import cut

HABIT = 3
"""So many ops must have left the same change before it counts as the backend's habit."""


@dataclass(frozen=True)
class Leftover:
    """A change that an op left behind, as its worker reports it (`worker_hygiene.Change`)."""

    what: str
    detail: str
    undone: bool = False
    verdict: bool = False

    @property
    def text(self) -> str:
        """The change in one line."""
        return f"{self.what}: {self.detail}"

    @property
    def key(self) -> str:
        """Equal for changes of one kind: numbers left out."""
        return re.sub(r"[0-9]+", "#", self.text)


@dataclass
class Leftovers:
    """What the ops of one lane have left behind so far.

    A worker is replaced after any change, except for what this backend does at every turn: what was put back and three
    ops have already done, and what could not be put back but three ops in a row, each in a worker of its own, have
    done. That is no trace of one op. Code that verdicts rest on is never a habit.
    """

    habits: set[str] = field(default_factory=set)
    _undone: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _streaks: dict[str, int] = field(default_factory=dict)

    def replaces(self, op_id: str, changes: Sequence[Leftover]) -> bool:
        """Whether the worker has to be replaced now that this op has left these changes."""
        lasting = {change.key for change in changes if not change.undone}
        self._streaks = {key: self._streaks.get(key, 0) + 1 for key in lasting}
        for change in changes:
            if change.undone:
                self._undone[change.key].add(op_id)
        seen = {key for key, ops in self._undone.items() if len(ops) > HABIT}
        seen |= {key for key, count in self._streaks.items() if count > HABIT}
        self.habits |= seen - {change.key for change in changes if change.verdict}
        return any(change.key not in self.habits for change in changes)


def leftovers(reported: Sequence[Sequence[Any]]) -> list[Leftover]:
    """The changes of a worker's message. Raises ValueError if it holds something else."""
    try:
        return [
            Leftover(str(what), str(detail), undone is True, verdict is True)
            for what, detail, undone, verdict in reported
        ]
    except TypeError as error:
        raise ValueError(f"changes: expected lists of four, got {cut(str(reported), 80)}") from error
