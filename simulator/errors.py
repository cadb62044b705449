"""The errors of a device, with messages such as `<where>: expected X, got Y; try Z`."""

from __future__ import annotations

from opscope.compiler.target.memory_map import MemoryMap


class DeviceError(Exception):
    """A device could not load or run a program."""


class BadBinary(DeviceError):
    """The bytes are not a program that this device's loader can read."""


class WrongBoard(DeviceError):
    """The program was compiled for another board."""


class UnsupportedKernel(DeviceError):
    """The program names a kernel that the device lacks, or calls one with the wrong parameters."""


class UnsupportedFormat(DeviceError):
    """A tensor or the Dst register needs a number format that the device lacks."""


class BadInput(DeviceError):
    """The arrays passed to `run` are not what the program declares."""


class KernelError(DeviceError):
    """A kernel's result is not the tensor that the program declares for it, or its operands do not go together."""


class HostOpError(DeviceError):
    """The host could not compute an op that the program leaves to it."""


class MeshError(DeviceError):
    """The chips of a mesh did not reach the same collective."""


class DeviceHang(DeviceError):
    """An operation never ends: a core that it runs on, or a link that it sends over, does not answer."""


class OutOfMemory(DeviceError):
    """A buffer does not fit. Sizes in bytes per bank: a DRAM channel, or one core's L1."""

    def __init__(self, where: str, memory: MemoryMap, free: int | None = None) -> None:
        """`free`: the most that would fit; by default the largest gap."""
        self.map = memory
        self.buffer_type, self.needed = memory.buffer_type, memory.wanted.size
        self.free = memory.largest_gap if free is None else free
        super().__init__(
            f"{where}: expected at most {self.free:,} bytes of {self.buffer_type} per bank, got {self.needed:,}; "
            "try a smaller tensor, a narrower data format or another buffer type"
        )
