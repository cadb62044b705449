"""Kinds of wrong results that once passed, and of right ones that did not: whole families of them, not the cases."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from opscope import judge
from opscope.harness.backends.reference import Reference
from opscope.harness.prepare.golden import compile_module
from opscope.harness.record.records import TensorDesc
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.verdict.compare import compare
from opscope.harness.verdict.operands import Operands, as_stored
from opscope.harness.verdict.random_numbers import distribution
from opscope.harness.verdict.target import Target

HOST = Target("host", None, "exact")
TYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "f64": np.float64, "i32": np.int32}
OF = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "tanh": np.tanh, "maximum": np.maximum}
BF16 = np.dtype(ml_dtypes.bfloat16).type
MATRIX = "#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>"


def card() -> Target:
    return Reference().target(ResultOptions(arch="n150"))


def elementwise(op, shape, kind, count):
    tensor = f"tensor<{'x'.join(map(str, shape))}x{kind}>"
    names = [f"%{number}" for number in range(count)]
    return (
        f"func.func @main({', '.join(f'{name}: {tensor}' for name in names)}) -> {tensor} {{\n"
        f"  %r = stablehlo.{op} {', '.join(names)} : {tensor}\n  return %r : {tensor}\n}}"
    ).encode()


def product(rows, inner, columns, kind, result):
    types = f"tensor<{rows}x{inner}x{kind}>", f"tensor<{inner}x{columns}x{kind}>", f"tensor<{rows}x{columns}x{result}>"
    return (
        f"func.func @main(%a: {types[0]}, %b: {types[1]}) -> {types[2]} {{\n"
        f"  %r = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : ({types[0]}, {types[1]}) -> {types[2]}\n"
        f"  return %r : {types[2]}\n}}"
    ).encode()


def judged(op, module, inputs, got, target, **params):
    golden = compile_module(module, widen=True)(inputs)
    names = {np.dtype(value): name for name, value in TYPES.items()}
    descs = [[TensorDesc(shape=x.shape, data_type=names[x.dtype]) for x in each] for each in (inputs, [got])]
    known = Operands(f"stablehlo.{op}", module, lambda: inputs, params.get("body"))
    (result,) = compare(
        golden, [got], f"stablehlo.{op}", target, inputs=descs[0], outputs=descs[1], params=params, operands=known
    )
    return result


def rounded(values, dtype, way):
    """Float64 values as a type of 16 bits, rounded in one direction."""
    near = values.astype(np.float32).astype(dtype)
    off = near.astype(np.float64) - values
    down = np.where(off > 0, np.nextafter(near, near.dtype.type(-np.inf)), near)
    up = np.where(off < 0, np.nextafter(near, near.dtype.type(np.inf)), near)
    ways = {"near": near, "down": down, "up": up, "zero": np.where(values > 0, down, up)}
    return ways[way].astype(dtype)


@pytest.mark.crossed
@pytest.mark.parametrize("op", ["add", "subtract", "multiply", "tanh"])
@pytest.mark.parametrize(
    ("kind", "shape"),
    [("bf16", (64, 64)), pytest.param("bf16", (200, 300), marks=pytest.mark.slow), ("f16", (256, 256))],
)
def test_roundings_in_one_direction_have_a_mean(op, kind, shape):
    """The values of float16 have denormals among their operands, which excuse a few elements, and no mean."""
    rng, count = np.random.default_rng(0), 1 if op == "tanh" else 2
    inputs = [rng.standard_normal(shape).astype(TYPES[kind]) for _ in range(count)]
    values, module = OF[op](*(x.astype(np.float64) for x in inputs)), elementwise(op, shape, kind, count)
    for target in (HOST, card()) if kind == "bf16" else (HOST,):
        for way in ("near", "down", "up", "zero"):
            result = judged(op, module, inputs, rounded(values, TYPES[kind], way), target)
            assert result.passed is (way == "near"), (target.card_type, way, result)
            # Of a denormal of float16 one rounding is already too large a share.
            assert result.question in (("",) if way == "near" else ("systematic", "largest")[: 1 + (kind == "f16")])


@pytest.mark.parametrize("inner", [16, 512])
def test_sums_that_are_rounded_in_one_direction_have_a_mean(inner):
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(shape).astype(TYPES["bf16"]) for shape in ((64, inner), (inner, 64))]
    values = inputs[0].astype(np.float64) @ inputs[1].astype(np.float64)
    module = product(64, inner, 64, "bf16", "bf16")
    for target in (HOST, card()):
        for way in ("near", "down", "up", "zero"):
            got = rounded(values, TYPES["bf16"], way)
            result = judged("dot_general", module, inputs, got, target, dot_dimension_numbers=MATRIX)
            assert result.passed is (way == "near"), (target.card_type, way, result)


@pytest.mark.crossed
@pytest.mark.parametrize("op", ["add", "subtract", "multiply", "maximum"])
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_what_ieee_rounds_has_one_result_up_to_denormals(op, kind):
    rng, tiny = np.random.default_rng(4), np.finfo(TYPES[kind]).tiny
    plain = [rng.standard_normal((16, 16)).astype(TYPES[kind]) for _ in range(2)]
    module = elementwise(op, (16, 16), kind, 2)
    right = OF[op](*plain)
    assert judged(op, module, plain, right, HOST).passed
    last = right.copy()
    last[3, 4] = np.nextafter(last[3, 4], last.dtype.type(9))
    assert not judged(op, module, plain, last, HOST).passed
    root = np.sqrt(tiny) / 8
    for pair in ((tiny / 64, tiny / 128), (tiny / 64, 1.5), (tiny / 64, 1 / np.sqrt(tiny)), (root, root)):
        inputs = [x.copy() for x in plain]
        for x, value in zip(inputs, pair, strict=True):
            x[0, :8] = value

        def without(x):
            return np.where(np.abs(x) < tiny, 0, x).astype(x.dtype)

        kept = OF[op](*inputs)
        for got in (kept, without(kept), without(OF[op](*map(without, inputs)))):
            assert judged(op, module, inputs, got, HOST).passed, (pair, got[0, 0])


@pytest.mark.crossed
@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("op", ["divide", "sqrt"])
def test_what_fast_modes_get_a_unit_wrong_is_not_a_unit_too_large_everywhere(op, kind):
    rng = np.random.default_rng(4)
    inputs = [(rng.random((64, 64)) + 0.1).astype(TYPES[kind]) for _ in range(2 if op == "divide" else 1)]
    module, right = elementwise(op, (64, 64), kind, len(inputs)), getattr(np, op)(*inputs)
    up, down = (np.nextafter(right, TYPES[kind](to)) for to in (9, -9))
    for share, passed in ((0.0, True), (0.2, True), (1.0, False)):
        assert judged(op, module, inputs, np.where(rng.random(right.shape) < share, up, right), HOST).passed is passed
    assert judged(op, module, inputs, np.where(rng.random(right.shape) < 0.5, up, down), HOST).passed


@pytest.mark.slow
@pytest.mark.parametrize("inner", [64, 2048])
def test_operands_of_16_bits_lose_nothing_on_their_way_into_float32(inner):
    rng = np.random.default_rng(1)
    inputs = [rng.standard_normal(shape).astype(TYPES["bf16"]) for shape in ((64, inner), (inner, 64))]
    exact, module = inputs[0].astype(np.float64) @ inputs[1].astype(np.float64), product(64, inner, 64, "bf16", "f32")
    single = inputs[0].astype(np.float32) @ inputs[1].astype(np.float32)
    between = exact.astype(np.float32).astype(TYPES["bf16"])
    noisy = exact * (1 + 1e-3 * rng.standard_normal(exact.shape))
    for got, right in ((exact, True), (single, True), (between, False), (1.001 * exact, False), (noisy, False)):
        for target in (HOST, card()):
            result = judged("dot_general", module, inputs, got.astype(np.float32), target, dot_dimension_numbers=MATRIX)
            assert result.passed is right, (target.card_type, result)


@pytest.mark.crossed
@pytest.mark.parametrize("count", [300, 4000, pytest.param(30_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("positive", [False, True])
def test_a_scatter_of_many_updates_may_be_exact_or_in_another_order_but_lose_none(count, positive):
    rng = np.random.default_rng(0)
    at, x = rng.integers(0, 3, (count, 1)).astype(np.int32), rng.standard_normal((count, 8)).astype(np.float32)
    x = np.abs(x) if positive else x
    module = f"""func.func @main(%at: tensor<{count}x1xi32>, %x: tensor<{count}x8xf32>) -> tensor<3x8xf32> {{
      %zero = stablehlo.constant dense<0.0> : tensor<3x8xf32>
      %0 = "stablehlo.scatter"(%zero, %at, %x) <{{
        scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
          scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> ({{
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %1 = stablehlo.add %a, %b : tensor<f32>
          stablehlo.return %1 : tensor<f32>
      }}) : (tensor<3x8xf32>, tensor<{count}x1xi32>, tensor<{count}x8xf32>) -> tensor<3x8xf32>
      return %0 : tensor<3x8xf32>
    }}""".encode()
    exact, reverse = np.zeros((3, 8)), np.zeros((3, 8), np.float32)
    np.add.at(exact, at[:, 0], x.astype(np.float64))
    np.add.at(reverse, at[::-1, 0], x[::-1])
    lost, first = exact.copy(), int(np.argmax(np.abs(x[:, 0])))
    lost[at[first, 0], 0] -= x[first, 0]
    for got, right in ((exact, True), (reverse, True), (lost, False)):
        assert judged("scatter", module, [at, x], got.astype(np.float32), HOST, body="stablehlo.add").passed is right


HALVES = {
    "mirrored": lambda half, rng: -half,
    "copied": lambda half, rng: half,
    "copied in reverse": lambda half, rng: half[::-1],
    "mirrored in reverse": lambda half, rng: -half[::-1],
    "given signs": lambda half, rng: half * rng.choice((-1.0, 1.0), half.size),
}


@pytest.mark.parametrize("kind", ["UNIFORM", "NORMAL"])
@pytest.mark.parametrize("count", [8000, pytest.param(65_537, marks=pytest.mark.slow)])
def test_numbers_made_of_others_are_not_independent_wherever_those_stand(kind, count):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        draw = rng.standard_normal(count) if kind == "NORMAL" else 2 * rng.random(count) - 1
        ends = (0.0, 1.0) if kind == "NORMAL" else (-1.0, 1.0)
        right = distribution(draw.astype(np.float32), kind, *ends, HOST)
        assert right is not None
        assert right.passed, right
        for share in (2, 3):
            size = count // share
            for name, made in HALVES.items():
                wrong = draw.copy()
                wrong[-size:] = made(draw[:size], rng)
                result = distribution(wrong.astype(np.float32), kind, *ends, HOST)
                assert result is not None
                assert not result.passed, name


def cut(x, bits):
    fraction, exponent = np.frexp(x.astype(np.float64))
    return np.ldexp(np.trunc(np.ldexp(fraction, bits + 1)), exponent - bits - 1)


# quick: the smaller has as many elements as tell each lie
@pytest.mark.parametrize("shape", [(64, 64), pytest.param((256, 256), marks=pytest.mark.slow)])
def test_a_product_of_float16_on_a_card_is_that_of_what_the_matrix_unit_reads(shape):
    """It reads nine fraction bits of one operand and ten of the other; which one, no record says."""
    rng = np.random.default_rng(3)
    a, b = (rng.uniform(0.5, 2, shape).astype(np.float16) for _ in range(2))
    module, wide = elementwise("multiply", shape, "f16", 2), [x.astype(np.float64) for x in (a, b)]
    for honest in (wide[0] * cut(b, 9), cut(a, 9) * wide[1], wide[0] * wide[1]):
        assert judged("multiply", module, [a, b], honest.astype(np.float16), card()).passed
    right = wide[0] * cut(b, 9)
    for lie in (*(rounded(right, np.float16, way) for way in ("down", "up")), right * 1.0005, cut(a, 8) * wide[1]):
        assert not judged("multiply", module, [a, b], np.asarray(lie).astype(np.float16), card()).passed


@pytest.mark.parametrize("op", ["exponential_minus_one", "tanh", "multiply"])
def test_where_a_denormal_operand_may_be_zero_its_result_is_no_other_denormal(op):
    x = np.arange(8, 1000, dtype=np.uint16).view(np.float16)
    inputs = [x, np.ones_like(x)] if op == "multiply" else [x]
    module = elementwise(op, x.shape, "f16", len(inputs))
    (golden,) = compile_module(module, widen=True)(inputs)
    assert judged(op, module, inputs, golden, HOST).passed
    assert judged(op, module, inputs, np.zeros_like(golden), HOST).passed
    for off in (4, 16):
        got = (golden.view(np.uint16) + np.uint16(off)).view(np.float16)
        assert not judged(op, module, inputs, got, HOST).passed


def test_steps_round_also_where_a_denormal_is_taken_for_zero():
    """The derivative of selu jumps at 0, and its constants are rounded to bfloat16 in between."""
    x = np.random.default_rng(0).standard_normal(4096).astype(BF16)
    x[:64] = np.arange(1, 65, dtype=np.uint16).view(BF16)
    wide = x.astype(np.float64)
    alpha, scale = (float(np.float32(each).astype(BF16)) for each in (1.6732632423543772, 1.0507009873554805))
    of_others = np.where(wide > 2.0**-126, scale, float(BF16(scale * alpha)) * np.exp(wide)).astype(BF16)
    assert judge("selu_bw", x, of_others, target="steps")
    for other in (BF16(1.5), BF16(1.875), BF16(0)):
        wrong = of_others.copy()
        wrong[:64] = other
        assert judge("selu_bw", x, wrong, target="steps").answer == "wrong"


BLOCK_OPS = {"convert": 1, "tanh": 1, "exponential": 1, "subtract": 2, "multiply": 2, "divide": 2}


@pytest.mark.crossed
@pytest.mark.parametrize(
    ("op", "stored"),
    [(op, stored) for op in BLOCK_OPS for stored in ("Bfp8", "Bfp4", "Bfp2") if (op, stored) != ("divide", "Bfp2")],
)
def test_results_in_blocks_that_are_off_alike_are_wrong(op, stored):
    """However operands and results come into their blocks: by rounding, by cutting, by cutting what was rounded."""
    shape = (64, 64)
    rng, count = np.random.default_rng(5), BLOCK_OPS[op]
    inputs = [rng.uniform(1, 4, shape) * rng.choice([-1, 1], shape) for _ in range(count)]
    inputs = [x.astype(TYPES["bf16"]) for x in inputs]
    module = elementwise(op, shape, "bf16", count)
    if op == "convert":
        module = module.replace(b"%0 : tensor<64x64xbf16>\n", b"%0 : (tensor<64x64xbf16>) -> tensor<64x64xbf16>\n")
    target = replace(card(), float_format=f"{stored}_b")
    function = {"convert": lambda x: x, "exponential": np.exp, "divide": np.divide, **OF}[op]
    ways = {"rounded": lambda x: as_stored(x, stored), "cut": lambda x: as_stored(x, stored, 0.0)}
    ways["cut from Bfp8"] = lambda x: as_stored(as_stored(x, "Bfp8"), stored, 0.0)
    for way, store in ways.items() if stored != "Bfp8" else [("rounded", ways["rounded"])]:
        right = store(function(*(store(x.astype(np.float64)) for x in inputs)))
        result = judged(op, module, inputs, right.astype(TYPES["bf16"]), target)
        assert result.passed, (way, result)
        lies = {"negated": -right, "zero": 0 * right}
        if stored != "Bfp2":  # whose values are all of a size
            lies |= {"larger": (1.5 if op == "convert" else 3) * right, "smaller": 0.4 * right}
        for lie, wrong in lies.items():
            result = judged(op, module, inputs, wrong.astype(TYPES["bf16"]), target)
            assert not result.passed, (way, lie, result)


@pytest.mark.parametrize("part", ["real", "imag"])
def test_a_part_of_a_complex_number_is_handed_on_to_the_last_bit(part):
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((32, 48)) + 1j * rng.standard_normal((32, 48))).astype(np.complex64)
    text = (
        "func.func @main(%x: tensor<32x48xcomplex<f32>>) -> tensor<32x48xf32> {\n"
        f"%0 = stablehlo.{part} %x : (tensor<32x48xcomplex<f32>>) -> tensor<32x48xf32>\n"
        "return %0 : tensor<32x48xf32>\n}"
    )
    y = getattr(x, part).copy()
    assert judge(text, x, y)
    y[3, 4] = np.nextafter(y[3, 4], np.float32(9))
    assert not judge(text, x, y)
