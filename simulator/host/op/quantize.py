"""Quantization: q = clip(round(x / scale) + zero point), with one scale for all or one per channel of `axis`."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.op.common import axis_of, dtype_name, op

LIMITS = {"int8": (-127, 127), "uint8": (0, 255), "int32": (-2147483648, 2147483647)}
"""Type -> the numbers that TT-Buda uses of it: int8 is symmetric."""


def _per_channel(scale: Any, value: Any, axis: int) -> Any:
    scale = jnp.asarray(scale, jnp.float32)
    if scale.ndim != 1:
        return scale
    at = axis_of(axis, value.ndim)
    return scale.reshape([-1 if i == at else 1 for i in range(value.ndim)])


def _stored(value: Any, out_dtype: Any) -> Any:
    kind = dtype_name(out_dtype)
    if kind not in LIMITS:
        raise PyBudaError(f"expected out_dtype {', '.join(LIMITS)}, got {kind}")
    low, high = LIMITS[kind]
    return jnp.clip(value, low, high).astype(kind)


@op
def Quantize(name: str, operandA: Any, operandB: Any, zero_point: int, axis: int, out_dtype: Any) -> Any:
    """Returns integers of A; B is the scale."""
    scale = _per_channel(operandB, operandA, axis)
    return _stored(jnp.round(operandA.astype(jnp.float32) / scale) + zero_point, out_dtype)


@op
def Dequantize(
    name: str,
    operandA: Any,
    operandB: Any,
    zero_point: int,
    axis: int = -1,
    out_dtype: Any = "float32",
) -> Any:
    """Returns (A - zero point) * scale; B is the scale."""
    scaled = (operandA.astype(jnp.float32) - zero_point) * _per_channel(operandB, operandA, axis)
    return scaled.astype(dtype_name(out_dtype))


@op
def Requantize(
    name: str,
    operandA: Any,
    operand_inp_scale: Any,
    operand_out_scale: Any,
    input_zero_point: float,
    output_zero_point: float,
    out_dtype: Any,
    axis: int = -1,
    rounding: str = "None",
) -> Any:
    """Returns integers of another scale; the input's zero point is 0."""
    if input_zero_point != 0:
        raise PyBudaError(f"expected input_zero_point 0, got {input_zero_point}: TT-Buda has no other")
    scale = _per_channel(jnp.asarray(operand_inp_scale) / jnp.asarray(operand_out_scale), operandA, axis)
    return _stored(jnp.round(scale * operandA.astype(jnp.float32) + output_zero_point), out_dtype)


@op
def BudaRequantize(
    name: str,
    operandA: Any,
    scale: Any,
    zero_point: float,
    out_dtype: Any,
    axis: int = -1,
    rounding: str = "None",
) -> Any:
    """Returns integers of A * scale + zero point."""
    return _stored(jnp.round(operandA.astype(jnp.float32) * jnp.asarray(scale) + zero_point), out_dtype)
