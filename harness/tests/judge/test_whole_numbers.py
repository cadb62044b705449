"""The judge on integers, truth values and complex numbers, beside XLA and NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from opscope import judge
from opscope.base.op_families import NAMES
from opscope.base.tests.each import each
from opscope.harness.formulas.whole_numbers import INTEGERS, OPERANDS, UNSTATED
from opscope.harness.prepare.golden import compile_module
from opscope.harness.record.records import ResultCheck, TensorDesc
from opscope.harness.verdict.compare import compare
from opscope.harness.verdict.operands import Operands
from opscope.harness.verdict.target import HOST

KINDS = {
    "i1": np.bool_,
    **{f"i{bits}": getattr(ml_dtypes, f"int{bits}") for bits in (2, 4)},
    **{f"ui{bits}": getattr(ml_dtypes, f"uint{bits}") for bits in (2, 4)},
    **{f"i{bits}": getattr(np, f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"ui{bits}": getattr(np, f"uint{bits}") for bits in (8, 16, 32, 64)},
}
LARGEST = {ml_dtypes.int2: 2, ml_dtypes.uint2: 2}
"""Exponents of which XLA's powers are right are less than this; of other types than 4 (docs/found.md)."""
OF_BITS = {"and", "maximum", "minimum", "multiply", "add", "not", "or", "xor", "select"}
"""Ops that StableHLO has for truth values."""


def ends(kind: type, number: int = 400, seed: int = 0) -> np.ndarray:
    """Integers of all sizes, those at the ends of the type among them."""
    rng = np.random.default_rng(seed)
    if kind is np.bool_:
        return rng.random(number) < 0.5
    info = ml_dtypes.iinfo(kind)
    bits = rng.integers(0, 2**64, number, dtype=np.uint64, endpoint=False) >> rng.integers(
        0, 64, number, dtype=np.uint64
    )
    some = [0, 1, 2, 3, info.max, info.max - 1, info.min, *([-1, -2, info.min + 1] if info.min else [])]
    bits[: len(some)] = np.array(some, object).astype(object) & (2**64 - 1)
    width = np.uint64(2**info.bits - 1)
    pattern = (bits & width).astype(np.uint64)
    rng.shuffle(pattern)
    if info.min and info.bits < 64:
        signed = pattern.astype(np.int64)
        return np.where(signed >> (info.bits - 1), signed - (1 << info.bits), signed).astype(kind)
    return pattern.view(np.int64).astype(kind) if info.min else pattern.astype(kind)


def operands_of(name: str, kind: type) -> list[np.ndarray]:
    inputs = [ends(kind, seed=seed) for seed in range(OPERANDS.get(name, 2))]
    if name == "select":
        inputs[0] = ends(np.bool_)
    if name == "power":
        inputs[1] = (inputs[1].astype(np.int64) % LARGEST.get(kind, 4)).astype(kind)
    return inputs


def by_xla(word: str, names: list[str], inputs: list[list[np.ndarray]]) -> list[np.ndarray]:
    """What XLA, as goldens are made, gives for several ops of one type, in one module."""
    tensor, arguments, lines, results = f"tensor<400x{word}>", [], [], []
    for number, (name, operands) in enumerate(zip(names, inputs, strict=True)):
        types = ["tensor<400xi1>" if x.dtype == np.bool_ else tensor for x in operands]
        first = len(arguments)
        arguments += [f"%a{first + place}: {kind}" for place, kind in enumerate(types)]
        values = ", ".join(f"%a{first + place}" for place in range(len(types)))
        lines.append(f'%r{number} = "stablehlo.{name}"({values}) : ({", ".join(types)}) -> {tensor}')
        results.append(f"%r{number}")
    body, kinds = "\n".join(lines), ", ".join([tensor] * len(names))
    values = ", ".join(results)
    module = f"func.func public @main({', '.join(arguments)}) -> ({kinds}) {{ {body}\n return {values} : {kinds} }}"
    return compile_module(module)([x for operands in inputs for x in operands])


WRONG_IN_XLA = {("popcnt", "i2"), ("popcnt", "i4")}
"""docs/found.md."""


