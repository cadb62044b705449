"""Every kernel the device has: importing this package registers them all in `registry.KERNELS`."""

from __future__ import annotations

from simulator.kernels import (
    buda,
    ccl,
    control,
    conv,
    conv3d,
    creation,
    data_movement,
    eltwise,
    gather,
    host,
    layout,
    linalg,
    matmul,
    pool,
    random,
    reduce,
    region,
    scatter,
    sort,
    special,
)
from simulator.kernels.registry import KERNELS, Call, Kernel, kernel

__all__ = [
    "KERNELS",
    "Call",
    "Kernel",
    "buda",
    "ccl",
    "control",
    "conv",
    "conv3d",
    "creation",
    "data_movement",
    "eltwise",
    "gather",
    "host",
    "kernel",
    "layout",
    "linalg",
    "matmul",
    "pool",
    "random",
    "reduce",
    "region",
    "scatter",
    "sort",
    "special",
]
