"""Results of 8 bits of a host: single steps, several in one module, sums; honest ones, and lies within the bounds."""

from __future__ import annotations

import numpy as np
import pytest

from opscope import judge
from opscope.harness.formulas.nearest import rounded
from opscope.harness.prepare.golden import compile_module
from opscope.harness.record.element_types import numpy_dtype
from opscope.harness.tests.verdict.test_closed_kinds import elementwise

KINDS = ["f8E4M3FN", "f8E5M2", "f8E4M3FNUZ", "f8E5M2FNUZ", "f8E4M3B11FNUZ", "f8E4M3", "f8E3M4"]
OPS = {
    "tanh": np.tanh,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "sine": np.sin,
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
}


def drawn(rng, kind):
    """A module of two to five ops on two operands, and the same as a function of these and of what rounds a step."""
    tensor, names, steps = f"tensor<32x64x{kind}>", ["%x", "%y"], []
    for number in range(int(rng.integers(2, 6))):
        op, last = str(rng.choice(list(OPS))), names[-1] if number else "%x"
        steps.append((op, [last] if op in ("tanh", "logistic", "sine") else [last, str(rng.choice(names))]))
        names.append(f"%{number}")
    lines = [f"  %{n} = stablehlo.{op} {', '.join(of)} : {tensor}\n" for n, (op, of) in enumerate(steps)]
    head = f"func.func @main(%x: {tensor}, %y: {tensor}) -> {tensor} {{\n"
    text = f"{head}{''.join(lines)}  return {names[-1]} : {tensor}\n}}"

    def evaluate(x, y, between=lambda value: value):
        values = {"%x": x, "%y": y}
        for number, (op, of) in enumerate(steps):
            made = OPS[op](*(values[name] for name in of))
            values[f"%{number}"] = made if number == len(steps) - 1 else between(made)
        return values[names[-1]]

    return text, evaluate


@pytest.mark.crossed
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", KINDS)
def test_several_steps_in_8_bits_are_each_rounded_to_nearest_or_not(kind, seed):
    dtype, rng = numpy_dtype(kind), np.random.default_rng([seed, KINDS.index(kind)])
    text, evaluate = drawn(rng, kind)
    operands = [rng.uniform(low, high, (32, 64)).astype(dtype) for low, high in ((0.1, 3), (-2, 2))]
    known = [x.astype(np.float64) for x in operands]
    once = evaluate(*known)
    each = evaluate(*known, lambda y: rounded(y, dtype).astype(np.float64))
    half = evaluate(*known, lambda y: y.astype(np.float16).astype(np.float64)).astype(np.float16)
    honest = [rounded(once, dtype), rounded(each, dtype), half.astype(dtype), *compile_module(text)(operands)]
    target = ("ieee", "steps")[seed]
    for right in honest:
        verdict = judge(text, operands, right, target=target)
        assert verdict, (text, str(verdict))
    for lie in (toward_zero(once, dtype), rounded(1.1 * once, dtype)):
        off, least = (np.abs(y.astype(np.float64) - once) for y in (lie, honest[0]))
        if np.mean(off > least) > 0.02 and not any(np.mean(lie == right) > 0.98 for right in honest):  # not ties alone
            assert judge(text, operands, lie, target=target).answer == "wrong", text


@pytest.mark.crossed
@pytest.mark.parametrize("terms", [4, 30])
@pytest.mark.parametrize("kind", KINDS)
def test_a_sum_in_8_bits_is_added_up_in_16_or_as_xla_does(kind, terms):
    dtype = numpy_dtype(kind)
    x = np.random.default_rng(terms).uniform(-1, 1.2, (200, terms)).astype(dtype)
    text = (
        f"func.func @main(%x: tensor<200x{terms}x{kind}>) -> tensor<200x{kind}> {{\n"
        f"%c = stablehlo.constant dense<0.0> : tensor<{kind}>\n"
        "%0 = stablehlo.reduce(%x init: %c) applies stablehlo.add across dimensions = [1] : "
        f"(tensor<200x{terms}x{kind}>, tensor<{kind}>) -> tensor<200x{kind}>\nreturn %0 : tensor<200x{kind}>\n}}"
    )
    right, half = x.astype(np.float64).sum(1), x[:, ::-1].astype(np.float16).cumsum(1, dtype=np.float16)[:, -1]
    (as_written,) = compile_module(text)([x])
    for honest in (rounded(right, dtype), half.astype(dtype), as_written):
        verdict = judge(text, x, honest)
        assert verdict, str(verdict)
    for lie in (toward_zero(right, dtype), rounded(1.1 * right, dtype)):
        assert judge(text, x, lie).answer == "wrong"


def toward_zero(values, dtype):
    """Float64 values as a type of 8 bits, toward zero."""
    near = values.astype(dtype)
    return np.where(np.abs(near.astype(float)) > np.abs(values), (near.view(np.uint8) - 1).view(dtype), near)


@pytest.mark.crossed
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", ["tanh", "sqrt", "logistic"])
@pytest.mark.parametrize("by_name", [False, True])
def test_what_a_host_rounds_to_8_bits_is_a_nearest_number(kind, op, by_name):
    dtype = numpy_dtype(kind)
    x = np.random.default_rng(0).uniform(0.1, 3, (32, 64)).astype(dtype)
    right = {"tanh": np.tanh, "sqrt": np.sqrt, "logistic": lambda x: 1 / (1 + np.exp(-x))}[op](x.astype(np.float64))
    what = op if by_name else elementwise(op, (32, 64), kind, 1).decode()
    for honest in (right, right.astype(np.float16)):
        assert judge(what, x, honest.astype(dtype))
    for lie in (toward_zero(right, dtype), (1.1 * right).astype(dtype)):
        assert judge(what, x, lie).answer == "wrong"


def test_steps_that_xla_rounds_to_8_bits_are_right_as_it_has_them():
    dtype = numpy_dtype("f8E4M3FN")
    x = np.random.default_rng(0).uniform(-0.9, 0.9, (32, 64)).astype(dtype)
    text = elementwise("asin", (32, 64), "f8E4M3FN", 1).replace(
        b"stablehlo.asin %0 : ", b"chlo.asin %0 : tensor<32x64xf8E4M3FN> -> "
    )
    (came,) = compile_module(text)([x])
    assert not np.array_equal(came, compile_module(text, widen=True)([x])[0])
    assert judge(text.decode(), x, came)
    assert not judge(text.decode(), x, toward_zero(np.arcsin(x.astype(np.float64)), dtype))
