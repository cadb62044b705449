"""Documented tails: what a kernel is known to return in a range of its operand, in place of the function's value.

A row names the range and the very values that come back there. It grants no error: an element of the range with any
other value is held to the function, and so is every element outside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from opscope.base.op_families import DATA_MOVEMENT, op_family
from opscope.harness.formulas.nearest import rounded

NAN = (math.nan, math.nan)
"""The range of operands that are no number."""
INFINITE = (math.inf, -math.inf)
BF16, F16, F32 = ("bfloat16",), ("float16",), ("float32",)


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
    returns: tuple[float, ...] | Callable[..., np.ndarray | Sequence[np.ndarray]] | str
    """What is returned, one of these; or float64 operands -> what is returned of each, or several of which one is; or
    the name of a kernel by whose published steps it is made, which `by_kernels` puts in its place."""
    source: str
    """Who says so."""
    either_sign: bool = False
    """Whether the range is that of the operand's size."""
    of_result: bool = False
    """Whether the range is that of the right result, not of the operand."""
    in_blocks: str = ""
    """The block format that floats are stored in where it is so, of blocks that hold an infinity or NaN; empty: any."""

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
            if self.in_blocks:
                inside &= _beside_infinities(ranged)
            if callable(self.returns):
                made = self.returns(*(x.astype(np.float64) for x in operands))
                several = [rounded(each, got.dtype) for each in (made if isinstance(made, Sequence) else [made])]
                return inside & np.any([(each == got) | (np.isnan(each) & np.isnan(value)) for each in several], axis=0)
            if isinstance(self.returns, str):
                return np.zeros(got.shape, bool)
        return inside & (np.isin(value, self.returns) | (np.isnan(value) & any(map(math.isnan, self.returns))))

    def __str__(self) -> str:
        low, high = (f"{end:.6g}" for end in self.where)
        operand = "|x|" if self.either_sign else "x"
        range_of = "NaN" if low == "nan" else f"{operand} from {low} to {high}"
        range_of += f", of {self.in_blocks} beside an infinity or NaN" if self.in_blocks else ""
        if self.of_result:
            range_of = f"a right result of {'NaN' if low == 'nan' else 'Infinity'}"
        values = self.returns if isinstance(self.returns, tuple) else ()
        said = " or ".join(f"{value:g}" for value in values) or "another number"
        return f"{said} of {range_of} ({self.source})"


@dataclass(frozen=True)
class Form:
    """Another function that a kernel is documented to compute in a formula's place. It is granted no more error than
    the formula is."""

    name: str
    """The formula's."""
    types: tuple[str, ...]
    """Element types of the result, as NumPy names them."""
    function: Callable[..., np.ndarray]
    """Float64 operands and the formula's attributes -> a float64 result."""
    source: str
    """Who says so."""

    def __str__(self) -> str:
        return f"all elements are as documented ({self.source})"


def _beside_infinities(x: np.ndarray) -> np.ndarray:
    """Which elements share a block of 16 along the last dim with one that is not finite."""
    if not x.ndim or x.shape[-1] % 16:
        return np.zeros(x.shape, bool)
    return np.repeat(~np.isfinite(x).reshape(*x.shape[:-1], -1, 16).all(axis=-1), 16, axis=-1)


def of(tails: Sequence[Tail], op: str, float_format: str | None = None) -> list[Tail]:
    """The tails of an op (without its dialect) or a formula, where floats are stored in a format if one is given."""
    computes = op_family(f"stablehlo.{op}") not in DATA_MOVEMENT
    known = [tail for tail in tails if op in tail.ops.split() or (computes and tail.ops == ANY)]
    return [tail for tail in known if tail.in_blocks in ("", float_format)]


def by_kernels(tails: Sequence[Tail], gives: Callable[..., Sequence[np.ndarray]]) -> tuple[Tail, ...]:
    """The tails with what their kernels give: a kernel's name, the result's type, float64 operands -> what it may
    return of each. A row that names a kernel has one type."""
    return tuple(
        replace(tail, returns=partial(gives, tail.returns, *tail.types)) if isinstance(tail.returns, str) else tail
        for tail in tails
    )


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


def may_be(tails: Sequence[Tail], golden: np.ndarray, got: np.ndarray) -> bool:
    """Whether a result has elements that are not the golden's, and may be what is documented of its type."""
    if golden.shape != got.shape or golden.dtype != got.dtype:
        return False
    return any(got.dtype.name in tail.types for tail in tails) and bool((got != golden).any())


