"""Broadcasts in front of elementwise kernels go, unless they make the result's shape."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from opscope.compiler import api
from opscope.compiler.pipelines.pipeline import parse, run
from opscope.compiler.tests import programs

X, ROW, COLUMN = programs.random((3, 5, 32)), programs.random((32,), 1), programs.random((5, 1), 2)
FUNCTIONS = {
    "row": (lambda x, r, c: x + r, ["ttir.add"]),
    "column": (lambda x, r, c: jnp.maximum(x, c), ["ttir.maximum"]),
    "both": (lambda x, r, c: jnp.where(x > 0, r, c), ["ttir.full", "ttir.gt", "ttir.where"]),
    "outer": (lambda x, r, c: r * c, ["ttir.multiply"]),
    "alone": (lambda x, r, c: jnp.broadcast_to(r, (3, 5, 32)), ["ttir.reshape", "ttir.broadcast"]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_ops_and_numbers(name: str) -> None:
    function, left = FUNCTIONS[name]
    source = programs.stablehlo(function, X, ROW, COLUMN)
    module = api.stablehlo_to_ttir(source)
    run(parse("ttir-implicit-broadcast-fold,dce"), module)
    assert [n for n in programs.op_names(module) if n != "ttir.reshape" or n in left] == left
    (ours,) = programs.simulate(source, X, ROW, COLUMN, optimization_level=1)
    np.testing.assert_array_equal(ours, programs.xla(source, X, ROW, COLUMN)[0])


def test_a_product_repeats_nothing_itself() -> None:
    source = programs.stablehlo(lambda x, r: x[0] @ jnp.broadcast_to(r, (32, 32)), X, ROW)
    module = api.stablehlo_to_ttir(source)
    run(parse("ttir-implicit-broadcast-fold,dce"), module)
    assert programs.op_names(module)[-3:] == ["ttir.reshape", "ttir.broadcast", "ttir.matmul"]
