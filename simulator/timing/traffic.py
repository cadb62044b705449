"""What the operations of a planned program move: bytes of DRAM, by the queues that they read and fill.

The one place that says so: an operation's figures, an epoch's and a run's are sums of these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from opscope.compiler.target.plan import EpochPlan, PlacedOp, Plan, QueuePlan
from opscope.compiler.target.program import Program

HOST = "HOST"
MANIPULATIONS = ("tms", "reshape")
"""Kernels that the network does on the way to an op."""
READERS = 2
"""Share of a channel's rate that is lost where several cores read it in turn: TT-Buda counts on at least two readers
(tt-buda, balancer/policies/policy_utils.cpp)."""


def resident_queues(plan: Plan) -> set[str]:
    """Returns the queues that some execution reads into L1 before its first input (`prologue`)."""
    executed = (settings for program in plan.programs for line in program.instructions for settings in line.settings)
    return {
        settings.queue
        for settings in executed
        if any(n == "prologue" and value.number for n, value in zip(settings.names, settings.values, strict=True))
    }


def stored_bytes(queue: QueuePlan) -> int:
    """Returns the bytes of one entry of a queue, headers of tiles included."""
    return queue.entry_bytes * len(queue.allocations)


@dataclass
class Moved:
    """What one operation moves."""

    read: int = 0
    """From DRAM for one input."""
    loaded: int = 0
    """From DRAM into L1 by a prologue, before the first input."""
    written: int = 0
    """To DRAM for one input."""


class Traffic:
    """What an epoch reads from DRAM and writes to it, for one input."""

    def __init__(self, epoch: EpochPlan, ops: Sequence[PlacedOp], plan: Plan, program: Program) -> None:
        self.always_resident = not plan.programs
        self.last = {op.name: op.operation for op in ops}
        """Op of the epoch -> the operation that makes its result."""
        self.others = {op.name for op in plan.ops if (op.epoch, op.chip) != (epoch.number, epoch.chip)}
        self.queues = [queue for queue in plan.queues if queue.location == "dram" and queue.tensor >= 0]
        self.readers = _readers(ops, program)

    def busiest_channel(self, prologue: set[str]) -> int:
        """Returns the bytes of the busiest channel of what the host left there and every input reads again, such as
        parameters that no prologue keeps in L1. A plan without programs keeps all of them.
        """
        busy: Counter[int] = Counter()
        for queue in self.queues:
            if queue.source == HOST and not self._stays(queue, prologue) and queue.tensor in self.readers:
                for place in queue.allocations:
                    busy[place.channel] += queue.entry_bytes
        return max(busy.values(), default=0)

    def switch_bytes(self) -> int:
        """Returns the bytes that an epoch writes for later ones or the host, and reads of what earlier ones wrote."""
        return sum(
            stored_bytes(queue) * ((queue.source in self.last) + self._crosses(queue))
            for queue in self.queues
            if queue.source != HOST
        )

    def of_operations(self, prologue: set[str]) -> dict[int, Moved]:
        """Returns what each operation moves, by its number. An entry that several ops read leaves DRAM once, and counts
        for each of them in equal parts.
        """
        moved: dict[int, Moved] = {}
        for queue in self.queues:
            size = stored_bytes(queue)
            if queue.source in self.last:
                moved.setdefault(self.last[queue.source], Moved()).written += size
            if queue.source != HOST and not self._crosses(queue):
                continue
            readers = self.readers.get(queue.tensor, [])
            for place, number in enumerate(readers):
                share = size // len(readers) + (place < size % len(readers))
                into = moved.setdefault(number, Moved())
                if queue.source == HOST and self._stays(queue, prologue):
                    into.loaded += share
                else:
                    into.read += share
        return moved

    def _stays(self, queue: QueuePlan, prologue: set[str]) -> bool:
        return self.always_resident or queue.name in prologue

    def _crosses(self, queue: QueuePlan) -> bool:
        """Whether the epoch reads what another epoch or chip has written, or what its own op is to write over."""
        made = queue.source in self.others or (queue.result >= 0 and queue.source in self.last)
        return made and queue.tensor in self.readers


def _readers(ops: Sequence[PlacedOp], program: Program) -> dict[int, list[int]]:
    """Returns the tensors that ops read, each with one operation of every op that reads it, the first of its steps; and
    those that manipulations on the way to an op read.
    """
    makers = {tensor: op for op in program.operations for tensor in op.outputs}
    readers: dict[int, list[int]] = {}
    for op in ops:
        seen: set[int] = set()
        for number in (*op.steps, op.operation):
            left = list(program.operations[number].inputs)
            while left:
                tensor = left.pop()
                if tensor not in seen:
                    seen.add(tensor)
                    readers.setdefault(tensor, []).append(number)
                maker = makers.get(tensor)
                if maker is not None and maker.kernel in MANIPULATIONS:
                    left += maker.inputs
    return readers


def moved_of(plan: Plan, program: Program) -> dict[int, Moved]:
    """Returns what each operation of a plan moves, by its number in the entry."""
    prologue, by_operation = resident_queues(plan), dict[int, Moved]()
    for epoch in plan.epochs:
        ops = [op for op in plan.ops if (op.epoch, op.chip) == (epoch.number, epoch.chip)]
        by_operation |= Traffic(epoch, ops, plan, program).of_operations(prologue)
    return by_operation
