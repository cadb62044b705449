"""Every op that JAX and a page of StableHLO text can write, on small operands: what a backend is tried with first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opscope.models.arguments import ArgSpec, Built
from opscope.models.op_cases import FLOAT, cases
from opscope.models.registry import model

STABLEHLO = """
    abs add and atan2 batch_norm_grad batch_norm_inference batch_norm_training bitcast_convert broadcast
    broadcast_in_dim case cbrt ceil cholesky clamp compare composite concatenate convert convolution cosine
    count_leading_zeros divide dot dot_general dynamic_slice dynamic_update_slice exponential
    exponential_minus_one floor gather get_dimension_size if imag iota is_finite log log_plus_one logistic map
    maximum minimum multiply negate not optimization_barrier or pad popcnt power real reduce reduce_precision
    reduce_window remainder reshape reverse rng rng_bit_generator round_nearest_afz round_nearest_even rsqrt
    scatter select select_and_scatter shift_left shift_right_arithmetic shift_right_logical sign sine slice sort
    sqrt subtract tan tanh transpose triangular_solve while xor
"""
CHLO = "acos acosh asin asinh atan atanh cosh erf erf_inv erfc mulhi sinh square tan top_k"
OPS = (*(f"stablehlo.{name}" for name in STABLEHLO.split()), *(f"chlo.{name}" for name in CHLO.split()))
"""The ops that the compiler lowers and that one run of one op can hold."""


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

    return Built(forward, tuple(specs), ops=OPS)
