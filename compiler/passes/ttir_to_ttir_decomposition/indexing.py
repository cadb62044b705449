"""Reading and writing at indices, in tt-mlir's forms along one dim, by the general gather and scatter."""

from __future__ import annotations

from math import prod
from typing import Any

from xdsl.dialects.builtin import TensorType, i32
from xdsl.ir import SSAValue

from opscope.compiler.dialects.from_row import element_of as element_text
from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.passes.stablehlo_to_ttir.dynamic_slice import read_slice
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit
from opscope.compiler.passes.ttir_to_ttir_decomposition.patterns import along, decomposes, element_of, steps

COMBINE = {"invalid": "update", "sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum"}
"""tt-mlir's reduce type -> how this compiler's scatter joins old values and updates."""


def _as_i32(e: Emit, index: SSAValue) -> SSAValue:
    """Indices that were narrowed or counted as floats, as i32; 64-bit ones are left to `ttir-narrow-indices`."""
    return index if element_text(index) in ("i32", "i64", "ui32", "ui64") else e.typecast(index, i32)


def _vectors(e: Emit, index: SSAValue, dim: int) -> SSAValue:
    """Returns for each element of `index` the coordinates that it means: its own, with the index along `dim`."""
    shape = shape_of(index)
    index = _as_i32(e, index)
    parts = [
        e.reshape(index if d == dim else steps(e, element_of(index), shape, d), [*shape, 1]) for d in range(len(shape))
    ]
    if len(parts) == 1:
        return parts[0]
    return e.emit("concat", parts, e.like(index, (*shape, len(shape))), dim=len(shape))


@decomposes("gather")
def gather(e: Emit, attrs: dict[str, Any]) -> SSAValue | None:
    """result[i, j] = operand[index[i, j], j]; the general form has no `dim`."""
    if "dim" not in attrs:
        return None
    operand, index = e.operands
    rank = len(shape_of(index))
    return e.emit(
        "gather",
        [operand, _vectors(e, index, along(rank, attrs["dim"]))],
        e.result_type,
        offset_dims=[],
        collapsed_slice_dims=range(rank),
        operand_batching_dims=[],
        start_indices_batching_dims=[],
        start_index_map=range(rank),
        index_vector_dim=rank,
        slice_sizes=[1] * rank,
    )


@decomposes("scatter")
def scatter(e: Emit, attrs: dict[str, Any]) -> list[SSAValue] | None:
    """operand[index[i, j], j] is joined with updates[i, j]; the general form has no `dim`."""
    if "dim" not in attrs:
        return None
    operand, index, updates = e.operands
    word = getattr(attrs.get("scatter_reduce_type"), "word", None)
    kind = word.data if word is not None else "invalid"
    if kind not in COMBINE:
        raise e.refuse(f"expected scatter_reduce_type of {', '.join(COMBINE)}, got {kind}")
    rank = len(shape_of(index))
    return e.emit_all(
        "scatter",
        [operand, _vectors(e, index, along(rank, attrs["dim"])), updates],
        [e.result_type],
        update_window_dims=[],
        inserted_window_dims=range(rank),
        input_batching_dims=[],
        scatter_indices_batching_dims=[],
        scatter_dims_to_operand_dims=range(rank),
        index_vector_dim=rank,
        combine=COMBINE[kind],
        programs=[],
    )


@decomposes("embedding")
def embedding(e: Emit, attrs: dict[str, Any]) -> SSAValue | None:
    """With 64-bit indices a gather of rows, whose indices the host narrows; else the kernel of that name."""
    index, table = e.operands
    if element_text(index) not in ("i64", "ui64"):
        return None
    size, shape = shape_of(table), shape_of(index)
    flat = e.reshape(table, [prod(size[:-1]), size[-1]])
    rows = e.emit(
        "gather",
        [flat, e.reshape(index, [*shape, 1])],
        e.like(table, (*shape, size[-1])),
        offset_dims=[len(shape)],
        collapsed_slice_dims=[0],
        operand_batching_dims=[],
        start_indices_batching_dims=[],
        start_index_map=[0],
        index_vector_dim=len(shape),
        slice_sizes=[1, size[-1]],
    )
    return e.reshape(rows, e.result_shape)


@decomposes("embedding_backward")
def embedding_backward(e: Emit, attrs: dict[str, Any]) -> SSAValue:
    """Adds the gradient of each row that was read to zeros of the table's shape."""
    index, table, gradient = e.operands
    (size, width), count = shape_of(table), prod(shape_of(index))
    rows = e.reshape(_as_i32(e, index), [count, 1])
    zeros = e.full([size, width], element_of(table), 0)
    (result,) = e.emit_all(
        "scatter",
        [zeros, rows, e.reshape(gradient, [count, width])],
        [TensorType(element_of(table), [size, width])],
        update_window_dims=[1],
        inserted_window_dims=[0],
        input_batching_dims=[],
        scatter_indices_batching_dims=[],
        scatter_dims_to_operand_dims=[0],
        index_vector_dim=1,
        combine="add",
        programs=[],
    )
    return e.typecast(result, e.result_type.element_type)


@decomposes("slice_dynamic")
def slice_dynamic(e: Emit, attrs: dict[str, Any]) -> SSAValue:
    """Reads one slice from `begins` on; its size is the result's, so `ends` says nothing new."""
    value, begins = e.operands[:2]
    if any(step != 1 for step in attrs.get("step", ())):
        raise e.refuse(f"expected steps of 1, got {list(attrs['step'])}")
    return read_slice(e, value, begins, e.result_shape)
