"""The error model's costs, by hand: what each step of a target loses, in powers of two as docs/verdicts.md has them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import astuple, replace

import pytest

from opscope.base.op_families import op_family
from opscope.base.tests.each import each
from opscope.harness.verdict.steps import FRACTION_BITS, RANDOM, Steps, steps_of, unit
from opscope.harness.verdict.target import Target

DEVICE = Target("sim-n150", None, "HiFi4", "Tf32")
HOST = Target("host", None, "exact")
SUM, PRODUCT = "stablehlo.add", "stablehlo.multiply"


def p(exponent: int) -> float:
    return 2.0**exponent


READ = p(-9) + p(-10) - p(-23)
"""What HiFi4 leaves unread of two operands in float32, and a unit in their last place."""


def of(target: Target, op: str, element: str, inner: int = 1, body: str | None = None, ulp: float | None = None):
    name = op if "." in op else f"stablehlo.{op}"
    return steps_of(target, op_family(name), element, inner, op_name=name, body=body, ulp=ulp)


def held(name: str, fidelity: str = "HiFi4") -> Target:
    return replace(DEVICE, float_format=name, math_fidelity=fidelity)


def test_units_are_half_the_distance_of_numbers_or_the_whole_where_bits_are_cut():
    assert {name: unit(name) for name in FRACTION_BITS} == {
        "Float64": p(-53),
        "Float32": p(-24),
        "Tf32": p(-11),
        "Float16_b": p(-8),
        "Float16": p(-11),
        "Bfp8": p(-7),
        "Bfp4": p(-2),
        "Bfp2": 1.0,
        "Float8": p(-3),
    }


def costs(steps: Steps | None) -> Steps | None:
    """Steps without what two tests of their own are for."""
    return None if steps is None else replace(steps, between=0.0, packer=False, reads=None)


BF16 = {"packed": p(-8), "declared": p(-8)}
BFP8 = {"stored": p(-7), "packed": p(-7), "block": True}
F32_CUT = (p(-10) - p(-23), p(-9) - p(-23))
F32_SUM = {"added": 2 * p(-24), "function": 2 * p(-24)}


@pytest.mark.parametrize(
    ("computed", "steps"),
    [
        (lambda: of(DEVICE, "add", "f32"), Steps("bound", function=1e-5)),
        (lambda: of(DEVICE, "add", "f64"), Steps("bound", function=1e-10, packed=p(-53))),
        (lambda: of(DEVICE, "tanh", "f32", ulp=4), Steps("bound", function=4 * 4 * p(-23))),
        (lambda: of(DEVICE, "tanh", "f32", ulp=0.25), Steps("bound", function=4 * 0.5 * p(-23))),
        (lambda: of(DEVICE, "chlo.erf", "f32", ulp=3), Steps("bound", function=16 * 3 * p(-23))),
        (lambda: of(DEVICE, "tanh", "bf16", ulp=4), Steps("bound", function=4 * 4 * p(-23), **BF16)),
        (lambda: of(DEVICE, "tanh", "bf16"), Steps("bound", function=1e-5 + 8 * p(-8), **BF16)),
        (lambda: of(held("Bfp8_b"), "tanh", "f32"), Steps("bound", function=1e-5 + 8 * p(-7) + p(-8), **BFP8)),
        (lambda: of(held("Bfp8_b"), "transpose", "f32"), Steps("bound", **BFP8)),
        (
            lambda: of(held("Bfp4_b"), "transpose", "bf16"),
            Steps("bound", stored=p(-2), packed=p(-2), declared=p(-8), block=True),
        ),
        (lambda: of(held("Float32"), "tanh", "bf16"), Steps("bound", function=1e-5, declared=p(-8))),
        (lambda: of(DEVICE, "multiply", "f32"), Steps("bound", function=1e-5)),
        (lambda: of(DEVICE, "multiply", "bf16"), Steps("bound", function=1e-5 + 8 * p(-8), **BF16)),
        (
            lambda: of(held("Float16", "HiFi2"), "multiply", "f16"),
            Steps(
                "bound",
                cut=(p(-6) - p(-10), p(-9) - p(-10)),
                function=1e-5 + 8 * p(-11),
                packed=p(-11),
                declared=p(-11),
            ),
        ),
        (
            lambda: of(held("Float16_b", "LoFi"), "multiply", "bf16"),  # by the vector unit
            Steps("bound", function=1e-5 + 8 * p(-8), **BF16),
        ),
        (
            lambda: of(replace(HOST, float_format="Float16_b"), "multiply", "bf16"),
            Steps("bound", function=4 * p(-24), **BF16),
        ),
        (lambda: of(HOST, "add", "f32"), None),
        (lambda: of(HOST, "multiply", "f64"), None),
        (lambda: of(HOST, "divide", "f32"), Steps("bound", function=4 * p(-24), last_place=p(-24), leans=0.3)),
        (
            lambda: of(HOST, "divide", "f64"),
            Steps("bound", function=4 * p(-53), packed=p(-53), last_place=p(-53), leans=0.3),
        ),
        (lambda: of(HOST, "add", "complex<f32>"), Steps("bound", function=1e-5)),
        (lambda: of(HOST, "tanh", "f32"), Steps("bound", function=1e-5)),
        (lambda: of(HOST, "sine", "f32"), Steps("bound", function=1e-5, reduced=p(-23))),
        (lambda: of(HOST, "chlo.tan", "f64"), Steps("bound", function=1e-5 * p(-29), packed=p(-53))),
        (lambda: of(DEVICE, "cosine", "f32", ulp=4), Steps("bound", function=4 * 4 * p(-23))),
        (lambda: of(held("Float16_b", "LoFi"), "add", "bf16"), Steps("bound", function=1e-5 + 8 * p(-8), **BF16)),
        (lambda: of(HOST, "dot_general", "f32"), Steps("sum", **F32_SUM)),
        (
            lambda: of(replace(HOST, sums_in_own_type=True), "dot_general", "bf16", 8),
            Steps("sum", added=0.5 * p(-8) * 3, function=2 * p(-24), **BF16),
        ),
        (
            lambda: of(replace(HOST, sums_in_own_type=True), "dot_general", "f32", 4),
            Steps("sum", added=4 * p(-24), function=2 * p(-24)),
        ),
        (lambda: of(HOST, "dot_general", "f64", 9), Steps("sum", added=6 * p(-53), function=2 * p(-53), packed=p(-53))),
        (lambda: of(HOST, "dot_general", "bf16"), Steps("sum", **F32_SUM, **BF16)),
        (lambda: of(DEVICE, "dot_general", "f32"), Steps("sum", cut=F32_CUT, **F32_SUM)),
        (lambda: of(replace(DEVICE, matrix_format=None), "dot_general", "f32"), Steps("sum", **F32_SUM)),
        (
            lambda: of(replace(DEVICE, matrix_format=None), "dot_general", "f16"),
            Steps("sum", cut=(0.0, p(-9) - p(-10)), packed=p(-11), declared=p(-11), **F32_SUM),
        ),
        (
            lambda: of(DEVICE, "dot_general", "f32", 25),
            Steps("sum", cut=F32_CUT, added=10 * p(-24), function=2 * p(-24)),
        ),
        (
            lambda: of(replace(DEVICE, math_fidelity="HiFi3"), "dot_general", "f32"),
            Steps("sum", cut=F32_CUT, left_out=p(-10), **F32_SUM),
        ),
        (
            lambda: of(replace(DEVICE, math_fidelity="LoFi"), "dot_general", "f32"),
            Steps("sum", cut=(p(-6) - p(-23), p(-4) - p(-23)), **F32_SUM),
        ),
        (lambda: of(replace(DEVICE, math_fidelity="LoFi"), "reduce", "f32", 1, SUM), Steps("sum", **F32_SUM)),
        (
            lambda: of(held("Float16_b", "HiFi2"), "reduce", "bf16", 1, SUM),  # along rows SrcB is read
            Steps("sum", cut=(p(-6) - p(-7), 0.0), **F32_SUM, **BF16),
        ),
        (
            lambda: of(replace(DEVICE, exact_order=True), "dot_general", "f32"),
            Steps("sum", cut=F32_CUT, added=p(-11), function=2 * p(-24)),
        ),
        (
            lambda: of(replace(DEVICE, narrow_dst=True), "dot_general", "bf16", 33),
            Steps("sum", added=0.5 * p(-8) * math.sqrt(4 * 3), function=2 * p(-24), **BF16),
        ),
        (
            lambda: of(replace(HOST, narrow_dst=True), "dot_general", "bf16", 4),
            Steps("sum", added=4 * p(-24), function=2 * p(-24), **BF16),
        ),
        (
            lambda: of(held("Bfp8_b"), "dot_general", "f32"),
            Steps("sum", added=2 * p(-24), function=2 * p(-24) + p(-8), **BFP8),
        ),
        (lambda: of(DEVICE, "reduce", "f32", 4, PRODUCT), Steps("sum", added=8 * p(-24), function=4 * p(-24))),
        (
            lambda: of(held("Bfp8_b"), "reduce", "f32", 4, PRODUCT),
            Steps("sum", added=8 * p(-24), function=4 * p(-24) + p(-8), **BFP8),
        ),
        (lambda: of(DEVICE, "cholesky", "f32"), Steps("part", function=4e-3, resolution=READ)),
        (lambda: of(DEVICE, "scatter", "f32", 4, PRODUCT), Steps("part", function=1e-5, resolution=READ)),
        (
            lambda: of(HOST, "scatter", "bf16", 4, SUM),
            Steps("sum", added=4 * p(-24), joined=p(-8), function=2 * p(-24), **BF16),
        ),
        (
            lambda: of(HOST, "scatter", "f32", 4, SUM),
            Steps("sum", added=4 * p(-24), joined=4 * p(-24), function=2 * p(-24)),
        ),
        (lambda: of(DEVICE, "reduce", "f32", 4, "stablehlo.divide"), Steps("part", function=1e-5, resolution=READ)),
        (lambda: steps_of(HOST, "matmul", "f32", op_name="stablehlo.dot_general"), Steps("sum", **F32_SUM)),
        (lambda: of(DEVICE, "batch_norm_inference", "f32"), Steps("bound", function=1e-5)),
        (lambda: of(DEVICE, "transpose", "f32"), None),
        (lambda: of(DEVICE, "reduce", "f32", 4, "stablehlo.maximum"), None),
        (
            lambda: of(held("Float16_b"), "reduce", "f32", 4, "stablehlo.maximum"),
            Steps("bound", stored=p(-8), packed=p(-8)),
        ),
    ],
)
def test_steps(computed: Callable[[], Steps | None], steps: Steps | None):
    got = costs(computed())
    if steps is None or got is None:
        assert got is steps
        return
    assert (got.error_model, got.block) == (steps.error_model, steps.block)
    assert _numbers(got) == pytest.approx(_numbers(steps), rel=1e-12)


def _numbers(steps: Steps) -> list[float]:
    """All figures."""
    words = [x for each in astuple(steps) for x in (each if isinstance(each, tuple) else [each])]
    return [x for x in words if isinstance(x, float)]


def test_how_many_bits_of_a_term_are_read():
    """Of a sum; a product has two operands, and a host reads all bits."""
    for steps, bits in (
        (of(DEVICE, "reduce", "f32", 4, SUM), None),
        (of(held("Float16_b", "LoFi"), "reduce", "bf16", 4, SUM), 4),
        (of(DEVICE, "reduce", "bf16", 4, SUM), None),
        (of(DEVICE, "dot_general", "f32", 4), None),
        (of(HOST, "reduce", "f32", 4, SUM), None),
    ):
        assert steps is not None
        assert steps.reads == bits


@each(
    ("target", "op", "element", "ulp", "between"),
    [
        # One kernel, or a library's function: a value is rounded to float32 at most, whatever its own error.
        (DEVICE, "log", "f32", 4, p(-24)),
        (DEVICE, "log", "bf16", 4, p(-24)),
        (HOST, "log", "f32", None, p(-24)),
        (HOST, "log", "bf16", None, p(-24)),
        (HOST, "add", "bf16", None, p(-24)),
        (HOST, "log", "f64", None, p(-53)),
        (HOST, "divide", "f64", None, p(-53)),
        (DEVICE, "log", "f32", None, p(-24)),
        # Several, each rounded to the op's type: on a card, and on a host that computes in 16 bits.
        (DEVICE, "log", "bf16", None, 1e-5 + 8 * p(-8)),
        (HOST, "chlo.tan", "bf16", None, p(-20)),
        (replace(HOST, sums_in_own_type=True), "chlo.tan", "bf16", None, 1e-5 + 8 * p(-8)),
        (replace(HOST, sums_in_own_type=True), "log", "f16", None, 1e-5 + 8 * p(-11)),
        # A formula in float32, of golden and device: lgamma near its zeros is off by the roundings of its steps.
        (DEVICE, "chlo.lgamma", "f32", None, 16 * p(-24)),
        (HOST, "chlo.lgamma", "f32", None, 16 * p(-24)),
    ],
)
def test_a_functions_error_is_no_operands(target: Target, op: str, element: str, ulp: float | None, between: float):
    steps = of(target, op, element, ulp=ulp)
    assert steps is not None
    assert steps.between == pytest.approx(between)


def test_only_a_card_has_a_packer_and_only_a_card_cuts_operands():
    assert getattr(of(DEVICE, "add", "bf16"), "packer", None) is True
    assert getattr(of(HOST, "add", "bf16"), "packer", None) is False
    beside = held("Bfp8_b").on_host()
    for op in ("dot_general", "add", "multiply"):  # what the card's host computed in double precision
        assert of(beside, op, "f64", 4) == of(HOST, op, "f64", 4), op
    assert of(DEVICE, "dot_general", "f64", 4) == replace(of(HOST, "dot_general", "f64", 4), packer=True)
    packed = of(beside, "add", "f32")
    assert packed is not None
    assert (packed.block, packed.packed, packed.cuts, packed.packer) == (True, p(-7), 0.0, False)


ERF = {"function": 16 * 2 * p(-23)}
CUTS = replace(DEVICE, cuts_result=lambda name: name == "chlo.erf")


@each(
    ("data_format", "op", "element", "steps"),
    [
        (None, "chlo.erf", "f32", Steps("bound", **ERF)),
        (None, "chlo.erf", "bf16", Steps("bound", **ERF, **BF16, short=p(-8))),
        (None, "chlo.erf", "f16", Steps("bound", **ERF, packed=p(-11), declared=p(-11), short=p(-11))),
        ("Float16_b", "chlo.erf", "f32", Steps("bound", **ERF, stored=p(-8), packed=p(-8), short=p(-8))),
        ("Float32", "chlo.erf", "bf16", Steps("bound", **ERF, declared=p(-8))),
        ("Bfp8_b", "chlo.erf", "f32", Steps("bound", function=16 * 2 * p(-23) + 2 * p(-8), **BFP8, short=p(-8))),
        (None, "tanh", "bf16", Steps("bound", function=4 * 2 * p(-23), **BF16)),
        (None, "transpose", "bf16", None),
        ("Lf8", "transpose", "f32", Steps("bound", stored=p(-3), packed=p(-3), short=p(-3))),
        (None, "convert", "f8E5M2", Steps("bound", function=4 * 2 * p(-23), packed=p(-3), declared=p(-3), short=p(-3))),
        (
            None,
            "convert",
            "f8E4M3FN",
            Steps("bound", function=4 * 2 * p(-23), packed=p(-4), declared=p(-4), short=p(-4)),
        ),
    ],
)
def test_losses_of_stores_and_packers(data_format: str | None, op: str, element: str, steps: Steps | None):
    got = costs(of(replace(CUTS, float_format=data_format), op, element, ulp=2))
    assert got == steps
    if got is not None and got.short:
        assert of(replace(HOST, float_format=data_format), op, element, ulp=2).short == 0.0  # a host rounds


@pytest.mark.parametrize(("element", "halves"), [("bf16", 0), ("f16", 3), ("f32", 0)])
def test_a_golden_that_is_rounded_step_by_step_is_farther_off(element: str, halves: int):
    unit_of = {"bf16": p(-8), "f16": p(-11), "f32": 0.0}[element]
    plain = of(DEVICE, "tanh", element, ulp=4)
    assert of(DEVICE, "exponential_minus_one", element, ulp=4) == replace(
        plain, function=plain.function + halves * unit_of
    )
    formula = of(DEVICE, "chlo.cosh", element, ulp=4)
    assert of(DEVICE, "chlo.asinh", element, ulp=4) == replace(formula, function=formula.function + 3 * unit_of)


def test_an_operands_deviation_is_half_of_all_that_it_may_lose():
    steps = Steps("sum", stored=3.0, cut=(2.0, 6.0), left_out=1.0)
    assert steps.cuts == 9.0
    assert steps.operand == RANDOM * math.sqrt(4 + 36 + 1 + 9 + 9)
    assert replace(steps, block=True).operand == RANDOM * math.sqrt(4 + 36 + 1)
