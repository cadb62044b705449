"""A hundred and sixty-nine wrong results, each by a fault that a kernel, a lowering or a backend may have.

They were written before the verdict was changed for them. What a fault is made from is the result of the backend, or
the op in double precision (`Ran.exact`), so that it has one error and no other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ci.wrong_numbers.cases import COMPOSED
from ci.wrong_numbers.ops import BF16, Change, Changed, Ran, of_each
from opscope.harness.formulas.nearest import precision


def wide(ran: Ran, values: np.ndarray) -> np.ndarray:
    """Values in the type of the result."""
    with np.errstate(all="ignore"):
        return values.astype(ran.golden.dtype)


def times(factor: float) -> Change:
    """Everything too large by a factor, rounded once."""
    return lambda ran: wide(ran, ran.exact * factor)


def cut(ran: Ran) -> np.ndarray:
    """Rounded toward zero in place of to nearest."""
    near = wide(ran, ran.exact)
    over = np.abs(near.astype(np.float64)) > np.abs(ran.exact)
    return np.where(over, np.nextafter(near, near.dtype.type(0)), near).astype(near.dtype)


def noise(size: float) -> Change:
    """Each element off by a relative error of this deviation."""
    return lambda ran: wide(ran, ran.exact * (1 + size * ran.rng.standard_normal(ran.exact.shape)))


def up(size: float) -> Change:
    """Each element off by a relative error of this size, of either sign."""
    return lambda ran: wide(ran, ran.exact * (1 + size * ran.rng.choice((-1.0, 1.0), ran.exact.shape)))


def through(kind: type) -> Change:
    """Computed to the end, and rounded to a narrower type on the way."""
    return lambda ran: wide(ran, ran.exact.astype(kind).astype(np.float64))


def offset(size: float) -> Change:
    """Everything off by the same amount, of the results' deviation."""
    return lambda ran: wide(ran, ran.exact + size * np.std(ran.exact))


def set_at(where: Callable[[Ran], Any], value: Callable[[np.ndarray], np.ndarray]) -> Change:
    """One place changed."""

    def change(ran: Ran) -> np.ndarray:
        wrong = ran.got.copy()
        place = where(ran)
        wrong[place] = value(wrong[place])
        return wrong

    return change


def element(ran: Ran) -> tuple[int, ...]:
    """A seeded element that is not zero, and at least a tenth of the largest half."""
    size = np.abs(np.nan_to_num(ran.got.astype(np.float64), posinf=0, neginf=0))
    places = np.flatnonzero(size >= np.median(size))
    return tuple(int(i) for i in np.unravel_index(places[ran.rng.integers(len(places))], size.shape))


def zero(x: np.ndarray) -> np.ndarray:
    """Zeros."""
    return x * 0


def swapped(ran: Ran) -> np.ndarray:
    """Two rows exchanged."""
    wrong = ran.got.copy()
    wrong[[3, 4]] = wrong[[4, 3]]
    return wrong


def again(change: Callable[[Ran], tuple[np.ndarray, ...]]) -> Change:
    """The op in double precision on other operands."""

    def made(ran: Ran) -> np.ndarray:
        assert ran.case.exact is not None
        return wide(ran, ran.case.exact(*(x.astype(np.float64) for x in change(ran))).reshape(ran.golden.shape))

    return made


def lost(number: int, axis: int, many: int = 1) -> Change:
    """So many terms of a sum lost, from the `number`th on."""

    def change(ran: Ran) -> tuple[np.ndarray, ...]:
        first = ran.inputs[0].copy()
        place = [slice(None)] * first.ndim
        place[axis] = slice(number, number + many if number + many else None)
        first[tuple(place)] = 0
        return (first, *ran.inputs[1:])

    return again(change)


def one_lost(ran: Ran) -> tuple[np.ndarray, ...]:
    """The largest term lost of each row."""
    first = ran.inputs[0].copy()
    np.put_along_axis(first, np.abs(first).argmax(axis=1)[:, np.newaxis], 0, axis=1)
    return (first,)


