"""Argmax over several dims, and sorting by a direction."""

from __future__ import annotations

from math import prod
from typing import Any

from xdsl.dialects.builtin import FunctionType, StringAttr, TensorType, i1, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from opscope.compiler.dialects import ttir
from opscope.compiler.ir.functions import KIND, SCALAR
from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit
from opscope.compiler.passes.ttir_to_ttir_decomposition.patterns import along, decomposes, element_of, steps


@decomposes("argmax")
def argmax(e: Emit, attrs: dict[str, Any]) -> SSAValue | None:
    """Over one dim the kernel of that name; over several, or all, one dim that they become."""
    (x,) = e.operands
    shape = shape_of(x)
    dims = tuple(along(len(shape), d) for d in attrs.get("dim_arg", range(len(shape))))
    if len(dims) == 1:
        return None
    rest = [i for i in range(len(shape)) if i not in dims]
    flat = e.reshape(e.permute(x, [*rest, *dims]), [*(shape[i] for i in rest), prod(shape[i] for i in dims)])
    kind = TensorType(e.result_type.element_type, [shape[i] for i in rest])
    result = e.emit("argmax", [flat], kind, dim_arg=[len(rest)], keep_dim=False)
    return e.reshape(result, e.result_shape)


@decomposes("sort")
def sort(e: Emit, attrs: dict[str, Any]) -> list[SSAValue] | None:
    """Sorts values and their positions by one comparison; the general form has programs of its own."""
    if "programs" in attrs:
        return None
    (x,) = e.operands
    shape, dim = shape_of(x), along(len(shape_of(x)), attrs["dim"])
    positions = steps(e, i32, shape, dim)
    compare = "gt" if attrs.get("descending", False) else "lt"
    body = _scalar_function(e, f"sort_{compare}", element_of(x), 2, compare, positions=True)
    values, indices = e.emit_all("sort", [x, positions], [x.type, positions.type], dim=dim, programs=[body])
    return [values, e.typecast(indices, element_of(e.op.results[1]))]


def _scalar_function(e: Emit, name: str, element: Any, arity: int, op: str, positions: bool = False) -> str:
    """Adds a function that kernels apply element by element: one op of two scalars of `element`."""
    scalar = TensorType(element, [])
    kinds = [scalar] * arity + [TensorType(i32, [])] * (2 * positions)
    block = Block(arg_types=kinds)
    result = TensorType(i1, []) if positions else scalar
    made = ttir.CLASSES[op].create(operands=list(block.args[:2]), result_types=[result])
    block.add_ops([made, ReturnOp(made.results[0])])
    func = FuncOp(name, FunctionType.from_lists(kinds, [result]), Region(block), visibility="private")
    func.attributes[KIND] = StringAttr(SCALAR)
    return e.add_function(func)
