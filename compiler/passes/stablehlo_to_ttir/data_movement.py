"""Ops that move elements; mostly their attributes are only renamed. A gather is kept in its general form."""

from __future__ import annotations

from typing import Any

from xdsl.ir import SSAValue

from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.passes.stablehlo_to_ttir.body import combination, known_number
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit, lowers
from opscope.compiler.passes.stablehlo_to_ttir.regions import lowered, read_around


@lowers("stablehlo.transpose")
def transpose(e: Emit) -> SSAValue:
    """Permutes dims: result dim i is operand dim permutation[i], as in ttir."""
    return e.permute(e.operands[0], e.ints("permutation"))


@lowers("stablehlo.reshape")
def reshape(e: Emit) -> SSAValue:
    """Reshapes and keeps the row-major order."""
    return e.reshape(e.operands[0], e.result_shape)


@lowers("stablehlo.broadcast_in_dim")
def broadcast_in_dim(e: Emit) -> SSAValue:
    """Sorts operand dims by their place in the result, inserts missing ones with size 1, then repeats."""
    value, dims = e.operands[0], e.ints("broadcast_dimensions", [])
    order = sorted(range(len(dims)), key=dims.__getitem__)
    value = e.permute(value, order)
    sizes = dict(zip(sorted(dims), shape_of(value), strict=True))
    value = e.reshape(value, [sizes.get(i, 1) for i in range(len(e.result_shape))])
    return e.broadcast(value, e.result_shape)


@lowers("stablehlo.broadcast")
def broadcast(e: Emit) -> SSAValue:
    """Adds leading dims and repeats along them."""
    value = e.operands[0]
    shape = shape_of(value)
    value = e.reshape(value, [*[1] * (len(e.result_shape) - len(shape)), *shape])
    return e.broadcast(value, e.result_shape)


@lowers("stablehlo.slice")
def slice_(e: Emit) -> SSAValue:
    """Slices by begin, end and step per dim."""
    return e.emit(
        "slice_static",
        e.operands,
        e.result_type,
        begins=e.ints("start_indices"),
        ends=e.ints("limit_indices"),
        step=e.ints("strides"),
    )


@lowers("stablehlo.concatenate")
def concatenate(e: Emit) -> SSAValue:
    """Concatenates; operands without elements are dropped."""
    (dim,) = e.ints("dimension")
    parts = [v for v in e.operands if shape_of(v)[dim]] or e.operands[:1]
    return parts[0] if len(parts) == 1 else e.emit("concat", parts, e.result_type, dim=dim)


@lowers("stablehlo.pad")
def pad(e: Emit) -> SSAValue:
    """Pads; the value is an attribute if it is a known float, else the second operand."""
    value, fill = e.operands
    pairs = zip(e.ints("edge_padding_low"), e.ints("edge_padding_high"), strict=True)
    interior = e.ints("interior_padding")
    edges = {"padding": [edge for pair in pairs for edge in pair], "interior": interior if any(interior) else None}
    number = known_number(fill)
    if isinstance(number, float):
        return e.emit("pad", [value], e.result_type, value=number, **edges)
    return e.emit("pad", [value, fill], e.result_type, **edges)


@lowers("stablehlo.reverse")
def reverse(e: Emit) -> SSAValue:
    """Reverses the same dims."""
    return e.emit("reverse", e.operands, e.result_type, dimensions=e.ints("dimensions"))


@lowers("stablehlo.gather")
def gather(e: Emit) -> SSAValue:
    """Copies all dimension numbers; whether indices are sorted changes no result."""
    numbers = e.spec("dimension_numbers")
    return e.emit(
        "gather",
        e.operands,
        e.result_type,
        offset_dims=numbers.ints("offset_dims"),
        collapsed_slice_dims=numbers.ints("collapsed_slice_dims"),
        operand_batching_dims=numbers.ints("operand_batching_dims"),
        start_indices_batching_dims=numbers.ints("start_indices_batching_dims"),
        start_index_map=numbers.ints("start_index_map"),
        index_vector_dim=numbers.int("index_vector_dim"),
        slice_sizes=e.ints("slice_sizes"),
    )


@lowers("stablehlo.scatter")
def scatter(e: Emit) -> list[SSAValue]:
    """Copies all dimension numbers; whether indices are sorted or unique changes no result."""
    assert e.functions is not None
    numbers = e.spec("scatter_dimension_numbers")
    element: Any = e.result_type.element_type
    (region,) = e.op.regions
    combine = combination(region, element)
    outside = read_around(e, [] if combine else [region])
    return e.emit_all(
        "scatter",
        [*e.operands, *lowered(e, outside)],
        e.result_types,
        update_window_dims=numbers.ints("update_window_dims"),
        inserted_window_dims=numbers.ints("inserted_window_dims"),
        input_batching_dims=numbers.ints("input_batching_dims"),
        scatter_indices_batching_dims=numbers.ints("scatter_indices_batching_dims"),
        scatter_dims_to_operand_dims=numbers.ints("scattered_dims_to_operand_dims"),
        index_vector_dim=numbers.int("index_vector_dim"),
        combine=combine,
        programs=[] if combine else [e.functions.scalar(e, region, outside)],
    )


@lowers("stablehlo.select_and_scatter")
def select_and_scatter(e: Emit) -> SSAValue:
    """Lowers the backward pass of pooling: the selected element of each window gets the window's source value."""
    assert e.functions is not None
    rank = len(e.result_shape)
    select, join = e.op.regions
    combine = combination(join, e.result_type.element_type)
    bodies = [select] if combine else [select, join]
    outside = read_around(e, bodies)
    return e.emit(
        "select_and_scatter",
        [*e.operands, *lowered(e, outside)],
        e.result_type,
        window=e.ints("window_dimensions", [1] * rank),
        stride=e.ints("window_strides", [1] * rank),
        padding=e.ints("padding", [0] * (2 * rank)),
        combine=combine,
        programs=[e.functions.scalar(e, body, outside) for body in bodies],
    )
