"""Contractions (`dot_general`, and `dot` as a case of it), and linear algebra ops with kernels of their own."""

from __future__ import annotations

from typing import Any

from xdsl.ir import SSAValue

from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit, lowers


@lowers("stablehlo.dot_general")
def dot_general(e: Emit) -> SSAValue:
    """Contracts over any batch and contracting dims."""
    numbers = e.spec("dot_dimension_numbers")
    return contract(
        e,
        numbers.ints("lhs_batching_dimensions"),
        numbers.ints("rhs_batching_dimensions"),
        numbers.ints("lhs_contracting_dimensions"),
        numbers.ints("rhs_contracting_dimensions"),
    )


@lowers("stablehlo.dot")
def dot(e: Emit) -> SSAValue:
    """Contracts the last dim of the left operand with the first of the right."""
    return contract(e, (), (), (len(shape_of(e.operands[0])) - 1,), (0,))


def contract(
    e: Emit,
    left_batch: tuple[int, ...],
    right_batch: tuple[int, ...],
    left_inner: tuple[int, ...],
    right_inner: tuple[int, ...],
) -> SSAValue:
    """Emits `ttir.dot_general`, which `ttir-to-ttir-decomposition` turns into a matmul."""
    element = e.result_type.element_type
    # Operands whose type is not the result's (a bf16 product declared f32) are widened first, which is exact.
    operands = [e.typecast(value, element) for value in e.operands]
    return e.emit(
        "dot_general",
        operands,
        e.result_type,
        batch_dims_lhs=left_batch,
        batch_dims_rhs=right_batch,
        contract_dims_lhs=left_inner,
        contract_dims_rhs=right_inner,
    )


def _flag(e: Emit, name: str) -> bool:
    attr: Any = e.attr(name)
    return attr is not None and bool(attr.value.data)


@lowers("stablehlo.cholesky")
def cholesky(e: Emit) -> SSAValue:
    """Emits a Cholesky factor, the lower one unless the op asks for the upper one."""
    return e.emit("cholesky", e.operands, e.result_type, lower=_flag(e, "lower"))


@lowers("stablehlo.triangular_solve")
def triangular_solve(e: Emit) -> SSAValue:
    """Emits a triangular solve; for real numbers the adjoint is the transpose."""
    return e.emit(
        "triangular_solve",
        e.operands,
        e.result_type,
        left_side=_flag(e, "left_side"),
        lower=_flag(e, "lower"),
        unit_diagonal=_flag(e, "unit_diagonal"),
        transpose_a=e.spec("transpose_a").value in ("TRANSPOSE", "ADJOINT"),
    )
