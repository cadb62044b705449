"""Every kernel the device has: importing this package registers them all in `registry.KERNELS`."""

from __future__ import annotations

from importlib import import_module

from opscope.simulator.kernels.registry import KERNELS, Call, Kernel, kernel

__all__ = ["FAMILIES", "KERNELS", "Call", "Kernel", "kernel"]

FAMILIES = (
    "batch_norm",
    "buda",
    "ccl",
    "control",
    "conv",
    "conv3d",
    "creation",
    "data_movement",
    "eltwise",
    "encoded_matmul",
    "fused",
    "gather",
    "host",
    "indexed_rows",
    "inference",
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
)
"""The modules whose kernels are registered."""
for _name in FAMILIES:
    import_module(f"{__name__}.{_name}")
