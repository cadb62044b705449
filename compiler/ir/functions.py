"""The functions of a module and their kinds."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp

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
    return [op for block in module.body.blocks for op in block.ops if isinstance(op, FuncOp)]


def modules(module: ModuleOp) -> list[ModuleOp]:
    """The modules inside a module; the module itself if there are none."""
    inner = [op for block in module.body.blocks for op in block.ops if isinstance(op, ModuleOp)]
    return inner or [module]


def kind_of(func: FuncOp) -> str:
    """`program`, `scalar`, or empty for an entry."""
    kind = func.attributes.get(KIND)
    return kind.data if isinstance(kind, StringAttr) else ""
