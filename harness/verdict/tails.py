"""Documented tails: what a kernel is known to return in a range of its operand, in place of the function's value.

A row names the range and the very values that come back there. It grants no error: an element of the range with any
other value is held to the function, and so is every element outside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

NAN = (math.nan, math.nan)
"""The range of operands that are no number."""
INFINITE = (math.inf, -math.inf)
BF16, F32 = ("bfloat16",), ("float32",)


@dataclass(frozen=True)
class Tail:
    """A range of an elementwise op's first operand, and what is returned there."""

    ops: str
    """Ops without their dialect, and formulas, with spaces between."""
    types: tuple[str, ...]
    """Element types of the result, as NumPy names them."""
    where: tuple[float, float]
    """The least and the largest operand; NAN: no number."""
    returns: tuple[float, ...]
    """What is returned, one of these."""
    source: str
    """Who says so."""
    either_sign: bool = False
    """Whether the range is that of the operand's size."""

    def has(self, x: np.ndarray, got: np.ndarray) -> np.ndarray:
        """Which elements lie in the range and are what is documented."""
        with np.errstate(invalid="ignore"):  # bfloat16 casts a NaN with a warning
            operand, value = x.astype(np.float64), got.astype(np.float64)
        low, high = self.where
        size = np.abs(operand) if self.either_sign else operand
        inside = np.isnan(operand) if math.isnan(low) else (size >= low) & (size <= high)
        return inside & (np.isin(value, self.returns) | (np.isnan(value) & any(map(math.isnan, self.returns))))

    def __str__(self) -> str:
        low, high = (f"{end:.6g}" for end in self.where)
        operand = "|x|" if self.either_sign else "x"
        range_of = "NaN" if math.isnan(self.where[0]) else f"{operand} from {low} to {high}"
        return f"{' or '.join(f'{value:g}' for value in self.returns)} of {range_of} ({self.source})"


def of(tails: Sequence[Tail], op: str) -> list[Tail]:
    """The tails of an op (without its dialect) or a formula."""
    return [tail for tail in tails if op in tail.ops.split()]


def as_documented(
    tails: Sequence[Tail], golden: Sequence[np.ndarray], got: Sequence[np.ndarray], x: np.ndarray
) -> tuple[list[np.ndarray], set[int]]:
    """An op's results with the golden where they are what is documented instead, and which results that changes. `x` is
    its first operand."""
    right, changed = [*got], set()
    for index, (g, d) in enumerate(zip(golden, got, strict=False)):
        where = documented(tails, g, d, x)
        if where is not None:
            right[index] = np.where(where, g, d)
            changed.add(index)
    return right, changed


def documented(tails: Sequence[Tail], golden: np.ndarray, got: np.ndarray, x: np.ndarray) -> np.ndarray | None:
    """Which elements of a result are not the golden's and yet what is documented; None if none is."""
    if not x.shape == golden.shape == got.shape or golden.dtype != got.dtype:
        return None
    known = [tail.has(x, got) for tail in tails if got.dtype.name in tail.types]
    where = np.any(known, axis=0) & (got != golden) if known else np.zeros((), bool)
    return where if where.any() else None


def _by(header: str) -> str:
    return f"ttnn 0.81.1, ckernel_sfpu_{header}.h"


_PACKED = "ttnn 0.81.1; a NaN is packed into 16 bits as Infinity"
_LEAST = 2.0**-126
_NO_NUMBER = (
    "sine cosine tan acos asin atan acosh asinh atanh sinh cosh exponential exp2 exponential_minus_one log "
    "log_plus_one sqrt rsqrt cbrt erf_inv erfc gelu gelu_tanh softsign"
)
_BEYOND = math.nextafter(1.0, 2.0)
_ERFC = float.fromhex("0x1.9ep-39")

TTNN: tuple[Tail, ...] = (
    Tail(_NO_NUMBER, BF16, NAN, INFINITE, _PACKED),
    Tail("sine cosine tan softsign", BF16, (math.inf, math.inf), INFINITE, _PACKED, either_sign=True),
    Tail("gelu_tanh", BF16, (-math.inf, -math.inf), INFINITE, _PACKED),
    Tail("log sqrt rsqrt", BF16, (-math.inf, -math.ulp(0.0)), INFINITE, _PACKED),
    Tail("log_plus_one", BF16, (-math.inf, -_BEYOND), INFINITE, _PACKED),
    Tail("acosh", BF16, (-math.inf, math.nextafter(1.0, 0.0)), INFINITE, _PACKED),
    Tail("asin acos atanh erf_inv", BF16, (_BEYOND, math.inf), INFINITE, _PACKED, either_sign=True),
    Tail("tanh", BF16, NAN, (1.0, -1.0), _by("tanh")),
    Tail("erf", BF16 + F32, NAN, (1.0,), _by("erf")),
    Tail("erfc", BF16 + F32, NAN, (_ERFC,), _by("erfc")),
    Tail("logistic sigmoid", BF16 + F32, NAN, (0.0,), _by("sigmoid")),
    Tail("silu", BF16, NAN, (0.0,), _by("silu")),
    Tail("gelu", BF16, NAN, (0.0,), _by("gelu")),
    Tail("hardsigmoid", BF16 + F32, NAN, (0.0, 1.0), _by("activations")),
    Tail("relu6", BF16 + F32, NAN, (0.0, 6.0), _by("relu")),
    Tail("reciprocal", BF16, NAN, (0.0,), _by("recip")),
    # Multiples of pi are taken away in four steps of float32, which overflow.
    Tail("sine cosine", BF16 + F32, (8e11, math.inf), INFINITE, _by("trigonometry"), either_sign=True),
    Tail("tan", BF16 + F32, (6e9, math.inf), (*INFINITE, math.nan), _by("trigonometry"), either_sign=True),
    Tail("gelu", BF16 + F32, (-math.inf, -5.5), (0.0,), _by("gelu")),
    Tail("gelu_tanh", BF16 + F32, (-math.inf, -5.0625), (0.0,), _by("gelu")),
    Tail("silu", BF16 + F32, (-math.inf, -87.25), (0.0,), _by("silu")),
    Tail("erfc", BF16 + F32, (5.0, math.inf), (_ERFC,), _by("erfc")),
    Tail("erf_inv", BF16 + F32, (0.0, 5.17e-4), (0.0,), _by("erfinv"), either_sign=True),
    Tail("softsign", BF16 + F32, (2.0**126, math.inf), (0.0,), _by("softsign"), either_sign=True),
    Tail("tanh asin atan atanh", BF16, (_LEAST, _LEAST), (0.0,), "ttnn 0.81.1", either_sign=True),
)
"""What ttnn's own kernels return on Blackhole, where that is not the function: of runs of ttnn 0.81.1 on ttsim 1.10.0,
whose bits `--exact-order` has."""
