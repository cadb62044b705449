"""Where a program's tensors lie: allocation in program order, before any data is touched.

A buffer is cut into pages (a tile, or a row of a row-major tensor). Interleaved buffers deal their pages to all banks
in turn (DRAM channels, or every core's L1), sharded ones to the cores of their grid. All banks allocate in step, at
one address, as tt-metal does: so a buffer costs every bank its fullest bank's share.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from compiler.target.formats import FORMATS, padded_tiles
from compiler.target.program import ControlParams, Operation, Program, TensorDesc
from compiler.target.system_desc import Profile
from simulator.errors import OutOfMemory
from simulator.kernels.registry import KERNELS, Call


def pages_of(desc: TensorDesc, profile: Profile) -> tuple[int, int]:
    """Number of pages of a tensor and bytes of one, as it lies on the device."""
    fmt = FORMATS[desc.data_format]
    if desc.layout == "tile":
        return padded_tiles(desc.shape), fmt.tile_bytes + profile.tile_header_bytes
    width = desc.shape[-1] if desc.shape else 1
    return math.prod(desc.shape[:-1]), math.ceil(width * fmt.datum_bytes())


def tensor_bytes(desc: TensorDesc, profile: Profile) -> int:
    """Bytes of a tensor on the device, padding included."""
    pages, size = pages_of(desc, profile)
    return pages * size


def bank_bytes(desc: TensorDesc, profile: Profile) -> int:
    """Bytes that the fullest bank gives to a tensor."""
    pages, size = pages_of(desc, profile)
    if desc.buffer_type == "dram":
        banks, align = profile.dram_channels, profile.dram_alignment
    else:
        banks, align = profile.cores, profile.l1_alignment
        if desc.memory_layout != "interleaved":
            banks = max(desc.grid[0] * desc.grid[1], 1)
    return -(-pages // banks) * (-(-size // align) * align)


def circular_buffer_bytes(call: Call, kernel_name: str, profile: Profile) -> int:
    """Bytes of L1 per core that a running kernel needs: two tiles per operand, or what the kernel says."""
    kernel = KERNELS[kernel_name]
    if kernel.l1_bytes is not None:
        return kernel.l1_bytes(call)
    on_device = [d for d in (*call.inputs, *call.outputs) if d.buffer_type != "system_memory"]
    return sum(2 * (FORMATS[d.data_format].tile_bytes + profile.tile_header_bytes) for d in on_device)


@dataclass
class Bank:
    """First-fit allocator of one bank; all banks of a kind are alike."""

    buffer_type: str
    capacity: int
    used: dict[int, int] = field(default_factory=dict)
    """Address -> bytes."""
    peak: int = 0

    @property
    def in_use(self) -> int:
        """Bytes allocated now."""
        return sum(self.used.values())

    def allocate(self, size: int, where: str) -> int:
        """Address of `size` new bytes. Raises OutOfMemory where no gap holds them."""
        address, largest = 0, 0
        for start in sorted(self.used):
            if start - address >= size:
                break
            largest = max(largest, start - address)
            address = max(address, start + self.used[start])
        largest = max(largest, self.capacity - address)
        if address + size > self.capacity:
            raise OutOfMemory(where, self.buffer_type, size, largest)
        if size:
            self.used[address] = size
        self.peak = max(self.peak, self.in_use)
        return address

    def free(self, address: int) -> None:
        """Gives the buffer at `address` back."""
        self.used.pop(address, None)


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

    A program that control flow calls allocates its own on top, and gives them back when it returns; its arguments
    are its caller's.
    """
    plan = _Plan(profile, programs or {})
    addresses = plan.run(program)
    banks = plan.banks
    return MemoryPlan(max(plan.l1_peak, banks["l1"].peak), banks["dram"].peak * profile.dram_channels, addresses)


class _Plan:
    """The banks while programs are walked."""

    def __init__(self, profile: Profile, programs: Mapping[str, Program]) -> None:
        self.profile, self.programs = profile, programs
        self.banks = {"dram": Bank("dram", profile.dram_usable), "l1": Bank("l1", profile.l1_usable)}
        self.l1_peak = 0

    def run(self, program: Program, called: bool = False) -> dict[int, tuple[str, int]]:
        """Addresses of all tensors of a program. Of one that is called, the inputs are its caller's."""
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
        """Gives a tensor's buffer back."""
        if tensor in live:
            kind, address = live.pop(tensor)
            self.banks[kind].free(address)


_NO_CORES = frozenset({"to_device", "from_device", "deallocate", "if", "case", "while", "host_op"})
"""Kernels that the host's DMA does, or nobody."""


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
    address = banks[desc.buffer_type].allocate(bank_bytes(desc, profile), where)
    live[tensor] = (desc.buffer_type, address)
