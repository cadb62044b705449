"""How large the terms are that each element of a sum is made of.

Imports JAX where it is called, not before: a lane needs it only for a sum that came out wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def term_sizes(module: bytes, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Root sum of squares of the terms of each element, per result of a single-op module that sums products.

    It is the op itself on squared operands: (ab)^2 = a^2 b^2, and what is padded stays 0. Infinite if a square is
    too large for float32; empty sums have 0.
    """
    from opscope.harness.prepare.golden import compile_module

    with np.errstate(over="ignore", invalid="ignore"):
        squares = [np.square(x) if x.dtype.kind in "fV" else x for x in inputs]
        return [np.sqrt(result.astype(np.float64)) for result in compile_module(module, widen=True)(squares)]
