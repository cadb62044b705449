"""Reductions over whole dims.

Float `sum` and `mean` run on the matrix unit (GAPOOL: the data in SrcA, a scaler in SrcB), so that Float32 enters as
TF32 less its last bit and LoFi reads 4 bits of mantissa; they accumulate in Dst. `max`, `min` and `prod` run on the
SFPU in float32, integers exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from opscope.compiler.target.program import ReduceParams
from opscope.compiler.target.rare_values import has_special
from opscope.compiler.target.rounding import as_number, bits, kept, quantise
from opscope.simulator.kernels.eltwise import SRC_A_FULL, SRC_A_HIGH, operands
from opscope.simulator.kernels.matmul import MVMUL_DEPTH, overflowed
from opscope.simulator.kernels.registry import PASS, Call, Images, kernel, params_of


def gapool_operand(x: np.ndarray, fidelity: str) -> np.ndarray:
    """Float data as SrcA holds them for a sum (tt-isa-documentation, GAPOOL and SrcASrcB.md)."""
    return kept(x, SRC_A_HIGH if fidelity == "LoFi" else SRC_A_FULL)


def _finish(value: np.ndarray, params: ReduceParams, rank: int) -> np.ndarray:
    """`value` with the reduced dims kept as size 1 if the parameters ask for it."""
    return np.expand_dims(value, tuple(d % rank for d in params.dims)) if params.keep_dim else value


def _sum(images: Images, call: Call) -> np.ndarray:
    params, x = params_of(call, ReduceParams), images[0]
    if x.dtype.kind != "f":
        x = operands(images, call)[0]
        if call.inputs[0].element_type == "i1":
            return (x != 0).any(axis=params.dims)
        return np.add.reduce(x, axis=params.dims, dtype=x.dtype)
    x = gapool_operand(x, call.numerics.fidelity)
    total = _float_sum(x, params, call)
    if not has_special(bits(total)):
        return total
    # The unit knows neither Inf nor NaN: exponent 255 is a number, and a sum too large is Inf (FloatBitPatterns.md).
    numbers = as_number(x, call.inputs[0].data_format)
    return quantise(overflowed(np.add.reduce(numbers, axis=params.dims)), call.numerics.dst_format)


def _float_sum(x: np.ndarray, params: ReduceParams, call: Call) -> np.ndarray:
    """Sum of what SrcA holds, as Dst accumulates it."""
    if call.numerics.dst_format == "Float32":
        return np.add.reduce(x, axis=params.dims, dtype=np.float32)
    dims = [d % x.ndim for d in params.dims]
    kept = [d for d in range(x.ndim) if d not in dims]
    lead = tuple(x.shape[d] for d in kept)
    flat = x.transpose(*kept, *dims).reshape(*lead, math.prod(x.shape[d] for d in dims))
    dst = np.zeros(lead, np.float32)
    for start in range(0, flat.shape[-1], MVMUL_DEPTH):
        part = np.add.reduce(flat[..., start : start + MVMUL_DEPTH], axis=-1, dtype=np.float32)
        dst = quantise(dst + part, call.numerics.dst_format)
    return dst


@kernel("sum", ReduceParams, unit="matrix")
def sum_(images: Images, call: Call) -> np.ndarray:
    """Sum."""
    return _finish(_sum(images, call), params_of(call, ReduceParams), images[0].ndim)


@kernel("mean", ReduceParams, unit="matrix")
def mean(images: Images, call: Call) -> np.ndarray:
    """Sum over count."""
    params = params_of(call, ReduceParams)
    count = math.prod(images[0].shape[d] for d in params.dims)
    total = _sum(images, call)
    scaled = total / np.float32(count) if images[0].dtype.kind == "f" else total // count
    return _finish(scaled, params, images[0].ndim)


def _extreme(name: str, function: np.ufunc, lowest: bool, cycles: tuple[str, ...]) -> None:
    """Registers the reduction to the largest or smallest element; of none: the lowest or highest of the type."""

    def run(images: Images, call: Call) -> np.ndarray:
        params, (x,) = params_of(call, ReduceParams), operands(images, call)
        value = function.reduce(x, axis=params.dims, initial=end_of(x.dtype, lowest=lowest))
        return _finish(value, params, x.ndim)

    kernel(name, ReduceParams, cycles=cycles)(run)


def end_of(dtype: np.dtype, *, lowest: bool) -> float | int:
    """The lowest or highest value of a type: infinity of floats."""
    if dtype.kind == "f":
        return -np.inf if lowest else np.inf
    return np.iinfo(dtype).min if lowest else np.iinfo(dtype).max


_extreme("max", np.maximum, lowest=True, cycles=("reduce r",))
_extreme("min", np.minimum, lowest=False, cycles=PASS)


@kernel("prod", ReduceParams, max_ulp=1, cycles=PASS)
def prod(images: Images, call: Call) -> np.ndarray:
    """Product, in float32 or wrapping in the element type's width."""
    params, (x,) = params_of(call, ReduceParams), operands(images, call)
    return _finish(np.multiply.reduce(x, axis=params.dims, dtype=x.dtype), params, x.ndim)


def _logical(name: str, of_truth: np.ufunc, of_bits: np.ufunc) -> None:
    """Registers a reduction of booleans by their truth, and of wider integers bit by bit."""

    def run(images: Images, call: Call) -> np.ndarray:
        params, (x,) = params_of(call, ReduceParams), operands(images, call)
        value, function = (x != 0, of_truth) if call.inputs[0].element_type == "i1" else (x, of_bits)
        return _finish(function.reduce(value, axis=params.dims), params, x.ndim)

    kernel(name, ReduceParams, cycles=PASS)(run)


_logical("reduce_and", np.logical_and, np.bitwise_and)
_logical("reduce_or", np.logical_or, np.bitwise_or)


@kernel("reduce_xor", ReduceParams, cycles=PASS)
def reduce_xor(images: Images, call: Call) -> np.ndarray:
    """Parity of the trues; of integers wider than i1: bitwise exclusive or."""
    params, (x,) = params_of(call, ReduceParams), operands(images, call)
    return _finish(np.bitwise_xor.reduce(x, axis=params.dims), params, x.ndim)


def _row_bytes(call: Call) -> int:
    """A whole row of the reduced dim, double-buffered, in row-major order."""
    (dim,) = params_of(call, ReduceParams).dims
    return 2 * call.inputs[0].shape[dim] * 4


def _index_of(name: str, function: Callable[..., np.ndarray]) -> None:
    """Registers the index of the first largest or smallest element along one dim; of the first NaN, if there is one."""

    def run(images: Images, call: Call) -> np.ndarray:
        params, (x,) = params_of(call, ReduceParams), operands(images, call)
        (dim,) = params.dims
        return _finish(np.asarray(function(x, axis=dim)), params, x.ndim)

    kernel(name, ReduceParams, l1_bytes=_row_bytes, cycles=PASS)(run)


_index_of("argmax", np.argmax)
_index_of("argmin", np.argmin)