@pytest.mark.parametrize("word", KINDS)
def test_integers_are_judged_as_xla_computes_them(word):
    kind = KINDS[word]
    names = sorted(OF_BITS if kind is np.bool_ else INTEGERS.keys() & NAMES)
    if word.startswith("ui"):
        names = [name for name in names if name not in ("abs", "negate", "sign")]
    names = [name for name in names if (name, word) not in WRONG_IN_XLA]
    inputs = [operands_of(name, kind) for name in names]
    for name, operands, right in zip(names, inputs, by_xla(word, names, inputs), strict=True):
        verdict = judge(name, operands, right)
        assert verdict.answer == "right", (name, str(verdict))
        wide = [x.astype(np.int64) for x in operands]
        stated = ~UNSTATED[name](*wide) if name in UNSTATED else np.ones(400, bool)
        np.testing.assert_array_equal(verdict.golden[0][stated], right[stated], err_msg=name)
        off = right.copy()
        at = np.flatnonzero(stated)[7]
        off[at] = not off[at] if kind is np.bool_ else kind(int(off[at]) ^ 1)
        assert judge(name, operands, off).answer == "wrong", name


def test_where_nothing_says_what_comes_nothing_is_wrong():
    x, y = np.array([5, -7, 9], np.int32), np.array([0, 2, 0], np.int32)
    for came in ([-1, -3, -1], [0, -3, 17]):
        assert judge("divide", [x, y], np.array(came, np.int32)).answer == "right"
    assert judge("divide", [x, y], np.array([-1, -4, -1], np.int32)).answer == "wrong"
    assert judge("floor_divide", [x, y], np.array([-1, -4, -1], np.int32)).answer == "right"
    verdict = judge("divide", [x, 0 * y], x)
    assert (verdict.answer, "nothing says what divide" in verdict.reason) == ("undecided", True)


def test_a_number_outside_of_the_type_that_it_is_converted_to_may_become_any():
    x = np.array([1.5, -1.5, 300.0, -1.0, np.nan, 255.9], np.float32)
    assert judge("convert", x, np.array([1, 0, 7, 5, 9, 255], np.uint8)).answer == "right"
    assert judge("typecast", x, np.array([1, 3, 7, 0, 9, 255], np.uint8)).answer == "right"
    assert judge("typecast", x, np.array([2, 3, 7, 0, 9, 255], np.uint8)).answer == "wrong"


@pytest.mark.parametrize("kind", [np.float32, np.float16, ml_dtypes.bfloat16, np.int32, np.int64, np.uint8, np.bool_])
def test_conversions_are_judged_as_numpy_makes_them(kind):
    x = (np.arange(-40, 40) / 4).astype(np.float32)
    inside = x[x >= 0] if kind is np.uint8 else x
    for source in (inside, inside.astype(np.float64), inside.astype(ml_dtypes.bfloat16), inside.astype(np.int16)):
        right = source.astype(np.float64).astype(kind) if kind is not np.bool_ else source != 0
        assert judge("convert", source, right).answer == "right", source.dtype
        off = right.copy()
        off[5] = not off[5] if kind is np.bool_ else off[5] + kind(1)
        assert judge("convert", source, off).answer == "wrong", source.dtype


@pytest.mark.parametrize(
    ("what", "function"),
    [
        ("eq", np.equal),
        ("lt", np.less),
        ("ge", np.greater_equal),
        ("logical_and", np.logical_and),
        ("ne", np.not_equal),
    ],
)
def test_truth_values_of_any_numbers(what, function):
    for kind in (np.float32, np.int64, np.uint8, np.bool_):
        x, y = (ends(np.int64, seed=seed) % 3 for seed in (1, 2))
        x, y = x.astype(kind), y.astype(kind)
        right = function(x, y)
        assert judge(what, [x, y], right).answer == "right"
        assert judge(what, [x, y], right.astype(np.int32)).answer == "right"
        assert judge(what, [x, y], ~right).answer == "wrong"
    large = np.array([2**62, 2**62 + 1], np.int64)
    assert judge("eq", [large, large[::-1].copy()], np.array([False, False])).answer == "right"


