"""Every op that JAX and a page of StableHLO text can write, on small operands: what a backend is tried with first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opscope.models.arguments import ArgSpec, Built
from opscope.models.op_cases import FLOAT, cases
from opscope.models.registry import model


@model(name="suite:ops", family="suite", size="reduced")
def build(dtype: str) -> Built:
    """One program of all cases of the op table; `dtype` is the type of those that ask for none."""
    import jax
    import jax.numpy as jnp

    table = list(cases(jax.lax, jnp))

    def names(index: int) -> list[str]:
        return [f"{table[index].name}.{i}" for i in range(len(table[index].operands))]

    specs = [
        ArgSpec(name, operand.shape, dtype if operand.dtype == FLOAT else operand.dtype, operand.distribution, "input")
        for index, entry in enumerate(table)
        for name, operand in zip(names(index), entry.operands, strict=True)
    ]

    def forward(w: Mapping[str, Any]) -> list[Any]:
        results = []
        for index, entry in enumerate(table):
            with jax.named_scope(entry.name):
                results.append(entry.function(*(w[name] for name in names(index))))
        return results

    return Built(forward, tuple(specs))
