"""The inputs of a sweep: every number of a type of 16 bits or fewer, of wider types each exponent, and special values.

| operands | `numbers` | `specials` |
|---|---|---|
| one, 8 or 16 bits | all normal numbers with a result | zeros, denormals, infinities, NaN; all other numbers |
| one, 32 bits | all of bfloat16's, as many again with every exponent, neighbours of `POINTS` | as above, of bfloat16 |
| several | 65,536, each beside one of like size, a neighbour, or any | each of `SPECIALS` beside each other |
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import ml_dtypes
import numpy as np

from opscope.harness.formulas.nearest import precision

COUNT = 1 << 16
"""How many numbers several operands take."""
NEIGHBOURS = 8
"""Numbers on either side of a point."""
WIDTH = 256
"""Elements of a row, of which a sweep has as many as it needs; the last is filled up with its last inputs."""
BF16 = np.dtype(ml_dtypes.bfloat16)
POINTS = (
    *(sign * value for value in (0.5, 1, 2, 3, 4, 5.5, 6, 8, 13.375, 16, 20, 88.7228, 87.3365, 103.972, 709.78, 65504,
                                 2.0**24, 2.0**31, 2.0**-24, 2.0**-12) for sign in (1, -1)),
    *(k * math.pi / 2 for k in range(-8, 9) if k),
    math.e, 1.4616321449683623, -0.7525, 0.0441,
)  # fmt: skip
"""Where functions turn, overflow, have zeros or change their formula."""
SPECIALS = (
    0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 1.5, 2.5, -2.5, 10.0, 88.5,
    -88.5, 127.0, -127.0, 255.0, 256.0, 1024.0,
)  # fmt: skip
"""Values that two operands take beside each other, with those of the type: its ends, and neighbours of 1."""


def numbers(dtype: np.dtype, operands: int, seed: int = 0) -> list[np.ndarray]:
    """The normal numbers of a sweep, one array for each operand, all of one length."""
    rng = np.random.default_rng(seed)
    if operands == 1:
        return [_each(dtype, rng)]
    every = _each(dtype, rng)
    first = rng.permutation(np.resize(every, COUNT))
    others = [_beside(first, every, dtype, rng) for _ in range(operands - 1)]
    return [first, *others]


def _each(dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    if dtype.itemsize <= 2:
        return _normal(_patterns(dtype))
    coarse = _normal(_patterns(BF16)).astype(dtype)
    bits, _ = precision(dtype)
    fraction = rng.integers(0, 1 << bits, coarse.size, dtype=np.int64)
    unsigned = np.dtype(f"u{dtype.itemsize}")
    any_number = ((coarse.view(unsigned) >> bits << bits) | fraction.astype(unsigned)).view(dtype)
    centre = np.array(POINTS).astype(dtype).view(unsigned).astype(np.int64)
    near = (centre[:, None] + np.arange(-NEIGHBOURS, NEIGHBOURS + 1)).astype(unsigned).view(dtype).ravel()
    return np.concatenate([coarse, any_number, near])


def _beside(first: np.ndarray, every: np.ndarray, dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    """For half of the numbers one of like size, for a quarter a neighbour of either sign, for the others any."""
    bits, _ = precision(dtype)
    wide = first.astype(np.float64)
    alike = wide * np.ldexp(rng.uniform(0.5, 1, first.size), rng.integers(-bits, bits + 2, first.size))
    near = wide * (1 + rng.integers(-3, 4, first.size) * 2.0**-bits)
    kind, sign = rng.integers(0, 4, first.size), rng.choice((1.0, -1.0), first.size)
    with np.errstate(over="ignore"):
        chosen = (np.where(kind == 0, near, alike) * sign).astype(dtype)
    usable = np.isfinite(chosen.astype(np.float64)) & (kind < 3)
    return np.where(usable, chosen, rng.permutation(np.resize(every, first.size)))


def specials(dtype: np.dtype, operands: int) -> list[np.ndarray]:
    """Zeros, denormals, infinities and NaN for one operand; for several each special value beside each other."""
    if operands == 1:
        values = _patterns(dtype if dtype.itemsize <= 2 else BF16)
        others = values[~_is_normal(values)]
        return [others if dtype.itemsize <= 2 else others.astype(dtype)]
    limits = ml_dtypes.finfo(dtype)
    least, most, step = float(limits.smallest_normal), float(limits.max), float(limits.eps)
    own = (most, -most, least, -least, least / 2, -least / 2, 1 + step, 1 - step / 2, most / 2, 2 * least)
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.unique(np.array([*SPECIALS, *own]).astype(dtype).view(f"u{dtype.itemsize}")).view(dtype)
    if operands == 2:
        pairs = np.array(list(itertools.product(range(values.size), repeat=2)))
        return [values[pairs[:, number]] for number in range(2)]
    rng = np.random.default_rng(0)
    return [values[rng.integers(0, values.size, 4096)] for _ in range(operands)]


def in_rows(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Arrays of one length as rows of WIDTH, the last of them filled up with the last element."""
    size = -(-arrays[0].size // WIDTH) * WIDTH
    return [np.concatenate([x, np.repeat(x[-1:], size - x.size)]).reshape(-1, WIDTH) for x in arrays]


def _patterns(dtype: np.dtype) -> np.ndarray:
    """All values of a type of 8 or 16 bits."""
    bits = 8 * dtype.itemsize
    return np.arange(1 << bits, dtype=np.uint32).astype(f"u{dtype.itemsize}").view(dtype)


def _normal(values: np.ndarray) -> np.ndarray:
    return values[_is_normal(values)]


def _is_normal(values: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        size = np.abs(values.astype(np.float64))
    _, least = precision(values.dtype)
    return (size >= 2.0**least) & np.isfinite(size)
