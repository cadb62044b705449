"""Honest results by other steps than the usual ones are right, in 16 bits and of a variance in one pass; mixtures of
two ways are wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from opscope import judge
from opscope.harness.formulas import special
from opscope.harness.formulas.nearest import rounded
from opscope.harness.formulas.stepwise import NEAREST, evaluations
from opscope.harness.formulas.table import FORMULAS
from opscope.harness.verdict.meaning import NARROW

BF16, F16 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)
FORMS: dict[str, Callable[..., Any]] = {
    "silu": lambda x: x * (0.5 * (1 + np.tanh(0.5 * x))),
    "gelu": lambda x: 0.5 * x + 0.5 * x * special.erf(x / np.sqrt(2)),
    "softplus": lambda x: x + np.log1p(np.exp(-x)),
    "mish": lambda x: x * np.tanh(np.log(1 + np.exp(x))),
    "elu": lambda x: np.where(x > 0, x, np.exp(np.minimum(x, 0.0)) - 1),
    "rpow": lambda x: np.exp(x * np.log(3.0)),
}


def drawn(kind: np.dtype) -> np.ndarray:
    return (2.5 * np.random.default_rng(0).standard_normal(4096)).astype(kind)


def by_steps(name: str, x: np.ndarray) -> np.ndarray:
    """A function with each of its other steps the nearest number."""
    (result,) = next(evaluations(FORMS[name], [x.astype(np.float64)], x.dtype, NEAREST))
    return rounded(result, x.dtype)


def nearest(name: str, x: np.ndarray) -> np.ndarray:
    return rounded(FORMULAS[name].exact(x.astype(np.float64), **FORMULAS[name].attributes), x.dtype)


@pytest.mark.crossed
@pytest.mark.parametrize("target", ["steps", "card"])
@pytest.mark.parametrize("kind", [BF16, F16], ids=str)
@pytest.mark.parametrize("name", sorted(FORMS))
def test_another_way_is_right_where_it_is_one_way_throughout(name: str, kind: np.dtype, target: str) -> None:
    x = drawn(kind)
    steps, right = by_steps(name, x), nearest(name, x)
    verdict = judge(name, x, steps, target=target)
    assert verdict, verdict
    judged = judge(name, x, np.where(np.arange(x.size) % 2, steps, right), target=target)
    assert bool(judged) is ("as_body" not in verdict.flags)  # half of the one, half of the other


def test_a_way_of_its_own_is_said() -> None:
    x = drawn(BF16)
    assert "as_body" in judge("silu", x, by_steps("silu", x), target="card").flags
    assert judge("silu", x, by_steps("silu", x), target="ieee").answer == "wrong"


@pytest.mark.parametrize("target", ["steps", "card"])
def test_a_tail_that_steps_excuse_is_wrong_beside_elements_that_no_such_steps_made(target: str) -> None:
    x = drawn(BF16)
    right, body = nearest("gelu", x), FORMULAS["gelu"].body
    ((steps,),) = evaluations(body, [x.astype(np.float64)], BF16, NEAREST[:1])
    assert judge("gelu", x, rounded(steps, BF16), target=target)
    in_float32 = body(x.astype(np.float32)).astype(BF16)  # coarse below -4.5 alone
    assert judge("gelu", x, in_float32, target=target)
    verdict = judge("gelu", x, np.where(x < -3, 0, right).astype(BF16), target=target)
    assert (verdict.answer, "which show in no others" in verdict.reason) == ("wrong", True)


def test_a_value_that_overflows_is_no_step_that_was_rounded() -> None:
    x, y, z = np.random.default_rng(0).standard_normal((3, 4096)).astype(F16)
    y[0] = z[0] = 300  # whose product is more than float16 has
    with np.errstate(over="ignore"):
        right = rounded(x.astype(np.float64) + y.astype(np.float64) * z, F16)
    assert np.isinf(right[0])
    assert judge("addcmul", [x, y, z], right, target="steps")


EXP2 = """func.func @main(%x: tensor<{n}xf16>) -> tensor<{n}xf16> {{
  %0 = stablehlo.composite "opscope.exp2" %x {{decomposition = @body}} : (tensor<{n}xf16>) -> tensor<{n}xf16>
  return %0 : tensor<{n}xf16>
}}
func.func private @body(%x: tensor<{n}xf16>) -> tensor<{n}xf16> {{
  %0 = stablehlo.constant dense<0.693147182> : tensor<{n}xf16>
  %1 = stablehlo.multiply %x, %0 : tensor<{n}xf16>
  %2 = stablehlo.exponential %1 : tensor<{n}xf16>
  return %2 : tensor<{n}xf16>
}}"""


def test_elements_that_overflow_say_nothing_of_rounded_steps() -> None:
    """Of all numbers of float16 half as many overflow in 2^x as show that x ln 2 was rounded."""
    x = np.arange(1 << 16, dtype=np.uint16).view(F16)
    with np.errstate(all="ignore"):
        x = x[np.isfinite(x) & (np.abs(x) >= np.finfo(F16).tiny)]
        rounded_steps = np.exp((x * F16.type(np.log(2))).astype(np.float64)).astype(F16)
    assert judge(EXP2.format(n=x.size), x, rounded_steps, target="steps")


@pytest.mark.parametrize("kind", ["f16", "f32"])
def test_a_body_with_a_constant_is_asked_for_some_elements(kind: str) -> None:
    """Of so many numbers of 16 bits each once, of others those that are off; its constant is the same for all."""
    element = np.dtype({"f16": "float16", "f32": "float32"}[kind])
    x = np.random.default_rng(0).standard_normal(NARROW + 1).astype(element)
    text = EXP2.replace("f16", kind).format(n=x.size)
    as_body = np.exp((x * element.type(np.log(2))).astype(np.float64)).astype(element)
    assert judge(text, x, as_body, target="steps")
    assert not judge(text, x, as_body * element.type(1.01), target="steps")


def one_pass(x: np.ndarray, epsilon: float = 1e-5) -> np.ndarray:
    mean = x.mean(-1, keepdims=True)
    variance = np.square(x).mean(-1, keepdims=True) - mean * mean
    return (x - mean) / np.sqrt(variance + np.float32(epsilon))


@pytest.mark.crossed
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("mean", [3, 30, 100, 300])
def test_a_variance_in_one_pass_is_right_and_another_epsilon_is_not(mean: float, seed: int) -> None:
    x = (mean + np.random.default_rng(seed).standard_normal((64, 256))).astype(np.float32)
    groups, wide = x.reshape(64, 4, 64), x.astype(np.float64)
    assert judge("layer_norm", x, one_pass(x))
    assert judge("group_norm(num_groups=4)", x, one_pass(groups).reshape(x.shape))
    assert judge("var(axis=-1)", x, np.square(x).mean(-1) - np.square(x.mean(-1)))
    off = 1e-7 * mean**2  # as much as one pass may be off, but everywhere
    verdict = judge("layer_norm", x, one_pass(wide, 1e-5 + off).astype(np.float32))
    assert verdict.answer == "wrong" or mean < 100, verdict


def test_a_slope_at_a_kink_may_be_either() -> None:
    x = np.array([-3, 3] * 64, np.float32)
    for slopes in ((0, 1), (-0.5, 1.5)):
        assert judge("hardswish_bw", x, np.tile(np.float32(slopes), 64))
    assert not judge("hardswish_bw", x, np.tile(np.float32((0, 2)), 64))
