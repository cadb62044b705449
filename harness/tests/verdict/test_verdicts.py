"""The verdict for each element: the 41 situations, exact rules, conversions, denormals; what hosts may round."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from opscope.base.tests.each import each
from opscope.harness.backends import registry
from opscope.harness.backends.base import Target
from opscope.harness.prepare.golden import compile_module
from opscope.harness.prepare.split import split_module
from opscope.harness.record.records import TensorDesc
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.tests.verdict.test_compare import BF16, BFP8, F32, INT, SITUATIONS
from opscope.harness.verdict.compare import compare
from opscope.harness.verdict.operands import NotEvaluatedError, Operands

DEVICE = Target("sim-n150", None, "HiFi4", "Tf32")
HOST = Target("host", None, "exact")
TARGETS = {
    F32.name: DEVICE,
    BF16.name: Target("sim-n150", "Float16_b", "HiFi4", "Tf32"),
    BFP8.name: Target("sim-n150", "Bfp8_b", "HiFi4", "Tf32"),
    INT.name: DEVICE,
}
EXCEPTIONS = {
    "one element: 0 vs 1e-3 [Float16_b]": "both operands are known to be zero: 0 + 0 has no error in any format"
}
"""Situation whose operands say more than its golden -> why."""


def operands(name, inputs, run=None):
    """Operands whose op is a NumPy function in XLA's place."""
    known = Operands(name, b"", lambda: list(inputs))
    if run is not None:
        known._compiled = lambda: run
        known.run_with_denormals = _not_evaluated
    return known


def _not_evaluated():
    raise NotEvaluatedError("a function has no module")


def judged(name, target, golden, got, *, inputs=None, run=None, params=None):
    """The verdict on the one result of an op."""
    known = None if inputs is None else operands(name, inputs, run)
    return compare([golden], [got], name, target, params=params, operands=known)[0]


CASES = [
    pytest.param(f"{name} [{row.name}]", np.asarray(g), np.asarray(d), row, passes, flag, id=f"{name} [{row.name}]")
    for name, g, d, rows, flag in SITUATIONS
    for row, passes in rows.items()
]


@pytest.mark.parametrize(("case", "golden", "got", "row", "passes", "flag"), CASES)
def test_situation_by_element(case, golden, got, row, passes, flag):
    """As a sum with zero, by the golden alone and with its operands; as moved data where values are exact."""
    name = "stablehlo.transpose" if row is INT and golden.dtype.kind == "f" else "stablehlo.add"
    for known in (False, True):
        inputs = [golden, np.zeros_like(golden)] if known and golden.dtype.kind == "f" else None
        result = judged(name, TARGETS[row.name], golden, got, inputs=inputs, run=lambda values: [values[0] + values[1]])
        expected = passes and not (known and case in EXCEPTIONS)
        assert result.passed is expected, (known, result)
        if golden.size and golden.dtype == got.dtype and golden.dtype.kind == "f" and result.max_abs is not None:
            assert row is INT or result.z_max is not None
        if flag and expected:
            assert flag in result.flags


# --- conversions

SPREAD = np.random.default_rng(1).standard_normal(256).astype(np.float32)
TIES = np.float32([1 + 2.0**-8, 1 + 3 * 2.0**-8, -(1 + 2.0**-8), 2.0**-120 * (1 + 2.0**-8)] * 16)


def bf16(bits):
    return (bits & np.uint32(0xFFFF0000)).view(np.float32).astype(ml_dtypes.bfloat16)


def cut(x):
    return bf16(x.view(np.uint32))


def away(x):
    """Rounded to nearest, ties away from zero, as the packer does."""
    return bf16(x.view(np.uint32) + np.uint32(0x8000))


def up(x):
    """Never toward zero."""
    return bf16(x.view(np.uint32) + np.uint32(0xFFFF))


