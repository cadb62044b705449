"""What runs the ops of a run, and what it says meanwhile: the lanes of this machine (`local.py`) or a cluster
(`cluster.py`). Whoever shows a run takes the next finished record, and starts, waits for and ends nothing himself.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from opscope.harness.limitations.limitations import Verdict
from opscope.harness.record.records import OpRow, OpTest


@dataclass(frozen=True)
class OpJob:
    """An op to run on one backend."""

    row: OpRow
    tag: str = ""
    """The backend's name where the run has several."""


@dataclass(frozen=True)
class Begun:
    """An op is under way in a lane."""

    job: OpJob


@dataclass(frozen=True)
class Done:
    """An op has its record, which is in the journal."""

    job: OpJob
    test: OpTest
    verdict: Verdict
    began: float
    """When its turn came (time.time)."""
    seconds: float
    """How long that took; next to nothing for a kept verdict."""
    taken: threading.Event = field(default_factory=threading.Event, compare=False, repr=False)
    """Set once whoever takes records wants the next one."""


class Engine(Protocol):
    """Runs ops, each once."""

    waited: float
    """Seconds that lanes have waited for goldens."""

    def start(self, jobs: Sequence[OpJob]) -> None:
        """Begins to load backends, if one of some ops needs that. Raises InputError if nothing can be started."""
        ...

    def records(self, jobs: Sequence[OpJob]) -> Iterator[Begun | Done]:
        """Runs ops, and yields what happens. Raises InputError if every later op would fail the same way."""
        ...

    def close(self) -> None:
        """Ends all lanes at once, and what they have under way: that has no record. May be called twice."""
        ...
