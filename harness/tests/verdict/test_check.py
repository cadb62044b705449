"""The comparison of a result as a whole: each limit on both of its sides, and every word that is said of what is wrong.

All figures are exact in binary, so that a value can lie on its limit.
"""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from opscope.base.tests.each import each
from opscope.harness.backends.base import Target
from opscope.harness.record.records import WHOLE_MODEL, ResultCheck, TensorDesc
from opscope.harness.verdict import check as module
from opscope.harness.verdict.check import TRUNCATES, check, check_cancelling, check_truncated
from opscope.harness.verdict.compare import _by_operands as by_operands
from opscope.harness.verdict.compare import compare
from opscope.harness.verdict.moments import TINY
from opscope.harness.verdict.operands import Operands
from opscope.harness.verdict.scores import Scale, Scores
from opscope.harness.verdict.steps import Steps
from opscope.harness.verdict.tolerance import TABLE, Tolerance

QUARTER = Tolerance("quarter", 0.25, 0.9)
"""Single elements may be off by 2.5 of themselves, all without outliers by 1."""
BLOCK = Tolerance("block", 0.125, 0.9, block=True)
"""Single elements may be off by half of their block's largest value."""
DEVICE, HOST = Target("sim-n150", None, "HiFi4", "Tf32"), Target("host", None, "exact")


def wide(*values: float) -> np.ndarray:
    return np.array(values, np.float64)


def outlier(first: float, others: float, count: int = 64) -> np.ndarray:
    return np.where(np.arange(count) == 0, first, others).astype(np.float64)