@pytest.mark.parametrize(
    ("x", "device", "right"),
    [
        (SPREAD, away, True),
        (TIES, away, True),
        (TIES, cut, True),  # of a tie both neighbours are nearest
        (SPREAD, cut, False),
        (SPREAD, up, False),
        (np.float32([1e-40, -3e-39, 1.5] * 8), lambda x: away(np.where(np.abs(x) < 1e-38, np.float32(0), x)), True),
        (SPREAD, lambda x: np.where(np.arange(x.size) == 77, np.nextafter(away(x), away(x) * 2), away(x)), False),
    ],
    ids=["nearest", "ties away", "ties toward zero", "truncated", "rounded up", "denormals", "one of 256"],
)
def test_a_conversion_gives_a_nearest_number(x, device, right):
    golden = x.astype(ml_dtypes.bfloat16)
    result = judged("stablehlo.convert", DEVICE, golden, device(x).astype(ml_dtypes.bfloat16), inputs=[x])
    assert result.passed is right, result
    if not right:
        assert result.question in ("rounding", "largest")


# --- functions of f64


def test_a_hosts_function_of_f64_may_be_off_by_as_many_units_as_one_of_float32():
    """XLA's log1p is off by some 120 units between -0.53 and -0.28 (jax#39707); NumPy's is right."""
    x = np.linspace(-0.53, -0.28, 2001)
    exact = np.log1p(x.astype(np.longdouble)).astype(np.float64)
    module = b"""func.func @main(%a: tensor<2001xf64>) -> tensor<2001xf64> {
  %0 = stablehlo.log_plus_one %a : tensor<2001xf64>
  return %0 : tensor<2001xf64>
}"""
    [got] = compile_module(module)([x])
    assert judged("stablehlo.log_plus_one", HOST, exact, got).question == "largest"
    for units, right in ((1, True), (60, True), (120, False)):
        off = exact - units * np.spacing(np.abs(exact))
        assert judged("stablehlo.log_plus_one", HOST, exact, off).passed is right, units


# --- results that are cut


CARD = registry.load("reference").target(ResultOptions(arch="n150"))
ROUNDED = replace(CARD, cuts_result=None)
FORCED = registry.load("reference").target(ResultOptions(arch="n150", data_format="Float16_b"))
VALUES = np.random.default_rng(2).uniform(0.2, 2.0, (256, 512)).astype(np.float32)


def test_a_function_whose_results_the_device_cuts_to_16_bits_is_right():
    """chlo.erf: every result is the truncated one, 0.28 % too short on the mean."""
    golden, got = VALUES.astype(ml_dtypes.bfloat16), cut(VALUES)
    assert judged("chlo.erf", CARD, golden, got).passed
    assert judged("chlo.erf", ROUNDED, golden, got).question == "systematic"
    assert judged("stablehlo.tanh", CARD, golden, got).question == "systematic"  # its kernel rounds
    shorter = cut(VALUES * np.float32(0.997))
    assert not judged("chlo.erf", CARD, golden, shorter).passed
    down = cut(np.nextafter(got, got.dtype.type(0)).astype(np.float32))  # one unit too few everywhere
    assert not judged("chlo.erf", CARD, golden, down).passed
    longer = cut(VALUES * np.float32(1.01))
    assert not judged("chlo.erf", CARD, golden, longer).passed


def test_a_float32_result_in_16_bits_is_up_to_a_unit_short():
    got = cut(VALUES).astype(np.float32)
    assert judged("chlo.erf", FORCED, VALUES, got).passed
    assert judged("chlo.erf", replace(FORCED, cuts_result=None), VALUES, got).question == "largest"
    assert not judged("chlo.erf", FORCED, VALUES, got * np.float32(0.996)).passed


@pytest.mark.parametrize("values", [1, 63, 64])
def test_equal_operands_are_all_rounded_alike(values):
    """Nearly a unit too short throughout: of a few values that is no mean of chance."""
    golden = np.resize(np.float32(1) + 2.0**-7 * (np.arange(values, dtype=np.float32) + 0.99), 1 << 20)
    result = judged("chlo.erf", FORCED, golden, cut(golden).astype(np.float32))
    assert result.question == ("" if values < 64 else "systematic")


