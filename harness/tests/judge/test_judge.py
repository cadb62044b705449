"""`judge` on recipes of public bugs and on honest bodies (tenstorrent/tt-metal#54893, #56338 and others)."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from opscope import judge
from opscope.base.tests.each import each
from opscope.harness.formulas import special
from opscope.harness.formulas.elementwise import ALIASES
from opscope.harness.formulas.formula import Formula
from opscope.harness.formulas.nearest import rounded
from opscope.harness.formulas.stepwise import NEAREST, evaluations
from opscope.harness.formulas.table import FORMULAS
from opscope.harness.record.errors import InputError
from opscope.harness.verdict.target import Target

BF16 = np.dtype(ml_dtypes.bfloat16)
F32 = np.dtype(np.float32)
SMOOTH = ("tanh", "exp", "log", "cbrt", "erf", "logistic", "silu")
EVERY = np.arange(65536, dtype=np.uint16)


def draw(*shape, seed=0, kind=F32):
    return np.random.default_rng(seed).standard_normal(shape).astype(kind)


def exact(name, *operands, kind=F32, **given):
    wide = [each.astype(np.float64) for each in operands]
    with np.errstate(all="ignore"):
        return rounded(FORMULAS[name].exact(*wide, **{**FORMULAS[name].attributes, **given}), kind)


def tanh_bw(x):
    return np.where(abs(x) > 3, 4 * np.exp(-2 * abs(x)), 1 / np.cosh(x) ** 2)


def gelu_bw(x):
    density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    right = FORMULAS["gelu_bw"].exact(x)
    with np.errstate(divide="ignore"):
        series = x * density + density / -x * (1 - 1 / x**2 + 3 / x**4)
    return np.where((x < -3) & (x > -13.375), series, right)


def tanhshrink(x):
    power = np.exp(-2 * abs(x))
    return np.where(abs(x) > 1, x - np.sign(x) * (1 - 2 * power / (1 + power) + 1e-4), special.tanhshrink(x))


@pytest.mark.parametrize(("name", "lie"), [("tanh_bw", tanh_bw), ("gelu_bw", gelu_bw), ("tanhshrink", tanhshrink)])
def test_three_defects_that_allclose_passes_are_wrong(name, lie):
    x = (
        (3 * draw(64, 64)).astype(F32)
        if name == "gelu_bw"
        else np.random.default_rng(0).uniform(-5, 5, (64, 64)).astype(F32)
    )
    wide = x.astype(np.float64)
    if name != "tanhshrink":  # that one's rtol alone refuses it near its zero
        np.testing.assert_allclose(lie(wide), FORMULAS[name].exact(wide), rtol=0.05, atol=1e-6)
    assert judge(name, x, lie(wide).astype(F32)).answer == "wrong"
    right = judge(name, x, exact(name, x), target="1 ulp")
    assert (right.answer, right.grade) == ("right", "kernel")


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("tanh_bw", lambda x: 1 - np.tanh(x) ** 2),
        ("tanhshrink", lambda x: x - np.tanh(x)),
        ("softplus", lambda x: np.log(1 + np.exp(x))),
        ("elu", lambda x: np.where(x > 0, x, np.exp(x) - 1)),
    ],
)
def test_a_body_that_cancels_is_right_as_a_body_and_wrong_as_a_kernel(name, body):
    x = np.random.default_rng(0).uniform(-12, 5, (64, 64)).astype(F32)
    verdict = judge(name, x, body(x).astype(F32))
    assert (verdict.answer, verdict.grade) == ("right", "body"), verdict
    assert verdict.cancelled.count > 0
    assert verdict.cancelled.smallest >= x.min()
    assert judge(name, x, body(x).astype(F32), target="10 ulp").answer == "wrong"


def test_the_kernel_that_a_cancelling_golden_refused_is_right_and_the_golden_is_not():
    x, theirs = np.full(64, -5.34375, BF16), np.full(64, -3.185e-7, BF16)
    ours = np.full(64, -2.44007e-7, BF16)
    verdict = judge("gelu", x, ours, target="1 ulp", golden=theirs)
    assert verdict
    assert verdict.largest_ulp < 0.5
    assert [judge("gelu", x, np.full(64, value, BF16), target="1 ulp").answer for value in (-3.185e-7, 0.0)] == [
        "wrong"
    ] * 2
    assert [judge("gelu", x, np.full(64, value, BF16)).grade for value in (-3.185e-7, 0.0)] == ["body"] * 2
    assert not judge("gelu", x, np.full(64, -3.1e-4, BF16))
    assert not judge("gelu", x, ours, golden=np.full(64, -3.1e-4, BF16)).golden_checks[0].passed


def test_a_softmax_of_many_is_neither_zero_nor_uniform_nor_a_little_too_large():
    x = np.random.default_rng(0).random((1, 65536)).astype(BF16)
    right = FORMULAS["softmax"].exact(x.astype(np.float64), axis=-1)
    assert judge("softmax(axis=-1)", x, rounded(right, BF16))
    for wrong in (
        0 * right,
        np.full_like(right, 1 / 65536),
        1.004 * right,
        np.where(right < np.median(right), 1.5, 1) * right,
    ):
        assert judge("softmax", x, rounded(wrong, BF16)).answer == "wrong"


@each("seed", range(4))
def test_a_product_added_in_another_order_is_right_and_one_element_a_little_off_is_not(seed):
    a, b = draw(16, 64, seed=seed), draw(64, 128, seed=seed + 50)
    reverse = np.zeros((16, 128), F32)
    for k in reversed(range(64)):
        reverse += np.outer(a[:, k], b[k])
    assert judge("matmul", [a, b], reverse)
    off = reverse.copy()
    off[3, 5] += 1e-4
    verdict = judge("matmul", [a, b], off)
    assert verdict.answer == "wrong"
    assert verdict.worst[0].index == (3, 5)
    np.testing.assert_allclose(off, reverse, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mean", [0, 1, 100])
def test_norms_are_right_by_two_passes_and_wrong_by_another_variance(mean):
    x, weight, bias = (draw(64, 256) + mean).astype(F32), draw(256, seed=1), draw(256, seed=2)
    centred = x - x.mean(-1, keepdims=True)
    spread = np.sqrt(np.square(centred).mean(-1, keepdims=True) + F32.type(1e-5))
    assert judge("layer_norm", [x, weight, bias], centred / spread * weight + bias)
    assert judge("layer_norm", [x, weight], centred / spread * weight)
    assert judge("layer_norm(epsilon=1e-5)", x, centred / spread)
    for off in (spread * math.sqrt(255 / 256), np.sqrt(spread**2 + 1e-3)):
        assert not judge("layer_norm", [x, weight, bias], centred / off.astype(F32) * weight + bias)
    root = 1 / np.sqrt(np.square(x).mean(-1, keepdims=True) + F32.type(1e-6))
    assert judge("rms_norm", x, x * root)
    assert not judge("rms_norm", x, x * root.astype(BF16).astype(F32))


def test_attention_with_another_scale_or_without_its_last_key_is_wrong():
    q, k, v = (draw(2, 4, 64, 64, seed=seed) for seed in range(3))

    def attention(scale, keys=64, stored=F32):
        scores = q @ np.swapaxes(k, -1, -2)[..., :keys] * F32.type(scale)
        power = np.exp(scores - scores.max(-1, keepdims=True))
        return (power / power.sum(-1, keepdims=True)).astype(stored).astype(F32) @ v[..., :keys, :]

    assert judge("sdpa", [q, k, v], attention(1 / 8))
    for wrong in (attention(1 / 8.02), attention(1 / 8, 63), attention(1 / 8, stored=BF16)):
        assert not judge("sdpa", [q, k, v], wrong)
    causal = exact("sdpa", q, k, v, is_causal=True)
    assert judge("sdpa(is_causal=True)", [q, k, v], causal)
    assert not judge("sdpa", [q, k, v], causal)


@pytest.mark.crossed
@pytest.mark.parametrize(
    "name",
    [  # quick: test_exact.py holds each formula's golden to the nearest number; these have a pole, a tail and a body
        *("rsqrt", "gelu", "mish"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in SMOOTH),
    ],
)
@pytest.mark.parametrize("kind", [BF16, np.dtype(np.float16)])
def test_all_numbers_of_16_bits_correctly_rounded_are_right_to_half_a_unit_and_the_next_ones_are_not(name, kind):
    x = EVERY.view(kind)
    verdict = judge(name, x, judge(name, x, np.zeros_like(x)).golden[0], target="0.5 ulp")
    assert verdict, verdict
    assert verdict.reach[0].share == 1
    assert set(verdict.reach[0].classes) == {
        "zero",
        "negative zero",
        "denormal",
        "infinity",
        "NaN",
        "negative",
        "positive",
    }
    with np.errstate(over="ignore"):
        next_one = np.nextafter(verdict.golden[0], kind.type(np.inf))
    assert judge(name, x, next_one, target="0.5 ulp").answer == "wrong"


def test_what_ieee_rounds_has_one_right_answer():
    x = draw(64, 64)
    assert judge("add", [x, x], x + x).grade == "kernel"
    wrong = judge("mul", [x, x], np.nextafter(x * x, F32.type(9)))
    assert wrong.answer == "wrong"
    assert ALIASES["mul"] == "multiply"


def test_a_function_of_exact_arithmetic_is_a_golden_and_its_steps_are_its_sizes():
    x = np.random.default_rng(0).uniform(-5, 5, 4096).astype(F32)

    def mine(x):
        return x - np.tanh(x)

    assert judge(mine, x, x - np.tanh(x)).grade == "body"
    assert not judge(mine, x, np.where(abs(x) < 0.2, 0, x - np.tanh(x)).astype(F32))
    rows = draw(8, 64)
    assert (
        judge(lambda x: x / x.sum(axis=-1, keepdims=True), rows, rows / rows.sum(axis=-1, keepdims=True)).by
        == "<lambda> in float64"
    )


def test_a_stablehlo_text_is_judged_as_a_run_judges_it():
    text = """func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
      %0 = stablehlo.tanh %x : tensor<64x64xf32>
      return %0 : tensor<64x64xf32>
    }"""
    x = draw(64, 64)
    assert judge(text, x, np.tanh(x)).by.startswith("XLA, jaxlib")
    assert judge(text, x, 1.001 * np.tanh(x)).hypothesis == "factor: everything is 1.001 times what it should be"


def test_a_target_is_what_was_promised():
    a, b = draw(64, 256), draw(256, 64, seed=1)
    cut = (a.view(np.uint32) & np.uint32(0xFFFFE000)).view(F32) @ (b.view(np.uint32) & np.uint32(0xFFFFE000)).view(F32)
    assert not judge("matmul", [a, b], cut)
    assert judge("matmul", [a, b], cut, target="tf32")
    assert judge("matmul", [a, b], cut, target="card:HiFi4")
    assert judge("matmul", [a, b], cut, target=Target("gpu", None, "exact", tf32_products=True))
    narrow = np.zeros((64, 64), F32)
    for k in range(0, 256, 16):
        narrow = (narrow + a[:, k : k + 16] @ b[k : k + 16]).astype(BF16).astype(F32)
    assert not judge("matmul", [a, b], narrow, target="card:p150:HiFi4")
    assert judge("matmul", [a, b], narrow, target="card:p150:HiFi4:dst16")
    assert not judge("matmul", [a, b], 1.1 * narrow, target="card:p150:HiFi4:dst16")
    narrow = (a.astype(BF16).astype(F32) @ b.astype(BF16).astype(F32)).astype(BF16).astype(F32)
    assert not judge("matmul", [a, b], narrow, target="tf32")
    assert judge("matmul", [a, b], narrow, target="bf16")


def test_tensors_of_jax_are_taken_in_their_own_type():
    import jax.numpy as jnp

    x = jnp.asarray(draw(64, 64), jnp.bfloat16)
    verdict = judge("tanh", x, jnp.tanh(x))
    assert verdict
    assert verdict.got[0].dtype == BF16


def test_what_nobody_can_decide_is_undecided_and_says_why():
    x = draw(8, 8)
    verdict = judge("transpose", x, x.T)
    assert (verdict.answer, bool(verdict), verdict.exit_code) == ("undecided", False, 2)
    assert "golden=" in verdict.reason
    assert judge("transpose", x, x.T, golden=x.T).answer == "right"
    assert judge("tanh", x[:0], x[:0]).answer == "undecided"
    assert judge(None, x, x, golden=x)


def test_results_of_another_shape_type_or_number_are_wrong_and_say_so():
    x = draw(8, 8)
    for output, said in ((x[:4], "shape: expected 8x8, got 4x8"), (2 * [np.tanh(x)], "expected 1 results, got 2")):
        verdict = judge("tanh", x, output)
        assert (verdict.answer, said in str(verdict)) == ("wrong", True), str(verdict)
        assert verdict.as_json()["answer"] == "wrong"
    for kind in (np.int32, np.complex64):
        whole = np.ones((8, 8), kind)
        assert judge("gelu", whole, whole).answer == "undecided"
        assert judge("gelu", whole, whole, golden=whole).answer == "right"


def test_double_precision_is_held_to_its_own_units():
    x = draw(64, 64, kind=np.float64)
    assert judge("tanh", x, np.tanh(x))
    assert judge("tanhshrink", x, x - np.tanh(x))
    assert not judge("tanh", x, np.tanh(x).astype(F32).astype(np.float64))
    assert not judge("tanhshrink", x, (x - np.tanh(x)) * (1 + 1e-9))
    assert judge("tanh", x.astype(">f8"), np.tanh(x))


@pytest.mark.parametrize("target", ["card", "card:HiFi2", "card:p150:LoFi", "bf16", "tf32", "steps"])
def test_each_target_takes_each_kind_of_formula(target):
    x = draw(32, 64)
    for what in ("tanh", "gelu", "softmax", "layer_norm", "mean(axis=-1)"):
        right = judge(what, x, judge(what, x, x).golden[0], target=target)
        assert right, (what, right)
        assert not judge(what, x, 2 * right.golden[0], target=target)


@each(
    ("what", "inputs", "options", "said"),
    [
        ("tanhh", [draw(4)], {}, "try .*tanh"),
        ("softmax(axes=1)", [draw(4)], {}, "expected axis=-1 of softmax by name, got axes"),
        ("softmax(axis=3)", [draw(4, 8)], {}, "expected operands and attributes of softmax that fit"),
        ("leaky_relu(0.2)", [draw(4)], {}, "expected slope=0.01 of leaky_relu by name, got 0.2"),
        ("torch.nn.functional.gelu", [draw(4)], {}, "try gelu"),
        ("hypot", [draw(4)], {}, "expected 2 of hypot, got 1"),
        ("layer_norm", [draw(4, 8), draw(3)], {}, "expected operands and attributes of layer_norm"),
        ("tanh", [draw(4)], {"target": "fp8"}, "target: expected one of ieee"),
        ("tanh", ["text"], {}, "input 0: expected"),
        (None, [draw(4)], {}, "what: expected an op"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(what, inputs, options, said):
    with pytest.raises(InputError, match=said):
        judge(what, inputs, draw(4), **options)


def test_attributes_go_by_the_words_of_frameworks_and_along_several_dims():
    x = draw(4, 8, 16)
    assert judge("mean(axis=(1, 2))", x, x.mean((1, 2)))
    assert judge("var(dim=(0, 2))", x, x.var((0, 2)))
    assert judge("softmax(dim=1)", x, exact("softmax", x, axis=1))
    assert not judge("layer_norm(eps=1e-3)", x, exact("layer_norm", x))


def test_a_verdict_says_what_it_rests_on():
    x = draw(64, 64)
    verdict = judge("tanh", x, (np.where(x > 2, 1.01, 1) * np.tanh(x)).astype(F32))
    text, known = str(verdict), verdict.as_json()
    assert text.startswith("wrong by ")
    assert "operand 0: -" in text
    assert known["answer"] == "wrong"
    assert known["worst"][0]["inputs"][0] > 2
    assert 0 < known["reach"][0]["share"] < 0.1
    assert known["checks"][0]["question"] == "largest"


def group_norm(x, weight, bias, ddof=0):
    grouped = x.reshape(len(x), 4, -1)
    spread = np.sqrt(grouped.var(axis=2, keepdims=True, ddof=ddof) + F32.type(1e-5))
    y = ((grouped - grouped.mean(axis=2, keepdims=True)) / spread).reshape(x.shape)
    return y * weight.reshape(1, -1, 1, 1) + bias.reshape(1, -1, 1, 1)


def rope(x, cosine, sine, sign=1):
    first, second = np.split(x, 2, axis=-1)
    return x * cosine + np.concatenate([-sign * second, sign * first], axis=-1) * sine


def adamw(p, g, m, v, decay=0.01, step=3):
    m, v = F32.type(0.9) * m + F32.type(0.1) * g, F32.type(0.999) * v + F32.type(0.001) * g * g
    off = m / F32.type(1 - 0.9**step) / (np.sqrt(v / F32.type(1 - 0.999**step)) + F32.type(1e-8))
    return [p * F32.type(1 - 1e-3 * decay) - F32.type(1e-3) * off, m, v]


def cross_entropy(x, target):
    below = x - x.max(axis=-1, keepdims=True)
    return -(target * (below - np.log(np.exp(below).sum(axis=-1, keepdims=True)))).sum(axis=-1)


X, ANGLES = draw(64, 256), np.outer(np.arange(64), 1e4 ** (-np.arange(256) / 256)).astype(F32)
IMAGES = [draw(4, 16, 8, 8), draw(16, seed=1), draw(16, seed=2)]
STATE = [draw(64, 64), draw(64, 64, seed=1), draw(64, 64, seed=2) / 10, np.square(draw(64, 64, seed=3)) / 100]
TARGET = np.eye(256, dtype=F32)[np.arange(64) * 3]
FUSED = {
    "group_norm(num_groups=4)": (IMAGES, group_norm, {"n - 1": lambda x: group_norm(*x, ddof=1)}),
    "rope": ([X, np.cos(ANGLES), np.sin(ANGLES)], rope, {"turned back": lambda x: rope(*x, sign=-1)}),
    "adamw(step=3)": (
        STATE,
        adamw,
        {"no decay": lambda x: adamw(*x, decay=0), "another step": lambda x: adamw(*x, step=30)},
    ),
    "cross_entropy": ([X, TARGET], cross_entropy, {"1e-4 too large": lambda x: cross_entropy(*x) * F32.type(1.0001)}),
    "l2_norm": (
        [X],
        lambda x: x / np.sqrt(np.square(x).sum(axis=-1, keepdims=True) + F32.type(1e-6)),
        {"a mean": lambda x: x[0] / np.sqrt(np.square(x[0]).mean(axis=-1, keepdims=True))},
    ),
    "topk(k=5)": (
        [X],
        lambda x: -np.sort(-x, axis=1)[:, :5],
        {"the sixth": lambda x: -np.sort(-x[0], axis=1)[:, [0, 1, 2, 3, 5]]},
    ),
}


@pytest.mark.parametrize("what", sorted(FUSED))
def test_fused_ops_are_right_as_they_are_written_and_wrong_otherwise(what):
    inputs, body, lies = FUSED[what]
    assert judge(what, inputs, body(*inputs)), what
    for name, lie in lies.items():
        assert judge(what, inputs, lie(inputs)).answer == "wrong", name


def test_what_is_chosen_among_values_has_no_error():
    right = -np.sort(-X, axis=1)[:, :5]
    off = right.copy()
    off[3, 2] = np.nextafter(off[3, 2], F32.type(9))
    assert judge("topk(k=5)", X, right).grade == "kernel"
    assert judge("topk(k=5)", X, off).reason == "expected at most 0 ulp, got 1"


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("sigmoid", lambda x: 0.5 * (1 + np.tanh(0.5 * x))),
        ("silu", lambda x: x * (0.5 * (1 + np.tanh(0.5 * x)))),
        ("softplus_bw", lambda x: 0.5 + 0.5 * np.tanh(0.5 * x)),
        ("log_sigmoid", lambda x: np.log(0.5 * (1 + np.tanh(0.5 * x)))),
        ("tanhshrink_bw", lambda x: 1 - (1 - np.tanh(x) * np.tanh(x))),
    ],
)
def test_other_honest_steps_are_right_and_tails_that_none_has_are_not(name, body):
    x = np.random.default_rng(0).uniform(-12, 8, (64, 64)).astype(F32)
    assert judge(name, x, body(x)), judge(name, x, body(x))
    right = exact(name, x)
    for lie in (np.where(x < -3, 0, right), np.where(x < -3, 1.05 * right, right), np.where(x < -3, -right, right)):
        assert judge(name, x, lie.astype(F32)).answer == "wrong"


def test_a_text_that_is_no_stablehlo_says_where_to_get_one():
    with pytest.raises(InputError, match=r"what:1:\d+: expected valid StableHLO, got .*; try a text as"):
        judge("func.func @main( broken", np.ones(4, np.float32), np.ones(4, np.float32))


@pytest.mark.parametrize("target", ["ieee", "card"])
def test_a_complex_product_by_text_is_judged(target):
    rng = np.random.default_rng(0)
    a, b = ((rng.standard_normal((8, 9)) + 1j * rng.standard_normal((8, 9))).astype(np.complex64) for _ in range(2))
    tensor = "tensor<8x9xcomplex<f32>>"
    text = (
        f"func.func @main(%a: {tensor}, %b: {tensor}) -> {tensor} {{\n"
        f"  %r = stablehlo.multiply %a, %b : {tensor}\n  return %r : {tensor}\n}}"
    )
    assert judge(text, [a, b], a * b, target=target)
    assert not judge(text, [a, b], np.roll(a * b, 1), target=target)


def test_a_card_is_judged_by_an_op_one_of_whose_operands_is_a_constant():
    x = np.random.default_rng(0).standard_normal((8, 9)).astype(np.float32)
    text = (
        "func.func @main(%a: tensor<8x9xf32>) -> tensor<8x9xf32> {\n"
        "  %z = stablehlo.constant dense<0.0> : tensor<8x9xf32>\n"
        "  %r = stablehlo.maximum %a, %z : tensor<8x9xf32>\n  return %r : tensor<8x9xf32>\n}"
    )
    assert judge(text, x, np.maximum(x, 0), target="card")
    assert judge(text, x, np.maximum(x, 0) * np.float32(1.5), target="card").answer == "wrong"


@pytest.mark.parametrize("shown", ["4x?", "4x6"])
def test_a_size_that_is_set_at_run_time_is_known_where_no_result_has_it(shown):
    kind = "tensor<4x?xf32, #stablehlo.bounds<?, 6>>"
    back = "%2 = stablehlo.constant dense<6> : tensor<i32>\n%3 = stablehlo.set_dimension_size %1, %2, dim = 1"
    back += f" : ({kind}, tensor<i32>) -> tensor<4x6xf32>\nreturn %3 : tensor<4x6xf32>"
    text = f"""func.func @main(%a: tensor<4x6xf32>, %n: tensor<i32>) -> {kind if "?" in shown else "tensor<4x6xf32>"} {{
      %1 = stablehlo.set_dimension_size %a, %n, dim = 1 : (tensor<4x6xf32>, tensor<i32>) -> {kind}
      {f"return %1 : {kind}" if "?" in shown else back}
    }}"""
    x = draw(4, 6)
    verdict = judge(text, [x, np.int32(4)], x[:, :4] if "?" in shown else x)
    assert (verdict.answer == "undecided") == ("?" in shown)


def test_results_of_the_usual_steps_are_asked_for_no_others(monkeypatch):
    x = 2 * draw(70_000)
    usual = rounded(next(evaluations(FORMULAS["gelu"].steps, [x.astype(np.float64)], F32, NEAREST))[0], F32)
    monkeypatch.setattr(Formula, "other_sizes", lambda *_, **__: pytest.fail("other steps were evaluated"))
    assert judge("gelu", x, usual).answer == "right"
