"""How large the terms are that each element of a sum is made of: what an error analysis multiplies a unit roundoff by.

A sum of products whose operands are each off by a relative error of standard deviation u, independent of each other, is
off by u times the root sum of squares of its terms (Higham and Mary 2019, SIAM J. Sci. Comput. 41(5)). The op itself on
squared operands is that sum of squares: (ab)^2 = a^2 b^2, and what is padded stays 0. So the walk computes it with the
executable that it has, and keeps it beside the golden.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from opscope.base.op_families import PRODUCTS, op_family
from opscope.harness.record.element_types import TERM_SIZES, numpy_dtype

Evaluate = Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]]
"""An op that can be run on other inputs."""

SUMMING = PRODUCTS | {"reduce", "pool", "scatter"}
SUM_BODY = "stablehlo.add"
LARGEST = 1e18
"""Operands are squared up to here: float32 ends at 3e38."""
BLOCK = 1 << 16
"""Elements that are squared at a time: they stay in a core's cache."""


def sums_terms(op_name: str, body: str | None) -> bool:
    """Whether each element of an op's results is a sum of terms, each one operand or the product of two."""
    kind = op_family(op_name)
    if op_name == "stablehlo.select_and_scatter":
        return body is not None and body.endswith(SUM_BODY)
    return kind in PRODUCTS or (kind in SUMMING and body == SUM_BODY)


def squared(op_name: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The operands whose sum of terms is the sum of squared terms; integers (indices) stay."""
    # The first operand of select_and_scatter chooses the places; only the second is added up.
    kept = 1 if op_name == "stablehlo.select_and_scatter" else 0
    return [x if number < kept or not is_float(x) else squares(x) for number, x in enumerate(inputs)]


def squares(x: np.ndarray) -> np.ndarray:
    """The squares of `x` in its own type, clipped so that they stay finite."""
    if x.dtype.kind == "c":
        return squares(np.abs(x)).astype(x.dtype)
    flat, out = np.ascontiguousarray(x).reshape(-1), np.empty(x.shape, x.dtype)
    into = out.reshape(-1)
    for start in range(0, x.size, BLOCK):  # or a weight of a gigabyte would need four more
        part = flat[start : start + BLOCK]
        wide = part if x.dtype in (np.float32, np.float64) else part.astype(np.float32)
        if not (np.abs(wide) < LARGEST).all():
            wide = np.clip(np.nan_to_num(wide, nan=0.0), -LARGEST, LARGEST)
        with np.errstate(over="ignore"):
            into[start : start + BLOCK] = np.square(wide)
    return out


def is_float(x: np.ndarray) -> bool:
    """Whether an array holds floats (ml_dtypes' included) or complex numbers."""
    return x.dtype.kind in "fc" or (x.dtype.kind == "V" and "float" in x.dtype.name)


def root_sizes(op_name: str, evaluate: Evaluate, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The root sum of squares of the terms of each element, float32, one array per result.

    `evaluate` runs the op; what it raises is not caught. Where a sum overflows it is infinite.
    """
    roots = []
    inputs, power = _in_units(op_name, inputs)
    with np.errstate(over="ignore", invalid="ignore"):
        for result in evaluate(squared(op_name, inputs)):
            wide = np.abs(result) if result.dtype.kind == "c" else np.abs(result.astype(np.float32, copy=False))
            roots.append(np.ldexp(np.sqrt(wide.astype(np.float32, copy=False)), power))
    return roots


def _in_units(op_name: str, inputs: Sequence[np.ndarray]) -> tuple[Sequence[np.ndarray], int]:
    """The operands in units, powers of two, in which squares of terms stay finite; and the power of a term's unit."""
    tops = [_largest(x) if is_float(x) else 0.0 for x in inputs]
    if op_family(op_name) in PRODUCTS:  # of its factors
        if math.prod(tops) <= LARGEST and max(tops) <= LARGEST:
            return inputs, 0
        powers = [max(0, math.frexp(top / math.sqrt(LARGEST))[1]) for top in tops]
        power = sum(powers)
    elif max(tops, default=0.0) <= LARGEST:
        return inputs, 0
    else:
        power = math.frexp(max(tops) / LARGEST)[1]
        powers = [power] * len(tops)
    scaled = [x * x.dtype.type(2.0**-own) if is_float(x) else x for x, own in zip(inputs, powers, strict=True)]
    return scaled, power


def _largest(x: np.ndarray) -> float:
    """The largest finite magnitude of an array."""
    flat = x.reshape(-1)
    parts = (np.abs(flat[start : start + BLOCK]) for start in range(0, x.size, BLOCK))
    wide = (part if part.dtype in (np.float32, np.float64) else part.astype(np.float32) for part in parts)
    return max((float(part.max(initial=0.0, where=np.isfinite(part))) for part in wide), default=0.0)


def stored(sizes: np.ndarray) -> np.ndarray:
    """Sizes as they are kept."""
    return sizes.astype(numpy_dtype(TERM_SIZES))
