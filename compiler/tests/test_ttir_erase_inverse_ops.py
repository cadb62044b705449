"""Movements that cancel are gone, whatever lies between, and the numbers are NumPy's."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from opscope.compiler import api
from opscope.compiler.ir.context import context
from opscope.compiler.passes.ttir_erase_inverse_ops import TtirEraseInverseOps
from opscope.compiler.passes.ttir_implicit_broadcast_fold import TtirImplicitBroadcastFold
from opscope.compiler.tests import programs

X = programs.random((2, 8, 32))
Y = programs.random((2, 8, 32), 1)


def names(function, *args) -> list[str]:
    module = api.stablehlo_to_ttir(programs.stablehlo(function, *args))
    TtirEraseInverseOps().apply(context(), module)
    module.verify()
    return programs.op_names(module)


@pytest.mark.parametrize(
    ("function", "args", "left"),
    [
        (lambda x: x.transpose(0, 2, 1).transpose(0, 2, 1), (X,), []),
        (lambda x: jnp.exp(x.transpose(0, 2, 1)).transpose(0, 2, 1), (X,), ["ttir.exp"]),
        (lambda x, y: (x.transpose(2, 0, 1) + y.transpose(2, 0, 1)).transpose(1, 2, 0), (X, Y), ["ttir.add"]),
        (lambda x: jnp.abs(x.reshape(16, 32)).reshape(2, 8, 32), (X,), ["ttir.abs"]),
        # Another permutation of the second operand: nothing cancels.
        (
            lambda x, y: x.transpose(0, 2, 1) + y.transpose(0, 2, 1)[:, ::-1],
            (X, Y),
            ["ttir.permute", "ttir.permute", "ttir.reverse", "ttir.add"],
        ),
    ],
)
def test_inverse_moves_are_erased(function, args, left) -> None:
    assert names(function, *args) == left


VECTOR, ROWS, WEIGHTS = (programs.random(shape, seed) for seed, shape in enumerate([(32,), (8,), (32, 16)]))
FLAT, LEFT, RIGHT = (programs.random(shape) for shape in [(1, 16, 32), (2, 3, 8, 32), (2, 3, 32, 8)])


@pytest.mark.parametrize(
    ("function", "args", "left"),
    [
        # A number per channel is reshaped to where its dim was; one element stays as it is.
        (lambda x, v: (x.transpose(0, 2, 1) + v[:, None]).transpose(0, 2, 1), (X, VECTOR), "reshape add"),
        (lambda x, v: (x.transpose(0, 2, 1) * v).transpose(0, 2, 1), (X, ROWS), "reshape multiply"),
        (lambda x, v: (x.transpose(2, 0, 1) + v[:, None, None]).transpose(1, 2, 0), (X, VECTOR), "reshape add"),
        (lambda x: (x.transpose(0, 2, 1) * 2.5).transpose(0, 2, 1), (X,), "full multiply"),
        (lambda x: jnp.exp(x.reshape(16, 32) * 2.5).reshape(2, 8, 32), (X,), "full multiply exp"),
        # What is no number per channel, or comes in another order, keeps all movements where they are.
        (
            lambda x, y: x.transpose(0, 2, 1) + y.transpose(2, 1, 0),
            (X, programs.random((8, 32, 2))),
            "permute permute add",
        ),
        (lambda x, y: x.transpose(0, 2, 1) + y, (X, programs.random((2, 32, 8))), "permute add"),
        (lambda x, y: x.reshape(16, 32) + y.reshape(16, 32), (X, programs.random((4, 4, 32))), "reshape reshape add"),
        (lambda x, v: (x.reshape(16, 32) + v).reshape(2, 8, 32), (X, VECTOR), "reshape add reshape"),
        # Two reshapes become one; a single one sinks only towards another that it meets.
        (lambda x, y: x.reshape(16, 32) + y.reshape(16, 32), (X, Y), "add reshape"),
        (lambda x: jnp.exp(x.reshape(16, 32)), (X,), "reshape exp"),
        (lambda x, w: jnp.exp(x.reshape(16, 32)) @ w, (X, WEIGHTS), "reshape exp matmul"),
        (lambda x: jnp.tanh(jnp.exp(x.reshape(16, 32)) * 2.5).reshape(2, 8, 32), (X,), "exp full multiply tanh"),
        (lambda x: x.transpose(1, 2, 0).transpose(1, 2, 0), (X,), "permute"),
        (lambda x: jnp.sum(jnp.exp(x.transpose(0, 2, 1)), axis=2), (X,), "exp permute sum"),
        # Dims that were folded for a product and unfolded after it.
        (lambda x, w: (x.reshape(16, 32) @ w).reshape(1, 16, 16), (FLAT, WEIGHTS), "matmul"),
        (lambda x, w: (x.reshape(16, 32) @ w).reshape(2, 8, 16), (X, WEIGHTS), "reshape matmul reshape"),
        (lambda v, w: v @ w, (VECTOR, WEIGHTS), "reshape matmul reshape"),  # a product takes no vectors
        (lambda a, b: (a.reshape(6, 8, 32) @ b.reshape(6, 32, 8)).reshape(2, 3, 8, 8), (LEFT, RIGHT), "matmul"),
        (
            lambda a, b: (a.reshape(6, 8, 32) @ b.reshape(6, 32, 8)).reshape(3, 2, 8, 8),
            (LEFT, RIGHT),
            "reshape reshape matmul reshape",
        ),
    ],
)
def test_inverse_moves_are_erased_where_broadcasts_are_part_of_ops(function, args, left) -> None:
    module = api.stablehlo_to_ttir(programs.stablehlo(function, *args))
    TtirImplicitBroadcastFold().apply(context(), module)
    TtirEraseInverseOps().apply(context(), module)
    module.verify()
    assert " ".join(name.removeprefix("ttir.") for name in programs.op_names(module)) == left


def test_a_permutation_that_two_read_does_not_double() -> None:
    def both(x):
        turned = x.transpose(0, 2, 1)
        return jnp.exp(turned), jnp.tanh(turned)

    assert names(both, X).count("ttir.permute") == 1


def test_one_element_of_more_dims_stays() -> None:
    def scalars(x):
        first = x[0, 0, 0].reshape(1)
        return jnp.tanh(first * jnp.ones(1) + x[0, 0, 1:2]).reshape(())

    (got,) = programs.simulate(programs.stablehlo(scalars, X), X, optimization_level=1)
    np.testing.assert_allclose(got, np.tanh(X[0, 0, 0] + X[0, 0, 1]), rtol=1e-5)


def test_numbers_are_numpys() -> None:
    def function(x, y):
        return (x.transpose(2, 0, 1) * y.transpose(2, 0, 1)).transpose(1, 0, 2).reshape(2, 256)

    (got,) = programs.simulate(programs.stablehlo(function, X, Y), X, Y, optimization_level=1)
    np.testing.assert_array_equal(got, (X * Y).transpose(0, 2, 1).reshape(2, 256))
