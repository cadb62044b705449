"""Every kernel the device has: importing this package registers them all in `registry.KERNELS`."""

from __future__ import annotations

from simulator.kernels import conv, creation, data_movement, eltwise, gather, layout, matmul, pool, reduce, special
from simulator.kernels.registry import KERNELS, Call, Kernel, kernel

__all__ = [
    "KERNELS",
    "Call",
    "Kernel",
    "conv",
    "creation",
    "data_movement",
    "eltwise",
    "gather",
    "kernel",
    "layout",
    "matmul",
    "pool",
    "reduce",
    "special",
]
