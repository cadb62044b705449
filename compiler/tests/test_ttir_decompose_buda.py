"""Decomposed ops compute what NumPy's do, exactly, on numbers that Float16_b holds; equal ones included."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from opscope.compiler import api
from opscope.compiler.buda.plan_to_binary import to_binary
from opscope.compiler.buda.planner import budget_of, plan
from opscope.compiler.ir.context import context
from opscope.compiler.passes.ttir_decompose_buda import RULES, TtirDecomposeBuda, indexing
from opscope.compiler.passes.ttir_decompose_buda.sums import AMPLIFIER
from opscope.compiler.passes.ttir_implicit_broadcast_fold import TtirImplicitBroadcastFold
from opscope.compiler.target.system_desc import load_board
from opscope.compiler.tests import programs
from opscope.compiler.tests.planned import lowered_function, run

CASES = {
    "eq": lambda a, b: (a == b).astype(jnp.float32),
    "ne": lambda a, b: (a != b).astype(jnp.float32),
    "lt": lambda a, b: (a < b).astype(jnp.float32),
    "le": lambda a, b: (a <= b).astype(jnp.float32),
    "gt": lambda a, b: (a > b).astype(jnp.float32),
    "ge": lambda a, b: (a >= b).astype(jnp.float32),
    "logical_and": lambda a, b: ((a > 0) & (b > 0)).astype(jnp.float32),
    "logical_or": lambda a, b: ((a > 0) | (b > 0)).astype(jnp.float32),
    "logical_xor": lambda a, b: ((a > 0) ^ (b > 0)).astype(jnp.float32),
    "logical_not": lambda a, b: (~(a > b)).astype(jnp.float32),
    "typecast": lambda a, b: jnp.where(a.astype(bool), a, b),
    "min": lambda a, b: jnp.min(a, 1),
    "minimum": jnp.minimum,
    "maximum": lambda a, b: jnp.maximum(a, 0.0) + jnp.maximum(0.0, b),
    "neg": lambda a, b: -a + b,
    "clamp_tensor": lambda a, b: jax.lax.clamp(-1.5, a, 2.0),
    "pad": lambda a, b: jnp.pad(a, ((0, 2), (3, 0)), constant_values=-2.5),
    "reduce_and": lambda a, b: jnp.all(jnp.reshape(a <= b, (4, 6, 32)), 1).astype(jnp.float32),
    "reduce_or": lambda a, b: jnp.any(jnp.concatenate([a > b, a == b], 1), 1).astype(jnp.float32),
    "where": lambda a, b: jnp.where(jnp.reshape(a > b, (16, 48)).reshape(24, 32), a, b),
}
INEXACT = {"div", "rsqrt"}
"""These are a reciprocal's: test_planned_run.py and the sweep of all ops hold them to their tolerances."""
CLOSE = {
    "erfc": jax.scipy.special.erfc,
    "expm1": jnp.expm1,
    "log1p": lambda a: jnp.log1p(jnp.abs(a)),
    "pow": lambda a: jnp.abs(a) ** 1.5 + (jnp.abs(a) + 1) ** -2.0,
}
"""Not exact in Float16_b: `f(a)` within its last places."""
ELSEWHERE = {"max_pool2d", "min_pool2d", "gather", "scatter"}
"""test_buda_moves.py has these."""


def test_every_rule_is_tried() -> None:
    assert set(CASES) | INEXACT | set(CLOSE) | ELSEWHERE == set(RULES)


def test_the_lowest_number_and_the_whole_ones_are_those_of_the_format() -> None:
    limits = ml_dtypes.finfo(ml_dtypes.bfloat16)
    assert float(limits.min) == indexing.LOWEST
    # The first whole number that the format does not hold is one more.
    exact = np.arange(indexing.MOST_EXACT + 2).astype(ml_dtypes.bfloat16).astype(int)
    assert int(np.argmax(exact != np.arange(exact.size))) == indexing.MOST_EXACT + 1
    # The least difference of two normal numbers of a sum that is not zero, amplified, is one at least.
    assert float(limits.smallest_normal) * AMPLIFIER == 1


