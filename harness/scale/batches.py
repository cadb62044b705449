"""The work on a cluster: ops that wait, and batches of ops that were sent to workers.

A batch is one task of Dask's, so that Dask's own work is done once for many ops. Their records come one by one all the
same, each as it is made.
"""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from opscope.harness.record.records import OpRow
from opscope.harness.scale import costs

MOST = 32
"""Largest number of ops in a batch."""

SHARES = 3
"""A batch is at most this part of what waits for each device: the last ones are small, and all devices end together."""


@dataclass
class Op:
    """An op that is not done yet."""

    row: OpRow
    attempt: int
    fresh: bool = False
    """Whether its lane must be one in which no other op has run."""
    failed: int = 0
    """How often the op was sent to a worker that gave no answer."""
    lost: int = 0
    """How many workers died while they ran it."""
    mended: bool = False
    """Whether its model was prepared again, since a file of it was damaged."""
    folder: str = ""
    """Where its files are; empty where it is the folder of its model's export."""
    cost: int = 0
    """Expected cost in microseconds."""

    def __post_init__(self) -> None:
        self.cost = costs.expected(self.row)

    @property
    def alone(self) -> bool:
        """Whether no other op may be in its batch: it might take that along."""
        return self.fresh or self.lost > 0 or self.failed > 0


@dataclass
class Batch:
    """Ops that one worker runs, one after another."""

    worker: str
    devices: int
    """How many batches the worker runs at once; further ones wait there."""
    ops: dict[str, Op]
    """Those whose records have not come, by id, in their order."""
    future: Any = None

    def __post_init__(self) -> None:
        self.size = len(self.ops)
        """Number of ops when the batch was sent."""


@dataclass
class Work:
    """The ops of one call of `ClusterLane.arrivals`."""

    waiting: deque[Op] = field(default_factory=deque)
    batches: dict[str, Batch] = field(default_factory=dict)
    """By the key of Dask's future, in the order in which they were handed over."""
    news: queue.SimpleQueue[Any] = field(default_factory=queue.SimpleQueue)
    """Records as they come, and futures of batches that ended."""
    _cost: int = 0

    def add(self, ops: Iterable[Op]) -> None:
        """Adds ops behind those that wait."""
        for op in ops:
            self.waiting.append(op)
            self._cost += op.cost

    def back(self, ops: Iterable[Op]) -> None:
        """Puts ops back that have to be run after all; they come next."""
        ops = list(ops)
        self.waiting.extendleft(reversed(ops))
        self._cost += sum(op.cost for op in ops)

    def take(self, devices: int) -> list[Op]:
        """The ops of the next batch, where `devices` share what waits; at least one."""
        share, ops, cost = self._cost / (SHARES * devices), list[Op](), 0
        while self.waiting and len(ops) < MOST:
            op = self.waiting[0]
            if ops and (op.alone or ops[0].alone or cost + op.cost > share):
                break
            ops.append(self.waiting.popleft())
            cost += op.cost
        self._cost -= cost
        return ops

    def busy(self) -> dict[str, int]:
        """How many batches each worker has."""
        batches_of_worker: dict[str, int] = {}
        for batch in self.batches.values():
            batches_of_worker[batch.worker] = batches_of_worker.get(batch.worker, 0) + 1
        return batches_of_worker

    def orphans(self, dead: Iterable[str]) -> Iterator[tuple[Batch, Op | None]]:
        """Takes back the batches of workers that died, with the op that each was at, if it had begun."""
        for worker in dead:
            lost_keys = [key for key, batch in self.batches.items() if batch.worker == worker]
            for place, key in enumerate(lost_keys):
                batch = self.batches.pop(key)
                yield batch, next(iter(batch.ops.values()), None) if place < batch.devices else None
