"""Documented tails: what is returned there is right, and nothing else that the function is not."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from opscope import judge
from opscope.compiler.target.program import Numerics
from opscope.harness.backends.simulated import TAILS
from opscope.harness.formulas import special
from opscope.harness.formulas.nearest import rounded
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.ulp.sweep import Sweep, asked
from opscope.harness.ulp.swept_op import named
from opscope.harness.verdict.rounding import rounded_away
from opscope.harness.verdict.tails import ANY, of
from opscope.simulator.kernels.real import fused

BF16, F32 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32)
ERFC = float.fromhex("0x1.9ep-39")
"""What ttnn's erfc is from 5 on."""


def erfc(kind, lie=lambda x, y: y):
    """erfc of numbers up to 8 in a type, and the verdict on it with some results replaced."""
    x = np.random.default_rng(0).uniform(-3, 8, (64, 64)).astype(kind)
    wide = x.astype(np.float64)
    return x, rounded(lie(wide, special.erfc(wide)), kind)


@pytest.mark.parametrize("kind", [BF16, F32], ids=str)
def test_what_is_documented_is_right_there_and_is_said(kind):
    verdict = judge("erfc", *erfc(kind, lambda x, y: np.where(x >= 5, ERFC, y)), target="card")
    assert verdict.answer == "right", verdict
    assert "documented_tail" in verdict.flags
    said = verdict.documented[-1]
    assert "elements are as documented: 2.94165e-12 of x from 5 to inf (ttnn 0.81.1, ckernel_sfpu_erfc.h)" in said
    assert said in str(verdict)


@pytest.mark.parametrize("kind", [BF16, F32], ids=str)
def test_the_function_itself_is_right_there_too(kind):
    verdict = judge("erfc", *erfc(kind), target="card")
    assert verdict.answer == "right", verdict
    assert "documented_tail" not in verdict.flags
    assert not verdict.documented


@pytest.mark.parametrize("kind", [BF16, F32], ids=str)
@pytest.mark.parametrize(
    "lie",
    [
        lambda x, y: np.where(x >= 4, ERFC, y),  # before it begins
        lambda x, y: np.where(x >= 5, 2 * ERFC, y),  # a number as small as the one that is documented
        lambda x, y: np.where(x >= 5, 0.0, y),
        lambda x, y: np.where(x >= 5, ERFC, 1.02 * y),  # it excuses nothing elsewhere
    ],
)
def test_nothing_else_is_right_there_and_it_excuses_nothing_elsewhere(kind, lie):
    assert judge("erfc", *erfc(kind, lie), target="card").answer == "wrong"


def test_the_worst_elements_are_none_that_are_documented():
    x, y = erfc(F32, lambda x, y: np.where(x >= 5, ERFC, np.where((x > 1) & (x < 1.1), 1.01 * y, y)))
    verdict = judge("erfc", x, y, target="card")
    assert verdict.answer == "wrong"
    assert verdict.worst
    assert all(1 < each.inputs[0] < 1.1 for each in verdict.worst)


def test_a_tail_is_its_cards_alone():
    assert judge("erfc", *erfc(F32, lambda x, y: np.where(x >= 5, ERFC, y))).answer == "wrong"


def test_a_composite_has_its_formulas_tail():
    x = np.linspace(-40, 4, 4096, dtype=F32)
    y = rounded(x.astype(np.float64) * special.erfc(-x.astype(np.float64) / 2**0.5) / 2, F32)
    for zero, answer in ((x < -5.5, "right"), (x < -3.5, "wrong"), ((x < -5.5) | (x > 3.99), "wrong")):
        assert judge("gelu", x, np.where(zero, F32.type(0), y), target="card").answer == answer


def test_no_number_may_be_infinite_where_it_is_packed():
    x = np.array([np.nan, -1, -0.5, 1, 2, 3, 4, 5] * 8, BF16)
    with np.errstate(invalid="ignore"):
        right = np.log(x.astype(np.float32)).astype(BF16)
    packed = np.where(np.isnan(right), BF16.type(np.inf), right)
    assert judge("log", x, packed, target="card")
    assert judge("log", x, right, target="card")
    assert not judge("log", x, packed)
    assert not judge("log", x, np.where(x == 2, BF16.type(np.inf), packed), target="card")
    assert not judge("log", x, np.where(np.isnan(right), BF16.type(0), right), target="card")


@pytest.mark.parametrize("what", ["silu", "gelu_tanh", "abs", "floor", "softsign", "relu"])
def test_no_number_is_packed_as_an_infinity_by_any_kernel(what):
    x = np.where(np.arange(4096) % 8, np.random.default_rng(0).standard_normal(4096), np.nan).astype(BF16)
    right = judge(what, x, x).golden[0]
    packed = np.where(np.isnan(right), BF16.type(-np.inf), right)
    verdict = judge(what, x, packed, target="card:p150")
    assert verdict, verdict
    assert "of a right result of NaN (tt-isa-documentation, Packers/FormatConversion; a NaN is packed" in str(verdict)
    assert not judge(what, x, packed)
    assert not judge(what, x, np.where(np.isnan(right), BF16.type(2), right), target="card:p150")
    assert not judge(what, x, np.where(x == x[1], BF16.type(np.inf), packed), target="card:p150")


