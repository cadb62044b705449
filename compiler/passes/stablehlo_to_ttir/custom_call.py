"""Custom calls, lowered by the registry in compiler/ops/custom_calls.py."""

from __future__ import annotations

import re
from collections.abc import Callable

from xdsl.dialects.builtin import StringAttr, TensorType, i1, i32
from xdsl.ir import Operation, SSAValue

from opscope.compiler.ops.custom_calls import find
from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.options import WAY_OUT
from opscope.compiler.passes.stablehlo_to_ttir.emit import NAMED, Emit, lowers

FLAGS = {"L": 76, "U": 85, "N": 78}
"""BLAS letters -> the codes that XLA passes for them."""


def target_of(op: Operation) -> str:
    """Returns the name of the function that a custom call refers to."""
    name = op.attributes.get("call_target_name")
    return name.data if isinstance(name, StringAttr) else ""


@lowers("stablehlo.custom_call")
def custom_call(e: Emit) -> list[SSAValue]:
    """Lowers a custom call by its target's row. Raises StageFailure if it has none, or only the host has its code."""
    name = target_of(e.op)
    row = find(name)
    if row is None and name.startswith("tt."):
        # tt-xla's, by the names of their ops: what of these has no kernel is refused later, by its name.
        made = NAMED["stablehlo.custom_call"](e)
        return [made] if isinstance(made, SSAValue) else list(made or ())
    if row is None:
        raise e.refuse(f"expected a target of the registry, got {name}: another library's symbol; try `opscope ops`")
    if row.way == "never":
        raise e.refuse(f"{name}: {row.reason}", "never")
    if row.way == "host":
        raise e.refuse(f"{name}: {row.reason}{WAY_OUT}")
    if row.way == "lower":
        return PATTERNS[row.pattern](e)
    results = e.operands[: len(e.op.results)]
    if [v.type for v in results] != e.result_types:
        raise e.refuse(f"{name}: expected operands and results alike on one chip, got other shapes")
    return results


def _number(e: Emit, key: str, *places: str) -> int | None:
    """Returns the integer in `key = n` from the first of these attributes that has one."""
    for place in places:
        match = re.search(rf"\b{key} = (-?\d+)", str(e.attr(place) or ""))
        if match:
            return int(match[1])
    return None


def _top_k(e: Emit) -> list[SSAValue]:
    shape = shape_of(e.operands[0])
    k = _number(e, "k", "mhlo.attributes", "mhlo.backend_config")
    if k is None or "largest = false" in str(e.attr("mhlo.attributes")) or shape_of(e.op.results[0])[-1] != k:
        raise e.refuse(f"expected the k largest along the last of {len(shape)} dims, got another order")
    return e.topk(k)


def _approx_top_k(e: Emit) -> list[SSAValue]:
    last = len(shape_of(e.operands[0])) - 1
    k, dim = (_number(e, key, "mhlo.backend_config") for key in ("top_k", "reduction_dim"))
    if k is None or dim != last or "_gt_" not in str(e.attr("called_computations")):
        raise e.refuse("expected the k largest along the last dim, got another order")
    return e.topk(k)


def _triangular_solve(e: Emit) -> SSAValue:
    flags = {key: _number(e, key, "mhlo.backend_config") for key in ("side", "uplo", "trans_x", "diag")}
    if None in flags.values():
        raise e.refuse(f"expected the flags of trsm, got {e.attr('mhlo.backend_config')}")
    return e.emit(
        "triangular_solve",
        e.operands,
        e.result_type,
        left_side=flags["side"] == FLAGS["L"],
        lower=flags["uplo"] == FLAGS["L"],
        unit_diagonal=flags["diag"] == FLAGS["U"],
        transpose_a=flags["trans_x"] != FLAGS["N"],
    )


def _cholesky(e: Emit) -> list[SSAValue]:
    """Emits the factor in the triangle that the flag names, and the first leading minor that is not positive.

    The other triangle keeps what the operand has there. Minors count from 1; 0 means that all are positive. From that
    row on, and only there, the factor is not finite.
    """
    (matrix,) = e.operands
    uplo = _number(e, "uplo", "mhlo.backend_config")
    if uplo not in (FLAGS["L"], FLAGS["U"]):
        raise e.refuse(f"expected the flag of potrf, got {e.attr('mhlo.backend_config')}")
    lower, shape, info = uplo == FLAGS["L"], shape_of(matrix), e.result_types[1]
    factor = e.emit("cholesky", [matrix], matrix.type, lower=lower)

    def counted(dim: int) -> SSAValue:
        steps = TensorType(i32, shape[-2:])
        return e.emit("arange", [], steps, start=0, end=shape[-1], step=1, arange_dimension=dim)

    rows, columns = counted(0), counted(1)
    inside = e.emit("ge" if lower else "le", [rows, columns], TensorType(i1, shape[-2:]))
    inside = e.broadcast(e.reshape(inside, (*[1] * (len(shape) - 2), *shape[-2:])), shape)
    finite = e.typecast(e.emit("isfinite", [factor], TensorType(i1, shape)), i32)
    along = TensorType(i32, shape[:-1])
    finite = e.emit("min", [finite], along, dim_arg=[len(shape) - (1 if lower else 2)], keep_dim=False)
    good = e.emit("sum", [finite], info, dim_arg=[len(shape) - 2], keep_dim=False)
    all_good = e.emit("eq", [good, e.full(shape[:-2], i32, shape[-1])], TensorType(i1, shape[:-2]))
    next_one = e.emit("add", [good, e.full(shape[:-2], i32, 1)], info)
    return [
        e.emit("where", [inside, factor, matrix], matrix.type),
        e.emit("where", [all_good, e.full(shape[:-2], i32, 0), next_one], info),
    ]


PATTERNS: dict[str, Callable[[Emit], list[SSAValue]]] = {
    "mhlo.topk": _top_k,
    "TopK": _top_k,
    "ApproxTopK": _approx_top_k,
    "AllocateBuffer": lambda e: [e.full(e.result_shape, e.result_type.element_type, 0)],
    "lapack_strsm*": lambda e: [_triangular_solve(e)],
    "lapack_spotrf*": _cholesky,
}
"""Pattern of a `lower` row -> what it emits."""
