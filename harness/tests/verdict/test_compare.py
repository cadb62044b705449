"""The 41 situations that a verdict must get right, and what else the comparison promises."""

from __future__ import annotations

import functools
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from opscope.harness.backends.base import Target
from opscope.harness.prepare.mlir import load, to_bytecode
from opscope.harness.record.records import WHOLE_MODEL, TensorDesc
from opscope.harness.verdict.check import check
from opscope.harness.verdict.compare import compare
from opscope.harness.verdict.operands import Operands
from opscope.harness.verdict.tolerance import TABLE

F32, BF16, BFP8 = TABLE["Float32"], TABLE["Float16_b"], TABLE["Bfp8"]
INT = TABLE["exact"]
NORMAL = np.random.default_rng(0).standard_normal(64).astype(np.float32)
OTHER = np.random.default_rng(1).standard_normal(64).astype(np.float32)
ZEROS = np.zeros(64, np.float32)
DENORMALS = (np.arange(1, 65) * 1e-40).astype(np.float32)


def const(value, dtype=np.float32):
    return np.full(64, value, dtype)


def one(value):
    return np.array([value], np.float32)


def put(value, at=7):
    array = NORMAL.copy()
    array[at] = value
    return array


def bf16(array):
    return array.astype(ml_dtypes.bfloat16).astype(np.float32)


def with_outlier(array):
    array = array.copy()
    array[3] = 1e6
    return array


BOOLS = np.arange(64) % 3 == 0
INTS = np.arange(64, dtype=np.int32) * 37 - 900
NAN, INF = np.nan, np.inf


def flip(array, at=5):
    array = array.copy()
    array[at] = ~array[at] if array.dtype == bool else array[at] + 1
    return array


