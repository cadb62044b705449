"""Composites and other bodies of elementwise ops are held to exact arithmetic, not to their own rounding."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from opscope.harness.formulas import attributes
from opscope.harness.formulas.table import COMPOSITES, FORMULAS
from opscope.harness.prepare.golden import compile_module
from opscope.harness.prepare.split import split_module
from opscope.harness.verdict import meaning
from opscope.harness.verdict.compare import compare_op
from opscope.harness.verdict.meaning import meaning_of
from opscope.harness.verdict.operands import Operands
from opscope.harness.verdict.target import Target

HOST, XLA = Target("host", None, "exact"), Target("host", None, "exact", rounds_steps=True)
TYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32}


def constant(name, value):
    return f"%{name} = stablehlo.constant dense<{value}> : T\n"


GELU = (
    constant("h", 0.5)
    + constant("r", 0.70710678)
    + constant("o", 1.0)
    + """
  %a = stablehlo.multiply %x, %r : T
  %e = chlo.erf %a : T -> T
  %b = stablehlo.add %e, %o : T
  %c = stablehlo.multiply %x, %h : T
  %d = stablehlo.multiply %c, %b : T
  return %d : T"""
)
GELU_TANH = (
    constant("h", 0.5)
    + constant("k", 0.044715)
    + constant("s", 0.7978845608)
    + constant("o", 1.0)
    + """
  %a = stablehlo.multiply %x, %x : T
  %b = stablehlo.multiply %a, %x : T
  %c = stablehlo.multiply %b, %k : T
  %d = stablehlo.add %x, %c : T
  %e = stablehlo.multiply %d, %s : T
  %f = stablehlo.tanh %e : T
  %g = stablehlo.add %f, %o : T
  %i = stablehlo.multiply %x, %h : T
  %j = stablehlo.multiply %i, %g : T
  return %j : T"""
)
SILU = """
  %a = stablehlo.logistic %x : T
  %b = stablehlo.multiply %x, %a : T
  return %b : T"""
TANHSHRINK = """
  %a = stablehlo.tanh %x : T
  %b = stablehlo.subtract %x, %a : T
  return %b : T"""
MISH = (
    constant("o", 1.0)
    + """
  %e = stablehlo.exponential %x : T
  %a = stablehlo.add %e, %o : T
  %l = stablehlo.log %a : T
  %t = stablehlo.tanh %l : T
  %b = stablehlo.multiply %x, %t : T
  return %b : T"""
)
ELU = (
    constant("z", 0.0)
    + """
  %e = stablehlo.exponential_minus_one %x : T
  %p = stablehlo.compare GT, %x, %z : (T , T ) -> P
  %l = stablehlo.select %p, %x, %e : P, T
  return %l : T"""
)
ZEROS = constant("z", 0.0) + "return %z : T"
BODIES = {"tenstorrent.gelu": GELU, "tenstorrent.gelu_tanh": GELU_TANH}
BODIES |= {"my.elu": ELU, "my.silu": SILU, "my.tanhshrink": TANHSHRINK, "my.mish": MISH}
LIES = {
    "tenstorrent.gelu": {"zero": lambda x, y: np.where(x < -3, 0, y), "negated": lambda x, y: np.where(x < -3, -y, y)},
    "my.silu": {"too large": lambda x, y: np.where(x < -3, 1.05 * y, y)},
    "my.tanhshrink": {
        "zero": lambda x, y: np.where(abs(x) < 0.2, 0, y),
        "negated": lambda x, y: np.where(abs(x) < 0.2, -y, y),
        "too large": lambda x, y: np.where(abs(x) < 0.5, 1.1 * y, y),
    },
    "my.elu": {"zero": lambda x, y: np.where(x < -3, 0, y), "too large": lambda x, y: np.where(x < -2, 1.05 * y, y)},
    "my.mish": {"zero": lambda x, y: np.where(x < -3, 0, y), "negated": lambda x, y: np.where(x < -3, -y, y)},
}
LIES["tenstorrent.gelu_tanh"] = LIES["tenstorrent.gelu"]


def composite(name, body, kind, count, given=""):
    tensor = f"tensor<{count}x{kind}>"
    given = f", composite_attributes = {{{given}}}" if given else ""
    text = f"""module {{
      func.func private @body(%x: T) -> T {{
        {body}
      }}
      func.func @main(%x: T) -> T {{
        %0 = stablehlo.composite "{name}" %x {{decomposition = @body{given}}} : (T) -> T
        return %0 : T
      }}
    }}"""
    for after in ("\n", ")", " ", "}"):
        text = text.replace(f"T{after}", f"{tensor}{after}")
    text = text.replace("P, ", f"tensor<{count}xi1>, ").replace("-> P", f"-> tensor<{count}xi1>")
    (op,) = split_module(text.encode(), "case").ops.values()
    return op


def judged(op, x, got, target=HOST):
    known = Operands(op.op_name, op.bytecode, lambda: [x])
    (result,) = compare_op(op, compile_module(op.bytecode, widen=True)([x]), [got], target, known)
    return result


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(TYPES))
@pytest.mark.parametrize("name", sorted(BODIES))
def test_honest_bodies_are_right_and_wrong_tails_are_not(name, kind):
    for spread in (1, 3):
        x = (spread * np.random.default_rng(0).standard_normal(2048)).astype(TYPES[kind])
        op = composite(name, BODIES[name], kind, x.size)
        inside = compile_module(op.bytecode, widen=True)([x])[0]
        stepwise = compile_module(op.bytecode)([x])[0]
        meaning = meaning_of(op.op_name, op.op_params, Operands(op.op_name, op.bytecode, lambda x=x: [x]), HOST)
        exact = meaning.evaluate([x.astype(np.float64)])[0]
        for target, right in ((HOST, (inside, exact)), (XLA, (inside, exact, stepwise))):
            for got in right:
                result = judged(op, x, got.astype(np.float32).astype(x.dtype), target)
                assert result.passed, (target, result)
                assert "body_differs" not in result.flags
        for target in (HOST, XLA):
            for wrong in (1.1 * exact, np.where(x > 1, 1.1, 1) * exact, 0 * exact):
                assert not judged(op, x, wrong.astype(np.float32).astype(x.dtype), target).passed
        for lie, of in LIES[name].items():
            got = of(x.astype(np.float64), exact).astype(np.float32).astype(x.dtype)
            assert not judged(op, x, got).passed, lie


def test_the_kernel_that_torch_called_wrong_is_right_and_zero_is_only_its_body():
    x = np.full(64, -5.34375, TYPES["bf16"])
    op = composite("tenstorrent.gelu", GELU, "bf16", 64)
    for value, right in ((-2.44007e-7, True), (0.0, True), (-3.1e-4, False)):
        result = judged(op, x, np.full(64, value, x.dtype))
        assert result.passed is right, result


def test_a_body_that_stands_in_for_a_function_is_no_golden():
    x = np.random.default_rng(0).standard_normal(1024).astype(np.float32)
    op = composite("tenstorrent.gelu", ZEROS, "f32", 1024)
    right = FORMULAS["gelu"].exact(x.astype(np.float64)).astype(np.float32)
    assert (judged(op, x, right).passed, judged(op, x, right).flags) == (True, ("body_differs",))
    assert not judged(op, x, np.zeros_like(x)).passed


def test_a_formula_has_the_attributes_of_its_composite():
    known = attributes.of_composite({"name": '"aten.gelu.default"', "composite_attributes": '{approximate = "tanh"}'})
    assert known == ("gelu_tanh", {})
    text = "{epsilon = 1.0e-06 : f32, normalized_shape = dense<[8, 4]> : tensor<2xi64>}"
    name, given = attributes.of_composite({"name": '"tenstorrent.rms_norm"', "composite_attributes": text})
    assert (name, given) == ("rms_norm", {"epsilon": 1e-6, "normalized_shape": (8, 4)})
    assert attributes.of_composite({"name": '"tenstorrent.gelu"', "composite_attributes": "{beta = 2 : i64}"}) is None
    assert attributes.of_composite({"name": '"tenstorrent.rms_norm"'}) is None  # whose epsilon is a framework's own
    assert set(COMPOSITES.values()) <= FORMULAS.keys()


@pytest.mark.crossed
@pytest.mark.parametrize("target", [Target("host", None, "exact"), XLA])
@pytest.mark.parametrize("mean", [0, 1, 100])
def test_a_variance_by_one_less_is_seen_where_the_condition_lets_it(mean, target):
    rng = np.random.default_rng(0)
    inputs = [(rng.standard_normal((64, 8)) + mean).astype(np.float32), *rng.random((2, 8)).astype(np.float32)]
    x, v = "tensor<64x8xf32>", "tensor<8xf32>"
    text = f"""func.func @main(%x: {x}, %s: {v}, %o: {v}) -> ({x}, {v}, {v}) {{
      %0:3 = "stablehlo.batch_norm_training"(%x, %s, %o) {{epsilon = 1.0e-05 : f32, feature_index = 1 : i64}}
        : ({x}, {v}, {v}) -> ({x}, {v}, {v})
      return %0#0, %0#1, %0#2 : {x}, {v}, {v}
    }}"""
    (op,) = split_module(text.encode(), "case").ops.values()
    known = Operands(op.op_name, op.bytecode, lambda: inputs)
    golden = compile_module(op.bytecode, widen=True)(inputs)
    wide = inputs[0].astype(np.float64)
    centred = wide - wide.mean(axis=0)

    def normalised(variance):
        y = centred / np.sqrt(variance + 1e-5) * inputs[1] + inputs[2]
        return [each.astype(np.float32) for each in (y, wide.mean(axis=0), variance)]

    for got, right in (
        (golden, True),
        (normalised(wide.var(axis=0)), True),
        (normalised(wide.var(axis=0, ddof=1)), False),
    ):
        assert all(check.passed for check in compare_op(op, golden, got, target, known)) is right


NORM = """
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %n = stablehlo.constant dense<1024.0> : tensor<4xf32>
  %e = stablehlo.constant dense<1.0e-05> : tensor<4xf32>
  %q = stablehlo.multiply %x, %x : X
  %s = stablehlo.reduce(%q init: %z) applies stablehlo.add across dimensions = [1] : (X, tensor<f32>) -> tensor<4xf32>
  %m = stablehlo.divide %s, %n : tensor<4xf32>
  %v = stablehlo.add %m, %e : tensor<4xf32>
  %r = stablehlo.rsqrt %v : tensor<4xf32>
  %b = stablehlo.broadcast_in_dim %r, dims = [0] : (tensor<4xf32>) -> X
  %y = stablehlo.multiply %x, %b : X
  return %y : X"""


def test_a_norm_by_name_is_held_to_its_formula_and_its_epsilon():
    given = "epsilon = 1.0e-05 : f32, normalized_shape = dense<1024> : tensor<1xi64>"
    body = NORM.replace("X", "tensor<4x1024xf32>")
    text = composite("tenstorrent.rms_norm", "return %x : T", "f32", 8, given)
    assert text.op_params["composite_attributes"]
    x = np.random.default_rng(0).standard_normal((4, 1024)).astype(np.float32) * 1e-2
    module = f"""module {{
      func.func private @body(%x: tensor<4x1024xf32>) -> tensor<4x1024xf32> {{
        {body}
      }}
      func.func @main(%x: tensor<4x1024xf32>) -> tensor<4x1024xf32> {{
        %0 = stablehlo.composite "tenstorrent.rms_norm" %x {{decomposition = @body, composite_attributes = {{{given}}}}}
          : (tensor<4x1024xf32>) -> tensor<4x1024xf32>
        return %0 : tensor<4x1024xf32>
      }}
    }}"""
    (op,) = split_module(module.encode(), "case").ops.values()
    wide = x.astype(np.float64)
    square = np.square(wide).mean(axis=1, keepdims=True)
    for epsilon, right in ((1e-5, True), (1.1e-5, False)):
        result = judged(op, x, (wide / np.sqrt(square + epsilon)).astype(np.float32))
        assert (result.passed, result.flags) == (right, ()), result


def test_a_body_of_constants_and_a_choice_has_a_verdict():
    text = constant("z", 0.0) + constant("o", 1.0)
    text += (
        "%p = stablehlo.compare GT, %x, %z : (T , T ) -> P\n %l = stablehlo.select %p, %o, %z : P, T\n return %l : T"
    )
    op, x = composite("opscope.gtz", text, "bf16", 64), np.linspace(-2, 2, 64).astype(ml_dtypes.bfloat16)
    right = (x.astype(np.float32) > 0).astype(ml_dtypes.bfloat16)
    for target in (HOST, XLA, CARD):
        assert judged(op, x, right, target).passed
        assert not judged(op, x, right[::-1].copy(), target).passed


CARD = Target("sim-n150", None, "HiFi4", matrix_format="Tf32")


@pytest.mark.crossed
@pytest.mark.parametrize("kind", ["bf16", "f32"])
@pytest.mark.parametrize("name", sorted(BODIES))
def test_composites_on_a_card_are_held_to_their_meaning(name, kind):
    x = (3 * np.random.default_rng(0).standard_normal(2048)).astype(TYPES[kind])
    op = composite(name, BODIES[name], kind, x.size)
    for honest in (compile_module(op.bytecode)([x])[0], compile_module(op.bytecode, widen=True)([x])[0]):
        assert judged(op, x, honest, CARD).passed
    right = compile_module(op.bytecode, widen=True)([x])[0].astype(np.float64)
    doubled = np.where(x.astype(np.float64) > 0.5, 1.2 * right, right).astype(TYPES[kind])
    assert not judged(op, x, doubled, CARD).passed
    if kind == "f32":
        for lie in LIES[name].values():
            assert not judged(op, x, lie(x, right).astype(TYPES[kind]), CARD).passed
        return
    two_units = ((1 + 2 * 2.0**-7) * right).astype(TYPES[kind])
    negated = np.where(x.astype(np.float64) < -3, -right, right).astype(TYPES[kind])
    for lie in (two_units, negated):
        assert not judged(op, x, lie, CARD).passed


def test_steps_of_many_equal_numbers_are_those_of_each_number_once():
    """Above NARROW elements each of the 65,536 is evaluated once; above STEPPED different ones a bound is taken."""
    x = (3 * np.random.default_rng(0).standard_normal(meaning.NARROW + 4096)).astype(TYPES["bf16"])
    few, many = (composite("my.silu", SILU, "bf16", size) for size in (4096, x.size))
    widths = []
    for op, inputs in ((few, x[:4096]), (many, x)):
        known = Operands(op.op_name, op.bytecode, lambda inputs=inputs: [inputs])
        _, exact = meaning.meant(op.op_name, op.op_params, XLA, [inputs], known)
        widths.append((exact.within()[0][:4096], exact.exact[0][:4096], exact.leaning()[0].shape))
    assert np.array_equal(widths[0][0], widths[1][0])
    assert np.array_equal(widths[0][1], widths[1][1])
    assert widths[1][2] == x.shape


def test_steps_that_a_host_rounds_excuse_no_more_than_such_steps_are_off():
    x = (3 * np.random.default_rng(0).standard_normal(4096)).astype(ml_dtypes.bfloat16)
    op = composite("my.silu", SILU, "bf16", x.size)
    honest = compile_module(op.bytecode)([x])[0]
    assert judged(op, x, honest, XLA).passed
    wide = honest.astype(np.float64)
    lie = np.where(x.astype(np.float64) < -3, 1.05 * wide, wide).astype(ml_dtypes.bfloat16)
    assert not judged(op, x, lie, XLA).passed


def _norm(x, weight, bias):
    import jax.numpy as jnp

    mean = jnp.mean(x, -1, keepdims=True)
    spread = jnp.sqrt(jnp.mean(jnp.square(x - mean), -1, keepdims=True) + 1e-5)
    return (x - mean) / spread * weight + bias


def _attention(q, k, v):
    import jax
    import jax.numpy as jnp

    scores = jnp.einsum("bqd,bkd->bqk", q, k) * q.shape[-1] ** -0.5
    return jnp.einsum("bqk,bkd->bqd", jax.nn.softmax(scores, -1), v)


def _softmax(x):
    import jax

    return jax.nn.softmax(x, -1)


ROWS = {
    "opscope.softmax": (_softmax, [(64, 64)], {"axis": -1}),
    "tenstorrent.layer_norm": (
        _norm,
        [(64, 64), (64,), (64,)],
        {"epsilon": 1e-5, "normalized_shape": np.array([64])},
    ),
    "tenstorrent.scaled_dot_product_attention": (_attention, [(2, 48, 32)] * 3, {}),
}
"""Composite -> its body, the shapes of its operands, its attributes."""
ROW_LIES = {
    "zero": lambda y: 0 * y,
    "3 % too large": lambda y: 1.03 * y,
    "a tenth of noise": lambda y: y * (1 + 0.1 * np.random.default_rng(1).standard_normal(y.shape)),
    "the last key lost": lambda y: np.concatenate([y[..., :-1], 0 * y[..., -1:]], axis=-1),
    "uniform": lambda y: np.broadcast_to(y.mean(axis=-1, keepdims=True), y.shape),
    "shifted": lambda y: np.roll(y, 1, axis=-1),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(TYPES))
@pytest.mark.parametrize("name", sorted(ROWS))
def test_rows_are_held_to_their_formula_whatever_rounds_their_steps(name, kind):
    import jax

    body, shapes, given = ROWS[name]
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(shape).astype(TYPES[kind]) for shape in shapes]
    called = jax.jit(lambda *x: jax.lax.composite(lambda *x, **_: body(*x), name=name)(*x, **given))
    text = called.lower(*(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in inputs)).as_text()
    (op,) = split_module(text, "case").ops.values()
    known = Operands(op.op_name, op.bytecode, lambda: inputs)
    golden = compile_module(op.bytecode, widen=True)(inputs)
    stepwise = compile_module(op.bytecode)(inputs)
    exact = meaning_of(op.op_name, op.op_params, known, HOST).evaluate([x.astype(np.float64) for x in inputs])[0]
    nearest = exact.astype(np.float32).astype(TYPES[kind])
    for target in (HOST, XLA, CARD):
        for got in (nearest, golden[0], *(stepwise if target is not HOST else ())):
            (result,) = compare_op(op, golden, [got], target, known)
            assert result.passed, (target, result)
        if kind == "f32":  # as kernels of a card are
            kernel = (exact * (1 + 1e-3 * rng.standard_normal(exact.shape))).astype(np.float32)
            (result,) = compare_op(op, golden, [kernel], target, known)
            assert result.passed is (target is CARD), (target.card_type, result)
        for lie, of in ROW_LIES.items():
            (result,) = compare_op(op, golden, [of(exact).astype(np.float32).astype(TYPES[kind])], target, known)
            assert not result.passed, (target.card_type, lie)


@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_a_pool_that_rounds_each_sum_as_xla_does_is_right(kind):
    x, tensor = np.random.default_rng(0).standard_normal((16, 128)).astype(TYPES[kind]), f"tensor<16x128x{kind}>"
    text = f"""func.func @main(%x: {tensor}) -> {tensor} {{
      %z = stablehlo.constant dense<0.0> : tensor<{kind}>
      %y = "stablehlo.reduce_window"(%x, %z) <{{padding = dense<[[0, 0], [127, 0]]> : tensor<2x2xi64>,
        window_dimensions = array<i64: 1, 128>}}> ({{
      ^bb0(%a: tensor<{kind}>, %b: tensor<{kind}>):
        %s = stablehlo.add %a, %b : tensor<{kind}>
        stablehlo.return %s : tensor<{kind}>
      }}) : ({tensor}, tensor<{kind}>) -> {tensor}
      return %y : {tensor}
    }}"""
    (op,) = split_module(text, "case").ops.values()
    known = Operands(op.op_name, op.bytecode, lambda: [x], op.op_params.get("body"))
    (golden,), (stepwise,) = (compile_module(op.bytecode, widen=wide)([x]) for wide in (True, False))
    lie = 1.02 * stepwise.astype(np.float32)
    for got, right in ((golden, True), (stepwise, True), (lie, False), (0 * golden, False)):
        (result,) = compare_op(op, [golden], [got.astype(x.dtype)], XLA, known)
        assert result.passed is right, result


@pytest.mark.parametrize("name", ["tenstorrent.gelu", "my.silu", "my.tanhshrink"])
def test_a_composite_of_float32_is_wrong_where_it_is_two_units_off_throughout(name):
    x = (3 * np.random.default_rng(0).standard_normal(4096)).astype(np.float32)
    op = composite(name, BODIES[name], "f32", x.size)
    honest = compile_module(op.bytecode)([x])[0]
    known = Operands(op.op_name, op.bytecode, lambda: [x])
    (exact,) = meaning_of(op.op_name, op.op_params, known, HOST).evaluate([x.astype(np.float64)])
    for target in (HOST, XLA):
        assert judged(op, x, honest, target).passed
        for sign in (1, -1):
            result = judged(op, x, (exact * (1 + sign * 2.0**-22)).astype(np.float32), target)
            assert (result.passed, result.question) == (False, "systematic")


def test_equal_elements_that_are_off_alike_are_no_mean():
    x = np.random.default_rng(0).standard_normal(4096).astype(np.float32)
    x[:3900] = 0.75
    op = composite("my.silu", SILU, "f32", x.size)
    right = compile_module(op.bytecode, widen=True)([x])[0]
    a_unit_off = np.where(x == 0.75, np.nextafter(np.nextafter(right, np.float32(9)), np.float32(9)), right)
    assert judged(op, x, a_unit_off, HOST).passed


@pytest.mark.parametrize("name", ["tenstorrent.gelu", "tenstorrent.gelu_tanh"])
def test_a_host_whose_steps_are_rounded_has_no_zero_where_its_body_has_none(name):
    x = (3 * np.random.default_rng(0).standard_normal(4096)).astype(ml_dtypes.bfloat16)
    op = composite(name, BODIES[name], "bf16", x.size)
    honest = compile_module(op.bytecode)([x])[0]
    assert judged(op, x, honest, XLA).passed
    assert not judged(op, x, np.where(x < -3, 0, honest).astype(x.dtype), XLA).passed


def test_a_constant_that_a_body_converts_is_rounded_once():
    text = """%k = stablehlo.constant dense<1.05070102> : tensor<f32>
      %c = stablehlo.convert %k : (tensor<f32>) -> tensor<bf16>
      %b = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<bf16>) -> T
      %y = stablehlo.multiply %x, %b : T
      return %y : T"""
    op, x = composite("my.scaled", text, "bf16", 64), np.linspace(-2, 2, 64).astype(ml_dtypes.bfloat16)
    body = meaning.of_body(op.bytecode)
    (exact,) = body.evaluate([x.astype(np.float64)])
    assert np.array_equal(exact, x.astype(np.float64) * float(ml_dtypes.bfloat16(1.05070102)))


SOFTSIGN = """
  %a = stablehlo.abs %x : T
  %o = stablehlo.constant dense<1.0> : T
  %b = stablehlo.add %a, %o : T
  %y = stablehlo.divide %x, %b : T"""
LESS_A_PART = """
  %a = stablehlo.abs %x : T
  %o = stablehlo.constant dense<1.0> : T
  %b = stablehlo.add %a, %o : T
  %q = stablehlo.divide %a, %b : T
  %p = stablehlo.multiply %x, %q : T
  %y = stablehlo.subtract %x, %p : T"""
OF_TWO = LESS_A_PART.replace("dense<1.0>", "dense<2.0>")


@pytest.mark.parametrize(("body", "right"), [(SOFTSIGN, False), (LESS_A_PART, True), (OF_TWO, False)])
def test_a_body_that_cancels_excuses_its_like_where_it_is_the_formula_too(body, right):
    x = np.linspace(-1000, 1000, 4096, dtype=np.float32)
    op = composite("opscope.softsign", f"{body}\n  return %y : T", "f32", x.size)
    size = np.abs(x)
    rounded_elsewhere = x - x * size / (1 + size)  # a unit of x off, where XLA's own is not
    assert judged(op, x, rounded_elsewhere).passed is right
    assert judged(op, x, x / (1 + size)).passed
    assert not judged(op, x, np.where(x < -5, 1.05, 1).astype(np.float32) * rounded_elsewhere).passed
