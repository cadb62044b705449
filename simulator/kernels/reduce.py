"""Reductions over whole dims.

Float `sum` and `mean` along the last dim are a product with a column of ones, or of 1/N (SrcB reads the data, SrcA the
column); along others GAPOOL, which has the data in SrcA and the factor in SrcB. 1/N is cut to bfloat16. In Float32
both run on the vector unit, where the Dst has 32 bits. `max`, `min` and `prod` run on the vector unit in float32,
integers exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from opscope.compiler.target.program import ReduceParams
from opscope.compiler.target.rare_values import has_special
from opscope.compiler.target.rounding import as_number, bits, keep_bits, kept, quantise, to_mantissa
from opscope.simulator.kernels.addition_order import column_products, column_sums, overflowed, product, read, row_sums
from opscope.simulator.kernels.eltwise import SRC_A_FULL, SRC_A_HIGH, SRC_B_FULL, SRC_B_HIGH, operands
from opscope.simulator.kernels.matmul import MVMUL_DEPTH, PHASES
from opscope.simulator.kernels.registry import PASS, Call, Images, kernel, params_of


def gapool_operand(x: np.ndarray, fidelity: str) -> np.ndarray:
    """Float data as SrcA holds them for a sum (tt-isa-documentation, GAPOOL and SrcASrcB.md)."""
    return kept(x, _right_bits(fidelity))


def _right_bits(fidelity: str) -> int:
    """The bits that all phases together read of what is in SrcA."""
    return SRC_A_HIGH if fidelity in ("LoFi", "HiFi2_B") else SRC_A_FULL


def _left_bits(fidelity: str) -> int:
    """The bits that all phases together read of what is in SrcB."""
    return SRC_B_HIGH if fidelity in ("LoFi", "HiFi2") else SRC_B_FULL


def _finish(value: np.ndarray, params: ReduceParams, rank: int) -> np.ndarray:
    """`value` with the reduced dims kept as size 1 if the parameters ask for it."""
    return np.expand_dims(value, tuple(d % rank for d in params.dims)) if params.keep_dim else value


def _sum(images: Images, call: Call, factor: float = 1.0) -> np.ndarray:
    """The sum, of floats times a factor."""
    params, x = params_of(call, ReduceParams), images[0]
    if x.dtype.kind != "f":
        x = operands(images, call)[0]
        if call.inputs[0].element_type == "i1":
            return (x != 0).any(axis=params.dims)
        return np.add.reduce(x, axis=params.dims, dtype=x.dtype)
    if call.inputs[0].data_format == "Float32" and call.numerics.dst_format == "Float32":
        return _vector_sum(operands(images, call)[0], params, call) * np.float32(factor)
    factor = float(to_mantissa(np.array([factor], np.float32), 7, "truncate")[0])
    x = _seen(x, call)
    along_rows = tuple(d % x.ndim for d in params.dims) == (x.ndim - 1,)
    if call.arithmetic.exact_order:
        return _ordered_sum(x, params, call, factor, along_rows=along_rows)
    of_data, of_factor = (_left_bits, _right_bits) if along_rows else (_right_bits, _left_bits)
    fidelity = call.numerics.fidelity
    x = kept(x, of_data(fidelity))
    scale = keep_bits(np.array([factor], np.float32), of_factor(fidelity))[0]
    total = _float_sum(x, params, call) * scale
    if not has_special(bits(total)):
        return total
    # The unit knows neither Inf nor NaN: exponent 255 is a number, and a sum too large is Inf (FloatBitPatterns.md).
    numbers = as_number(x, call.inputs[0].data_format)
    return quantise(overflowed(np.add.reduce(numbers, axis=params.dims) * scale), call.numerics.dst_format)


def _seen(x: np.ndarray, call: Call) -> np.ndarray:
    """Float32 as the device has it where Dst has 16 bits: cut to these when it is read."""
    narrow = call.arithmetic.exact_order and call.numerics.dst_format == "Float16_b"
    return read(x, "Float16_b") if narrow and call.inputs[0].data_format == "Float32" else x


def _vector_sum(x: np.ndarray, params: ReduceParams, call: Call) -> np.ndarray:
    """Sum of float32 on the vector unit."""
    if not call.arithmetic.exact_order:
        return np.add.reduce(x, axis=params.dims, dtype=np.float32)
    last = x.ndim - 1
    for dim in sorted((d % x.ndim for d in params.dims), reverse=True):
        x = (row_sums if dim == last else column_sums)(np.moveaxis(x, dim, -1))
    return x


def _ordered_sum(x: np.ndarray, params: ReduceParams, call: Call, factor: float, *, along_rows: bool) -> np.ndarray:
    """Sum on the matrix unit in its own order: tiles one after another, in each its faces, in each its phases."""
    flat, lead = _flat(x, params)
    depth, phases, dst = flat.shape[1], PHASES[call.numerics.fidelity], call.numerics.dst_format
    if along_rows:
        return product(flat, np.full((depth, 1), factor, np.float32), phases, dst).reshape(lead)
    return column_products(factor, np.ascontiguousarray(flat.T), phases, dst).reshape(lead)


def _flat(x: np.ndarray, params: ReduceParams) -> tuple[np.ndarray, tuple[int, ...]]:
    """What is added up as rows of a matrix, and the shape of the sums."""
    dims = [d % x.ndim for d in params.dims]
    others = [d for d in range(x.ndim) if d not in dims]
    lead = tuple(x.shape[d] for d in others)
    columns = math.prod(x.shape[d] for d in dims)
    return np.ascontiguousarray(x.transpose(*others, *dims)).reshape(math.prod(lead), columns), lead


def _float_sum(x: np.ndarray, params: ReduceParams, call: Call) -> np.ndarray:
    """Sum of what a source register holds, as Dst accumulates it."""
    if call.numerics.dst_format == "Float32":
        return np.add.reduce(x, axis=params.dims, dtype=np.float32)
    flat, lead = _flat(x, params)
    dst = np.zeros(len(flat), np.float32)
    for start in range(0, flat.shape[-1], MVMUL_DEPTH):
        part = np.add.reduce(flat[:, start : start + MVMUL_DEPTH], axis=-1, dtype=np.float32)
        dst = quantise(dst + part, call.numerics.dst_format)
    return dst.reshape(lead)


@kernel("sum", ReduceParams, unit="matrix")
def sum_(images: Images, call: Call) -> np.ndarray:
    """Sum."""
    return _finish(_sum(images, call), params_of(call, ReduceParams), images[0].ndim)


@kernel("mean", ReduceParams, unit="matrix")
def mean(images: Images, call: Call) -> np.ndarray:
    """Sum over count: of floats times 1 over the count, which outside of Float32 is cut to bfloat16."""
    params = params_of(call, ReduceParams)
    count = math.prod(images[0].shape[d] for d in params.dims)
    if images[0].dtype.kind == "f":
        total = _sum(images, call, float(np.float32(1) / np.float32(count)) if count else float("nan"))
    else:
        total = _sum(images, call) // count
    return _finish(total, params, images[0].ndim)


def _extreme(name: str, function: np.ufunc, lowest: bool, cycles: tuple[str, ...]) -> None:
    """Registers the reduction to the largest or smallest element; of none: the lowest or highest of the type."""

    def run(images: Images, call: Call) -> np.ndarray:
        params, (x,) = params_of(call, ReduceParams), operands(images, call)
        x = _seen(x, call)
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