# name, golden, got, {tolerance row: passes}, flag
SITUATIONS = [
    ("n vs n", NORMAL, NORMAL, {F32: True, BF16: True}, None),
    ("n vs zeros", NORMAL, ZEROS, {F32: False, BF16: False}, None),
    ("zeros vs 1e-6 n", ZEROS, 1e-6 * NORMAL, {F32: True, BF16: True}, None),
    ("zeros vs zeros", ZEROS, ZEROS, {F32: True, BF16: True}, None),
    ("const 3 vs const 3.0001", const(3), const(3.0001), {F32: False, BF16: True}, None),
    ("const 3 vs const 4", const(3), const(4), {F32: False, BF16: False}, None),
    ("const 3 vs 3 + 1e-3 n", const(3), 3 + 1e-3 * NORMAL, {F32: False, BF16: True}, None),
    ("const 3 vs 3 + 0.1 n", const(3), 3 + 0.1 * NORMAL, {F32: False, BF16: False}, None),
    ("n vs const", NORMAL, const(3), {F32: False, BF16: False}, None),
    ("all NaN vs all NaN", const(NAN), const(NAN), {F32: True, BF16: True}, None),
    ("all NaN vs n", const(NAN), NORMAL, {F32: False, BF16: False}, None),
    ("NaN at the same place", put(NAN), put(NAN), {F32: True, BF16: True}, None),
    ("NaN only in golden", put(NAN), NORMAL, {F32: False, BF16: False}, None),
    ("NaN only in device", NORMAL, put(NAN), {F32: False, BF16: False}, None),
    ("Inf at the same place", put(INF), put(INF), {F32: True, BF16: True}, None),
    ("+Inf vs -Inf", put(INF), put(-INF), {F32: False, BF16: False, BFP8: False}, None),
    ("Inf vs 3e38", put(INF), put(3e38), {F32: False, BF16: False, BFP8: True}, "saturated"),
    ("3e38 vs Inf", put(3e38), put(INF), {F32: False, BF16: False, BFP8: True}, "saturated"),
    ("n vs 2n", NORMAL, 2 * NORMAL, {F32: False, BF16: False}, None),
    ("n vs n + 5", NORMAL, NORMAL + 5, {F32: False, BF16: False}, None),
    ("n vs -n", NORMAL, -NORMAL, {F32: False, BF16: False}, None),
    ("one element: 2 vs 2", one(2), one(2), {F32: True, BF16: True}, None),
    ("one element: 2 vs 2.005", one(2), one(2.005), {F32: False, BF16: True}, None),
    ("one element: 2 vs 5", one(2), one(5), {F32: False, BF16: False}, None),
    ("one element: 2 vs -2", one(2), one(-2), {F32: False, BF16: False}, None),
    ("one element: 0 vs 1e-3", one(0), one(1e-3), {F32: False, BF16: True}, None),
    ("one element: 2 vs 0", one(2), one(0), {F32: False, BF16: False}, None),
    ("empty vs empty", np.zeros((0, 4), np.float32), np.zeros((0, 4), np.float32), {F32: True, INT: True}, None),
    ("[1, 2] vs [2, 1]", np.float32([1, 2]), np.float32([2, 1]), {F32: False, BF16: False}, None),
    ("1e4 + 1e-2 n vs bf16", 1e4 + 1e-2 * NORMAL, bf16(1e4 + 1e-2 * NORMAL), {F32: False, BF16: True}, None),
    ("n vs its bf16 rounding", NORMAL, bf16(NORMAL), {F32: False, BF16: True}, None),
    ("n vs a bfloat16 tensor", NORMAL, NORMAL.astype(ml_dtypes.bfloat16), {F32: False, BF16: False}, None),
    ("one outlier", with_outlier(NORMAL), with_outlier(OTHER), {F32: False, BF16: False, BFP8: False}, None),
    ("bool equal", BOOLS, BOOLS.copy(), {INT: True}, None),
    ("bool, 1 of 64 flipped", BOOLS, flip(BOOLS), {INT: False}, None),
    ("bool all true vs one false", np.ones(64, bool), flip(np.ones(64, bool)), {INT: False}, None),
    ("int equal", INTS, INTS.copy(), {INT: True}, None),
    ("int, one off by one", INTS, flip(INTS), {INT: False}, None),
    ("index 5 vs 6", np.array([5]), np.array([6]), {INT: False}, None),
    ("denormals vs zeros", DENORMALS, ZEROS, {F32: True, BF16: True, INT: True}, "denormal_flush"),
    (
        "half denormals flushed",
        np.where(BOOLS, NORMAL, DENORMALS),
        np.where(BOOLS, NORMAL, 0).astype(np.float32),
        {F32: True, BF16: True, INT: True},
        "denormal_flush",
    ),
]


def test_there_are_41_situations():
    assert len(SITUATIONS) == len({name for name, *_ in SITUATIONS}) == 41


def test_denormals_of_float16_are_larger():
    golden = np.array([1.0, -2.5e-6, 6.2e-5], np.float16)
    result = check(golden, np.array([1.0, 0.0, 6.2e-5], np.float16), INT)
    assert result.passed, result
    assert result.flags == ("denormal_flush",)
    assert not check(golden, np.array([1.0, -2.5e-6, 0.0], np.float16), INT).passed
    assert not check(golden.astype(np.float32), np.array([1.0, 0.0, 6.2e-5], np.float32), INT).passed


@pytest.mark.parametrize(
    ("golden", "got", "row", "passes", "flag"),
    [
        pytest.param(np.asarray(g), np.asarray(d), row, passes, flag, id=f"{name} [{row.name}]")
        for name, g, d, rows, flag in SITUATIONS
        for row, passes in rows.items()
    ],
)
def test_situation(golden, got, row, passes, flag):
    result = check(golden, got, row)
    assert result.passed is passes, result
    assert bool(result.reason) is not passes
    if flag and passes:
        assert flag in result.flags
    elif not flag:
        assert not result.flags
    if result.pcc is not None:
        assert -1 <= result.pcc <= 1


