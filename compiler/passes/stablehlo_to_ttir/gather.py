"""Gather, kept in its general form."""

from __future__ import annotations

from xdsl.ir import SSAValue

from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit, lowers


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
