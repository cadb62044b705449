"""A module as tt-mlir wrote it: xDSL's ops, and the aliases of its text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from xdsl.dialects.builtin import LocationAttr, ModuleOp, UnregisteredOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from opscope.compiler.errors import CompilerInputError
from opscope.compiler.tt_mlir.attributes import written

DEVICE_MODULE, DEVICE, LOAD_CACHED = "ttcore.device_module", "ttcore.device", "ttcore.load_cached"
"""Ops of dialect ttcore that print in a form of their own."""
SUBGRAPH = "ttnn.d2m_subgraph"
"""The op that names a function of what tt-mlir is still to make kernels of."""
MESHES = "ttcore.meshes"
"""A module's attribute with the meshes that it is compiled for."""
_MESH = re.compile(r'<"[^"]*" = (\d+(?:x\d+)*)>')
NAME = "op_name__"
"""Where xDSL keeps the name of an op of a class that it does not know."""


@cache
def op_class(name: str) -> type[Operation]:
    """The class of ops of this name; one of no table of ours, whose rules these ops do not follow."""
    return UnregisteredOp.with_name(name)


def name_of(op: Operation) -> str:
    """The name of an op, such as `ttnn.add`."""
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name


@dataclass(frozen=True)
class TtMlirModule:
    """A module, and the names that its text gives to attributes, types and locations."""

    op: ModuleOp
    name: str
    """The file, for errors."""
    before: tuple[tuple[str, str], ...] = ()
    """Aliases that are written before the module, and their text."""
    after: tuple[tuple[str, str], ...] = ()
    """Aliases that are written after it."""
    locations: tuple[tuple[str, LocationAttr], ...] = ()
    """Those of them that are locations of ops."""

    @property
    def program(self) -> ModuleOp:
        """The module with the functions: the innermost."""
        inner: Any = self.op
        while True:
            ops = [op for block in inner.regions[0].blocks for op in block.ops]
            modules = [op for op in ops if isinstance(op, ModuleOp) or name_of(op) == DEVICE_MODULE]
            if not modules:
                return inner
            inner = modules[0]

    @property
    def mesh(self) -> tuple[int, ...]:
        """How many chips lie along each axis of its mesh. Raises CompilerInputError for several meshes."""
        meshes = self.program.attributes.get(MESHES)
        shapes = set(_MESH.findall("" if meshes is None else written(meshes)))
        if len(shapes) > 1:
            raise CompilerInputError(f"{self.name}: expected one mesh, got {', '.join(sorted(shapes))}")
        return tuple(map(int, shapes.pop().split("x"))) if shapes else (1, 1)

    @property
    def functions(self) -> list[FuncOp]:
        """All functions, in the order of the text."""
        return [op for op in self.program.body.block.ops if isinstance(op, FuncOp)]
