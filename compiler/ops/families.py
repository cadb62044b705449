"""Fills the table: imports each of its files once."""

from __future__ import annotations

from opscope.compiler.ops import (  # noqa: F401 - each fills the table
    ccl,
    control,
    conv,
    creation,
    data_movement,
    eltwise,
    fused,
    host,
    inference,
    layout,
    linalg,
    matmul,
    named,
    pool,
    random,
    reduce,
    region,
    tt_mlir_only,
    unlowered,
)