@pytest.mark.parametrize(
    ("what", "special", "returned", "wrong"),
    [
        ("add", (np.inf, -np.inf), 0.0, 1.0),
        ("add", (np.nan, -np.inf), 2.0**127, 2.0**126),
        ("add", (np.inf, -(2.0**127)), 2.0**127, 2.0**126),
        ("subtract", (np.inf, np.inf), 0.0, 1.0),
        ("minimum", (np.nan, 3.0), 3.0, 2.0),
        ("multiply", (0.0, np.inf), 0.0, 1.0),
        ("multiply", (np.nan, 2.0), np.inf, 3.0),
    ],
)
def test_what_the_matrix_unit_takes_infinities_for(what, special, returned, wrong):
    a, b = np.random.default_rng(0).standard_normal((2, 4096)).astype(BF16)
    a[7], b[7] = special
    right = judge(what, [a, b], a).golden[0].copy()
    for value, answer in ((returned, "right"), (wrong, "wrong")):
        right[7] = value
        assert judge(what, [a, b], right, target="card:p150").answer == answer
    right[7] = returned
    assert not judge(what, [a, b], right)


def test_an_element_that_a_denormal_reaches_is_as_with_it_with_zero_or_with_one_of_its_sign():
    x = np.random.default_rng(0).uniform(0.5, 4, 4096).astype(F32)
    x[:3] = 5e-39, -5e-39, -5e-39
    with np.errstate(all="ignore"):
        right = 1 / x.astype(np.float64)
    for first, answer in (([np.inf, -np.inf, -2e38], "right"), ([np.inf, np.nan, -np.inf], "wrong")):
        y = rounded(np.concatenate([first, right[3:]]), F32)
        assert judge("divide", [np.ones_like(x), x], y, target="card:p150").answer == answer
    y = rounded(right, F32)
    y[3] = np.inf
    assert not judge("divide", [np.ones_like(x), x], y, target="card:p150")


def test_a_kernel_may_be_documented_to_compute_another_function_and_nothing_else():
    x = np.random.default_rng(0).standard_normal((64, 96)).astype(BF16)
    y = fused.softmax(x.astype(np.float32), Numerics("HiFi4", "Float32", math_approx=True), stable=True)
    verdict = judge("softmax", x, y.astype(BF16), target="card:p150")
    assert verdict, verdict
    assert "documented_tail" in verdict.flags
    assert "APPROXIMATION_MODE" in str(verdict)
    exact = judge("softmax", x, x).golden[0]
    assert judge("softmax", x, exact, target="card:p150")
    for wrong in (1.05 * y, -y, np.where(y < 0.01, 0, y), np.roll(y, 1), np.where(y > 0.05, 1.05 * y, y)):
        assert not judge("softmax", x, wrong.astype(BF16), target="card:p150")
    assert not judge("softmax", x, y.astype(BF16), target="bf16")


def test_a_sum_of_16_bits_is_rounded_in_the_matrix_units_registers_first():
    a, b = np.random.default_rng(0).standard_normal((2, 1 << 16)).astype(BF16)
    exact = a.astype(np.float64) + b.astype(np.float64)
    twice = rounded_away(rounded_away(exact, 10), 7).astype(BF16)
    assert judge("add", [a, b], twice, target="card:p150")
    assert not judge("add", [a, b], rounded_away(rounded_away(exact, 8), 7).astype(BF16), target="card:p150")


@pytest.mark.slow
def test_kernels_in_exact_order_return_what_the_table_says(tmp_path):
    ops = sorted(
        {tail.ops.split()[-1] for tail in TAILS if tail.ops not in (ANY, "convert")} | {"erfc", "gelu", "log", "sine"}
    )
    parts = [part for op in ops for kind in ("bf16", "f32") for part in asked(named(op), kind)]
    options = ResultOptions(arch="p150", exact_order=True)
    sweep = Sweep("reference", options, tmp_path / "run", ["ulp"], lanes=1, timeout=60)
    returned, flagged = set(), set()
    for swept in sweep.run(parts):
        assert swept.got is not None, swept.test.error_message
        op, exact = swept.asked.op.name, swept.asked.exact
        for tail in of(TAILS, op):
            here = swept.got.dtype.name in tail.types and tail.has(swept.asked.inputs, exact, swept.got)
            if np.any(here & ~(swept.got.astype(np.float64) == exact)):
                returned.add(tail)
        if any("documented_tail" in check.flags for check in swept.test.results):
            assert swept.test.status == "success" or swept.over, swept.key
            if swept.test.status == "success":
                flagged.add(swept.asked.title)
    assert {tail for tail in TAILS if tail.ops != "convert"} <= returned
    by_kernels = ("sine", "cosine", "tan", "erfc", "erf_inv")
    right = {f"{op} {kind} numbers" for op in by_kernels for kind in ("bf16", "f32")}
    right |= {"log bf16 specials", "tanh bf16 specials", "relu6 f32 specials", "softsign bf16 numbers"}
    right |= {"rsqrt bf16 specials", "rsqrt f32 specials"}
    assert right <= flagged