@pytest.mark.slow
def test_all_at_once_are_exact() -> None:
    rng = np.random.default_rng(0)
    # Multiples of a quarter, a third of them equal in both, some zero; sums of two are exact in Float16_b.
    a = (rng.integers(-12, 13, (24, 32)) / 4).astype(np.float32)
    b = np.where(rng.random((24, 32)) < 0.3, a, rng.integers(-12, 13, (24, 32)) / 4).astype(np.float32)

    def every(x, y):
        x, y = x + x, y + y  # Comparisons of arguments stay on the host.
        return [case(x, y) for name, case in CASES.items() if name != "where"] + [jnp.where(x > y, x, y)]

    graph = lowered_function(every, a.shape, b.shape)
    exact = {"abs", "add", "maximum", "multiply", "nop", "reduce", "sparse_matmul", "splice", "subtract"}
    assert {node.spec.type for node in graph.graph.ops} <= exact
    sources = {"arg0": a, "arg1": b}
    queues = {name: sources.get(name, content).reshape(content.shape) for name, content in graph.queues.items()}
    outs = run(to_binary(plan(graph.graph, budget_of("n150"), "MinimizeGrid"), load_board("n150")), queues)
    expected = [np.asarray(result) for result in every(a, b)]
    assert len(outs) == len(expected)
    for name, out, golden in zip([*list(CASES)[:-1], "where"], outs, expected, strict=True):
        np.testing.assert_array_equal(out.reshape(golden.shape), golden, err_msg=name)


@pytest.mark.parametrize("name", CLOSE)
def test_close_ones(name: str) -> None:
    case = lowered_function(lambda x: CLOSE[name](x + x), (24, 32))
    (out,) = run(to_binary(plan(case.graph, budget_of("n150")), load_board("n150")), case.queues)
    np.testing.assert_allclose(out.reshape(24, 32), case.golden[0], rtol=0.02, atol=0.02)


def test_a_choice_that_is_known_leaves_nothing_of_the_other() -> None:
    """As in a variance: NaN where the divisor is not positive, which it is."""
    case = lowered_function(lambda x: jnp.var(jnp.maximum(x, 0), 1, keepdims=True), (24, 32))
    (out,) = run(to_binary(plan(case.graph, budget_of("n150")), load_board("n150")), case.queues)
    np.testing.assert_allclose(out.reshape(24, 1), case.golden[0], rtol=0.02, atol=0.001)


def test_what_the_host_chooses_may_be_infinite() -> None:
    mask = np.arange(32) % 3 == 0
    case = lowered_function(lambda x: jnp.max(jnp.where(mask, -jnp.inf, x + x), 1), (24, 32))
    (out,) = run(to_binary(plan(case.graph, budget_of("n150")), load_board("n150")), case.queues)
    np.testing.assert_allclose(out.ravel(), case.golden[0], rtol=0.01)


def test_small_differences_count() -> None:
    graph = lowered_function(lambda x, y: (x + x > y + y).astype(jnp.float32), (4, 32), (4, 32))
    a = np.full((4, 32), 1e-30, np.float32) * 2.0 ** np.arange(-20, 12, dtype=np.float32)
    sources = {"arg0": a, "arg1": a * np.float32(0.9921875)}
    queues = {name: sources.get(name, content).reshape(content.shape) for name, content in graph.queues.items()}
    (out,) = run(to_binary(plan(graph.graph, budget_of("n150")), load_board("n150")), queues)
    np.testing.assert_array_equal(out.reshape(4, 32), np.ones((4, 32)))