@pytest.mark.parametrize("seed", range(5))
def test_pcc_and_l2_are_numpys(seed):
    rng = np.random.default_rng(seed)
    golden = rng.standard_normal((37, 4111)).astype(np.float32) + 100 * seed
    got = golden + rng.standard_normal(golden.shape).astype(np.float32) * 0.3
    result = check(golden, got, TABLE["Bfp4"])
    g, d = golden.ravel().astype(np.float64), got.ravel().astype(np.float64)
    assert result.relative_l2 == pytest.approx(np.linalg.norm(d - g) / np.linalg.norm(g), rel=1e-12)
    assert result.max_abs == np.abs(d - g).max()
    if result.pcc is not None:
        assert result.pcc == pytest.approx(np.corrcoef(g, d)[0, 1], rel=1e-12)


def test_pcc_leaves_out_what_is_not_finite():
    golden = np.concatenate([NORMAL + 100, np.float32([NAN, INF, -INF])])
    got = np.concatenate([NORMAL + 100 + 0.1 * OTHER, np.float32([NAN, INF, -INF])])
    expected = np.corrcoef(golden[:64].astype(np.float64), got[:64].astype(np.float64))[0, 1]
    row = replace(BF16, relative_l2=1e-3)
    assert check(golden, got, row).pcc == pytest.approx(expected, rel=1e-9)


def test_pcc_decides_where_l2_is_wide():
    """Bfp4 allows half of the norm; noise of that size costs more correlation than its PCC allows."""
    error = OTHER - OTHER @ NORMAL / (NORMAL @ NORMAL) * NORMAL
    error *= np.linalg.norm(NORMAL) / np.linalg.norm(error)
    row = replace(TABLE["Bfp4"], block=False, by_element=False)
    assert check(NORMAL, NORMAL + np.float32(0.2) * error, row).passed
    result = check(NORMAL, NORMAL + np.float32(0.4) * error, row)
    assert not result.passed
    assert ", at least 0.937" in result.reason


@pytest.mark.parametrize(
    ("kept", "rows", "reason"),
    [
        (50, 8, "relative error of 95% of the elements"),
        (50, 2, "relative L2 without outliers"),
        (30, 8, "relative err"),
    ],
)
def test_outliers_do_not_hide_a_wrong_tile(kept, rows, reason):
    """Attention scores with masked ones at -1e4 (few or most), the last rows of the others never written."""
    rng = np.random.default_rng(7)
    golden = rng.standard_normal((8, 64, 64)).astype(np.float32)
    golden[:, :, kept:] = -1e4
    stale = golden.copy()
    stale[:, -rows:, :kept] = golden[:, -2 * rows : -rows, :kept]
    assert check(golden, bf16(golden), BF16).passed
    result = check(golden, stale, BF16)
    assert result.relative_l2 < 1e-3
    assert not result.passed
    assert result.reason.startswith(reason)
    assert check(golden, stale, replace(BF16, by_element=False)).passed


DEVICE = Target("sim-n150", None, "HiFi4", "Tf32")


