"""Puts hardware faults into one executable: what they change in a run, and why they change nothing.

A bit that is inverted stays so: each tensor that comes to lie over it is changed once, when it is written. A dead core
never answers, and a stuck link delivers nothing, so that the operation which needs them hangs: `DeviceHang`. Links are
those of NoC 0 between cores; what crosses one is the multicast of a product's operands along rows and columns of the
cores that compute it (`timing/`). The simulator routes no reads and writes of DRAM, and knows of circular buffers
only how large they are: a fault there hits nothing, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from opscope.compiler.target.allocation import tile_matrix
from opscope.compiler.target.formats import FORMATS
from opscope.compiler.target.plan import PlacedOp, Plan
from opscope.compiler.target.program import (
    AttentionParams,
    Conv2dParams,
    Conv3dParams,
    MatmulParams,
    Operation,
    Program,
)
from opscope.compiler.target.system_desc import SystemDesc
from opscope.simulator.cores_of import cores_of, name_of
from opscope.simulator.errors import DeviceHang
from opscope.simulator.faults.fault import DIRECTIONS, Fault
from opscope.simulator.faults.planned_bytes import in_output_buffer, in_queue
from opscope.simulator.faults.slow_channel import slowed, slowed_plan
from opscope.simulator.faults.stored_bytes import NotHeldError, PageByte, byte_at, inverted
from opscope.simulator.observing import Step

if TYPE_CHECKING:
    from opscope.simulator.device import Executable

PRODUCTS = (MatmulParams, Conv2dParams, Conv3dParams, AttentionParams)
"""Operations whose operands are multicast."""

NOTHING = {
    "l1-bit": "no tensor of the program lies there in that core's L1; circular buffers and code are not held",
    "dram-bit": "no tensor of the program lies there in that channel",
    "dead-core": "no operation runs on that core",
    "stuck-link": "no product's operands are multicast over that link; other traffic is not routed",
    "slow-channel": "no operation waits for the channel's pages",
}
"""Kind -> why a fault hits nothing if nothing else was found."""


@dataclass
class Effect:
    """What one fault did in a run."""

    fault: Fault
    hits: list[str] = field(default_factory=list)
    """One line per tensor that it changed, or operation that it touched."""
    reasons: list[str] = field(default_factory=list)
    """What lies where it is, and why that changes nothing; each once."""

    def missed(self, reason: str) -> None:
        """Notes why nothing is changed at one place."""
        if reason not in self.reasons:
            self.reasons.append(reason)

    def line(self) -> str:
        """One line for people: its first hit, or that it hits nothing and why."""
        if self.hits:
            more = f"; and {len(self.hits) - 1} more" if len(self.hits) > 1 else ""
            return f"{self.fault.text}: {self.hits[0]}{more}"
        return f"{self.fault.text}: hits nothing: {'; '.join(self.reasons) or NOTHING[self.fault.kind]}"


class Injection:
    """Faults in an executable: `observe` is for its run, and its costs are those with the slow channels."""

    def __init__(self, executable: Executable, faults: Sequence[Fault]) -> None:
        """Raises FaultError for a core, a channel or an address that the device has not, before any data is touched."""
        self.executable, device = executable, executable.device
        self.plan: Plan = executable.plan
        planned = bool(self.plan.ops)
        self.system: SystemDesc = device.system
        self.profile = self.system.buda if planned else device.profile
        self.chip = min((op.chip for op in self.plan.ops), default=0)
        """A fault is on the first chip of a plan of several."""
        grid = executable.grids.get(self.chip, self.profile.grid) if planned else self.profile.grid
        self.effects = [Effect(fault) for fault in faults]
        for fault in faults:
            fault.check(grid, self.profile)
        self._before = {name: executable.costs(program) for name, program in executable.programs.items()}
        for effect in self.effects:
            if effect.fault.kind == "slow-channel":
                self._slow(effect)
            elif effect.fault.kind in ("l1-bit", "dram-bit") and not planned:
                self._reserved(effect)
        if slow := self._slow_channels(faults):
            executable.time_on(self._slower(slow))

    def observe(self, step: Step) -> None:
        """Changes what the faults change in the results of an operation. Raises DeviceHang."""
        placed = self._placed(step)
        for effect in self.effects:
            match effect.fault.kind:
                case "l1-bit" | "dram-bit":
                    if self.plan.ops:
                        self._planned_bit(effect, step, placed)
                    else:
                        self._bit(effect, step)
                case "dead-core" | "stuck-link":
                    self._hang(effect, step, placed)

    def lines(self) -> list[str]:
        """What each fault did, one line each."""
        return [effect.line() for effect in self.effects]

    def _placed(self, step: Step) -> PlacedOp | None:
        if step.program is not self.executable.program or not self.plan.ops:
            return None
        number = next(n for n, op in enumerate(step.program.operations) if op is step.operation)
        return self.executable.placed.get(number)

    # --- memory

    def _reserved(self, effect: Effect) -> None:
        """Notes a bit that lies where no tensor may."""
        fault = effect.fault
        assert fault.address is not None
        start = 0
        if fault.kind == "dram-bit":
            if fault.address < self.profile.dram_unreserved_base:
                effect.missed("reserved bytes of the channel, which the simulator does not hold")
            return
        for name, size in self.profile.l1_regions:
            if start <= fault.address < start + size:
                effect.missed(f"the reserved region of {name}, which the simulator does not hold")
            start += size

    def _bit(self, effect: Effect, step: Step) -> None:
        """Inverts the bit in those results that lie over it."""
        fault, in_l1 = effect.fault, effect.fault.kind == "l1-bit"
        assert fault.address is not None
        base = self.profile.l1_unreserved_base if in_l1 else self.profile.dram_unreserved_base
        bank = fault.core[0] * self.profile.grid[1] + fault.core[1] if fault.core else fault.channel or 0
        for tensor in step.operation.outputs:
            desc = step.program.tensors[tensor]
            buffer = self.executable.memory.buffers.get((step.program.name, tensor))
            if buffer is None or desc.buffer_type != ("l1" if in_l1 else "dram"):
                continue
            offset = fault.address - base - buffer.address
            size = int(buffer.sizes[bank if in_l1 else 0])
            if not 0 <= offset < size:
                continue
            where = byte_at(desc, self.profile, bank, offset)
            if where is None:
                effect.missed(f"{_tensor(step, tensor)}: bytes between its pages, or after the last of this bank")
            else:
                self._invert(effect, step, tensor, where)

    def _planned_bit(self, effect: Effect, step: Step, placed: PlacedOp | None) -> None:
        """Inverts the bit in the tiles that pass it, in a core's output buffer or in a queue."""
        fault = effect.fault
        assert fault.address is not None
        for tensor in step.operation.outputs:
            shape = step.program.tensors[tensor].shape
            matrices = int(np.prod(shape[:-2], dtype=np.int64)) if len(shape) > 2 else 1
            places: list[tuple[list[tuple[int, int, int]], int] | str] = []
            if fault.kind == "l1-bit" and placed is not None and placed.chip == self.chip:
                last = step.program.operations[placed.operation] is step.operation
                if last and fault.core in set(placed.cores()):
                    places.append(
                        in_output_buffer(
                            placed, self.system, self.plan.pipe_reserve, fault.core, fault.address, matrices
                        )
                    )
            for queue in (
                self.plan.queues if fault.kind == "dram-bit" and step.program is self.executable.program else ()
            ):
                if queue.tensor == tensor and queue.location == "dram" and queue.chip == self.chip:
                    size = FORMATS[queue.data_format].tile_bytes + self.profile.tile_header_bytes
                    there = in_queue(queue, self.plan, fault.channel or 0, fault.address, size, matrices)
                    if there is not None:
                        places.append(there if isinstance(there, str) else ([there[0]], there[1]))
            for there in places:
                if isinstance(there, str):
                    if there:
                        effect.missed(there)
                    continue
                for tile in there[0]:
                    self._invert_tile(effect, step, tensor, tile, there[1])

    def _invert_tile(self, effect: Effect, step: Step, tensor: int, tile: tuple[int, int, int], byte: int) -> None:
        shape = step.program.tensors[tensor].shape
        rows, columns = (-(-(shape[-2] if len(shape) > 1 else 1) // 32), tile_matrix(shape)[1])
        if tile[1] >= rows or tile[2] >= columns:
            effect.missed(f"{_tensor(step, tensor)}: a tile of padding, which the simulator does not hold")
            return
        self._invert(effect, step, tensor, PageByte((tile[0] * rows + tile[1]) * columns + tile[2], byte))

    def _invert(self, effect: Effect, step: Step, tensor: int, where: PageByte) -> None:
        desc, bit = step.program.tensors[tensor], effect.fault.bit
        assert bit is not None
        try:
            new = inverted(step.image(tensor), desc, self.profile, where, bit)
        except NotHeldError as reason:
            effect.missed(f"{_tensor(step, tensor)}: {reason}")
            return
        step.store(tensor, new.image)
        index, count = new.elements[0], len(new.elements)
        more = f" and {count - 1} more elements" if count > 1 else ""
        effect.hits.append(f"{_tensor(step, tensor)}: element {index} {new.before[0]} -> {new.after[0]}{more}")

    # --- cores and links

    def _hang(self, effect: Effect, step: Step, placed: PlacedOp | None) -> None:
        """Raises DeviceHang if an operation needs the dead core or the stuck link."""
        fault, op = effect.fault, step.operation
        if placed is not None and placed.chip != self.chip:
            return
        number = next(n for n, o in enumerate(step.program.operations) if o is op)
        output = step.program.tensors[op.outputs[0]] if op.outputs else None
        count = self._before[step.program.name][number].cores
        cores = cores_of(op, output, count, self.profile, placed)
        assert fault.core is not None
        if fault.direction is None:
            needs, what = fault.core in cores, f"core {name_of(fault.core)}"
        else:
            step_to = DIRECTIONS[fault.direction]
            ends = {fault.core, (fault.core[0] + step_to[0], fault.core[1] + step_to[1])}
            needs = isinstance(op.params, PRODUCTS) and ends <= cores
            what = f"the link {fault.direction} of core {name_of(fault.core)}"
        if needs:
            effect.hits.append(f"{_where(step)}: never ends, {what} is dead")
            raise DeviceHang(
                f"{_where(step)}: expected an end on {len(cores)} cores, got none: {what} does not answer; "
                f"try without {fault.text}"
            )

    # --- time

    def _slow_channels(self, faults: Sequence[Fault]) -> dict[int, float]:
        """Channel -> how many times slower it is; of several faults in one channel the worst counts."""
        slow: dict[int, float] = {}
        for fault in faults:
            if fault.kind == "slow-channel" and fault.channel is not None and fault.factor is not None:
                slow[fault.channel] = max(slow.get(fault.channel, 1.0), fault.factor)
        return slow

    def _slow(self, effect: Effect) -> None:
        """Times every operation with this fault alone."""
        executable = self.executable
        before = self._cycles()
        executable.time_on(self._slower(self._slow_channels([effect.fault])))
        after = self._cycles()
        executable.time_on(lambda op, program: self.system)
        if after > before:
            effect.hits.append(f"{before:,} -> {after:,} cycles of all operations; it changes no result")
        else:
            effect.missed(NOTHING["slow-channel"])

    def _slower(self, factor_of: dict[int, float]) -> Callable[[Operation, Program], SystemDesc]:
        """The system descriptions with these slow channels."""
        if self.plan.ops:
            return slowed_plan(self.system, self.plan, self.chip, factor_of)
        return slowed(self.system, self.profile, factor_of)

    def _cycles(self) -> int:
        """Cycles of all operations; of a plan, those of its epochs."""
        executable = self.executable
        if self.plan.ops:
            return executable.profile.total_cycles
        return sum(cost.cycles for program in executable.programs.values() for cost in executable.costs(program))


def _where(step: Step) -> str:
    op = step.operation
    return f"{op.kernel} ({op.location})" if op.location else op.kernel


def _tensor(step: Step, tensor: int) -> str:
    return f"tensor {tensor} of {_where(step)}"
