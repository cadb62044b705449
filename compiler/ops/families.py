"""Fills the table: imports every family file once."""

from __future__ import annotations

from opscope.compiler.ops import (
    ccl,
    control,
    conv,
    creation,
    data_movement,
    eltwise,
    fused,
    host,
    layout,
    linalg,
    matmul,
    pool,
    random,
    reduce,
    region,
    unlowered,
)
from opscope.compiler.ops.row import TABLE, Family

__all__ = [
    "ccl",
    "control",
    "conv",
    "creation",
    "data_movement",
    "eltwise",
    "family",
    "fused",
    "host",
    "layout",
    "linalg",
    "matmul",
    "pool",
    "random",
    "reduce",
    "region",
    "unlowered",
]


def family(op_name: str) -> str:
    """Family of an op by its full name (`stablehlo.add`, `chlo.erf`); `custom_call:Target` counts as custom_call.

    An op without a row is `eltwise` where it is a chlo op that is legalised, else `other`.
    """
    name = op_name.split(":")[0]
    rows = TABLE.stablehlo(name)
    found: Family | None = rows[0].family if rows else None
    if found is None and name.startswith("chlo."):
        return "eltwise"
    return found or "other"