def test_sums_products_and_largest_values_of_integers():
    a, b = ends(np.int8).reshape(20, 20), ends(np.int8, seed=3).reshape(20, 20)
    product = a.astype(np.int32) @ b.astype(np.int32)
    assert judge("matmul", [a, b], product).answer == "right"
    assert judge("matmul", [a, b], product.astype(np.int8)).answer == "right"
    assert judge("matmul", [a, b], product + 1).answer == "wrong"
    assert judge("sum(axis=1)", a, a.sum(axis=1, dtype=np.int32)).answer == "right"
    assert judge("cumsum(axis=1)", a, np.cumsum(a, axis=1, dtype=np.int64)).answer == "right"
    assert judge("prod(axis=1)", a % 3, (a % 3).prod(axis=1, dtype=np.int64)).answer == "right"
    assert judge("max(axis=0)", a, a.max(axis=0)).answer == "right"
    assert judge("min(axis=0)", a, a.max(axis=0)).answer == "wrong"
    assert judge("mean(axis=1)", a, a.mean(axis=1).astype(np.float32)).answer == "right"
    assert judge("mean(axis=1)", a, a.mean(axis=1).astype(np.int32)).answer == "undecided"


def test_any_place_of_the_largest_value_is_right():
    x = np.array([[1.0, 3, 3, 2], [5, 5, 5, 5]], np.float32)
    for came, answer in (
        ([1, 0], "right"),
        ([2, 3], "right"),
        ([3, 0], "wrong"),
        ([1, 4], "wrong"),
        ([-1, 0], "wrong"),
    ):
        assert judge("argmax(axis=1)", x, np.array(came, np.int32)).answer == answer, came
    assert judge("argmin(axis=1)", x, np.array([0, 2], np.uint32)).answer == "right"


@pytest.mark.parametrize(
    "what", ["cumsum(axis=-1)", "cumprod(axis=-1)", "prod(axis=-1)", "amax(axis=-1)", "amin(axis=-1)", "sort(axis=-1)"]
)
def test_running_sums_products_and_largest_values_of_floats(what):
    x = np.random.default_rng(0).uniform(0.5, 1.5, (64, 48)).astype(np.float32)
    name = what.partition("(")[0]
    right = getattr(np, name)(x, axis=-1)
    assert judge(what, x, right).answer == "right"
    assert judge(what, x, right * np.float32(1 + 2e-5)).answer == "wrong"
    off = right.copy()
    off.flat[11] *= np.float32(1.001)
    assert judge(what, x, off).answer == "wrong"


@pytest.mark.parametrize("what", ["add", "multiply", "divide", "exponential", "tanh", "abs", "sqrt", "log"])
def test_complex_numbers_are_judged_beside_double_precision(what):
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(64, 2)).astype(np.float32).view(np.complex64).ravel() for _ in range(2))
    inputs = [x, y] if what in ("add", "multiply", "divide") else [x]
    of = {"exponential": np.exp}.get(what) or getattr(np, what)
    right = of(*inputs)
    assert judge(what, inputs, right).answer == "right"
    assert judge(what, inputs, np.conj(right) + np.float32(1e-3)).answer == "wrong"
    off = right.copy()
    off[3] *= np.float32(1.001)
    assert judge(what, inputs, off).answer == "wrong"


def test_a_part_of_a_complex_product_may_cancel_as_its_two_terms_do():
    x, y = (
        np.random.default_rng(n).normal(size=(4096, 2)).astype(np.float32).view(np.complex64).ravel() for n in (0, 1)
    )
    product = (x.real * y.real - x.imag * y.imag + 1j * (x.real * y.imag + x.imag * y.real)).astype(np.complex64)
    assert judge("multiply", [x, y], product)
    for lie in (product * np.float32(1 + 1e-4), product + np.float32(1e-4), product.conj()):
        assert judge("multiply", [x, y], lie.astype(np.complex64)).answer == "wrong"


def test_the_last_bit_of_a_modulus_is_left_open():
    x = np.random.default_rng(0).normal(size=(64, 2)).astype(np.float32).view(np.complex64).ravel()
    right = np.abs(x.astype(np.complex128)).astype(np.float32)
    text = """func.func @main(%a: tensor<64xcomplex<f32>>) -> tensor<64xf32> {
      %r = stablehlo.abs %a : (tensor<64xcomplex<f32>>) -> tensor<64xf32>
      return %r : tensor<64xf32> }"""
    for what in ("abs", text):
        assert judge(what, x, np.nextafter(right, np.float32(9))).answer == "right"
        assert judge(what, x, right * np.float32(1 + 1e-5)).answer == "wrong"
    assert judge("abs", x.real, np.nextafter(np.abs(x.real), np.float32(9))).answer == "wrong"


