"""Movements that cancel are gone, whatever lies between, and the numbers are NumPy's."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from opscope.compiler import api
from opscope.compiler.ir.context import context
from opscope.compiler.passes.ttir_erase_inverse_ops import TtirEraseInverseOps
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
def test_what_is_left(function, args, left) -> None:
    assert names(function, *args) == left


def test_a_permutation_that_two_read_does_not_double() -> None:
    def both(x):  # type: ignore[no-untyped-def]
        turned = x.transpose(0, 2, 1)
        return jnp.exp(turned), jnp.tanh(turned)

    assert names(both, X).count("ttir.permute") == 1


def test_one_element_of_more_dims_stays() -> None:
    def scalars(x):  # type: ignore[no-untyped-def]
        first = x[0, 0, 0].reshape(1)
        return jnp.tanh(first * jnp.ones(1) + x[0, 0, 1:2]).reshape(())

    (got,) = programs.simulate(programs.stablehlo(scalars, X), X, optimization_level=1)
    np.testing.assert_allclose(got, np.tanh(X[0, 0, 0] + X[0, 0, 1]), rtol=1e-5)


def test_numbers_are_numpys() -> None:
    def function(x, y):  # type: ignore[no-untyped-def]
        return (x.transpose(2, 0, 1) * y.transpose(2, 0, 1)).transpose(1, 0, 2).reshape(2, 256)

    (got,) = programs.simulate(programs.stablehlo(function, X, Y), X, Y, optimization_level=1)
    np.testing.assert_array_equal(got, (X * Y).transpose(0, 2, 1).reshape(2, 256))