def test_denormal_operands_change_only_the_elements_that_they_reach():
    """A suite's stored answer is not XLA's: where no denormal reaches, it stands."""
    x = np.float32([1e-40, 2.0, 3.0, 4.0])
    stored = np.float32([5e37, 0.5, 0.125, 0.25])

    def run(values):
        return [
            np.where(values[0] == 0, np.float32(1e38), np.where(values[0] < 1, stored, 1 / np.maximum(values[0], 1)))
        ]

    for third, right in ((0.125, True), (1 / 3, False)):
        got = np.float32([1e38, 0.5, third, 0.25])
        result = judged("stablehlo.cbrt", DEVICE, stored, got, inputs=[x], run=run)
        assert result.passed is right, result
        assert ("denormal_flush" in result.flags) is right


@pytest.mark.parametrize(("name", "function"), [("sine", np.sin), ("tan", np.tan)])
def test_a_host_takes_multiples_of_pi_away_in_float32(name, function):
    x = np.linspace(0.001, 0.01, 40, dtype=np.float32)
    golden = function(x)
    for off, right in ((1e-7, True), (3e-7, False)):
        got = golden + np.float32(off)
        args = {"inputs": [x], "run": lambda values: [function(values[0])]}
        assert judged(f"stablehlo.{name}", HOST, golden, got, **args).passed is right
        assert not judged(f"stablehlo.{name}", CARD, golden, got, **args).passed


def test_terms_of_lgamma_may_cancel_out_near_its_zeros():
    """What an H200 computes, and errors that no logarithm explains."""
    x = np.float32([1.965925, 1.180568, 1.461724, 0.9687841])
    golden = np.float32([-0.01402903, -0.07951641, -0.1214867, 0.01883173])
    honest = np.float32([-0.0140276, -0.07951498, -0.1214852, 0.01883268])

    def run(values):
        return [golden + (values[0] - x) * np.float32([0.40, -0.30, 0.0, -0.62])]  # by its derivative

    for got, right in ((honest, True), (golden + np.float32(6e-6), False)):
        assert judged("chlo.lgamma", HOST, golden, got, inputs=[x], run=run).passed is right


def test_an_infinity_out_of_place_has_its_place():
    golden = np.ones((2, 40, 50), np.float32)
    got = golden.copy()
    got[1, 33, 17] = np.inf
    result = judged("stablehlo.divide", DEVICE, golden, got)
    assert (result.passed, result.question) == (False, "")
    assert (result.z_index, result.z_place) == ((1, 33, 17), "tile (1, 1, 0), face 1, row 1")


def test_a_host_has_indices_and_no_tiles():
    golden = np.ones((2, 40, 50), np.float32)
    got = golden.copy()
    got[1, 33, 17] = 2
    for dtype in (np.float32, np.int32):
        card, host = (judged("stablehlo.divide", on, golden.astype(dtype), got.astype(dtype)) for on in (DEVICE, HOST))
        assert (host.z_index, host.z_place) == ((1, 33, 17), "")
        assert "at (1, 33, 17), tile (1, 1, 0), face 1, row 1" in card.reason
        assert "at (1, 33, 17)" in host.reason
        assert "tile" not in host.reason


# --- exact rules


@each("dtype", [bool, np.int8, np.uint16, np.int32, np.int64, ml_dtypes.int4])
def test_one_discrete_value_is_wrong(dtype):
    golden = np.zeros((40, 40), dtype)
    got = golden.copy()
    assert judged("stablehlo.add", DEVICE, golden, got).passed
    got[3, 17] = 1
    result = judged("stablehlo.add", DEVICE, golden, got)
    assert not result.passed
    assert "(3, 17)" in result.reason


@pytest.mark.parametrize("target", [DEVICE, HOST], ids=["device", "host"])
@pytest.mark.parametrize("name", ["transpose", "select", "gather"])
def test_moved_and_chosen_values_are_exact(name, target):
    golden = np.random.default_rng(2).standard_normal((64, 64)).astype(np.float32)
    got = golden.copy()
    got[5, 6] = np.nextafter(got[5, 6], np.float32(9))
    assert judged(f"stablehlo.{name}", target, golden, golden.copy()).passed
    assert not judged(f"stablehlo.{name}", target, golden, got).passed


# --- denormals