KIND, TRUTH, WHOLE = "tensor<4x32xf32>", "tensor<4x32xi1>", "tensor<4x32xi32>"
AS_NUMBER = f"%r = stablehlo.convert %c : ({TRUTH}) -> {KIND}"
ZERO, ONE = (f"%z = stablehlo.constant dense<{value}> : {KIND}\n" for value in ("0.0", "1.0"))


@pytest.mark.parametrize(
    ("body", "kind", "expected"),
    [
        (
            f"%c = stablehlo.convert %x : ({KIND}) -> {TRUTH}\n{AS_NUMBER}",
            KIND,
            "full multiply abs full subtract relu full subtract",
        ),
        (
            f"%c = stablehlo.compare GT, %x, %y : ({KIND}, {KIND}) -> {TRUTH}\n{AS_NUMBER}",
            KIND,
            "subtract full multiply relu full subtract relu full subtract",
        ),
        (
            f"%c = stablehlo.compare GE, %x, %y : ({KIND}, {KIND}) -> {TRUTH}\n{AS_NUMBER}",
            KIND,
            "subtract full multiply relu full subtract relu",
        ),
        (f"%r = stablehlo.divide %x, %y : {KIND}", KIND, "reciprocal multiply"),
        (f"%r = stablehlo.rsqrt %x : {KIND}", KIND, "sqrt reciprocal"),
        (f"{ZERO}%r = stablehlo.maximum %x, %z : {KIND}", KIND, "full relu"),
        (f"{ZERO}%r = stablehlo.maximum %z, %x : {KIND}", KIND, "full relu"),
        # Not of zero; of what the host computes; integers, which no kernel takes as numbers.
        (f"{ONE}%r = stablehlo.maximum %x, %z : {KIND}", KIND, "full maximum"),
        (f"{ZERO}%r = stablehlo.maximum %a, %z : {KIND}", KIND, "full maximum"),
        (f"%c = stablehlo.compare EQ, %x, %y : ({WHOLE}, {WHOLE}) -> {TRUTH}\n{AS_NUMBER}", WHOLE, "eq typecast"),
        (
            f"%c = stablehlo.convert %x : ({KIND}) -> {WHOLE}\n%r = stablehlo.convert %c : ({WHOLE}) -> {KIND}",
            KIND,
            "typecast typecast",
        ),
        # What stays takes truth values again; what moves them moves numbers.
        (
            f"%c = stablehlo.compare GE, %x, %y : ({KIND}, {KIND}) -> {TRUTH}\n"
            f"%m = stablehlo.transpose %c, dims = [1, 0] : ({TRUTH}) -> tensor<32x4xi1>\n"
            "%no = stablehlo.constant dense<false> : tensor<i1>\n"
            "%odd = stablehlo.reduce(%m init: %no) applies stablehlo.xor across dimensions = [0] : "
            "(tensor<32x4xi1>, tensor<i1>) -> tensor<4xi1>\n"
            "%d = stablehlo.broadcast_in_dim %odd, dims = [0] : (tensor<4xi1>) -> tensor<4x32xi1>\n"
            f"%r = stablehlo.convert %d : ({TRUTH}) -> {KIND}",
            KIND,
            "subtract full multiply relu full subtract relu permute full typecast reduce_xor reshape broadcast "
            "typecast",
        ),
    ],
)
def test_what_an_op_becomes(body: str, kind: str, expected: str) -> None:
    sums = "".join(f"%{to} = stablehlo.add %{of}, %{of} : {kind}\n" for to, of in ("xa", "yb"))
    text = f"func.func @main(%a: {kind}, %b: {kind}) -> {KIND} {{ {sums}{body} return %r : {KIND} }}"
    module = api.stablehlo_to_ttir(text)
    TtirDecomposeBuda().apply(context(), module)
    TtirImplicitBroadcastFold().apply(context(), module)
    module.verify()
    assert " ".join(name.removeprefix("ttir.") for name in programs.op_names(module)) == f"add add {expected}"
