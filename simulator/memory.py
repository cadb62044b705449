"""Allocates a program's tensors in order, before any data is touched, by the rules of opscope.compiler.target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from opscope.compiler.target.allocation import Bank, bank_bytes
from opscope.compiler.target.formats import FORMATS
from opscope.compiler.target.program import ControlParams, Operation, Program
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
    """Per core: L1 tensors and the running kernel's circular buffers."""
    dram_peak: int
    """Over all channels."""
    addresses: dict[int, tuple[str, int]]
    """Tensor id -> buffer type and address, of every device tensor."""


def plan_memory(program: Program, profile: Profile, programs: Mapping[str, Program] | None = None) -> MemoryPlan:
    """Allocates the program's tensors in order. Raises OutOfMemory for the first buffer that does not fit.

    A program that control flow calls allocates its own tensors on top, and frees them when it returns; its arguments
    belong to its caller.
    """
    allocator = _Allocator(profile, programs or {})
    addresses = allocator.run(program)
    banks = allocator.banks
    return MemoryPlan(max(allocator.l1_peak, banks["l1"].peak), banks["dram"].peak * profile.dram_channels, addresses)


class _Allocator:
    """The banks of memory during the walk over the programs."""

    def __init__(self, profile: Profile, programs: Mapping[str, Program]) -> None:
        self.profile, self.programs = profile, programs
        self.banks = {"dram": Bank("dram", profile.dram_usable), "l1": Bank("l1", profile.l1_usable)}
        self.l1_peak = 0

    def run(self, program: Program, called: bool = False) -> dict[int, tuple[str, int]]:
        """Allocates a program's tensors and returns their addresses. Inputs of a called program are its caller's."""
        addresses: dict[int, tuple[str, int]] = {}
        live: dict[int, tuple[str, int]] = {}
        for tensor in program.inputs if not called else ():
            _place(tensor, program, self.profile, self.banks, live, f"input {tensor}")
        for op in program.operations:
            where = f"{op.kernel} ({op.location})" if op.location else op.kernel
            for tensor in op.outputs:
                _place(tensor, program, self.profile, self.banks, live, where)
            addresses |= live
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

    def kernel(self, op: Operation, program: Program, where: str) -> None:
        """Checks that a kernel's circular buffers fit beside the tensors in L1."""
        call = Call(
            op.params,
            op.numerics,
            tuple(program.tensors[t] for t in op.inputs),
            tuple(program.tensors[t] for t in op.outputs),
        )
        buffers = 0
        if any(d.buffer_type != "system_memory" for d in (*call.inputs, *call.outputs)) and op.kernel not in _NO_CORES:
            buffers = circular_buffer_bytes(call, op.kernel, self.profile)
        tensors = self.banks["l1"].in_use
        if tensors + buffers > self.profile.l1_usable:
            raise OutOfMemory(f"{where}: circular buffers", "l1", buffers, self.profile.l1_usable - tensors)
        self.l1_peak = max(self.l1_peak, tensors + buffers)

    def free(self, live: dict[int, tuple[str, int]], tensor: int) -> None:
        """Frees a tensor's buffer."""
        if tensor in live:
            kind, address = live.pop(tensor)
            self.banks[kind].free(address)


_NO_CORES = frozenset({"to_device", "from_device", "deallocate", "if", "case", "while", "host_op", "load_cached"})
"""Kernels that no core runs: the host's DMA does their work, or there is none."""


def _place(
    tensor: int,
    program: Program,
    profile: Profile,
    banks: dict[str, Bank],
    live: dict[int, tuple[str, int]],
    where: str,
) -> None:
    desc = program.tensors[tensor]
    if desc.buffer_type == "system_memory" or tensor in live:
        return
    bank, size = banks[desc.buffer_type], bank_bytes(desc, profile)
    address = bank.fit(size)
    if address is None:
        raise OutOfMemory(where, desc.buffer_type, size, bank.largest_gap())
    live[tensor] = (desc.buffer_type, address)
