"""The simulator's public interface: `Device`, the programs that it loads, their results, and its errors.

Example:
    device = Device("n150")
    result = device.load(binary).run([x, y])
    result.outputs, result.profile.total_cycles
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opscope.base import passes
from opscope.compiler.target.program import Numerics, TensorDesc
from opscope.simulator.counters import Counters, counters
from opscope.simulator.device import Device, Executable, RunResult
from opscope.simulator.errors import (
    BadBinary,
    BadInput,
    DeviceError,
    DeviceHang,
    KernelError,
    MeshError,
    OutOfMemory,
    UnsupportedFormat,
    UnsupportedKernel,
    WrongBoard,
)
from opscope.simulator.images import pack
from opscope.simulator.kernels import KERNELS
from opscope.simulator.kernels.eltwise import real_function
from opscope.simulator.profile import OpCost, Profile
from opscope.simulator.program_run import ProgramRun
from opscope.simulator.timing.flops import flops_of


def kernels() -> tuple[str, ...]:
    """Returns the names of all kernels, sorted."""
    return tuple(sorted(KERNELS))


def passes_by() -> str:
    """Returns what computes passes over arrays on this machine: `compiled C`, or `NumPy` and why; bits are the same."""
    return passes.state


def error_bound(kernel: str) -> float:
    """Returns the bound of a kernel's error in units in the last place of float32; 0 if it is exact.

    Raises KeyError for an unknown kernel.
    """
    return KERNELS[kernel].max_ulp


def cuts_result(kernel: str) -> bool:
    """Whether a kernel leaves the rounding of its result to the store into a Dst of 16 bits, which cuts; not if exact.

    Raises KeyError for an unknown kernel.
    """
    row = KERNELS[kernel]
    return row.unit == "sfpu" and not row.rounds and row.max_ulp > 0


def as_ttnn(kernel: str, operands: Sequence[np.ndarray], data_format: str, dst_format: str) -> np.ndarray:
    """Returns what ttnn's own kernel gives of float32 operands, bit for bit, as float32.

    `data_format` is `Float32` or `Float16_b`, that of operands and result; `dst_format` that of Dst. Raises KeyError
    for a kernel whose bits are not known.
    """
    if (function := real_function(kernel, data_format, Numerics("HiFi4", dst_format))) is None:
        raise KeyError(kernel)
    made, element_type = function(*operands), "f32" if data_format == "Float32" else "bf16"
    desc = TensorDesc(made.shape, element_type, data_format, "tile", "dram")
    return pack(made, desc, dst_format=dst_format, rounds=KERNELS[kernel].rounds)
