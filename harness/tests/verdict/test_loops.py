"""Loops whose steps depend on values: right by what their steps make of errors, at the step at which they may end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from opscope.harness.judge.module_verdict import ModuleVerdict
from opscope.harness.prepare.golden import compile_module
from opscope.harness.prepare.live_golden import LiveGolden
from opscope.harness.prepare.split import split_module
from opscope.harness.record.records import ResultCheck
from opscope.harness.run.api import run_op_by_op
from opscope.harness.verdict import with_errors
from opscope.harness.verdict.target import Target

HOST = Target("host", None, "exact")
HALVES = """func.func @main(%n: tensor<i32>, %x: tensor<3xf32>) -> (tensor<i32>, tensor<3xf32>) {{
  %r:2 = stablehlo.while(%i = %n, %v = %x) : tensor<i32>, tensor<3xf32>
  cond {{
    %limit = stablehlo.constant dense<{limit}> : tensor<f32>
    %one = stablehlo.slice %v [0:1] : (tensor<3xf32>) -> tensor<1xf32>
    %scalar = stablehlo.reshape %one : (tensor<1xf32>) -> tensor<f32>
    %t = stablehlo.compare GT, %scalar, %limit : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  }} do {{
    %next = stablehlo.constant dense<1> : tensor<i32>
    %half = stablehlo.constant dense<0.5> : tensor<3xf32>
    %w = stablehlo.multiply %v, %half : tensor<3xf32>
    %j = stablehlo.add %i, %next : tensor<i32>
    stablehlo.return %j, %w : tensor<i32>, tensor<3xf32>
  }}
  return %r#0, %r#1 : tensor<i32>, tensor<3xf32>
}}"""
X = np.float32([4.0, 1.0, 2.0])
UP, DOWN = 1.0 + 2**-23, 1.0 - 2**-24


def halved(limit: float, steps: int, change: Callable[[np.ndarray], np.ndarray] = lambda x: x) -> list[ResultCheck]:
    """The verdict on a device that takes so many steps in a loop whose value after two of them is 1.0."""
    module = HALVES.format(limit=f"{limit:.9f}").encode()
    inputs = [np.int32(0), X]
    golden = [np.array(each) for each in compile_module(module, widen=True)(inputs)]
    got = [np.array(steps, np.int32), change(X * np.float32(0.5**steps))]
    return ModuleVerdict(module, inputs).checks(golden, got, HOST)


@pytest.mark.parametrize(("limit", "steps", "own"), [(DOWN, 2, 3), (UP, 3, 2)])
def test_another_number_of_steps_is_said_where_the_condition_is_undecided(limit, steps, own):
    checks = halved(limit, steps)
    assert all(check.passed for check in checks)
    assert {check.flags[-1] for check in checks} == {f"{steps}_steps_instead_of_{own}"}


@pytest.mark.parametrize(("limit", "steps"), [(0.99, 2), (1.01, 3), (DOWN, 1), (DOWN, 4), (UP, 4), (UP, 1)])
def test_another_number_of_steps_is_wrong_where_the_condition_is_decided(limit, steps):
    assert not all(check.passed for check in halved(limit, steps))


def test_values_at_another_step_are_held_to_that_step():
    assert not all(check.passed for check in halved(DOWN, 2, lambda x: x * np.float32(1.01)))
    assert not halved(DOWN, 2, lambda x: x[:2])[1].passed
    assert not halved(DOWN, 2, lambda x: x * np.float32(np.nan))[1].passed


def test_a_loop_of_too_many_steps_is_judged_by_its_row(monkeypatch):
    monkeypatch.setattr(with_errors, "MOST", 3)
    assert not all(check.passed for check in halved(DOWN, 2))


def newton(a, x):
    """Square roots: ends where the worst square is near, which cancels."""

    def far(state):
        return (jnp.max(jnp.abs(state[1] * state[1] - a)) > 0.05) & (state[0] < 40)

    return jax.lax.while_loop(far, lambda s: (s[0] + 1, 0.5 * (s[1] + a / s[1])), (0, x))


def bisection(lo, hi):
    """The root of a cubic: which half is taken depends on the sign of a value near 0."""

    def halve(state):
        step, lo, hi = state
        mid = 0.5 * (lo + hi)
        below = mid * mid * mid - mid - 1.7 < 0
        return step + 1, jnp.where(below, mid, lo), jnp.where(below, hi, mid)

    return jax.lax.while_loop(lambda s: jnp.max(s[2] - s[1]) > 1e-2, halve, (0, lo, hi))


def power_iteration(w, x):
    """An eigenvector: a product and a norm in each step, until it no more turns."""

    def turn(state):
        step, v, _ = state
        u = w @ v
        u = u / jnp.sqrt(jnp.sum(u * u))
        return step + 1, u, jnp.max(jnp.abs(u - v))

    return jax.lax.while_loop(lambda s: (s[2] > 3e-3) & (s[0] < 60), turn, (0, x, jnp.float32(1.0)))


def beam_search(w, x):
    """Four beams: what is kept depends on the order of scores; ends early where the best has ended."""

    def extend(state):
        step, scores, states, tokens = state
        states = jnp.tanh(states @ w)
        each = (scores[:, None] + jax.nn.log_softmax(states)).reshape(-1)
        scores, places = jax.lax.top_k(each, 4)
        tokens = tokens[places // 16].at[:, step].set(places % 16)
        return step + 1, scores, states[places // 16], tokens

    def unfinished(state):
        return (state[0] < 6) & (state[1][0] > -14.0)

    start = (0, jnp.float32([0, -1, -2, -3]), x, jnp.zeros((4, 6), jnp.int32))
    return jax.lax.while_loop(unfinished, extend, start)


def rows(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


SYMMETRIC = rows(16, 16)
MODELS = {
    "newton": (newton, (np.float32([2.0, 3.0, 10.0, 30.0]), np.ones(4, np.float32))),
    "bisection": (bisection, (np.zeros(8, np.float32), np.linspace(2, 3, 8, dtype=np.float32))),
    "power_iteration": (power_iteration, (SYMMETRIC + SYMMETRIC.T + 6 * np.eye(16, dtype=np.float32), rows(16))),
    "beam_search": (beam_search, (rows(16, 16), rows(4, 16))),
}


EACH_MODEL = ["newton", *(pytest.param(name, marks=pytest.mark.slow) for name in MODELS if name != "newton")]
"""The one that takes the fewest steps is the quick one."""


@pytest.mark.parametrize("backend", ["reference", pytest.param("xla", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", EACH_MODEL)
def test_solvers_and_searches_are_right(name, backend, tmp_path):
    model, inputs = MODELS[name]
    tests = run_op_by_op(model, *inputs, backend=backend, run_dir=tmp_path / "run", cache_dir=tmp_path / "cache")
    assert {test.status for test in tests if test.op_name == "stablehlo.while"} == {"success"}


def loop_of(model: Callable[..., object], inputs: Sequence[np.ndarray]) -> tuple[bytes, list[np.ndarray]]:
    """The loop of a model as a module of its own, and its inputs."""
    split = split_module(jax.jit(model).lower(*inputs).as_text())
    values = dict(zip(split.program.arguments, inputs, strict=True))
    walk = LiveGolden(split, inputs, frozenset(), None)
    try:
        for node in split.program.nodes:
            if node.name == "stablehlo.while":
                return split.ops[node.op_id].bytecode, [np.asarray(values[value]) for value in node.inputs]
            made = [np.array(node.value)] if node.value is not None else walk.alone(node, values)
            values |= dict(zip(node.results, made, strict=True))
    finally:
        walk.close()
    raise AssertionError("no loop")


@pytest.mark.parametrize("name", EACH_MODEL)
def test_a_wrong_result_or_number_of_steps_is_no_honest_error(name):
    module, inputs = loop_of(*MODELS[name])
    verdict = ModuleVerdict(module, inputs)
    golden = [np.array(each) for each in compile_module(module, widen=True)(inputs)]
    assert all(check.passed for check in verdict.checks(golden, golden, HOST))
    for changed in (
        [each if each.dtype.kind == "i" else each * np.float32(1.02) for each in golden],
        [each + 3 if each.shape == () and each.dtype.kind == "i" else each for each in golden],
    ):
        assert not all(check.passed for check in verdict.checks(golden, changed, HOST))