def varied(first: float, second: float, count: int = 64) -> np.ndarray:
    """10, with a deviation of 1 that alternates, scaled by `first`, and one beside it, scaled by `second`."""
    number = np.arange(count)
    return 10 + first * np.where(number % 2, 1.0, -1.0) + second * np.where(number // 2 % 2, 1.0, -1.0)


@each(
    ("golden", "got", "row", "reason"),
    [
        (np.ones(4), np.full(4, 1.25), QUARTER, ""),
        (np.ones(4), np.full(4, 1.375), QUARTER, "relative L2: wrong by 0.375, at most 0.25 is right"),
        (np.zeros(4), wide(0, -0.25, 0, 0), QUARTER, ""),
        (np.zeros(4), wide(0, -0.3, 0, 0), QUARTER, "golden is all zero: wrong by 0.3, at most 0.25 is right"),
        (outlier(4096, 1), outlier(4096, 2), QUARTER, ""),
        (
            outlier(4096, 1),
            outlier(4096, 2.125),
            QUARTER,
            "relative L2 without outliers: wrong by 1.12, at most 1 is right",
        ),
        (outlier(4096, 1), outlier(4096, 2.125), replace(QUARTER, by_element=False), ""),
        # The error of single elements is asked for first; at its limit it is right.
        (
            outlier(4096, 1),
            outlier(4096, 3.5),
            QUARTER,
            "relative L2 without outliers: wrong by 2.5, at most 1 is right",
        ),
        (
            outlier(4096, 1),
            outlier(4096, 3.625),
            QUARTER,
            "relative error of 95% of the elements: wrong by 2.62, at most 2.5 is right",
        ),
        (outlier(4096, 1), outlier(4096, 3.5), replace(QUARTER, by_element=False), ""),
        (
            outlier(4096, 1),
            outlier(4096, 3.625),
            replace(QUARTER, by_element=False),
            "relative error of 50% of the elements: wrong by 2.62, at most 2.5 is right",
        ),
        # A block's small values may be off by half of its largest; what is no whole block is not looked at.
        (np.repeat([4096.0, 1.0], 16), np.repeat([4096.0, 1.5], 16), BLOCK, ""),
        (
            np.repeat([4096.0, 1.0], [16, 32]),
            np.repeat([4096.0, 1.625], [16, 32]),
            BLOCK,
            "relative error of 50% of the elements: wrong by 0.625, at most 0.5 is right",
        ),
        (np.repeat([4096.0, 1.0], [1, 14]), np.repeat([4096.0, 9.0], [1, 14]), BLOCK, ""),
        (np.repeat([0.0, 1.0], [16, 15]), np.repeat([0.0, 1.125], [16, 15]), BLOCK, ""),
        # Half of the norm of what varies is 1 - (limit / spread)^2 / 4 of its correlation; the spread is 1 / sqrt(101).
        (
            varied(1, 0),
            varied(1, 0.875),
            Tolerance("t", 0.09, 0.99, by_element=False),
            "PCC: 0.752577, at least 0.795475 is right",
        ),
        (varied(1, 0), varied(1, 0.625), Tolerance("t", 0.09, 0.99, by_element=False), ""),
        (
            varied(1, 0),
            varied(1, 0.5),
            Tolerance("t", 0.05, 0.9, by_element=False),
            "PCC: 0.894427, at least 0.9 is right",
        ),
        (
            wide(3, 5, 7, 9),
            wide(3, 5, 7.5, 8),
            TABLE["exact"],
            "2 of 4 values are wrong: 7.5 instead of 7.0 at element 2",
        ),
        (wide(3, 5), wide(3, 5), TABLE["exact"], ""),
    ],
)
def test_the_limits_of_a_whole_and_what_is_said_beyond_them(
    golden: np.ndarray, got: np.ndarray, row: Tolerance, reason: str
) -> None:
    result = check(golden, got, row)
    assert (result.reason, result.passed, result.tolerance) == (reason, not reason, row.name)
    assert result.max_abs == float(np.max(np.abs(got - golden)))


def test_a_correlation_that_is_just_what_is_required_is_right() -> None:
    row = Tolerance("t", 0.05, 0.5, by_element=False)
    pcc = check(varied(1, 0), varied(1, 0.5), row).pcc
    assert pcc == pytest.approx(1 / np.sqrt(1.25))
    assert check(varied(1, 0), varied(1, 0.5), replace(row, pcc=pcc)).passed
    assert not check(varied(1, 0), varied(1, 0.5), replace(row, pcc=np.nextafter(pcc, 1))).passed


def test_the_figures_of_a_whole() -> None:
    result = check(wide(3, 4), wide(3, 3), QUARTER)
    assert (result.relative_l2, result.max_abs, result.z_max, result.flags) == (0.2, 1.0, None, ())
    assert check(np.zeros(2), np.zeros(2), QUARTER).relative_l2 == 0.0
    assert check(np.zeros(2), wide(0, 0.5), QUARTER).relative_l2 is None
    empty = np.zeros((0, 4), np.float32)
    assert check(empty, empty, QUARTER) == ResultCheck(
        passed=True, pcc=None, relative_l2=0.0, max_abs=0.0, tolerance="quarter"
    )


def test_the_largest_is_named_even_if_it_is_the_first_element() -> None:
    steps = Steps("bound", function=0.125)
    result = check(np.ones((2, 2)), np.array([[1.125, 1.0], [1.0, 1.0]]), QUARTER, Scale(steps))
    assert (result.passed, result.z_max, result.z_limit, result.question) == (True, 1.0, 1.02, "")
    assert (result.z_index, result.z_place) == ((0, 0), "tile (0, 0, 0), face 0, row 0")
    result = check(np.ones((2, 2)), np.array([[1.25, 1.0], [1.0, 1.0]]), QUARTER, Scale(steps))
    assert (result.question, result.reason) == (
        "largest",
        "wrong by 0.25 at (0, 0), tile (0, 0, 0), face 0, row 0: 1.25 instead of 1, "
        "1.96 times as much as rounding allows",
    )
    right = check(np.ones((2, 2)), np.ones((2, 2)), QUARTER, Scale(steps))
    assert (right.z_max, right.z_index, right.z_place) == (0.0, (), "")
    # Exact values have no scale.
    assert check(np.ones(2), np.ones(2), TABLE["exact"], Scale(steps)).z_max is None


def test_a_golden_of_zeros_allows_the_rows_error_or_with_known_operands_almost_none() -> None:
    scale = Scale(Steps("bound", function=0.125))
    for strict, limit in ((False, 0.25), (True, 1e-5)):
        assert check(np.zeros(4), wide(0, 0, limit, 0), QUARTER, scale, strict=strict).passed
        result = check(np.zeros(4), wide(0, 0, 1.01 * limit, 0), QUARTER, scale, strict=strict)
        assert (result.passed, result.question) == (False, "largest")
    assert result.reason.startswith("wrong by 1.01e-05 at (2,), ")
    result = check(np.zeros(4), wide(0, 0, 0.5, 0), QUARTER, scale)
    assert result.reason == "golden is all zero: wrong by 0.5, at most 0.25 is right"


def test_discrete_values_are_counted_and_the_first_that_differs_is_named() -> None:
    golden = np.array([[1, 2, 3], [4, 5, 6]], np.int32)
    result = check(golden, golden + np.array([[0, 3, 0], [0, 0, -7]], np.int32), TABLE["exact"])
    assert result == ResultCheck(
        passed=False,
        pcc=None,
        relative_l2=None,
        max_abs=7.0,
        tolerance="exact",
        reason="2 of 6 values are wrong: 5 instead of 2 at (0, 1), tile (0, 0, 0), face 0, row 0",
        z_index=(0, 1),
        z_place="tile (0, 0, 0), face 0, row 0",
    )
    equal = ResultCheck(passed=True, pcc=None, relative_l2=0.0, max_abs=0.0, tolerance="exact")
    assert check(golden, golden.copy(), TABLE["exact"]) == equal
    nibbles = np.arange(-8, 8).astype(ml_dtypes.int4)
    assert check(nibbles, nibbles.copy(), TABLE["exact"]) == equal


@each(
    ("golden", "got", "reason"),
    [
        (np.zeros((2, 3)), np.zeros((3, 2)), "shape: expected 2x3, got 3x2"),
        (np.zeros(()), np.zeros(1), "shape: expected scalar, got 1"),
        (np.zeros(2, np.float32), np.zeros(2, ml_dtypes.bfloat16), "element type: expected f32, got bf16"),
        (np.zeros(2, bool), np.zeros(2, np.int8), "element type: expected i1, got i8"),
    ],
)
def test_another_shape_or_type_is_refused(golden: np.ndarray, got: np.ndarray, reason: str) -> None:
    refused = ResultCheck(passed=False, pcc=None, relative_l2=None, max_abs=None, tolerance="quarter", reason=reason)
    assert check(golden, got, QUARTER) == refused


def test_robust_errors_are_of_the_finite_elements_that_are_no_denormals() -> None:
    """All that is asked of single elements: a share, the largest error in it, the error of all but the outliers."""
    errors, quarter, block = module._robust_errors, replace(QUARTER, relative_l2=0.0), replace(BLOCK, relative_l2=0.0)
    assert errors(wide(1, 1, 1, 100), wide(1, 1, 1, 150), quarter)[2] == pytest.approx(50 / np.sqrt(10003))
    assert errors(wide(1, 1, 1, 101), wide(1, 1, 1, 150), quarter)[2] == 0.0
    assert errors(wide(TINY, np.inf, np.nan), wide(2 * TINY, np.inf, np.nan), quarter) == (0.95, 1.0, 1.0)
    assert errors(wide(TINY / 2, 0), wide(TINY, 1), quarter) == (0.95, 0.0, 0.0)
    assert errors(np.ones(3), np.full(3, 1.5), quarter) == (0.95, 0.5, 0.5)
    assert errors(np.ones(16), np.full(16, 1.5), block) == (0.5, 0.5, 0.0)
    assert errors(np.full(15, np.inf), np.full(15, np.inf), block) == (0.5, 0.0, 0.0)
    blocks = np.where(np.arange(48) % 16 == 3, -8.0, 1.0)  # the largest of each is 8
    small = np.where(np.arange(16) == 5, np.inf, 0.25)  # what is infinite is no block's largest, nor is 1 in its place
    assert errors(small, small + 0.125, block) == (0.5, 0.5, 0.0)
    blocks[20] = np.inf
    assert errors(blocks, np.where(np.isinf(blocks), blocks, blocks + 1), block) == (0.5, 0.125, 0.0)


@pytest.mark.parametrize("by_element", [True, False])
def test_what_half_of_the_elements_or_most_are_allowed_is_no_error(by_element: bool) -> None:
    row, random_ = replace(QUARTER, relative_l2=0.025, by_element=by_element), np.random.default_rng(3)
    for size in (1, 2, 3, 19, 20, 21, 40, 41):
        for most in (0.2, 0.25, 0.26, 0.3, 0.6):
            off = np.concatenate([random_.uniform(0, most, size // 2), random_.choice([0.25, most], size - size // 2)])
            share, error, bulk = module._robust_errors(np.ones(size), 1 + off, row)
            truth = np.quantile(off, share)
            assert (error > row.single) == (truth > row.single + 1e-12)
            assert error in (0.0, pytest.approx(truth))
            assert (bulk > 0) <= by_element


def test_a_sample_is_taken_at_an_odd_stride() -> None:
    values = np.arange(20.0)
    for count, step in ((30, 1), (20, 1), (11, 1), (10, 3), (7, 3), (6, 3), (5, 5), (2, 11)):
        golden, got = module._sample(values, values + 1, count)
        assert golden.tolist() == list(range(0, 20, step))
        assert got.tolist() == [value + 1 for value in golden]


def test_of_many_elements_every_third_is_looked_at() -> None:
    """Half a million of them; at an odd stride, so that they fall in every column."""
    golden = np.ones(1 << 20)
    got = np.where(np.arange(1 << 20) % 3, 2.0, 1.0)
    row = replace(QUARTER, relative_l2=0.0)
    assert module._robust_errors(golden, got, row) == (0.95, 0.0, 0.0)
    assert module._robust_errors(golden[: 1 << 19], got[: 1 << 19], row)[1] == 1.0


def test_of_many_blocks_as_many_elements_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 of 192 elements are 4 of 12 blocks: every third."""
    monkeypatch.setattr(module, "_SAMPLE", 64)
    wrong = np.where(np.arange(12) % 3, 2.0, 1.0)
    assert module._robust_errors(np.ones(192), np.repeat(wrong, 16), replace(BLOCK, relative_l2=0.0)) == (0.5, 0.0, 0.0)


def test_what_is_its_golden_has_no_scores_in_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    right = np.random.default_rng(5).standard_normal((40, 48)).astype(np.float32)
    other = right.copy()
    other[3, 5] *= 1.25
    scale, row = Scale(Steps("part", function=0.125)), replace(QUARTER, relative_l2=0.125)
    scored = check(right, other, row, scale)
    assert (scored.z_index, scored.passed) == ((3, 5), True)
    monkeypatch.setattr(Scores, "take", lambda *_: pytest.fail("it is scored"))
    alike = check(right, right.copy(), row, scale)
    assert (alike.passed, alike.reason, alike.question, alike.flags) == (True, "", "", ())
    assert (alike.pcc, alike.relative_l2, alike.max_abs) == (1.0, 0.0, 0.0)
    assert (alike.z_max, alike.z_limit, alike.z_index) == (0.0, scored.z_limit, ())


def test_both_parts_of_a_complex_number_have_its_sizes() -> None:
    golden = np.array([[3 + 4j, 1], [2j, 8 - 8j]], np.complex128)
    sizes = np.array([[1.0, 2.0], [3.0, 4.0]])
    scale = Scale(Steps("bound", function=0.125), moved=sizes)
    for number, index in enumerate(np.ndindex(2, 2)):
        for part, unit in enumerate((1, 1j)):
            size = 0.125 * abs((golden[index].real, golden[index].imag)[part]) + sizes[index]
            got = golden.copy()
            got[index] += size * unit
            result = check(golden, got, QUARTER, scale)
            assert (result.z_max, result.z_index) == (1.0, (number // 2, 2 * (number % 2) + part))
    single = Scale(Steps("sum", function=0.125, added=1.0), terms=np.array(2.0))
    assert check(np.array(0j), np.array(4 + 0j), QUARTER, single).z_max == 2.0


# --- sums that cancel, and models that truncate

PLAIN = check(np.ones(1), np.full(1, 9.0), QUARTER)
SUM = Tolerance("sum", 2.0**-8, by_element=False)
"""Of its terms a cancelling element may be off by 2^-8, on the median by ten times that."""


def test_an_element_cancels_below_a_quarter_of_its_terms() -> None:
    assert check_cancelling(wide(1, -1), wide(9, 9), SUM, wide(4, 4), PLAIN) is PLAIN
    assert check_cancelling(wide(np.inf, 1), wide(9, 9), SUM, wide(np.inf, np.inf), PLAIN) is PLAIN
    result = check_cancelling(wide(0.5, 1), wide(0.5 + 2.0**-6, 1), SUM, wide(4, 4), PLAIN)
    assert result == PLAIN.model_copy(update={"passed": True, "reason": "", "flags": ("cancellation",)})
    result = check_cancelling(wide(0.5, -0.5, 1), wide(0.5, -0.5 + 2.0**-5, 1), SUM, wide(4, 4, 4), PLAIN)
    assert (result.passed, result.flags) == (False, ())
    assert result.reason == "cancelling sum: wrong by 0.00552 of its terms (median 0.00391), at most 0.00391 is right"


def test_most_cancelling_elements_are_right_by_themselves() -> None:
    """One with large terms lifts what all together may be off by, not what half of them may."""
    sizes, golden = wide(4096, 1, 1), np.zeros(3)
    allowed = 10 * 2.0**-8
    assert check_cancelling(golden, wide(0, allowed, allowed), SUM, sizes, PLAIN).passed
    result = check_cancelling(golden, wide(0, 0.0625, 0.0625), SUM, sizes, PLAIN)
    assert result.reason == "cancelling sum: wrong by 2.16e-05 of its terms (median 0.0625), at most 0.00391 is right"


def test_elements_that_do_not_cancel_are_judged_by_themselves() -> None:
    golden, sizes = wide(0.5, 1, 1), wide(4, 4, 4)
    result = check_cancelling(golden, wide(0.5, 1, 1.5), SUM, sizes, PLAIN)
    assert (result.passed, result.flags) == (False, ("cancellation",))
    assert result.reason == "relative L2: wrong by 0.354, at most 0.00391 is right"
    flagged = check_cancelling(wide(0.5, 1e-310, 1), wide(0.5, 0, 1), SUM, wide(4, 1e-310, 4), PLAIN)
    assert flagged.flags == ("denormal_flush", "cancellation")


def test_a_model_is_no_shorter_than_its_truncations_make_it() -> None:
    least = 1 - 3 * TRUNCATES
    for length, judged in ((least, True), (np.nextafter(least, 0), False), (np.nextafter(1, 0), True), (1.0, False)):
        result = check_truncated(wide(1), wide(length), QUARTER, 3, PLAIN)
        assert (result is not PLAIN) is judged
        assert result.passed is judged
    assert check_truncated(np.zeros(2), wide(0, 1), QUARTER, 3, PLAIN) is PLAIN
    assert check_truncated(wide(1), wide(np.nan), QUARTER, 3, PLAIN) is PLAIN


def test_a_shorter_model_is_judged_by_its_direction() -> None:
    golden = wide(8, 8, 8, 8)
    got = golden * (1 - TRUNCATES) + wide(4, 4, -4, -4)
    result = check_truncated(golden, got, QUARTER, 1, PLAIN)
    assert (result.passed, result.flags, result.max_abs) == (False, ("truncation",), PLAIN.max_abs)
    assert result.reason == "relative L2: wrong by 0.501, at most 0.25 is right"
    result = check_truncated(golden, got, replace(QUARTER, relative_l2=0.75), 1, PLAIN)
    assert (result.passed, result.reason, result.flags) == (True, "", ("truncation",))
    part = check_truncated(golden, got, replace(QUARTER, relative_l2=0.75), 1, PLAIN, Steps("bound", function=0.25))
    assert part.reason.endswith(", 1.96 times as much as rounding allows")


# --- which check a result gets


def test_each_result_that_is_missing_is_refused() -> None:
    one, two = np.ones(4, np.float32), np.ones(4, np.float32)
    for golden, got in (([one, two], [one]), ([one], [one, two])):
        first, second = compare(golden, got, "stablehlo.add", DEVICE)
        assert first.passed
        assert (second.passed, second.tolerance) == (False, "count")
        assert second.reason == f"expected {len(golden)} results, got {len(got)}"


def test_a_result_without_a_description_is_of_its_arrays_type() -> None:
    numbers, one = np.arange(4, dtype=np.int32), np.ones(4, ml_dtypes.bfloat16)
    desc = [TensorDesc(shape=(4,), data_type="i32")]
    checks = compare([numbers, one, one], [numbers, one, one], "stablehlo.add", DEVICE, outputs=desc)
    assert [result.tolerance for result in checks] == ["exact", "Float16_b", "Float16_b"]


def test_without_a_number_of_products_nothing_is_put_down_to_truncation() -> None:
    golden = varied(1, 0)
    got = 0.9995 * golden + np.where(np.arange(64) // 2 % 2, 2.0, -2.0)
    golden, got = golden.astype(np.float32), got.astype(np.float32)
    for params, flags in (({}, ()), ({"products_in_a_row": "0"}, ()), ({"products_in_a_row": "1"}, ("truncation",))):
        (result,) = compare([golden], [got], WHOLE_MODEL, DEVICE, params=params)
        assert (result.passed, result.flags) == (False, flags)
    (result,) = compare([golden], [got], WHOLE_MODEL, HOST, params={"products_in_a_row": "1"})
    assert result.flags == ()


def test_only_a_sort_may_exchange_the_payloads_of_equal_keys() -> None:
    keys, payload = np.array([1, 1, 2], np.int32), np.float32([5, 6, 7])
    swapped = payload[[1, 0, 2]]
    for name, passed in (("sort", True), ("custom", False)):
        checks = compare([keys, payload], [keys, swapped], f"stablehlo.{name}", HOST, params={"dimension": "0 : i64"})
        assert [result.passed for result in checks] == [True, passed]


class AskedError(Exception):
    """The operands of an op were loaded."""


def asking(name: str) -> Operands:
    def load() -> list[np.ndarray]:
        raise AskedError

    return Operands(name, b"", load)


@each(
    ("name", "data_format", "asked"),
    [
        ("stablehlo.cholesky", None, True),  # which values its elements are made of is not seen
        ("stablehlo.dot_general", None, False),
        ("stablehlo.add", "Float16_b", False),
        (WHOLE_MODEL, None, False),
    ],
)
def test_a_small_error_asks_for_operands_only_where_the_golden_does_not_say_what_it_may_be(
    name: str, data_format: str | None, asked: bool
) -> None:
    golden = np.eye(8, dtype=np.float32) + 1
    target = replace(DEVICE, float_format=data_format)
    (equal,) = compare([golden], [golden.copy()], name, target, operands=asking(name))
    assert equal.passed
    near = golden * np.float32(1 + 2.0**-20)
    if asked:
        with pytest.raises(AskedError):
            compare([golden], [near], name, target, operands=asking(name))
    else:
        assert compare([golden], [near], name, target, operands=asking(name))[0].passed


@each("name", ["tanh", "convert", "dot_general", "cholesky", "transpose"])
@each("data_format", [None, "Bfp8_b"])
def test_another_shape_or_type_is_wrong_whatever_the_operands_are(name: str, data_format: str | None) -> None:
    golden = np.ones((4, 4), np.float32)
    target, op = replace(DEVICE, float_format=data_format), f"stablehlo.{name}"
    for got in (golden[:3], golden.astype(ml_dtypes.bfloat16)):
        (result,) = compare([golden], [got], op, target, operands=asking(op))
        assert result.reason.startswith(("shape: expected 4x4, got 3x4", "element type: expected f32, got bf16"))


def test_a_conversion_need_not_be_nearest_after_another_loss_or_in_8_bits() -> None:
    """A device that stores Float16_b has no ten bits behind the leading one; a packer cuts what FP8 cannot hold."""
    half = np.full(4, 1 + 2.0**-10, np.float16)
    stored = replace(DEVICE, float_format="Float16_b")
    for target, passed in ((stored, True), (DEVICE, False)):
        known = Operands("stablehlo.convert", b"", lambda: [half])
        got = np.ones(4, np.float32)
        (result,) = compare([half.astype(np.float32)], [got], "stablehlo.convert", target, operands=known)
        assert (result.passed, result.question) == (passed, "" if passed else "rounding")
    single = np.full(4, 1.2, np.float32)
    known = Operands("stablehlo.convert", b"", lambda: [single])
    golden = single.astype(ml_dtypes.float8_e5m2)
    assert golden.tolist() == [1.25] * 4
    (result,) = compare([golden], [golden * 0 + 1], "stablehlo.convert", DEVICE, operands=known)
    assert result.passed


@pytest.mark.parametrize(
    ("steps", "asked"),
    [
        (Steps("sum", function=0.125), False),
        (Steps("sum", function=0.125, stored=0.25), False),  # what storing costs a sum is in its own scale
        (Steps("sum", function=0.125, block=True), False),
        (Steps("sum", function=0.125, stored=0.25, block=True), True),
        (Steps("part", function=0.125), True),
        (Steps("bound", function=0.125), True),
    ],
)
def test_a_sum_asks_how_far_it_moves_only_where_its_operands_are_rounded_to_blocks(steps: Steps, asked: bool) -> None:
    sizes = np.full(4, 2.0, np.float32)
    known = asking("stablehlo.dot_general")
    known.kept = lambda: [sizes]
    golden, got = [np.ones(4)], [np.full(4, 1.0625)]
    if asked:
        with pytest.raises(AskedError):
            by_operands(golden, got, 0, QUARTER, steps, known)
    else:
        assert by_operands(golden, got, 0, QUARTER, steps, known).passed


def test_both_parts_of_a_complex_number_move_with_its_size() -> None:
    """3 + 4j has the size 5: what its steps cost of that is added to how far the op moves, for both parts."""
    steps = Steps("bound", function=0.125, packed=0.25, declared=0.0625, cut=(0.5, 0.0))
    known = asking("stablehlo.multiply")
    known.moved = lambda steps, golden: [np.ones(1)]
    part = 3 * (0.125 + 0.5 + 0.25 + 0.0625)
    error = part + 1 + 5 * (0.125 + 0.25 + 2 * 0.0625 + 0.5)
    golden = np.array([3 + 4j], np.complex64)
    result = by_operands([golden], [golden + np.complex64(error)], 0, QUARTER, steps, known)
    assert (result.z_max, result.z_index) == (1.0, (0,))
    sums = asking("stablehlo.dot_general")
    sums.kept = lambda: [np.full(1, 5, np.float32)]
    assert by_operands([golden], [golden], 0, QUARTER, Steps("sum", function=0.125), sums).passed


def test_a_wrong_float_has_the_digits_of_its_type() -> None:
    golden, got = np.float32([0.1, 2]), np.float32([-0.50497466, 2])
    reason = check(golden, got, TABLE["exact"]).reason
    assert reason == "1 of 2 values are wrong: -0.50497466 instead of 0.1 at element 0"
