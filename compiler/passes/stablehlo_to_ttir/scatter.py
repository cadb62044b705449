"""Scatter and select_and_scatter."""

from __future__ import annotations

from typing import Any

from xdsl.ir import SSAValue

from opscope.compiler.passes.stablehlo_to_ttir.body import combination
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit, lowers
from opscope.compiler.passes.stablehlo_to_ttir.regions import lowered, read_around


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