def documented(
    tails: Sequence[Tail], golden: np.ndarray, got: np.ndarray, operands: Sequence[np.ndarray]
) -> np.ndarray | None:
    """Which elements of a result are not the golden's and yet what is documented; None if none is."""
    if not may_be(tails, golden, got):
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


def _fast_exp(x: np.ndarray) -> np.ndarray:
    """x / ln 2 as fixed point, whose bits are those of a float: from 2.1 % too small to 3.8 % too large."""
    fixed = np.floor(256 / math.log(2) * np.maximum(x, -88.5) + 32501.318359375)
    return (fixed.astype(np.uint32) << 15).view(np.float32).astype(np.float64)


def _softmax(x: np.ndarray, axis: int) -> np.ndarray:
    powers = _fast_exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def _by(header: str) -> str:
    return f"ttnn 0.81.1, ckernel_sfpu_{header}.h"


_NO_NAN = "tt-isa-documentation, Packers/FormatConversion; a NaN is packed into 16 bits as Infinity"
_PACKED = "ttnn 0.81.1; a NaN is packed into 16 bits as Infinity"
_UNIT = "ttnn 0.81.1; the matrix unit takes a NaN for 1.5 * 2^128, an infinity for 2^128"
_BLOCK = "ttnn 0.81.1; an infinity has the exponent of its block of Bfp4, whose first step is 2^126"
_BELOW_STEP = math.nextafter(2.0**126, 0)
_LEAST = 2.0**-126
_BELOW = math.nextafter(_LEAST, 0)
_ERFC = float.fromhex("0x1.9ep-39")

CARD: tuple[Tail, ...] = (Tail(ANY, BF16 + F16, NAN, INFINITE, _NO_NAN, of_result=True),)
"""What any card returns, whatever its kernels' steps are (documented_steps.py has what comes of steps)."""

TTNN: tuple[Tail, ...] = (
    *CARD,
    *(
        Tail(name, BF16, where, _by_unit(function), _UNIT, either_sign=True, of_result=True)
        for name, function in (("add", np.add), ("subtract", np.subtract))
        for where in (NAN, (math.inf, math.inf))
    ),
    Tail("minimum", BF16, NAN, _by_unit(np.minimum), _UNIT, of_result=True),
    Tail("multiply", BF16, NAN, (0.0,), _UNIT, of_result=True),
    Tail("convert", F32, NAN, INFINITE, _PACKED),
    Tail("convert", BF16, (0.0, _BELOW_STEP), (0.0,), _BLOCK, either_sign=True, in_blocks="Bfp4_b"),
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
    *(  # Multiples of pi are taken away in four steps of float32, which are exact of up to 2^18 halves, and overflow.
        Tail(name, kind, (4.1e5, math.inf), kernel, _by("trigonometry") + ", tt-metal#51845", either_sign=True)
        for name, kernel in (("sine", "sin"), ("cosine", "cos"), ("tan", "tan"))
        for kind in (BF16, F32)
    ),
    *(Tail("rsqrt", kind, (0.0, _BELOW), "rsqrt", _by("sqrt"), either_sign=True) for kind in (BF16, F32)),
    *(Tail("erfc", kind, (-5.0, 5.0), "erfc", _by("erfc") + ", over a reciprocal of 7 bits") for kind in (BF16, F32)),
    *(Tail("erf_inv", kind, (-1.0, 1.0), "erfinv", _by("erfinv") + ", tt-metal#56372") for kind in (BF16, F32)),
    Tail("gelu", BF16 + F32, (-math.inf, -5.5), (0.0,), _by("gelu")),
    Tail("gelu_tanh", BF16 + F32, (-math.inf, -5.0625), (0.0,), _by("gelu")),
    Tail("silu", BF16 + F32, (-math.inf, -87.25), (0.0,), _by("silu")),
    Tail("erfc", BF16 + F32, (5.0, math.inf), (_ERFC,), _by("erfc")),
    Tail("reciprocal", BF16, (2.0**126, 2.0**126), (0.0,), _by("recip"), either_sign=True),
    Tail("softsign", BF16 + F32, (2.0**126, math.inf), (0.0,), _by("softsign"), either_sign=True),
    Tail("tanh asin atan atanh", BF16, (_LEAST, _LEAST), (0.0,), "ttnn 0.81.1", either_sign=True),
)
"""What ttnn's own kernels return on Blackhole, where that is not the function: of runs of ttnn 0.81.1 on ttsim 1.10.0,
whose bits `--exact-order` has."""

TTNN_FORMS = (Form("softmax", BF16, _softmax, _by("exp") + " with APPROXIMATION_MODE, its own choice"),)
"""What ttnn's own kernels compute in a formula's place."""
