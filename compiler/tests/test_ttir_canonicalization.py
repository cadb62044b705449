"""Canonical forms: nothing that moves nothing, and never another result."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from opscope.compiler import api
from opscope.compiler.pipelines.pipeline import parse, run
from opscope.compiler.tests import programs

X = programs.random((4, 6, 32))


def left(function) -> list[str]:
    module = api.stablehlo_to_ttir(programs.stablehlo(function, X))
    run(parse("canonicalize,cse,dce"), module)
    return programs.op_names(module)


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (lambda x: jnp.negative(-x), []),
        (lambda x: x[::-1][::-1], []),
        (lambda x: jax.lax.pad(x, 0.0, ((1, -1, 0), (0, 0, 0), (0, 0, 0))), ["ttir.pad"]),
        (lambda x: x[::-1], ["ttir.reverse"]),
        (lambda x: x[:, :, None].transpose(0, 2, 1, 3), ["ttir.reshape"]),
        (lambda x: jnp.exp(x) + jnp.exp(x), ["ttir.exp", "ttir.add"]),
        (lambda x: jnp.broadcast_to(jnp.float32(3), (2, 2)), ["ttir.full"]),
    ],
)
def test_canonicalization_leaves_these_ops(function, names) -> None:
    ops = left(function)
    assert [name for name in ops if name != "ttir.full" or "ttir.full" in names] == names


def test_results_stay() -> None:
    def function(x):
        y = jax.lax.pad(x, 0.0, ((1, -1, 0), (0, 0, 1), (0, 0, 0)))
        return y.sum(1, keepdims=True) + jnp.negative(-x).max(1)[:, None], x.transpose(1, 0, 2).transpose(2, 0, 1)

    source = programs.stablehlo(function, X)
    for ours, theirs in zip(programs.simulate(source, X, optimization_level=1), programs.xla(source, X), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=1e-2)
