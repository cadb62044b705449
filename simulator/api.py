"""The simulator's only door: a `Device`, what it loads, what it returns, and what it refuses.

Example:
    device = Device("n150")
    result = device.load(binary).run([x, y])
    result.outputs, result.profile.total_cycles
"""

from __future__ import annotations

from opscope.simulator.device import Device, Executable, RunResult
from opscope.simulator.errors import (
    BadBinary,
    BadInput,
    DeviceError,
    KernelError,
    MeshError,
    OutOfMemory,
    UnsupportedFormat,
    UnsupportedKernel,
    WrongBoard,
)
from opscope.simulator.kernels import KERNELS
from opscope.simulator.profile import OpCost, Profile

__all__ = [
    "BadBinary",
    "BadInput",
    "Device",
    "DeviceError",
    "Executable",
    "KernelError",
    "MeshError",
    "OpCost",
    "OutOfMemory",
    "Profile",
    "RunResult",
    "UnsupportedFormat",
    "UnsupportedKernel",
    "WrongBoard",
    "error_bound",
    "kernels",
]


def kernels() -> tuple[str, ...]:
    """Names of all kernels, sorted."""
    return tuple(sorted(KERNELS))


def error_bound(kernel: str) -> float:
    """Bound of a kernel's error in units in the last place of float32; 0: exact. Raises KeyError if unknown."""
    return KERNELS[kernel].max_ulp
