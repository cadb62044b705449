"""Python functions that a program of JAX calls: what becomes of them in what is exported."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from opscope.base.stablehlo.python_calls import why_not_run
from opscope.models.arguments import ArgSpec, Built
from opscope.models.frontends import python_calls
from opscope.models.frontends.base import Source
from opscope.models.frontends.jax import compiled_results, exported

X = np.arange(4, dtype="float32")


def doubled(x: Any) -> Any:
    return jax.pure_callback(lambda v: np.asarray(v) * 2, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def in_a_function_called_twice(x: Any) -> Any:
    twice = jax.jit(lambda v: doubled(v) + 1)
    return twice(x) * twice(x + 1)


def with_an_effect(x: Any) -> Any:
    return jax.experimental.io_callback(lambda v: np.asarray(v) + 3, x, x, ordered=True) * x


def in_each_step_of_a_scan(x: Any) -> Any:
    def step(carry: Any, weight: Any) -> Any:
        value = jax.lax.cond(weight > 0, doubled, lambda v: v - 1, carry * weight)
        return carry + value, value

    return jax.lax.scan(step, x, jnp.arange(3.0), reverse=True)


def in_a_loop(x: Any) -> Any:
    return jax.lax.fori_loop(0, jnp.int32(x[1] + 2), lambda _, v: doubled(v) + 1, x)


def in_a_branch_not_taken(x: Any) -> Any:
    return jax.lax.cond(x[0] > 100, doubled, lambda v: v + 1, x)


def beside_a_loop_that_shows(x: Any) -> Any:
    def body(_: Any, v: Any) -> Any:
        jax.debug.print("at {}", v)
        return v * 2

    return jax.lax.fori_loop(0, jnp.int32(x[3]), body, x) + doubled(x)


def built(model: Any) -> Built:
    return Built(lambda w: model(w["x"]), (ArgSpec("x", X.shape, "float32", "", "input"),))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (doubled, 1),
        (in_a_function_called_twice, 2),
        (with_an_effect, 1),
        (in_each_step_of_a_scan, 1),
        (in_a_loop, 3),
        (in_a_branch_not_taken, 0),
        (beside_a_loop_that_shows, 1),
    ],
)
def test_a_program_calls_python_no_more_and_computes_the_same(model: Any, inputs: int) -> None:
    result = exported(built(model), "m", "jax", {"x": X})
    assert bool(why_not_run(result.bytecode)) == (model is beside_a_loop_that_shows), "what shows is left out later"
    given = [spec for spec in result.arguments if spec.name.startswith("python.")]
    assert (len(given), all(spec.name in result.values for spec in given)) == (inputs, True)
    assert len(result.notes) == 1, result.notes
    _, own = compiled_results(built(model), Source("m", "m.py", "float32"), result.values)
    for mine, whole in zip(own, jax.tree.leaves(model(jnp.asarray(X))), strict=True):
        np.testing.assert_array_equal(mine, whole)


def test_calls_stay_where_an_input_has_no_value() -> None:
    result = exported(built(lambda x: doubled(jnp.sin(x))), "m", "jax", {})
    assert why_not_run(result.bytecode)
    assert result.notes[0].endswith("not computed: inputs have no values")
    assert [spec.name for spec in result.arguments] == ["x"]


def test_what_the_function_raises_ends_the_export() -> None:
    def refuses(value: Any) -> Any:
        raise ValueError("no such level")

    model = built(lambda x: jax.pure_callback(refuses, jax.ShapeDtypeStruct(x.shape, x.dtype), x))
    with pytest.raises(Exception, match="no such level"):
        python_calls.settled(model, {"x": X})