@each(("got", "right"), [(np.inf, True), (-np.inf, False), (1e38, False), (np.nan, False)])
def test_with_denormal_operands_flushed_the_golden_is_of_zeros(got, right):
    """1 / 5e-39 is 2e38, and infinite on a device that reads a zero."""
    x = np.float32([5e-39, 2.0, 4.0, 1e-39])
    with np.errstate(divide="ignore", over="ignore"):
        golden = 1 / x
        device = np.float32([got, 0.5, 0.25, np.inf])
    assert np.isfinite(golden[0])
    result = judged(
        "stablehlo.divide", DEVICE, golden, device, inputs=[np.ones_like(x), x], run=lambda values: [_divided(*values)]
    )
    assert result.passed is right, result
    assert ("denormal_flush" in result.flags) is right


@pytest.mark.parametrize("target", [HOST, DEVICE], ids=["host", "device"])
@pytest.mark.parametrize(("got", "right"), [(np.inf, True), (-np.inf, True), (-1e38, False), (np.nan, False)])
def test_a_denormal_is_flushed_to_a_zero_of_either_sign(target, got, right):
    x = np.float32([-5e-39, 2.0, 4.0, 8.0])
    golden, device = _divided(1, x), np.float32([got, 0.5, 0.25, 0.125])
    result = judged(
        "stablehlo.divide", target, golden, device, inputs=[np.ones_like(x), x], run=lambda values: [_divided(*values)]
    )
    assert result.passed is right, result


def _divided(a, b):
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return (a / b).astype(np.float32)


DOUBLE = """func.func @main(%a: tensor<4xf64>, %b: tensor<4xf64>) -> tensor<4xf64> {{
  %0 = stablehlo.{} %a, %b : tensor<4xf64>
  return %0 : tensor<4xf64>
}}"""


@pytest.mark.parametrize(
    ("op", "flushed", "got", "right"),
    [
        ("multiply", 0.0, 1e-310, True),
        ("multiply", 0.0, 0.0, True),  # a host that flushes, like the golden
        ("multiply", 0.0, 2e-310, False),
        ("multiply", 0.0, -1e-310, False),
        ("multiply", 0.0, 1e-300, False),
        ("multiply", 0.0, np.nan, False),
        ("add", 1e-10, 1e-10, True),
        ("divide", 1e-290, 1e-290, True),
        ("divide", 1e-290, 0.0, False),  # no denormal of double precision, though smaller than any float32
    ],
)
def test_a_host_may_keep_denormals_of_double_precision_that_the_golden_lost(op, flushed, got, right):
    a, b = np.array([1e-300, 1.0, 2.0, 3.0]), np.array([1e-10, 1.0, 2.0, 4.0])
    known = Operands(f"stablehlo.{op}", DOUBLE.format(op).encode(), lambda: [a, b])
    (golden,) = known.run([a, b])
    assert golden[0] == pytest.approx(flushed, rel=1e-15, abs=0)
    device = golden.copy()
    device[0] = got
    for target in (HOST, DEVICE):
        (result,) = compare([golden], [device], f"stablehlo.{op}", target, operands=known)
        assert result.passed is right, result
        assert ("denormal_flush" in result.flags) is (right and flushed == 0 != got)


# --- other hosts


def test_a_host_has_ieees_result_of_a_sum_and_its_own_of_a_function():
    golden = np.random.default_rng(3).standard_normal((64, 64)).astype(np.float32)
    near = golden * np.float32(1 + 5e-7)
    assert judged("stablehlo.exponential", HOST, golden, near).passed
    last = np.nextafter(golden, np.float32(9))
    for name in ("add", "multiply", "divide", "sqrt"):
        assert not judged(f"stablehlo.{name}", HOST, golden, near).passed
        assert judged(f"stablehlo.{name}", HOST, golden, last).passed is (name in ("divide", "sqrt"))


