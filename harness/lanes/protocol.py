"""The interface of a lane: a child of this process (`lane.py`), or a cluster (`scale/cluster.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from opscope.harness.lanes.flight import Ready
from opscope.harness.record.records import OpRow, OpTest


class OpsToSend(Protocol):
    """Ops that become ready one after another (`harness/engine/ready_ops.py`)."""

    def __bool__(self) -> bool:
        """Whether there are ops that were neither handed out nor settled."""
        ...

    def take(self) -> Iterable[tuple[OpRow, str]]:
        """The ops that can run now, each with the folder of its files; empty where it is its model's."""
        ...

    def settled(self) -> Iterable[str]:
        """Ids of ops that need not be sent any more."""
        ...

    def back(self, op_id: str) -> bool:
        """Takes an op back whose files have moved. False if they have not."""
        ...

    def idle(self, seconds: float) -> None:
        """Counts time in which a device had nothing to do."""
        ...


class AnyLane(Protocol):
    """Runs ops and returns their records. It does not raise if an op fails."""

    @property
    def last_ready(self) -> Ready | None:
        """The report of the child that made the last record about its backend."""
        ...

    @property
    def last_text(self) -> tuple[OpTest, str] | None:
        """The last record that `run` has returned, and its JSON as the child wrote it, where that is known."""
        ...

    def start(self) -> None:
        """Starts without waiting. Raises InputError if nothing can be started."""
        ...

    def ready(self) -> Ready:
        """Waits for the backend's report. Raises InputError if the backend refuses its options."""
        ...

    def has_record(self, row: OpRow) -> bool:
        """Whether the record of an op has arrived already."""
        ...

    def run(self, row: OpRow, *, attempt: int = 1) -> OpTest:
        """The record of one op."""
        ...

    def arrivals(
        self, ops: OpsToSend, attempts: Mapping[str, int], in_time: Callable[[], bool] = lambda: True
    ) -> Iterator[str]:
        """Yields ids of ops in the order in which their records arrive, or it is known that they need not be sent, if
        many run at once; otherwise nothing."""
        ...

    def fresh(self) -> None:
        """Makes the next op run in a new child, in which no other op has run."""
        ...

    def close(self) -> None:
        """Ends the lane."""
        ...
