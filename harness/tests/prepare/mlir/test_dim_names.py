"""Rows of ops of dynamic shape have the names of the dims, through the ops of a model that JAX exported with them."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import pytest
from jax import export

from opscope.harness.prepare.split import split_module

SHAPE = jax.ShapeDtypeStruct


@pytest.fixture(scope="module")
def rows() -> dict[tuple[str, str], list[str]]:
    """Op and type -> what its rows say of its dims."""

    def net(ids: jax.Array, table: jax.Array, weights: jax.Array, more: jax.Array) -> tuple[jax.Array, ...]:
        hidden = jax.nn.softmax(jax.nn.relu(table[ids] @ weights), axis=-1)
        places = hidden * jnp.arange(ids.shape[1])[None, :, None]
        turned = jnp.tanh(places.transpose(1, 0, 2))
        joined = jnp.tanh(jnp.concatenate([places, places], axis=1))
        flat = jnp.tanh(jnp.reshape(places, (-1,)))
        return (
            turned,
            joined,
            flat,
            jnp.mean(hidden, axis=1),
            jnp.sin(hidden.sum((1, 2))),
            jnp.sin(hidden.sum((0, 2))),
            jnp.cos(more),
        )

    batch, length, other = export.symbolic_shape("batch, length, other")
    shapes = [
        SHAPE((batch, length), jnp.int32),
        SHAPE((50, 8), jnp.float32),
        SHAPE((8, 16), jnp.float32),
        SHAPE((other, 3), jnp.float32),
    ]
    split = split_module(export.export(jax.jit(net))(*shapes).mlir_module_serialized)
    dims: dict[tuple[str, str], list[str]] = {}
    for op in split.ops.values():
        match = re.search(r": (tensor<.*>) has a dynamic shape in (dims? .*?); try --shape batch=1", op.unsplittable)
        if match is not None:
            dims.setdefault((op.op_name.partition(".")[2], match[1]), []).append(match[2])
    return dims


BOTH = "dims 0 (batch), 1 (length)"


@pytest.mark.parametrize(
    ("op", "kind", "dims"),
    [
        ("gather", "tensor<?x?x1xi32>", BOTH),
        ("dot_general", "tensor<?x?x8xf32>", BOTH),
        ("exponential", "tensor<?x?x16xf32>", BOTH),
        ("dynamic_iota", "tensor<?xi32>", "dim 0 (length)"),
        ("tanh", "tensor<?x?x16xf32>", "dims 0 (length or batch), 1 (batch)"),  # turned, and joined: one op
        ("tanh", "tensor<?xf32>", "dim 0"),  # a product of sizes has no name
        ("divide", "tensor<?x16xf32>", "dim 0 (batch)"),
        ("sine", "tensor<?xf32>", "dim 0 (batch or length)"),  # two uses of one op
        ("cosine", "tensor<?x3xf32>", "dim 0 (other)"),
    ],
)
def test_a_row_has_the_names_of_its_dims(rows: dict[tuple[str, str], list[str]], op: str, kind: str, dims: str) -> None:
    assert set(rows[op, kind]) == {dims}


def test_no_names_are_made_up() -> None:
    source = """func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
      %0 = stablehlo.tanh %x : tensor<?x4xf32>
      return %0 : tensor<?x4xf32>
    }"""
    (op,) = split_module(source).ops.values()
    assert "tensor<?x4xf32> has a dynamic shape in dim 0; try" in op.unsplittable