def test_parts_of_complex_numbers_and_functions_keep_denormals_too():
    x = np.array([1e-310, 5e-324, 1.0])
    source = """func.func @main(%x: tensor<3xf64>) -> (tensor<3xf64>, tensor<3xcomplex<f64>>) {
      %0 = stablehlo.log %x : tensor<3xf64>
      %1 = stablehlo.complex %x, %0 : tensor<3xcomplex<f64>>
      %2 = stablehlo.add %1, %1 : tensor<3xcomplex<f64>>
      return %0, %2 : tensor<3xf64>, tensor<3xcomplex<f64>>
    }"""
    known = Operands("stablehlo.custom", source.encode(), lambda: [x])
    golden = known.run([x])
    assert np.isneginf(golden[0][:2]).all()
    right = [np.log(x), 2 * (x + 1j * np.log(x))]
    assert [check.passed for check in compare(golden, right, "stablehlo.custom", HOST, operands=known)] == [True, True]
    wrong = [np.log(x) + 1, 2 * (x + 1j * np.log(x)) + 1]
    assert [check.passed for check in compare(golden, wrong, "stablehlo.custom", HOST, operands=known)] == [
        False,
        False,
    ]


SUM_OF_ROWS = """
func.func @main(%x: tensor<64x512x{0}>) -> tensor<64x{0}> {{
  %zero = stablehlo.constant dense<0.0> : tensor<{0}>
  %sum = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] :
      (tensor<64x512x{0}>, tensor<{0}>) -> tensor<64x{0}>
  return %sum : tensor<64x{0}>
}}
"""


@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16])
def test_a_host_may_add_up_in_another_order_but_leave_out_no_term(dtype):
    terms = np.random.default_rng(4).standard_normal((64, 512)).astype(dtype)
    golden = terms.astype(np.float64).sum(axis=1).astype(dtype)
    roots = np.sqrt(np.square(terms.astype(np.float64)).sum(axis=1)).astype(np.float32)
    element = {np.float32: "f32", np.float64: "f64"}.get(dtype, "bf16")
    module = SUM_OF_ROWS.format(element).encode()
    known = Operands("stablehlo.reduce", module, lambda: [terms], "stablehlo.add", lambda: [roots])
    wide = np.float32 if dtype != np.float64 else dtype

    def verdict(got):
        desc = {"inputs": [_desc(terms)], "outputs": [_desc(golden)]}
        params = {"body": "stablehlo.add", "dimensions": "array<i64: 1>"}
        return compare([golden], [got], "stablehlo.reduce", HOST, params=params, operands=known, **desc)[0]

    reordered = np.add.accumulate(terms[:, ::-1].astype(wide), axis=1)[:, -1].astype(dtype)
    assert verdict(reordered).passed, verdict(reordered)
    short = golden.copy()
    # The largest term of one row, which no rounding explains.
    at = int(np.argmax(np.abs(terms[9].astype(np.float64))))
    short[9] = (golden[9].astype(np.float64) - terms[9, at].astype(np.float64)).astype(dtype)
    result = verdict(short)
    assert not result.passed
    assert result.question == "largest"
    assert result.z_index == (9,)


def test_a_sum_whose_terms_of_one_sign_come_first_is_judged_by_its_partial_sums():
    """All additions round numbers that are far larger than what the terms are by chance."""
    rng = np.random.default_rng(8)
    terms = np.concatenate([rng.uniform(1, 2, (64, 256)), -rng.uniform(1, 2, (64, 256))], axis=1).astype(np.float32)
    golden = terms.astype(np.float64).sum(axis=1).astype(np.float32)
    roots = np.sqrt(np.square(terms.astype(np.float64)).sum(axis=1)).astype(np.float32)
    module = SUM_OF_ROWS.format("f32").encode()
    known = Operands("stablehlo.reduce", module, lambda: [terms], "stablehlo.add", lambda: [roots])

    def passes(got):
        desc = {"inputs": [_desc(terms)], "outputs": [_desc(golden)]}
        params = {"body": "stablehlo.add", "dimensions": "array<i64: 1>"}
        return compare([golden], [got], "stablehlo.reduce", HOST, params=params, operands=known, **desc)[0].passed

    sizes = known.partial_sums(golden)
    by_hand = np.sqrt(np.square(np.cumsum(terms.astype(np.float64), axis=1)).sum(axis=1))
    np.testing.assert_allclose(sizes, by_hand, rtol=1e-6)
    assert passes(np.add.accumulate(terms, axis=1)[:, -1])
    far = golden.copy()
    far[5] += np.float32(2**-24 * sizes[5] * 4)  # explained by its partial sums alone
    assert passes(far)
    far[5] = golden[5] - terms[5, 0]
    assert not passes(far)