@each(
    ("op_name", "inputs", "golden", "came", "off"),
    [
        ("divide", [[6, 7, 8], [2, 0, 0]], [3, -1, -1], [3, 0, 9], [4, -1, -1]),
        ("remainder", [[6, 7, 8], [4, 0, 3]], [2, 7, 2], [2, 0, 2], [2, 7, 1]),
        ("power", [[2, 2, 3], [3, -1, 2]], [8, 0, 9], [8, 5, 9], [8, 0, 8]),
        ("add", [[6, 7, 8], [2, 0, 0]], [8, 7, 8], [8, 7, 8], [8, 0, 8]),
    ],
)
def test_a_run_leaves_open_what_stablehlo_leaves_open(op_name, inputs, golden, came, off):
    kinds = [TensorDesc(shape=(3,), data_type="i32")]
    operands = Operands(f"stablehlo.{op_name}", b"", lambda: [np.array(x, np.int32) for x in inputs])

    def check(got: list[int]) -> ResultCheck:
        arrays = [np.array(golden, np.int32)], [np.array(got, np.int32)]
        return compare(*arrays, f"stablehlo.{op_name}", HOST, inputs=2 * kinds, outputs=kinds, operands=operands)[0]

    right = check(came)
    assert (right.passed, right.flags) == (True, ("unstated",) if came != golden else ())
    assert not check(off).passed


@pytest.mark.parametrize(
    ("name", "word", "operands", "right"),
    [
        ("popcnt", "i4", [[-1, -2, 7, 3]], [4, 3, 3, 2]),
        ("power", "i32", [[3, 3, 3, -1], [63, 64, 2**31 - 1, 65]], [2111105451, 2038349057, -1431655765, -1]),
        ("power", "ui8", [[3, 3, 2, 0], [127, 128, 200, 0]], [171, 1, 0, 1]),
    ],
)
def test_what_xla_computes_wrong_is_judged_by_its_formula(name, word, operands, right):
    kind = KINDS[word]
    inputs, right = [np.array(x).astype(kind) for x in operands], np.array(right).astype(kind)
    tensor = f"tensor<4x{word}>"
    parameters = ", ".join(f"%a{place}: {tensor}" for place in range(len(inputs)))
    values, types = ", ".join(f"%a{place}" for place in range(len(inputs))), ", ".join([tensor] * len(inputs))
    text = f"""func.func public @main({parameters}) -> {tensor} {{
      %r = "stablehlo.{name}"({values}) : ({types}) -> {tensor}
      return %r : {tensor} }}"""
    of_xla = compile_module(text)(inputs)[0]
    assert (of_xla != right).any(), "mended: see KNOWN_BUGS and known_wrong.FORMS"
    for what in (name, text):
        assert judge(what, inputs, right).answer == "right"
        assert judge(what, inputs, of_xla).answer == "wrong"


@each(
    ("name", "known"),
    [("swish", "silu"), ("fix", "trunc"), ("clip(min=-0.5, max=0.5)", "hardtanh(min_val=-0.5, max_val=0.5)"),
     ("clamp(min=-0.5, max=0.5)", "hardtanh(min_val=-0.5, max_val=0.5)"), ("arcsinh", "asinh"),
     ("max(axis=-1)", "amax(axis=-1)"), ("logsumexp(dim=-1)", "logsumexp(axis=-1)")],
)  # fmt: skip
def test_names_of_frameworks(name, known):
    x = np.random.default_rng(0).normal(size=(16, 8)).astype(np.float32)
    right = judge(known, x, x[:, 0] if "axis" in known else x).golden[0]
    assert judge(name, x, right).answer == "right"
    assert judge(name, x, right + np.float32(0.01)).answer == "wrong"


def test_a_choice_of_floats_by_truth_values():
    rng = np.random.default_rng(0)
    chosen, (x, y) = rng.random(64) < 0.5, rng.normal(size=(2, 64)).astype(np.float32)
    assert judge("where", [chosen, x, y], np.where(chosen, x, y)).answer == "right"
    assert judge("select", [chosen, x, y], np.where(chosen, y, x)).answer == "wrong"


def test_a_verdict_on_integers_says_how_many_are_equal():
    x = np.array([5, -7, 9, -2], np.int32)
    y = np.full(4, 2, np.int32)
    assert "all equal" in str(judge("divide", [x, y], np.array([2, -3, 4, -1], np.int32)))
    said = str(judge("divide", [x, y], x // y))
    assert "75.00% equal, the others at most 1 off" in said
    assert "of -7, 2: expected -3, got -4" in said
    assert "ulp" not in said