def narrow_sum(ran: Ran) -> np.ndarray:
    """Terms of a sum over the last dim, or of a product, added up one by one in bfloat16."""
    left = ran.inputs[0].astype(np.float32)
    terms = left[:, :, np.newaxis] if len(ran.inputs) == 1 else None
    total = np.zeros(ran.golden.shape if terms is None else (*ran.golden.shape, 1), BF16)
    for k in range(left.shape[1]):
        term = terms[:, k] if terms is not None else np.outer(left[:, k], ran.inputs[1][k].astype(np.float32))
        total = (total.astype(np.float32) + term).astype(BF16)
    return wide(ran, total.astype(np.float64).reshape(ran.golden.shape))


def ten_bits(ran: Ran) -> tuple[np.ndarray, ...]:
    """Operands rounded to ten bits of fraction."""
    words = [x.astype(np.float32).view(np.uint32) for x in ran.inputs]
    return tuple(((word + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32) for word in words)


def positive(ran: Ran) -> np.ndarray:
    """The sign of zero lost."""
    return ran.golden + ran.golden.dtype.type(0)


def ends(which: str) -> Change:
    """Another answer where one operand is infinite or not a number."""

    def change(ran: Ran) -> np.ndarray:
        a, b = (x.astype(np.float64) for x in ran.inputs)
        g = ran.golden.astype(np.float64)
        with np.errstate(all="ignore"):
            if which == "Inf x 2":
                g = np.where(np.isinf(a) & (np.abs(b) == 2) | np.isinf(b) & (np.abs(a) == 2), -g, g)
            elif which == "Inf x 0":
                g = np.where(np.isnan(g) & ~np.isnan(a) & ~np.isnan(b), -np.inf, g)
            elif which == "NaN":
                g = np.where(np.isnan(a), b, np.where(np.isnan(b), a, g))
            elif which == "overflow":
                g = np.where(np.isinf(g) & np.isfinite(a) & np.isfinite(b), np.sign(g) * 1e38, g)
        return wide(ran, g)

    return change


def ulp(count: int) -> Change:
    """So many units in the last place off, away from zero."""

    def change(ran: Ran) -> np.ndarray:
        wrong = ran.golden.copy()
        for _ in range(count):
            wrong = np.nextafter(wrong, np.copysign(np.inf, wrong).astype(wrong.dtype))
        return wrong

    return change


def ties_away(ran: Ran) -> np.ndarray:
    """Rounded to nearest from a number that was rounded before: double rounding through ten bits, up."""
    x = ran.inputs[0].astype(np.float32).view(np.uint32)
    return wide(ran, ((x + np.uint32(0xFFFF)) & np.uint32(0xFFFF0000)).view(np.float32))


def small_lost(ran: Ran) -> np.ndarray:
    """The smaller 40 % of the values zero."""
    size = np.abs(ran.got.astype(np.float64))
    return np.where(size <= np.quantile(size, 0.4), ran.got.dtype.type(0), ran.got)


def by_float16(ran: Ran) -> np.ndarray:
    """Small results flushed as float16 flushes them."""
    return np.where(np.abs(ran.got.astype(np.float64)) < 2.0**-14, ran.got.dtype.type(0), ran.got)


LAST = ..., -1


def between(least: float, most: float, to: Callable[[np.ndarray, np.ndarray], Any]) -> Change:
    """Something else where the operand is between two ends; `to` takes operand and result, float64."""

    def change(ran: Ran) -> np.ndarray:
        x = ran.inputs[0].astype(np.float64)
        return wide(ran, np.where((x > least) & (x < most), to(x, ran.exact), ran.exact))

    return change


def computes(formula: Callable[[np.ndarray], Any]) -> Change:
    """Another formula that looks like it."""
    return lambda ran: wide(ran, np.asarray(formula(ran.inputs[0].astype(np.float64))))


def in_each(kind: str, names: str, change: Change) -> list[Changed]:
    """The same change of composites in each of their types."""
    return [Changed(kind, f"{name} {element}", change) for name in names.split(", ") for element in COMPOSED[name]]


TAILS = "gelu, gelu_tanh, silu, mish"
COMPOSITES: tuple[Changed, ...] = (
    *in_each("tail zero", TAILS, between(-99, -3, lambda x, y: 0 * y)),
    *in_each("tail negated", TAILS, between(-99, -3, lambda x, y: -y)),
    *in_each("tail 5 % too large", "silu, mish, softplus, sigmoid", between(-99, -3, lambda x, y: 1.05 * y)),
    *in_each("zero near zero", "tanhshrink", between(-0.3, 0.3, lambda x, y: 0 * y)),
    *in_each("10 % too large near zero", "tanhshrink", between(-0.6, 0.6, lambda x, y: 1.1 * y)),
    *in_each("saturated early", "elu, tanh_bw, sigmoid", between(-99, -4, lambda x, y: np.round(y))),
    *in_each("another formula", "gelu", computes(lambda x: x / (1 + np.exp(-1.702 * x)))),
    *in_each("another formula", "silu", computes(lambda x: x * np.clip(x + 3, 0, 6) / 6)),
    *in_each("another formula", "softplus", computes(lambda x: np.maximum(x, 0))),
    *in_each("another formula", "gelu_bw", computes(lambda x: 1 / (1 + np.exp(-1.702 * x)))),
    *in_each(
        "scaled by 2 ulp", "gelu, silu, sigmoid, tanhshrink", lambda ran: wide(ran, ran.exact * (1 + two_units(ran)))
    ),
    *in_each("tail 5 % too large", "selu, log_sigmoid", between(-99, -3, lambda x, y: 1.05 * y)),
    *in_each("tail zero", "log_sigmoid", between(4, 99, lambda x, y: 0 * y)),
    *in_each("zero near zero", "selu, hardswish, softsign", between(-0.02, 0.02, lambda x, y: 0 * y)),
    *in_each("negated", "hardswish", between(-2.9, -1, lambda x, y: -y)),
    *in_each("another formula", "hardswish", computes(lambda x: x / (1 + np.exp(-x)))),
    *in_each("another formula", "softsign", computes(np.tanh)),
    *in_each("another formula", "log_sigmoid", computes(lambda x: np.minimum(x, 0))),
    *in_each("scaled by 2 ulp", "hardswish, log_sigmoid", lambda ran: wide(ran, ran.exact * (1 + two_units(ran)))),
)
"""Composites of elementwise ops: tails, other formulas, and all of them a little too large."""


def two_units(ran: Ran) -> float:
    """Two units in the last place of the result's type, relative."""
    return 2 * 2.0 ** -precision(ran.golden.dtype)[0]


WRONG: tuple[Changed, ...] = (
    # The scale of everything.
    *of_each(
        "x 1.003",
        "dot bf16 256, dot bf16 512, dot bf16 1024, multiply bf16 100, multiply bf16 300, "
        "multiply bf16 1000, add bf16 256, conv bf16, tanh bf16 256, dot f32 256",
        times(1.003),
    ),
    *of_each("x 0.997", "dot bf16 512", times(0.997)),
    *of_each("x 1.0001", "multiply f32 100", times(1.0001)),
    Changed("x 1 + 1e-9", "multiply f64 64", times(1 + 1e-9)),
    Changed("x 1.01", "sum f32 rows", times(1.01)),
    *of_each("offset", "dot bf16 256", offset(0.01)),
    # Rounding.
    *of_each(
        "truncated",
        "dot bf16 64, dot bf16 128, dot bf16 256, multiply bf16 64, multiply bf16 128, "
        "multiply bf16 256, add bf16 128, subtract bf16 96",
        cut,
    ),
    *of_each("through bf16", "multiply f32 100, dot f32 128", through(BF16)),
    # Double precision.
    *of_each("noise 5e-4", "dot f64 128, sum f64 rows", noise(5e-4)),
    Changed("noise 1e-7", "dot f64 128", noise(1e-7)),
    *of_each("through f32", "add f64 64, divide f64 64, exp f64, sqrt f64, log f64 near 1", through(np.float32)),
    # Functions, near their zeros and far from them.
    Changed("off 2e-4", "log f32 near 1", up(2e-4)),
    *of_each("off 1e-3", "log f32 near 1, log1p f32, expm1 f32, tanh f32, exp f32, logistic f32", up(1e-3)),
    *of_each("off 1e-2", "sine f32, cosine f32", up(1e-2)),
    *of_each("off 1e-4", "rsqrt f32, divide f32 64", up(1e-4)),
    Changed("off 5 %", "log bf16", up(0.05)),
    # Terms of sums.
    Changed("last 32 terms lost", "sum f32 cancel", lost(-32, 0, 32)),
    Changed("first 1024 terms lost", "sum f32 100000", lost(0, 0, 1024)),
    Changed("last term lost", "sum f32 rows", lost(-1, 1)),
    *of_each("largest term lost", "sum f32 128, sum bf16 rows", again(one_lost)),
    Changed("tail of K lost", "dot f32 k200", lost(192, 1, 8)),
    Changed("tail of K lost", "dot bf16 k1000", lost(992, 1, 8)),
    Changed("one factor lost", "product f32", lambda ran: wide(ran, ran.exact / ran.inputs[0][:, -1])),
    Changed(
        "last column not seen",
        "largest f32",
        lambda ran: wide(ran, np.max(np.sort(ran.inputs[0], axis=1)[:, :-1], axis=1)),
    ),
    *of_each("added up in bf16", "sum f32 128, dot bf16 k1000", narrow_sum),
    # Moved values, and the sign of zero.
    *of_each("sign of zero lost", "negate -0, reshape -0, slice bf16 -0, transpose -0, concatenate -0", positive),
    Changed("one value a unit off", "slice bf16", set_at(element, lambda x: np.nextafter(x, BF16(9)))),
    Changed("two rows exchanged", "reverse", swapped),
    Changed("not transposed", "transpose", lambda ran: ran.inputs[0].copy()),
    # Exact kinds.
    Changed("a unit off", "next_after", ulp(1)),
    Changed("not moved", "next_after", lambda ran: ran.inputs[0].copy()),
    Changed("5 units off", "i1 to f16", ulp(5)),
    *of_each("truncated", "i32 to f32, f32 to bf16, f32 to f16", cut),
    Changed("rounded away", "f32 to bf16", ties_away),
    Changed("rounded to nearest", "f32 to i32", lambda ran: wide(ran, np.rint(ran.inputs[0]))),
    Changed("toward zero", "floor f32", lambda ran: np.trunc(ran.inputs[0])),
    Changed(
        "halves away", "round even f32", lambda ran: np.copysign(np.floor(np.abs(ran.inputs[0]) + 0.5), ran.inputs[0])
    ),
    # Infinities and NaN.
    *(Changed(which, "multiply bf16 ends", ends(which)) for which in ("Inf x 2", "Inf x 0")),
    Changed("NaN dropped", "maximum f32 ends", ends("NaN")),
    Changed("no infinity", "multiply f32 ends", ends("overflow")),
    # Places.
    Changed("one element off by 2 %", "add f32 200", set_at(element, lambda x: x * x.dtype.type(1.02))),
    Changed("row of a face zero", "dot f32 512", set_at(lambda ran: (100, slice(32, 48)), zero)),
    Changed("last column zero", "dot bf16 512", set_at(lambda ran: LAST, zero)),
    Changed("a tile zero", "conv f32", set_at(lambda ran: (0, 2, slice(0, 14)), zero)),
    Changed("small values lost", "add bf16 128", small_lost),
    *COMPOSITES,
)