def test_one_part_of_one_complex_number_is_wrong():
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal((2, 64, 64)).astype(np.float32).view(np.complex64)[0] for _ in range(2))
    golden = a * b
    near = (a.astype(np.complex128) * b.astype(np.complex128)).astype(np.complex64)
    run = {"inputs": [a, b], "run": lambda values: [values[0] * values[1]]}
    assert judged("stablehlo.multiply", HOST, golden, near, **run).passed
    wrong = golden.copy()
    wrong[4, 5] += 0.01j
    result = judged("stablehlo.multiply", HOST, golden, wrong, **run)
    assert not result.passed
    assert result.question == "largest"
    assert result.z_index == (4, 11)


def test_each_of_several_results_is_judged():
    golden = [np.arange(64, dtype=np.float32) + 1, np.arange(64, dtype=np.int32)]
    got = [golden[0].copy(), golden[1].copy()]
    got[0][63] *= 2
    first, second = compare(golden, got, "stablehlo.custom", DEVICE)
    assert (first.passed, second.passed) == (False, True)
    assert compare(golden, golden, "stablehlo.custom", DEVICE)[0].z_max == 0


COMPOSITES = {
    "own": """
      func.func private @swish(%x: tensor<64x32xf32>) -> (tensor<64x32xf32>, tensor<64xf32>) {
        %0 = stablehlo.logistic %x : tensor<64x32xf32>
        %1 = stablehlo.multiply %x, %0 : tensor<64x32xf32>
        %z = stablehlo.constant dense<0.0> : tensor<f32>
        %2 = stablehlo.reduce(%1 init: %z) applies stablehlo.add across dimensions = [1]
          : (tensor<64x32xf32>, tensor<f32>) -> tensor<64xf32>
        return %1, %2 : tensor<64x32xf32>, tensor<64xf32>
      }
      func.func @main(%x: tensor<64x32xf32>) -> (tensor<64x32xf32>, tensor<64xf32>) {
        %0:2 = stablehlo.composite "own.swish" %x {decomposition = @swish}
          : (tensor<64x32xf32>) -> (tensor<64x32xf32>, tensor<64xf32>)
        return %0#0, %0#1 : tensor<64x32xf32>, tensor<64xf32>
      }""",
    "chlo": """
      func.func private @asinh(%x: tensor<64x32xf32>) -> tensor<64x32xf32> {
        %0 = stablehlo.multiply %x, %x : tensor<64x32xf32>
        %one = stablehlo.constant dense<1.0> : tensor<64x32xf32>
        %1 = stablehlo.add %0, %one : tensor<64x32xf32>
        %2 = stablehlo.sqrt %1 : tensor<64x32xf32>
        %3 = stablehlo.add %x, %2 : tensor<64x32xf32>
        %4 = stablehlo.log %3 : tensor<64x32xf32>
        return %4 : tensor<64x32xf32>
      }
      func.func @main(%x: tensor<64x32xf32>) -> tensor<64x32xf32> {
        %0 = stablehlo.composite "chlo.asinh" %x {decomposition = @asinh, version = 1 : i32}
          : (tensor<64x32xf32>) -> tensor<64x32xf32>
        return %0 : tensor<64x32xf32>
      }""",
    "complex": """
      func.func private @turn(%x: tensor<64x32xf32>) -> tensor<64x32xcomplex<f32>> {
        %0 = stablehlo.cosine %x : tensor<64x32xf32>
        %1 = stablehlo.sine %x : tensor<64x32xf32>
        %2 = stablehlo.complex %0, %1 : tensor<64x32xcomplex<f32>>
        return %2 : tensor<64x32xcomplex<f32>>
      }
      func.func @main(%x: tensor<64x32xf32>) -> tensor<64x32xcomplex<f32>> {
        %0 = stablehlo.composite "own.turn" %x {decomposition = @turn}
          : (tensor<64x32xf32>) -> tensor<64x32xcomplex<f32>>
        return %0 : tensor<64x32xcomplex<f32>>
      }""",
}


