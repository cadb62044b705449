"""One walk by several processes, where parts of a program share no value: each takes the next part that nobody has.

Bits, ids, rows and files equal those of one walk. The processes are forks of the one that has split the program; it
alone says which ops are stored, and how far the walk is. With slots, as many of them work as have one.
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from opscope.base import damage
from opscope.base.children.forks import ForkDied, end_as, in_forks
from opscope.harness.cache.export_folder import JOURNAL, OPS, VALUES
from opscope.harness.prepare import golden
from opscope.harness.prepare.parts import independent
from opscope.harness.prepare.parts.independent import Part
from opscope.harness.prepare.program import Node, SplitModule, last_uses
from opscope.harness.prepare.walk import Limits, Missing, Walked, Walker, WalkTask, split_row, write_module
from opscope.harness.record.element_types import byte_size, save
from opscope.harness.record.records import OpRow


class PartWalker(Walker):
    """The state of a walk over parts, one after another."""

    def __init__(self, plan: WalkTask, first: Mapping[str, Node]) -> None:
        """`first` has the first use of each op in the whole program: other uses are evaluated, and not stored."""
        super().__init__(plan)
        self._first = {op_id: node.path for op_id, node in first.items()}
        self._last = last_uses(self.split.program)
        self._constants: dict[int, Any] = {}
        for node in self.split.program.nodes:
            if node.kind == "constant":
                self.node(node, self._constants)

    def meets(self, node: Node) -> bool:
        """Whether a node is the first use of its op."""
        return self._first.get(node.op_id) == node.path

    def part(self, part: Part) -> list[tuple[int, np.ndarray | Missing]]:
        """Evaluates a part; the final outputs that come of it, with their places."""
        if self.plan.random:
            for node in part.nodes:
                self.evaluate_apart(self.split.ops[node.op_id], node)
                self.announce(self.split.ops[node.op_id])
            return []
        program, env = self.split.program, dict(self._constants)
        for position in part.positions:
            self.node(program.nodes[position], env)
            for value in self._last.get(position, ()):
                self.free(value, env)
        results = [(index, self.final(program.results[index], env)) for index in part.results]
        self.live_bytes = 0
        self.computed.clear()
        return results


RESULTS = "parts"
"""Folder below that of the walk: final outputs, until all are there."""
LEAST_OPS = 40
"""Ops for each process: of fewer, starting it would take as long as what it saves."""
LARGEST_SHARE = 0.5
"""The part of the ops that the largest part may hold: nobody else can help with it."""
PROCESS_BYTES = 512 << 20
"""What a process holds besides values: executables, and the compiler that made them."""
COPIES = 3
"""How often the values of a part may be in memory at once: as they are, in float32, and in what XLA makes of them."""
MOST = 64
"""How many processes walk one model at most, where a cluster has devices for them."""
MOST_TICKETS = 4096
"""How many groups of parts there are at most: their numbers fit into a pipe."""
_TICKET = struct.Struct("<I")


def parts(split: SplitModule, random: bool) -> list[Part]:
    """What can be evaluated apart from all else; `random`: all inputs are."""
    return independent.alone(split) if random else independent.parts_of(split)


def processes(split: SplitModule, work: Sequence[Part], most: int, memory: int, limits: Limits, random: bool) -> int:
    """How many processes are worth starting, `most` at most, which may hold `memory` bytes together. 1 is one walk."""
    if most < 2 or len(work) < 2:
        return 1
    # Which values one walk leaves out for being alive with others, parts of it would not know.
    if not random and sum(_bytes(split, part) for part in work) > limits.live_bytes:
        return 1
    count = sum(part.ops for part in work)
    if max(part.ops for part in work) > LARGEST_SHARE * count:
        return 1
    each_holds = PROCESS_BYTES + COPIES * max(_bytes(split, part) for part in work)
    return max(1, min(most, len(work), count // LEAST_OPS, memory // each_holds))


def _bytes(split: SplitModule, part: Part) -> int:
    """Bytes of all values that a part reads or computes."""
    values = {value for node in part.nodes for value in (*node.operands, *node.inputs, *node.results)}
    return sum(byte_size(split.values[value].shape, split.values[value].data_type) for value in values)


def walk_in_parts(plan: WalkTask, work: Sequence[Part], count: int) -> Walked:
    """Evaluates a program by `count` processes; what `walk` returns, but each final output as the file that has it.

    Each of them takes one of `plan.slots` before it works; this process hands its own back until they have ended. If
    one dies, this process dies in the same way, and the journal has the op that it was at. `plan.compile_threads` is
    not used: what ends a process is the doing of that op.
    """
    for name in (OPS, VALUES, RESULTS):
        (plan.folder / name).mkdir(exist_ok=True)
    golden.load_ahead(op.op_name for op in plan.split.ops.values())
    first, slots = independent.first_uses(plan.split), plan.slots
    tickets, groups = _tickets(work)
    gathered = _Gathered(plan, len(groups), sum(part.ops for part in work))

    def fork(number: int, send: Callable[[Any], None]) -> None:
        damage.show_by(lambda line: send({"damage": line}))
        own = replace(
            plan,
            journal=f"{JOURNAL}.{number}",
            compile_threads=0,
            on_progress=lambda done, total: None,
            on_row=lambda row: send({"row": row.model_dump_json()}),
        )
        _take_parts(PartWalker(own, first), groups, tickets, send)

    if slots is not None:
        slots.give()
    try:
        in_forks(count, fork, gathered.take, keep=(tickets,))
    except ForkDied as died:
        (plan.folder / f"{JOURNAL}.{died.number}").replace(plan.folder / JOURNAL)
        end_as(died.ending)
    finally:
        os.close(tickets)
    for number in range(count):
        (plan.folder / f"{JOURNAL}.{number}").unlink(missing_ok=True)
    if slots is not None:
        slots.take()
    return gathered.walked()


class _Gathered:
    """What the processes of a walk have sent."""

    def __init__(self, plan: WalkTask, groups: int, total: int) -> None:
        self._plan, self._left, self._total = plan, groups, total
        self._rows: dict[str, OpRow] = {}
        self._results: dict[int, Path | Missing] = {}
        self._done = self._steps = 0

    def take(self, number: int, message: dict[str, Any]) -> bool:
        """Takes a message of process `number`; returns whether all groups are done."""
        plan = self._plan
        if "row" in message:
            row = OpRow.model_validate_json(message["row"])
            self._rows[row.op_id] = row
            if plan.on_row is not None:
                plan.on_row(row)
        elif "result" in message:
            index, reason = message["result"], message["missing"]
            self._results[index] = _file(plan.folder, index) if reason is None else Missing(reason)
        elif "damage" in message:
            damage.say(message["damage"])
        else:
            self._left -= 1
            self._done += message["ops"]
            if self._done // 20 > self._steps or not self._left:
                self._steps = self._done // 20
                plan.on_progress(self._done, self._total)
        return not self._left

    def walked(self) -> Walked:
        """The rows of all ops and the files of all results, in their order."""
        split = self._plan.split
        return Walked(
            [self._rows.get(op.op_id) or _never_evaluated(self._plan, op.op_id) for op in split.ops.values()],
            [] if self._plan.random else [self._results[index] for index in range(len(split.program.results))],
        )


def _take_parts(
    walker: PartWalker, groups: Sequence[Sequence[Part]], tickets: int, send: Callable[[Any], None]
) -> None:
    """The work of one process: group after group, until none is left."""
    if walker.plan.slots is not None:
        walker.plan.slots.take()
    while ticket := os.read(tickets, _TICKET.size):
        group = groups[_TICKET.unpack(ticket)[0]]
        for part in group:
            for index, value in walker.part(part):
                reason = value.why if isinstance(value, Missing) else None
                if not isinstance(value, Missing):
                    save(_file(walker.plan.folder, index), value)
                send({"result": index, "missing": reason})
        send({"ops": sum(part.ops for part in group)})
    walker.close()


def _tickets(work: Sequence[Part]) -> tuple[int, list[Sequence[Part]]]:
    """What processes read the numbers of groups from, each number once, and the groups."""
    size = -(-len(work) // MOST_TICKETS)
    groups = [work[place : place + size] for place in range(0, len(work), size)]
    reading, writing = os.pipe()
    os.write(writing, b"".join(map(_TICKET.pack, range(len(groups)))))
    os.close(writing)
    return reading, groups


def _file(folder: Path, index: int) -> Path:
    return folder / RESULTS / f"{index}.npy"


def _never_evaluated(plan: WalkTask, op_id: str) -> OpRow:
    """The row of an op that no walk meets."""
    op = plan.split.ops[op_id]
    row = split_row(op, plan.frontend)
    if row.module is None:
        return row
    write_module(plan.folder, op)
    return row.model_copy(update={"no_golden": "never evaluated"})


def discard_results(folder: Path) -> None:
    """Removes what is left of the final outputs of a walk in parts."""
    shutil.rmtree(folder / RESULTS, ignore_errors=True)
