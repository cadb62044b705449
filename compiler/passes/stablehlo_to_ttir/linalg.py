"""Linear algebra ops with kernels of their own."""

from __future__ import annotations

from typing import Any

from xdsl.ir import SSAValue

from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit, lowers


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
