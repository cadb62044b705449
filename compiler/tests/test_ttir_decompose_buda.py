"""Decomposed ops compute what NumPy's do, exactly, on numbers that Float16_b holds; equal ones included."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from opscope.compiler.buda.plan_to_binary import to_binary
from opscope.compiler.buda.planner import budget_of, plan
from opscope.compiler.passes.ttir_decompose_buda import RULES
from opscope.compiler.target.system_desc import load_board
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
    "minimum": jnp.minimum,
    "maximum": lambda a, b: jnp.maximum(a, 0.0) + jnp.maximum(0.0, b),
    "neg": lambda a, b: -a + b,
    "where": lambda a, b: jnp.where(jnp.reshape(a > b, (16, 48)).reshape(24, 32), a, b),
}  # fmt: skip
INEXACT = {"div", "rsqrt"}
"""These are a reciprocal's: test_planned_run.py and the sweep of all ops hold them to their tolerances."""


def test_every_rule_is_tried() -> None:
    assert set(CASES) | INEXACT == set(RULES)


def test_all_at_once_are_exact() -> None:
    rng = np.random.default_rng(0)
    # Multiples of a quarter, a third of them equal in both, some zero; sums of two are exact in Float16_b.
    a = (rng.integers(-12, 13, (24, 32)) / 4).astype(np.float32)
    b = np.where(rng.random((24, 32)) < 0.3, a, rng.integers(-12, 13, (24, 32)) / 4).astype(np.float32)

    def every(x, y):  # type: ignore[no-untyped-def]
        x, y = x + x, y + y  # Comparisons of arguments stay on the host.
        return [case(x, y) for name, case in CASES.items() if name != "where"] + [jnp.where(x > y, x, y)]

    graph = lowered_function(every, a.shape, b.shape)
    assert not any(
        node.spec.type not in {"abs", "add", "maximum", "multiply", "nop", "subtract"} for node in graph.graph.ops
    )
    sources = {"arg0": a, "arg1": b}
    queues = {name: sources.get(name, held).reshape(held.shape) for name, held in graph.queues.items()}
    outs = run(to_binary(plan(graph.graph, budget_of("n150"), "MinimizeGrid"), load_board("n150")), queues)
    expected = [np.asarray(result) for result in every(a, b)]
    assert len(outs) == len(expected)
    for name, out, golden in zip([*list(CASES)[:-1], "where"], outs, expected, strict=True):
        np.testing.assert_array_equal(out.reshape(golden.shape), golden, err_msg=name)


def test_small_differences_count() -> None:
    graph = lowered_function(lambda x, y: (x + x > y + y).astype(jnp.float32), (4, 32), (4, 32))
    a = np.full((4, 32), 1e-30, np.float32) * 2.0 ** np.arange(-20, 12, dtype=np.float32)
    sources = {"arg0": a, "arg1": a * np.float32(0.9921875)}
    queues = {name: sources.get(name, held).reshape(held.shape) for name, held in graph.queues.items()}
    (out,) = run(to_binary(plan(graph.graph, budget_of("n150")), load_board("n150")), queues)
    np.testing.assert_array_equal(out.reshape(4, 32), np.ones((4, 32)))