def tf32(array):
    """As the unpacker hands float32 to the matrix unit."""
    return (array.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def total(array):
    return array.astype(np.float64).sum(axis=1).astype(np.float32)


SUM = """func.func @main(%a: tensor<{0}x{1}xf32>) -> tensor<{0}xf32> {{
  %start = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%a init: %start) applies {2} across dimensions = [1]
    : (tensor<{0}x{1}xf32>, tensor<f32>) -> tensor<{0}xf32>
  return %0 : tensor<{0}xf32>
}}"""


def summing(terms, body="stablehlo.add"):
    """The operands of a sum over rows."""
    module = to_bytecode(load(SUM.format(*terms.shape, body), "sum"))
    return Operands("stablehlo.reduce", module, lambda: [terms], body)


def summed(terms, golden, got, body="stablehlo.add", sized=True):
    sizes = {"operands": summing(terms, body)} if sized else {}
    params = {"body": body, "dimensions": "array<i64: 1>"}
    descs = {"inputs": [_desc(terms)], "outputs": [_desc(golden)]}
    return compare([golden], [got], "stablehlo.reduce", DEVICE, params=params, **descs, **sizes)[0]


@pytest.fixture
def cancelling():
    """64 rows of terms, every second of which sums to nearly nothing."""
    terms = np.random.default_rng(2).standard_normal((64, 1024)).astype(np.float32)
    terms[::2] -= terms[::2].mean(axis=1, keepdims=True)
    return terms


def in_order(terms):
    """Sums in float32, one term after another."""
    return np.cumsum(terms, axis=1, dtype=np.float32)[:, -1]


def test_a_cancelling_sum_is_judged_by_the_size_of_its_terms(cancelling):
    terms = cancelling[::2]
    golden, got = total(terms), in_order(terms)
    assert not summed(terms, golden, got, sized=False).passed
    result = summed(terms, golden, got)
    assert result.passed, result
    assert result.z_max is not None
    assert result.z_max < result.z_limit
    assert not summed(terms, golden, total(tf32(terms))).passed, "float32 is added up on the vector unit"


@pytest.mark.parametrize(
    "mistake",
    [
        lambda terms: total(terms[:, 1:]),  # a term forgotten
        lambda terms: total(np.where(np.arange(len(terms))[:, None] % 4 < 2, terms, 0)),  # half of the rows
        lambda terms: total(terms) * np.float32(1.02),  # only rows that do not cancel show it
        lambda terms: np.roll(total(terms), 1),
        lambda terms: np.where(np.arange(len(terms)) == 1, 0, total(terms)).astype(np.float32),
    ],
    ids=["dropped_term", "half_empty", "scale", "off_by_one", "one_element"],
)
def test_cancellation_excuses_no_wrong_sum(cancelling, mistake):
    golden = total(cancelling)
    assert summed(cancelling, golden, in_order(cancelling)).passed
    result = summed(cancelling, golden, mistake(cancelling))
    assert not result.passed
    assert result.question == "largest"


@functools.cache
def layers(cut):
    """A vector through 40 orthogonal matrices; `cut` is what the unpackers make of both operands."""
    random = np.random.default_rng(5)
    value = random.standard_normal(128).astype(np.float32)
    for _ in range(40):
        matrix = np.linalg.qr(random.standard_normal((128, 128)))[0].astype(np.float32)
        value = cut(value, 13) @ cut(matrix, 14)
    return value


def not_cut(array, _):
    return array


def cut_off(array, bits):
    return (array.view(np.uint32) & np.uint32(0xFFFFFFFF << bits & 0xFFFFFFFF)).view(np.float32)


def whole(golden, got, products):
    """The verdict on the result of a model."""
    return compare([golden], [got], WHOLE_MODEL, DEVICE, params={"products_in_a_row": str(products)})[0]


def test_a_model_may_be_as_much_too_small_as_truncation_makes_it():
    golden, got = layers(not_cut), layers(cut_off)
    result = whole(golden, got, 40)
    assert result.passed, result
    assert result.flags == ("truncation",)
    assert result.relative_l2 is not None
    assert result.relative_l2 > 0.03  # told as it is
    assert not whole(golden, got, 0).passed
    assert not whole(golden, got, 10).passed


@pytest.mark.parametrize("factor", [0.9, 1.03, -0.97])
def test_truncation_excuses_no_other_scale(factor):
    golden = layers(not_cut)
    result = whole(golden, golden * np.float32(factor), 40)
    assert not result.passed
    assert result.question or result.reason.startswith("relative L2")


def test_truncation_excuses_no_wrong_direction():
    golden, noise = layers(not_cut), np.random.default_rng(6).standard_normal(128).astype(np.float32)
    noise *= np.float32(0.03 * np.linalg.norm(golden) / np.linalg.norm(noise))
    result = whole(golden, golden * np.float32(0.97) + noise, 40)
    assert not result.passed
    assert result.reason.startswith("relative L2")


def test_elements_that_do_not_cancel_get_no_leniency():
    """A few huge terms once lifted the limit of all elements."""
    terms = np.abs(np.random.default_rng(3).standard_normal((64, 128))).astype(np.float32)
    terms[0] = np.where(np.arange(128) % 2, 1e6, -1e6)
    golden, got = total(terms), total(terms)
    got[1::2] *= np.float32(1.05)
    result = summed(terms, golden, got)
    assert not result.passed
    assert result.question == "largest"
    assert result.z_index[0] % 2 == 1


def test_a_maximum_has_no_terms_and_is_exact():
    """A masked maximum: -1e9 in the terms made any result pass once."""
    terms = np.where(np.arange(128) % 2, -1e9, np.random.default_rng(4).standard_normal((64, 128))).astype(np.float32)
    golden = terms.max(axis=1)
    assert summed(terms, golden, golden.copy(), "stablehlo.maximum").passed
    for got in (golden * np.float32(1 + 1e-6), np.roll(golden, 1), golden * np.float32(1.7)):
        result = summed(terms, golden, got, "stablehlo.maximum")
        assert not result.passed
        assert result.tolerance == "exact"
    # What combines by none of the two is judged without the terms.
    assert not summed(terms, golden, golden * np.float32(1.7), "stablehlo.multiply").passed


def test_float32_functions_have_the_limit_of_their_kernel():
    """A forgotten epsilon of 1e-6 is a wrong sum, though it hides below the general limit."""
    variance = np.random.default_rng(5).uniform(0.5, 2, 4096).astype(np.float32)
    golden = variance + np.float32(1e-6)
    bounded = replace(DEVICE, error_bound={"stablehlo.add": 0.5, "stablehlo.tanh": 4.0, "stablehlo.negate": 0.0}.get)
    assert check(golden, variance, TABLE["Float32"]).passed
    (result,) = compare([golden], [variance], "stablehlo.add", bounded, outputs=[_desc(golden)])
    assert not result.passed
    assert result.tolerance == "Float32 0.5 ulp"
    last = np.nextafter(golden, np.float32(9))
    assert compare([golden], [last], "stablehlo.add", bounded, outputs=[_desc(golden)])[0].passed
    assert not compare([golden], [last], "stablehlo.negate", bounded, outputs=[_desc(golden)])[0].passed
    assert compare([golden], [golden + golden * 1e-6], "stablehlo.tanh", bounded, outputs=[_desc(golden)])[0].passed


def _desc(array):
    return TensorDesc(shape=array.shape, data_type="f32")


def test_near_constant_values_have_no_pcc():
    assert check(1e4 + 1e-2 * NORMAL, bf16(1e4 + 1e-2 * NORMAL), BF16).pcc is None


def test_shape_differs():
    result = check(NORMAL, NORMAL.reshape(8, 8), F32)
    assert not result.passed
    assert result.reason == "shape: expected 64, got 8x8"


def test_count_differs():
    checks = compare([NORMAL], [NORMAL, NORMAL], "stablehlo.sort", Target("sim-n150", None, "HiFi4"))
    assert [c.passed for c in checks] == [True, False]


def test_complex_parts_are_compared():
    golden = NORMAL + 1j * OTHER
    assert check(golden.astype(np.complex64), golden.astype(np.complex64), F32).passed
    assert not check(golden.astype(np.complex64), golden.conj().astype(np.complex64), F32).passed


def test_int4_is_exact():
    golden = np.arange(-8, 8).astype(ml_dtypes.int4)
    assert check(golden, golden.copy(), INT).passed
    got = golden.copy()
    got[3] = 0
    assert not check(golden, got, INT).passed


def test_moved_floats_are_exact_unless_stored_in_less():
    own = Target("sim-n150", None, "HiFi4", "Tf32")
    forced = Target("sim-n150", "Bfp8_b", "HiFi4", "Tf32")
    off = NORMAL * np.float32(1 + 1e-6)
    desc = TensorDesc(shape=(64,), data_type="f32")
    assert not compare([NORMAL], [off], "stablehlo.transpose", own, outputs=[desc])[0].passed
    assert compare([NORMAL], [off], "stablehlo.transpose", forced, outputs=[desc])[0].passed
    assert compare([NORMAL], [off], "stablehlo.add", own, outputs=[desc])[0].passed


def test_exact_moves_take_minus_zero_for_zero_and_keep_nan():
    golden = np.float32([0.0, NAN, 1.0])
    assert check(golden, np.float32([-0.0, NAN, 1.0]), INT).passed
    assert "element 2" in check(golden, np.float32([0.0, NAN, 1.5]), INT).reason
