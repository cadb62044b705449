"""Documented tails: what a kernel is known to return in a range of its operand, in place of the function's value.

A row names the range and the very values that come back there. It grants no error: an element of the range with any
other value is held to the function, and so is every element outside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from opscope.base.op_families import DATA_MOVEMENT, op_family
from opscope.harness.formulas.nearest import rounded

NAN = (math.nan, math.nan)
"""The range of operands that are no number."""
INFINITE = (math.inf, -math.inf)
BF16, F32 = ("bfloat16",), ("float32",)


ANY = "*"
"""All ops that compute, and formulas."""


@dataclass(frozen=True)
class Tail:
    """A range of an elementwise op's first operand, or of any op's right result, and what is returned there."""

    ops: str
    """Ops without their dialect, and formulas, with spaces between; ANY."""
    types: tuple[str, ...]
    """Element types of the result, as NumPy names them."""
    where: tuple[float, float]
    """The least and the largest operand; NAN: no number."""
    returns: tuple[float, ...] | Callable[..., np.ndarray]
    """What is returned, one of these; or float64 operands -> what is returned of each."""
    source: str
    """Who says so."""
    either_sign: bool = False
    """Whether the range is that of the operand's size."""
    of_result: bool = False
    """Whether the range is that of the right result, not of the operand."""

    def has(self, operands: Sequence[np.ndarray], golden: np.ndarray, got: np.ndarray) -> np.ndarray:
        """Which elements lie in the range and are what is documented; none where shapes differ."""
        by_operands = callable(self.returns)
        beside = [golden, *operands] if by_operands else [golden] if self.of_result else [golden, *operands[:1]]
        if any(each.shape != got.shape for each in beside):
            return np.zeros(got.shape, bool)
        with np.errstate(all="ignore"):  # bfloat16 casts a NaN with a warning
            value = got.astype(np.float64)
            ranged = (golden if self.of_result else operands[0]).astype(np.float64)
            low, high = self.where
            size = np.abs(ranged) if self.either_sign else ranged
            inside = np.isnan(ranged) if math.isnan(low) else (size >= low) & (size <= high)
            if callable(self.returns):
                return inside & (rounded(self.returns(*(x.astype(np.float64) for x in operands)), got.dtype) == got)
        return inside & (np.isin(value, self.returns) | (np.isnan(value) & any(map(math.isnan, self.returns))))

    def __str__(self) -> str:
        low, high = (f"{end:.6g}" for end in self.where)
        operand = "|x|" if self.either_sign else "x"
        range_of = "NaN" if low == "nan" else f"{operand} from {low} to {high}"
        if self.of_result:
            range_of = f"a right result of {'NaN' if low == 'nan' else 'Infinity'}"
        said = "another number" if callable(self.returns) else " or ".join(f"{value:g}" for value in self.returns)
        return f"{said} of {range_of} ({self.source})"


def of(tails: Sequence[Tail], op: str) -> list[Tail]:
    """The tails of an op (without its dialect) or a formula."""
    computes = op_family(f"stablehlo.{op}") not in DATA_MOVEMENT
    return [tail for tail in tails if op in tail.ops.split() or (computes and tail.ops == ANY)]


def as_documented(
    tails: Sequence[Tail], golden: Sequence[np.ndarray], got: Sequence[np.ndarray], operands: Sequence[np.ndarray]
) -> tuple[list[np.ndarray], set[int]]:
    """An op's results with the golden where they are what is documented instead, and which results that changes."""
    right, changed = [*got], set()
    for index, (g, d) in enumerate(zip(golden, got, strict=False)):
        where = documented(tails, g, d, operands)
        if where is not None:
            right[index] = np.where(where, g, d)
            changed.add(index)
    return right, changed


def documented(
    tails: Sequence[Tail], golden: np.ndarray, got: np.ndarray, operands: Sequence[np.ndarray]
) -> np.ndarray | None:
    """Which elements of a result are not the golden's and yet what is documented; None if none is."""
    if golden.shape != got.shape or golden.dtype != got.dtype:
        return None
    known = [tail.has(operands, golden, got) for tail in tails if got.dtype.name in tail.types]
    where = np.any(known, axis=0) & (got != golden) if known else np.zeros((), bool)
    return where if where.any() else None


def _by_unit(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """A function on what the matrix unit takes for a NaN (1.5 * 2^128), an infinity (2^128) and a denormal (0)."""

    def by_unit(*operands: np.ndarray) -> np.ndarray:
        read = (np.nan_to_num(x, nan=1.5 * 2.0**128, posinf=2.0**128, neginf=-(2.0**128)) for x in operands)
        return function(*(np.where(np.abs(x) < _LEAST, 0.0, x) for x in read))

    return by_unit


def _by(header: str) -> str:
    return f"ttnn 0.81.1, ckernel_sfpu_{header}.h"


_PACKED = "ttnn 0.81.1; a NaN is packed into 16 bits as Infinity"
_UNIT = "ttnn 0.81.1; the matrix unit takes a NaN for 1.5 * 2^128, an infinity for 2^128"
_LEAST = 2.0**-126
_ERFC = float.fromhex("0x1.9ep-39")

TTNN: tuple[Tail, ...] = (
    Tail(ANY, BF16, NAN, INFINITE, _PACKED, of_result=True),
    *(
        Tail(name, BF16, where, _by_unit(function), _UNIT, either_sign=True, of_result=True)
        for name, function in (("add", np.add), ("subtract", np.subtract))
        for where in (NAN, (math.inf, math.inf))
    ),
    Tail("minimum", BF16, NAN, _by_unit(np.minimum), _UNIT, of_result=True),
    Tail("multiply", BF16, NAN, (0.0,), _UNIT, of_result=True),
    Tail("convert", F32, NAN, INFINITE, _PACKED),
    Tail("convert", ("int32",), NAN, (2.0**31 - 1, -(2.0**31)), _by("typecast")),
    Tail("sign", F32, NAN, (1.0, -1.0), _by("sign")),
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
    Tail("reciprocal", BF16, (2.0**126, 2.0**126), (0.0,), _by("recip"), either_sign=True),
    Tail("softsign", BF16 + F32, (2.0**126, math.inf), (0.0,), _by("softsign"), either_sign=True),
    Tail("tanh asin atan atanh", BF16, (_LEAST, _LEAST), (0.0,), "ttnn 0.81.1", either_sign=True),
)
"""What ttnn's own kernels return on Blackhole, where that is not the function: of runs of ttnn 0.81.1 on ttsim 1.10.0,
whose bits `--exact-order` has."""