@pytest.mark.parametrize("target", [DEVICE, HOST], ids=["device", "host"])
@pytest.mark.parametrize("name", COMPOSITES)
def test_one_element_of_one_result_of_a_composite_is_wrong(name, target):
    (op,) = split_module(COMPOSITES[name], name).ops.values()
    assert op.op_name.startswith("stablehlo.composite")
    x = np.random.default_rng(6).uniform(0.5, 2, (64, 32)).astype(np.float32)
    known = Operands(op.op_name, op.bytecode, lambda: [x])
    golden = known.run([x])

    def passed(got):
        return [
            check.passed
            for check in compare(
                golden,
                got,
                op.op_name,
                target,
                inputs=op.inputs,
                outputs=op.outputs,
                params=op.op_params,
                operands=known,
            )
        ]

    near = [result * np.float32(1 + 2.0**-23) for result in golden]
    assert passed(near) == [True] * len(golden)
    for wrong in range(len(golden)):
        got = [result.copy() for result in near]
        got[wrong].flat[77 % got[wrong].size] *= np.float32(1.1)
        assert passed(got) == [number != wrong for number in range(len(golden))]
        got[wrong].flat[77 % got[wrong].size] = np.nan
        assert passed(got) == [number != wrong for number in range(len(golden))]


@each("name", ["exponential", "maximum", "reduce", "dot_general", "composite", "convert", "select"])
@each("got", [np.inf, -np.inf, 0.0, 1.0, 3e38])
def test_no_number_stands_for_a_nan(name, got):
    """A packer makes infinity of NaN, and what follows makes numbers of that: both are wrong."""
    golden = np.array([1.0, np.nan, 2.0] * 8, ml_dtypes.bfloat16)
    device = golden.copy()
    assert judged(f"stablehlo.{name}", TARGETS[BF16.name], golden, device, inputs=[golden]).passed
    device[1] = got
    result = judged(f"stablehlo.{name}", TARGETS[BF16.name], golden, device, inputs=[golden])
    assert not result.passed
    assert "instead of nan" in result.reason


def _desc(array):
    names = {"float32": "f32", "float64": "f64", "bfloat16": "bf16"}
    return TensorDesc(shape=array.shape, data_type=names[array.dtype.name])


@each(("name", "data_format"), [("dot_general", "Bfp8_b"), ("add", "Float16_b"), ("transpose", "Bfp8_b")])
def test_operands_are_not_asked_for_a_result_that_its_golden_excuses(name, data_format):
    golden = np.random.default_rng(2).standard_normal((64, 64)).astype(np.float32)
    asked = Operands(f"stablehlo.{name}", b"", lambda: pytest.fail("the operands were asked for"))
    target = Target("sim-n150", data_format, "HiFi4", "Tf32")
    (result,) = compare([golden], [golden.copy()], f"stablehlo.{name}", target, operands=asked)
    assert result.passed


def test_operands_in_blocks_are_asked_first():
    """An elementwise op whose operands were rounded to blocks: its golden alone never excuses what that costs."""
    ran = []

    golden = np.random.default_rng(2).standard_normal((64, 64)).astype(np.float32)
    target = Target("sim-n150", "Bfp8_b", "HiFi4", "Tf32")
    known = operands("stablehlo.tanh", [golden], run=lambda values: ran.append(1) or [np.tanh(values[0])])
    assert compare([np.tanh(golden)], [np.tanh(golden)], "stablehlo.tanh", target, operands=known)[0].passed
    assert ran


