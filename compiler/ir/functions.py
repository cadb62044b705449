"""The functions of a module and their kinds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

KIND = "ttcore.function_type"
"""Attribute of a function that is not the entry."""
PROGRAM = "program"
"""Kind of a function that control flow calls: it takes and returns device tensors."""
SCALAR = "scalar"
"""Kind of a function that a kernel applies to whole tensors: its values are scalars in the Dst register."""

CONST_EVAL = "const_eval"
"""Kind of a function that is computed once for the same arguments. Arguments and results are device tensors."""

SOURCE = "ttcore.source"
"""Attribute with the number of the StableHLO op that a ttir op comes from, if the module's ops are numbered."""
MESH = "ttcore.mesh"
"""Attribute of a collective: how many replicas and partitions its module is for."""
AXES = "ttcore.mesh_axes"
"""Attribute of a collective: rows and columns of the mesh that its module names."""
FALLBACK = "ttcore.host_fallback"
"""Attribute of a module whose inputs and outputs may have types that only the host has."""


def functions(module: ModuleOp) -> list[FuncOp]:
    """All functions at the module's top level, in order; none if the module is empty."""
    return [op for block in module.regions[0].blocks for op in ops_of(block) if type(op) is FuncOp]


def ops_of(block: Block) -> list[Operation]:
    """The ops of a block as they are now; xDSL's own view of them asks the block at each step."""
    ops, op = list[Operation](), block.first_op
    while op is not None:
        ops.append(op)
        op = op.next_op
    return ops


def function(
    name: str, results: Iterable[SSAValue], block: Block, visibility: str | StringAttr | None = None
) -> FuncOp:
    """A function of a block that takes its arguments and, once it is ended here, returns these results.

    It is what the constructors of xDSL make, which look all of it up in the definitions of function and return.
    """
    values = list(results)
    block.add_op(ReturnOp.create(operands=values))
    properties: dict[str, Attribute] = {
        "sym_name": StringAttr(name),
        "function_type": function_type(block.args, values),
    }
    if visibility is not None:
        properties["sym_visibility"] = StringAttr(visibility) if isinstance(visibility, str) else visibility
    return FuncOp.create(properties=properties, regions=[Region(block)])


def function_type(arguments: Sequence[SSAValue], results: Sequence[SSAValue]) -> FunctionType:
    """The type of a function of these arguments and results."""
    return FunctionType.from_lists([value.type for value in arguments], [value.type for value in results])


def modules(module: ModuleOp) -> list[ModuleOp]:
    """The modules inside a module; the module itself if there are none."""
    inner = [op for block in module.body.blocks for op in block.ops if isinstance(op, ModuleOp)]
    return inner or [module]


def kind_of(func: FuncOp) -> str:
    """`program`, `scalar`, or empty for an entry."""
    kind = func.attributes.get(KIND)
    return kind.data if isinstance(kind, StringAttr) else ""
