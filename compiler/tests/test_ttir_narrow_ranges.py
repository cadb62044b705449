"""Ranges of integers, against every value that NumPy's arithmetic can give."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from opscope.compiler import api
from opscope.compiler.ir.functions import functions
from opscope.compiler.passes.ttir_narrow_indices import Range, Ranges, is_source
from opscope.compiler.target.formats import INDEX_LIMIT
from opscope.compiler.tests import programs


def value(body: str, result: str = "tensor<2xi64>", signature: str = "") -> Any:
    """The value `%r` in ttir."""
    text = programs.module(f"{body}\nreturn %r : {result}", f"({signature}) -> {result}")
    main = next(iter(functions(api.stablehlo_to_ttir(text))))
    return main.body.blocks[0].last_op.operands[0]


def bounds(body: str, result: str = "tensor<2xi64>", signature: str = "", saturated: bool = False) -> Range:
    return Ranges(saturated).of(value(body, result, signature))


def constant(name: str, low: int, high: int, kind: str = "i64") -> str:
    return f"%{name} = stablehlo.constant dense<[{low}, {high}]> : tensor<2x{kind}>\n"


def divided(a: int, b: int) -> int:
    return -1 if b == 0 else int(np.trunc(a / b))


BINARY = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "maximum": max,
    "minimum": min,
    "divide": divided,
    "remainder": lambda a, b: a if b == 0 else a - b * divided(a, b),
}
UNARY = {"negate": lambda a: -a, "abs": abs, "sign": lambda a: (a > 0) - (a < 0)}


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize(("a", "b"), [((-3, 5), (2, 7)), ((-6, -2), (-4, 3)), ((1, 4), (0, 9)), ((-9, 4), (-2, -1))])
def test_two_operands(name: str, a: tuple[int, int], b: tuple[int, int]) -> None:
    got = bounds(f"{constant('a', *a)}{constant('b', *b)}%r = stablehlo.{name} %a, %b : tensor<2xi64>")
    assert got is not None
    values = [BINARY[name](x, y) for x, y in product(range(a[0], a[1] + 1), range(b[0], b[1] + 1))]
    assert got[0] <= min(values) <= max(values) <= got[1]
    if name in ("add", "subtract", "multiply"):
        assert got == (min(values), max(values))
    elif name in ("maximum", "minimum"):
        assert got == (min(*a, *b), max(*a, *b))
    else:  # of any divisor: at most the dividend, and a remainder has its sign
        most = max(abs(a[0]), abs(a[1]))
        assert got == (0 if name == "remainder" and a[0] >= 0 else -most, most)


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("a", [(-3, 5), (-8, 2)])
def test_one_operand(name: str, a: tuple[int, int]) -> None:
    values = [UNARY[name](x) for x in range(a[0], a[1] + 1)]
    assert bounds(f"{constant('a', *a)}%r = stablehlo.{name} %a : tensor<2xi64>") == (min(values), max(values))


@pytest.mark.parametrize("kind", ["i8", "ui8", "i16", "ui16", "i32", "ui32", "i1"])
def test_a_type_of_at_most_32_bits_has_the_range_of_its_values(kind: str) -> None:
    convert = f"%r = stablehlo.convert %a : (tensor<2x{kind}>) -> tensor<2xi64>"
    got = bounds(convert, signature=f"%a: tensor<2x{kind}>")
    bits = int(kind.strip("ui"))
    assert got == ((0, 2**bits - 1) if kind in ("i1", f"ui{bits}") else (-(2**bits) // 2, 2**bits // 2 - 1))


A = constant("a", -3, 5)
B = constant("b", -7, 2)
MOVED = {
    "reshape": (A + "%r = stablehlo.reshape %a : (tensor<2xi64>) -> tensor<2x1xi64>", "tensor<2x1xi64>", (-3, 5)),
    "concat": (
        A + B + "%r = stablehlo.concatenate %a, %b, dim = 0 : (tensor<2xi64>, tensor<2xi64>) -> tensor<4xi64>",
        "tensor<4xi64>",
        (-7, 5),
    ),
    "where": (
        A
        + "%m = stablehlo.constant dense<[true, false]> : tensor<2xi1>\n"
        + constant("c", 11, 12)
        + "%r = stablehlo.select %m, %a, %c : tensor<2xi1>, tensor<2xi64>",
        "tensor<2xi64>",
        (-3, 12),
    ),
    "where of other values": (
        constant("c", 11, 12) + constant("d", 21, 22) + "%m = stablehlo.constant dense<[true, false]> : tensor<2xi1>\n"
        "%r = stablehlo.select %m, %c, %d : tensor<2xi1>, tensor<2xi64>",
        "tensor<2xi64>",
        (11, 22),
    ),
    "arange": ("%r = stablehlo.iota dim = 0 : tensor<6xi64>", "tensor<6xi64>", (0, 6)),
    "full": ("%r = stablehlo.constant dense<9> : tensor<2xi64>", "tensor<2xi64>", (9, 9)),
}


@pytest.mark.parametrize("name", MOVED)
def test_what_only_moves_keeps_its_range(name: str) -> None:
    body, kind, wanted = MOVED[name]
    assert bounds(body, kind) == wanted


def test_what_is_not_known_is_not_guessed() -> None:
    signature = "%x: tensor<2xi64>"
    total = A + "%r = stablehlo.add %x, %a : tensor<2xi64>"
    assert bounds(total, signature=signature) is None
    assert bounds(total, signature=signature, saturated=True) == (-INDEX_LIMIT - 3, INDEX_LIMIT + 5)
    assert bounds(A + "%r = stablehlo.xor %a, %a : tensor<2xi64>") is None


def test_narrowed_ui32_ends_at_the_limit() -> None:
    convert = "%r = stablehlo.convert %x : (tensor<2xui32>) -> tensor<2xi64>"
    assert bounds(convert, signature="%x: tensor<2xui32>", saturated=True) == (0, INDEX_LIMIT)
    signed = "%r = stablehlo.convert %x : (tensor<2xi32>) -> tensor<2xi64>"
    assert bounds(signed, signature="%x: tensor<2xi32>", saturated=True) == (-(2**31), 2**31 - 1)


@pytest.mark.parametrize("order", ["%x, %a", "%a, %x"])
def test_a_minimum_bounds_what_has_no_sign(order: str) -> None:
    def least(kind: str, limit: int) -> Range:
        body = f"{constant('a', 0, limit, kind)}%r = stablehlo.minimum {order} : tensor<2x{kind}>"
        return bounds(body, f"tensor<2x{kind}>", f"%x: tensor<2x{kind}>")

    assert least("ui64", 7) == (0, 7)
    assert least("ui64", INDEX_LIMIT) == (0, INDEX_LIMIT)
    assert least("ui64", INDEX_LIMIT + 1) is None  # the other has saturated before
    assert least("i64", 7) is None  # may be far below


@pytest.mark.parametrize(
    ("low", "high", "known"),
    [
        (-4, 9, True),
        (-INDEX_LIMIT, INDEX_LIMIT, True),
        (-INDEX_LIMIT - 1, 9, False),
        (-4, INDEX_LIMIT + 1, False),
        (-4, 2**40, False),
    ],
)
def test_a_clamp_bounds_what_the_host_holds(low: int, high: int, known: bool) -> None:
    body = (
        f"{constant('l', low, low + 1)}{constant('h', high - 1, high)}%r = stablehlo.clamp %l, %x, %h : tensor<2xi64>"
    )
    assert bounds(body, signature="%x: tensor<2xi64>") == ((low, high) if known else None)


def test_fits_is_32_bits_of_the_own_sign_and_the_limit_is_not_within() -> None:
    def asked(low: int, high: int, kind: str = "i64") -> tuple[bool, bool]:
        total = f"%r = stablehlo.add %a, %a : tensor<2x{kind}>"
        total_range = value(constant("a", low, high, kind) + total, f"tensor<2x{kind}>")
        source = total_range.owner.operands[0]
        return Ranges().fits(source), Ranges().within_limit(source)

    assert asked(-(2**31), 2**31 - 1) == (True, False)
    assert asked(-(2**31) - 1, 0)[0] is asked(0, 2**31)[0] is False
    assert asked(0, 2**32 - 1, "ui64")[0] is True
    assert asked(0, 2**32, "ui64")[0] is False
    assert [asked(0, INDEX_LIMIT - n)[1] for n in (0, 1)] == [False, True]
    assert [asked(n - INDEX_LIMIT, 0)[1] for n in (0, 1)] == [False, True]


def test_a_source_is_what_was_only_moved() -> None:
    signature = "%x: tensor<2xi64>"
    turned = "%r = stablehlo.reshape %x : (tensor<2xi64>) -> tensor<2x1xi64>"
    assert is_source(value(turned, "tensor<2x1xi64>", signature))
    assert not is_source(value(A + "%r = stablehlo.add %x, %a : tensor<2xi64>", signature=signature))
    joined = "%r = stablehlo.concatenate %x, %a, dim = 0 : (tensor<2xi64>, tensor<2xi64>) -> tensor<4xi64>"
    assert not is_source(value(A + joined, "tensor<4xi64>", signature))


SOURCES = {
    "a conversion": ("%r = stablehlo.convert %i : (tensor<2xi8>) -> tensor<2xi64>", "tensor<2xi64>"),
    "a transposition": (
        "%r = stablehlo.transpose %y, dims = [1, 0] : (tensor<2x3xi64>) -> tensor<3x2xi64>",
        "tensor<3x2xi64>",
    ),
    "a slice": ("%r = stablehlo.slice %x [0:1] : (tensor<2xi64>) -> tensor<1xi64>", "tensor<1xi64>"),
    "repeated": (
        "%r = stablehlo.broadcast_in_dim %x, dims = [1] : (tensor<2xi64>) -> tensor<3x2xi64>",
        "tensor<3x2xi64>",
    ),
    "joined": (
        "%r = stablehlo.concatenate %x, %x, dim = 0 : (tensor<2xi64>, tensor<2xi64>) -> tensor<4xi64>",
        "tensor<4xi64>",
    ),
}
OTHERS = {
    "reversed": ("%r = stablehlo.reverse %x, dims = [0] : tensor<2xi64>", "tensor<2xi64>"),
    "a constant": ("%r = stablehlo.constant dense<[1, 2]> : tensor<2xi64>", "tensor<2xi64>"),
    "negated": ("%r = stablehlo.negate %x : tensor<2xi64>", "tensor<2xi64>"),
}
HELD = "%x: tensor<2xi64>, %y: tensor<2x3xi64>, %i: tensor<2xi8>"


@pytest.mark.parametrize("name", [*SOURCES, *OTHERS])
def test_what_saturates_once_by_how_it_is_made(name: str) -> None:
    assert is_source(value(*(SOURCES | OTHERS)[name], HELD)) is (name in SOURCES)


LONG = "tensor<2xi64>"
KNOWN: dict[str, tuple[str, Range, Range]] = {
    "zero by zero": (constant("a", 0, 0) + f"%r = stablehlo.divide %a, %a : {LONG}", (-1, 1), (-1, 1)),
    "reversed": (constant("a", -3, 5) + f"%r = stablehlo.reverse %a, dims = [0] : {LONG}", (-3, 5), (-3, 5)),
    "a conversion of what 31 bits hold": (
        constant("a", 0, 2**31 - 1, "ui64") + f"%r = stablehlo.convert %a : (tensor<2xui64>) -> {LONG}",
        (0, 2**31 - 1),
        (0, 2**31 - 1),
    ),
    "a conversion of one more": (
        constant("a", 0, 2**31, "ui64") + f"%r = stablehlo.convert %a : (tensor<2xui64>) -> {LONG}",
        (0, 2**31),
        (0, INDEX_LIMIT),
    ),
    "a conversion of what is not known": (
        f"%r = stablehlo.convert %u : (tensor<2xui64>) -> {LONG}",
        None,
        (-INDEX_LIMIT, INDEX_LIMIT),
    ),
    "a float": (f"%r = stablehlo.convert %f : (tensor<2xf32>) -> {LONG}", None, None),
    "clamped between bounds of which the lower one is above": (
        constant("l", 3, 9) + constant("h", -2, 5) + f"%r = stablehlo.clamp %l, %x, %h : {LONG}",
        (-2, 9),
        (-2, 9),
    ),
    "a sum, clamped": (
        constant("l", -1, 0) + constant("h", 4, 5) + f"%s = stablehlo.add %x, %x : {LONG}\n"
        f"%r = stablehlo.clamp %l, %s, %h : {LONG}",
        None,
        None,
    ),
    "clamped at what is not known": (
        constant("l", -1, 0) + f"%r = stablehlo.clamp %l, %x, %x : {LONG}",
        None,
        (-INDEX_LIMIT, INDEX_LIMIT),
    ),
    "one of two, of which one is not known": (
        constant("a", 0, 7) + "%m = stablehlo.constant dense<[true, false]> : tensor<2xi1>\n"
        f"%r = stablehlo.select %m, %x, %a : tensor<2xi1>, {LONG}",
        None,
        (-INDEX_LIMIT, INDEX_LIMIT),
    ),
    "the least of signed numbers": (
        constant("a", 0, 7) + f"%r = stablehlo.minimum %x, %a : {LONG}",
        None,
        (-INDEX_LIMIT, INDEX_LIMIT),
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_with_and_without_narrowed_inputs(name: str) -> None:
    body, wide, narrowed = KNOWN[name]
    signature = "%x: tensor<2xi64>, %u: tensor<2xui64>, %f: tensor<2xf32>"
    assert (bounds(body, signature=signature), bounds(body, signature=signature, saturated=True)) == (wide, narrowed)


def test_an_iota_and_a_gather_are_bounded_by_what_they_hold() -> None:
    counted = "%r = stablehlo.iota dim = 0 : tensor<3x7xi64>"
    assert bounds(counted, "tensor<3x7xi64>") == (0, 7)
    gathered = (
        A + '%r = "stablehlo.gather"(%a, %i) {dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], '
        "start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>} : "
        "(tensor<2xi64>, tensor<4x1xi64>) -> tensor<4xi64>"
    )
    assert bounds(gathered, "tensor<4xi64>", "%i: tensor<4x1xi64>") == (-3, 5)
