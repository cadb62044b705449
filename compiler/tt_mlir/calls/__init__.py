"""The one table from ops of tt-mlir's TTNN to kernels of the simulator: importing this package fills it.

An op without a row is refused by its name, and so is an attribute that a row does not read and that is not known to be
harmless (`values.py`): nothing is left out in silence.
"""

from __future__ import annotations

from opscope.compiler.tt_mlir.calls import (  # noqa: F401 - each fills TABLE
    attention,
    collectives,
    control,
    creation,
    eltwise,
    fused,
    indexed,
    more_convolutions,
    movement,
    numbers,
    ordering,
    pools,
    products,
    reductions,
)
