"""Integers and truth values: what an op or a formula gives where no float is rounded, so that one result is right.

Ops of StableHLO are computed in two's complement, as XLA has them; formulas, and what turns floats into integers, in
float64, where all that comes out is whole and below 2^53.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

MOST = 2.0**53
"""From here on float64 has no room for each integer."""


class NotWholeError(ValueError):
    """A result that is no integer, or too large for float64; how it would be rounded is not known."""


def is_whole(x: np.ndarray) -> bool:
    """Whether an array holds integers (ml_dtypes' included) or truth values."""
    return x.dtype.kind in "iub" or "int" in x.dtype.name


def _bits(kind: np.dtype) -> int:
    return 1 if kind == np.bool_ else ml_dtypes.iinfo(kind).bits


def _pattern(x: Any, bits: int) -> Any:
    """The bits of integers as unsigned ones."""
    return x.astype(np.uint64) & np.uint64(2**bits - 1)


def _signed(x: Any, bits: int) -> Any:
    """The bits of integers as those with a sign."""
    pattern = _pattern(x, bits).astype(np.int64)
    return pattern if bits == 64 else np.where(pattern >> (bits - 1), pattern - (1 << bits), pattern)


def _truncated(bits: int, x: Any, y: Any) -> Any:
    del bits
    y = _nonzero(y)
    quotient = x // y
    return quotient + ((quotient < 0) & (quotient * y != x))


def _remainder(bits: int, x: Any, y: Any) -> Any:
    return x - _truncated(bits, x, y) * y


def _shifted(by: Callable[[Any, Any], Any], out: Callable[[Any], Any]) -> Callable[..., Any]:
    """A shift; `out` is what comes where it is as wide as the type, or wider."""

    def shift(bits: int, x: Any, places: Any) -> Any:
        places = _pattern(places, bits)
        inside = places < bits
        return np.where(inside, by(x, np.where(inside, places, 0).astype(x.dtype)), out(x))

    return shift


def _logical(bits: int, x: Any, places: Any) -> Any:
    return _shifted(np.right_shift, np.zeros_like)(bits, _pattern(x, bits), places)


def _arithmetic(bits: int, x: Any, places: Any) -> Any:
    """Of integers without a sign too the highest bit is repeated."""
    signed = _signed(x, bits)
    return _shifted(np.right_shift, lambda x: np.where(x < 0, -1, 0))(bits, signed, places)


def _leading_zeros(bits: int, x: Any) -> Any:
    pattern, zeros = _pattern(x, bits), np.full(x.shape, bits)
    for place in range(bits):
        zeros -= pattern >> np.uint64(place) != 0
    return zeros


def _power(bits: int, x: Any, y: Any) -> Any:
    del bits
    return np.power(x, np.maximum(y, 0))


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda _, *operands: function(*operands)


def _nonzero(y: Any) -> Any:
    return np.where(y == 0, 1, y)


INTEGERS: dict[str, Callable[..., Any]] = {
    **{
        name: _plain(function)
        for name, function in {
            "abs": np.abs,
            "add": np.add,
            "and": np.bitwise_and,
            "clamp": lambda least, x, most: np.minimum(np.maximum(x, least), most),
            "floor_divide": lambda x, y: x // _nonzero(y),
            "maximum": np.maximum,
            "minimum": np.minimum,
            "mod": lambda x, y: x % _nonzero(y),
            "multiply": np.multiply,
            "negate": np.negative,
            "not": np.invert,
            "or": np.bitwise_or,
            "relu": lambda x: np.maximum(x, 0),
            "rsub": lambda x, y: y - x,
            "select": lambda chosen, x, y: np.where(chosen, x, y),
            "sign": np.sign,
            "square": np.square,
            "subtract": np.subtract,
            "xor": np.bitwise_xor,
        }.items()
    },
    "count_leading_zeros": _leading_zeros,
    "divide": _truncated,
    "div_trunc": _truncated,
    "popcnt": lambda bits, x: np.bitwise_count(_pattern(x, bits)),
    "power": _power,
    "remainder": _remainder,
    "shift_left": _shifted(np.left_shift, np.zeros_like),
    "shift_right_arithmetic": _arithmetic,
    "shift_right_logical": _logical,
}
"""Op without its dialect, or formula -> its function of the type's width in bits and of operands in 64 bits."""

OPERANDS = {
    **dict.fromkeys(("abs", "count_leading_zeros", "negate", "not", "popcnt", "sign"), 1),
    "clamp": 3,
    "select": 3,
}
"""Op of StableHLO -> how many operands it has, where these are not two."""

UNSTATED: dict[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(("div_trunc", "divide", "floor_divide", "mod", "remainder"), lambda _, y: y == 0),
    "power": lambda _, y: y < 0,
}
"""Op -> where StableHLO leaves its result to the implementation: what has no quotient, and no power that is whole."""


def unstated(op_name: str, inputs: Sequence[np.ndarray], kind: np.dtype) -> np.ndarray | None:
    """Where StableHLO leaves the elements of an op's result, of integers, to the implementation; None of other ops."""
    name = op_name.removeprefix("stablehlo.")
    if name in UNSTATED and all(map(is_whole, inputs)):
        return np.asarray(UNSTATED[name](*inputs))
    return converted(inputs[0], kind)[1] if name == "convert" and inputs[0].dtype.kind != "c" else None


OF_TRUTH_VALUES = {"add": "or", "multiply": "and", "maximum": "or", "minimum": "and"}
"""What StableHLO has an op of integers mean for truth values."""


def of_integers(name: str, inputs: Sequence[np.ndarray], kind: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """The result of an op of `INTEGERS` on integers or truth values, wrapped to the type `kind`, and where nothing says
    what comes. Raises TypeError or ValueError for operands that the op does not take."""
    if all(each.dtype == np.bool_ for each in inputs):
        name = OF_TRUTH_VALUES.get(name, name)
    unsigned = any(each.dtype == np.uint64 for each in inputs)
    if unsigned and any(each.dtype.kind == "i" for each in inputs):
        raise TypeError("64 bits without a sign beside integers with one")
    wide = [each.astype(np.uint64 if unsigned else np.int64) for each in inputs]
    result = np.asarray(INTEGERS[name](_bits(inputs[-1].dtype), *wide))
    unstated = UNSTATED[name](*wide) if name in UNSTATED else False
    return wrapped(result, kind), np.broadcast_to(unstated, result.shape)


def wrapped(x: np.ndarray, kind: np.dtype) -> np.ndarray:
    """Integers of 64 bits in a narrower type, modulo its width."""
    bits = _bits(kind)
    signed = kind != np.bool_ and ml_dtypes.iinfo(kind).min < 0
    return (_signed(x, bits) if signed else _pattern(x, bits)).astype(kind)


def of_numbers(exact: np.ndarray, kind: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Results in float64, or of any integers, as integers or truth values, and where they are no numbers. Raises
    NotWholeError."""
    exact = np.asarray(exact)
    if exact.dtype.kind in "bu" or (exact.dtype.kind == "i" and exact.itemsize <= 8):
        return wrapped(exact.astype(np.uint64 if exact.dtype == np.uint64 else np.int64), kind), np.zeros(
            exact.shape, bool
        )
    none = ~np.isfinite(exact)
    number = np.where(none, 0.0, exact)
    if (number != np.rint(number)).any() or (np.abs(number) >= MOST).any():
        raise NotWholeError
    return wrapped(number.astype(np.int64), kind), none


def converted(x: np.ndarray, kind: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """A tensor in an integer type, cut toward zero, or as truth values, and where the number is outside of the type, so
    that nothing says what comes."""
    if kind == np.bool_:
        return np.asarray(x != 0), np.zeros(x.shape, bool)
    if is_whole(x):
        return wrapped(x.astype(np.uint64 if x.dtype == np.uint64 else np.int64), kind), np.zeros(x.shape, bool)
    number, ends = np.trunc(x.astype(np.float64)), ml_dtypes.iinfo(kind)
    outside = ~((number >= float(ends.min)) & (number < float(ends.max) + 1))
    return np.where(outside, 0.0, number).astype(np.int64 if ends.min else np.uint64).astype(kind), outside
