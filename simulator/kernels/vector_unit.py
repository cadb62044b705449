"""Functions as the vector unit's kernels of today compute them, for `exact_order`; others are exact but for rounding.

exp of bfloat16 is `exp_21f` of Moroz and others (Simple Multiple Precision Algorithms for Exponential Functions,
2022, https://doi.org/10.1109/MSP.2022.3157460): x / ln 2 plus the exponent's bias as fixed point, whose integer is
the exponent and whose fraction goes through a parabola. Constants as in tt-llk (ckernel_sfpu_exp.h). Multiplication
and addition are one rounding here, as in SFPMAD.
"""

from __future__ import annotations

import numpy as np

from opscope.compiler.target.rounding import Image, bits

LOG2_E = np.float32(1.4426950216293335)
PARABOLA = (np.float32(4.791750143340323e-15), np.float32(7.839635491371155e-08), np.float32(1.0017248))


def _fused(a: Image, b: Image | np.float32, c: Image | np.float32) -> Image:
    """a b + c, rounded once."""
    return (np.asarray(a, np.float64) * b + c).astype(np.float32)


def exp_21f(x: Image) -> Image:
    """exp with some 9 bits: of NaN it is Inf, below -88 it is 0."""
    scaled = np.clip(np.nan_to_num(_fused(x, LOG2_E, np.float32(127)), nan=255), np.float32(0), np.float32(255))
    pattern = bits(scaled).astype(np.int64)
    exponent, significand = (pattern >> 23) - 127, pattern & 0x7FFFFF | 0x800000
    fixed = np.where(exponent >= 0, significand << np.maximum(exponent, 0), significand >> np.minimum(-exponent, 31))
    fixed = np.where(pattern == 0, 0, fixed)
    fraction = (fixed & 0x7FFFFF).astype(np.float32)
    value = _fused(fraction, _fused(fraction, PARABOLA[0], PARABOLA[1]), PARABOLA[2])
    field = fixed >> 23 & 255
    result = (bits(value).astype(np.int64) & 0x7FFFFF | field << 23).astype(np.uint32).view(np.float32)
    return np.where(field == 255, np.float32(np.inf), np.where(field == 0, np.float32(0), result))


def sigmoid(x: Image) -> Image:
    """1 / (1 + exp(-x)) of bfloat16; of NaN 0."""
    return np.float32(1) / (np.float32(1) + exp_21f(-x))


OF_BFLOAT16 = {"exp": exp_21f, "sigmoid": sigmoid}
"""Kernel -> its function where Dst has 16 bits."""