def test_where_a_whole_golden_is_zero_the_operands_say_how_large_an_error_may_be():
    zeros, got = np.zeros((2, 4), np.float32), np.zeros((2, 4), np.float32)
    got[1, 2] = -0.75
    plain = judged("stablehlo.subtract", TARGETS[BF16.name], zeros, got)
    most = f"{BF16.relative_l2:.3g}"
    assert plain.reason == f"golden is all zero: wrong by 0.75, at most {most} is right"
    ones = [np.ones_like(zeros)] * 2
    known = judged("stablehlo.subtract", TARGETS[BF16.name], zeros, got, inputs=ones, run=lambda v: [v[0] - v[1]])
    assert known.question == plain.question == "largest"
    assert known.reason.startswith("wrong by 0.75 at (1, 2), tile (0, 0, 0), face 0, row 1: -0.75 instead of 0, ")
    got[1, 2] = 2.0**-9
    assert not judged("stablehlo.negate", TARGETS[BF16.name], zeros, got, inputs=[zeros], run=lambda v: [-v[0]]).passed
    got[1, 2] = 1e-5
    assert judged("stablehlo.negate", TARGETS[BF16.name], zeros, got, inputs=[zeros], run=lambda v: [-v[0]]).passed


def test_the_sign_of_a_zero_counts_where_values_are_only_moved():
    zeros, card = np.float32([0.0, -0.0, 1.0, -1e-40]), Target("sim-n150", None, "HiFi4", "Tf32", signed_zeros=True)
    host, board = Target("host", None, "exact"), Target("sim-n150", None, "HiFi4", "Tf32")
    half = zeros.astype(ml_dtypes.bfloat16)

    def right(op, target, golden=zeros, got=None, **options):
        got = golden + golden.dtype.type(0) if got is None else got
        return compare([golden], [got], f"stablehlo.{op}", target, **options)[0].passed

    for op in ("reshape", "slice", "transpose", "concatenate", "select"):
        assert not right(op, host), op
        assert not right(op, card), op
        assert right(op, board), "a board that does not say"
        assert right(op, host, got=zeros.copy())
    assert right("reshape", host, got=np.float32([0.0, -0.0, 1.0, 0.0])), "a denormal may become 0"
    assert not right("negate", host)
    assert not right("abs", host, golden=half, got=-half)
    assert not right("sort", host), "a lost sign"
    assert right("sort", host, got=zeros[[1, 0, 2, 3]]), "equal keys"
    assert not right("sort", host, got=zeros[[1, 0, 2, 3]], params={"is_stable": "true"})
    assert right("maximum", host)
    assert not right("slice", card, golden=half)
    assert right("select", card, golden=half), "packed into 16 bits"
    assert right("reshape", Target("sim-n150", "Float16_b", "HiFi4", "Tf32", signed_zeros=True)), "packed too"


def test_what_is_a_denormal_of_the_stored_format_may_be_zero():
    """float32 values that a card holds in Float16, whose smallest normal number is 6.1e-5."""
    golden = np.float32([[2.8e-05, -6e-05, 1.0, 0.5] * 8] * 32)
    flushed = np.where(np.abs(golden) < 6.2e-05, np.float32(0), golden)
    lost = np.where(np.abs(golden) == 0.5, np.float32(0), golden)

    def check_of(got, number_format):
        return compare([golden], [got], "stablehlo.multiply", Target("sim-n150", number_format, "HiFi4", "Tf32"))[0]

    assert check_of(flushed, "Float16").passed
    assert "denormal_flush" in check_of(flushed, "Float16").flags
    assert not check_of(lost, "Float16").passed
    for wide in ("Float16_b", None):
        assert not check_of(flushed, wide).passed


def test_numbers_of_integers_and_the_next_number_are_exact():
    host = Target("host", None, "exact")
    truth = np.array([True, False] * 40)
    golden = truth.astype(np.float16)
    convert = operands("stablehlo.convert", [truth])
    off = np.where(golden == 1, np.float16(1 + 2**-8), golden)
    assert compare([golden], [golden], "stablehlo.convert", host, operands=convert)[0].passed
    refused = compare([golden], [off], "stablehlo.convert", host, operands=convert)[0]
    assert (refused.passed, refused.question) == (False, "rounding")
    numbers = np.float32([1.0, 2.0, -3.5])
    after = np.nextafter(numbers, np.float32(9))
    assert compare([after], [after], "chlo.next_after", host)[0].passed
    for target in (host, Target("sim-n150", None, "HiFi4", "Tf32")):
        assert not compare([after], [numbers], "chlo.next_after", target)[0].passed
