"""Allocates a program's tensors in order, before any data is touched, by the rules of opscope.compiler.target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from opscope.compiler.target.allocation import Banks, Buffer, l1_of, map_of, shares
from opscope.compiler.target.formats import FORMATS
from opscope.compiler.target.in_place import writes_in_place
from opscope.compiler.target.plan import Plan
from opscope.compiler.target.program import ControlParams, Operation, Program, TensorDesc
from opscope.compiler.target.system_desc import Profile
from opscope.simulator.errors import OutOfMemory
from opscope.simulator.kernels.registry import KERNELS, Call


def circular_buffer_bytes(call: Call, kernel_name: str, profile: Profile) -> int:
    """Returns the bytes of L1 per core that a running kernel needs: two tiles per operand, or its own `l1_bytes`."""
    kernel = KERNELS[kernel_name]
    if kernel.l1_bytes is not None:
        return kernel.l1_bytes(call)
    on_device = [d for d in (*call.inputs, *call.outputs) if d.buffer_type != "system_memory"]
    return sum(2 * (FORMATS[d.data_format].tile_bytes + profile.tile_header_bytes) for d in on_device)


@dataclass(frozen=True)
class MemoryPlan:
    """Peaks of a program, per bank and in all. Bytes."""

    l1_peak: int
    """Per core, of the fullest: L1 tensors and the running kernel's circular buffers."""
    dram_peak: int
    """Over all channels."""
    addresses: dict[int, tuple[str, int]]
    """Tensor id -> buffer type and address, of every device tensor."""
    buffers: dict[tuple[str, int], Buffer]
    """Program and tensor id -> its buffer, also in programs that control flow calls, there as the first call has it.
    Addresses begin after the reserved regions."""


def plan_memory(program: Program, profile: Profile, programs: Mapping[str, Program] | None = None) -> MemoryPlan:
    """Allocates the program's tensors in order. Raises OutOfMemory for the first buffer that does not fit.

    A program that control flow calls allocates its own tensors on top, and frees them when it returns; its arguments
    belong to its caller.
    """
    allocator = _Allocator(profile, programs or {})
    addresses = allocator.run(program)
    banks = allocator.banks
    dram_peak = banks["dram"].peak * profile.dram_channels
    return MemoryPlan(max(allocator.l1_peak, banks["l1"].peak), dram_peak, addresses, allocator.buffers)


def peaks_of_plan(plan: Plan) -> tuple[int, int]:
    """Returns the L1 that ops take on the fullest core, and the DRAM of the fullest chip's queues, in bytes."""
    dram: Counter[int] = Counter()
    for queue in plan.queues:
        if queue.location == "dram":
            dram[queue.chip] += queue.entries * queue.entry_bytes * len(queue.allocations)
    return max((op.l1_bytes for op in plan.ops), default=0), max(dram.values(), default=0)


class _Allocator:
    """The banks of memory during the walk over the programs."""

    def __init__(self, profile: Profile, programs: Mapping[str, Program]) -> None:
        self.profile, self.programs = profile, programs
        self.banks = {"dram": Banks("dram", profile.dram_usable), "l1": l1_of(profile)}
        self.l1_peak = 0
        self.buffers: dict[tuple[str, int], Buffer] = {}

    def run(self, program: Program, called: bool = False) -> dict[int, tuple[str, int]]:
        """Allocates a program's tensors and returns their addresses. Inputs of a called program are its caller's."""
        addresses: dict[int, tuple[str, int]] = {}
        live: dict[int, tuple[str, Buffer]] = {}
        for tensor in program.inputs if not called else ():
            self.place(live, tensor, program.tensors[tensor], f"input {tensor}")
        for op in program.operations:
            where = f"{op.kernel} ({op.location})" if op.location else op.kernel
            if writes_in_place(op, program) and op.inputs[0] in live:
                live[op.outputs[0]] = live.pop(op.inputs[0])
                self.buffers[program.name, op.outputs[0]] = live[op.outputs[0]][1]
                addresses[op.outputs[0]] = (live[op.outputs[0]][0], live[op.outputs[0]][1].address)
            for tensor in op.outputs:
                self.place(live, tensor, program.tensors[tensor], where)
                if tensor in live:
                    addresses[tensor] = (live[tensor][0], live[tensor][1].address)
                    self.buffers.setdefault((program.name, tensor), live[tensor][1])
            self.kernel(op, program, where)
            if isinstance(op.params, ControlParams):
                for name in op.params.programs:
                    self.run(self.programs[name], called=True)
            if op.kernel == "deallocate":
                for tensor in op.inputs:
                    self.free(live, tensor)
        for tensor in list(live) if called else ():
            self.free(live, tensor)
        return addresses

    def place(self, live: dict[int, tuple[str, Buffer]], tensor: int, desc: TensorDesc, where: str) -> None:
        """Allocates a tensor on the device, if it is not there yet. Raises OutOfMemory."""
        if desc.buffer_type == "system_memory" or tensor in live:
            return
        banks, sizes = self.banks[desc.buffer_type], shares(desc, self.profile)
        what = f"tensor {tensor}, {desc.data_format} {'x'.join(map(str, desc.shape)) or 'scalar'}"
        buffer = banks.fit(sizes, what, where)
        if buffer is None:
            raise OutOfMemory(where, map_of(banks, self.profile, sizes, what, where))
        live[tensor] = (desc.buffer_type, buffer)

    def kernel(self, op: Operation, program: Program, where: str) -> None:
        """Checks that a kernel's circular buffers fit beside the tensors in L1."""
        call = Call.of(op, program)
        buffers = 0
        if any(d.buffer_type != "system_memory" for d in (*call.inputs, *call.outputs)) and op.kernel not in _NO_CORES:
            buffers = circular_buffer_bytes(call, op.kernel, self.profile)
        tensors = self.banks["l1"].in_use
        if tensors + buffers > self.profile.l1_usable:
            sizes = np.full(self.profile.cores, buffers)
            what = map_of(self.banks["l1"], self.profile, sizes, "circular buffers", where)
            raise OutOfMemory(f"{where}: circular buffers", what, self.profile.l1_usable - tensors)
        self.l1_peak = max(self.l1_peak, tensors + buffers)

    def free(self, live: dict[int, tuple[str, Buffer]], tensor: int) -> None:
        """Frees a tensor's buffer."""
        if tensor in live:
            kind, buffer = live.pop(tensor)
            self.banks[kind].free(buffer)


_NO_CORES = frozenset(
    {"to_device", "from_device", "deallocate", "if", "case", "while", "for", "host_op", "load_cached"}
)
"""Kernels that no core runs: the host's DMA does their work, or there is none."""
