"""Turns regions into functions: programs for control flow, scalar functions for bodies that kernels apply.

A function comes after the one that calls it, so that calls in a binary point forward.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.ir.functions import KIND, PROGRAM, SCALAR
from opscope.compiler.ops.row import TABLE
from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit

Values = dict[SSAValue, SSAValue]
Lower = Callable[[Iterable[Operation], Block, Values, "Functions"], list[SSAValue]]


def captured(regions: Sequence[Region]) -> list[SSAValue]:
    """Values from outside that ops of the regions read, each once, in order of appearance."""
    inside: set[SSAValue] = set()
    read: dict[SSAValue, None] = {}
    for region in regions:
        for op in region.walk():
            inside.update(op.results)
            for inner in op.regions:
                inside.update(arg for block in inner.blocks for arg in block.args)
            read.update(dict.fromkeys(op.operands))
        inside.update(arg for block in region.blocks for arg in block.args)
    return [value for value in read if value not in inside]


def _is_constant(value: SSAValue) -> bool:
    return isinstance(value.owner, Operation) and value.owner.name == "stablehlo.constant"


def _is_bitcast(op: Operation) -> bool:
    """Whether an op is a bitcast of scalars: it counts as elementwise, since scalars keep their width."""
    return op.name.endswith(".bitcast_convert") and all(shape_of(v) == () for v in (*op.operands, *op.results))


def read_around(e: Emit, regions: Sequence[Region]) -> list[SSAValue]:
    """Returns the scalars from outside that the op's bodies read; constants are copied instead."""
    scalars = [v for v in captured(regions) if not _is_constant(v)]
    if any(shape_of(v) != () for v in scalars):
        raise e.refuse("expected a body that reads scalars, got one that reads a tensor around it")
    return scalars


def lowered(e: Emit, values: Sequence[SSAValue]) -> list[SSAValue]:
    """Returns the ttir values of StableHLO values."""
    return [e.values[v] for v in values]


@dataclass
class Functions:
    """The functions created while one function is lowered."""

    lower: Lower
    made: list[FuncOp | None] = field(default_factory=list)
    named: bool = False
    """Whether ops are written in tt-mlir's words."""

    def program(self, e: Emit, region: Region, outside: Sequence[SSAValue] = ()) -> str:
        """Creates the function of `region` and returns its name.

        Its arguments are those of the region, then the values of `outside` that it may read.
        """
        return self._make(e, region, list(outside), PROGRAM)

    def scalar(self, e: Emit, region: Region, outside: Sequence[SSAValue] = ()) -> str:
        """Creates the function of a region that kernels apply element by element, and returns its name.

        `outside` are the values that `read_around` returned. Raises StageFailure if the region does more than
        elementwise ops on scalars.
        """
        constants = [v.owner for v in captured([region]) if _is_constant(v)]
        name = self._make(e, region, list(outside), SCALAR, [op for op in constants if isinstance(op, Operation)])
        made = next(f for f in self.made if f is not None and f.sym_name.data == name)
        for op in made.body.blocks[0].ops:
            if isinstance(op, ReturnOp):
                continue
            scalars = all(shape_of(v) == () for v in (*op.operands, *op.results))
            if not ((isinstance(op, RowOp) and scalars and op.ROW.group in ("eltwise", "creation")) or _is_bitcast(op)):
                raise e.refuse(f"expected a body of elementwise ops on scalars, got {op.name}: a core cannot call it")
        return name

    def _make(
        self, e: Emit, region: Region, outside: list[SSAValue], kind: str, constants: Sequence[Operation] = ()
    ) -> str:
        place = len(self.made)
        self.made.append(None)
        name = f"{e.op.name.split('.')[1]}_{place}"
        (old,) = region.blocks
        block = Block(arg_types=[*(a.type for a in old.args), *(v.type for v in outside)])
        values: Values = dict(zip([*old.args, *outside], block.args, strict=True))
        self.lower(constants, block, values, self)
        results = self.lower(old.ops, block, values, self)
        block.add_op(ReturnOp(*results))
        types = ([a.type for a in block.args], [r.type for r in results])
        function = FuncOp(name, types, Region(block), visibility="private")
        function.attributes[KIND] = StringAttr(kind)
        self.made[place] = function
        return name


def elementwise(e: Emit, region: Region, operands: Sequence[SSAValue]) -> list[SSAValue]:
    """Applies the region's ops to whole tensors instead of scalars. Raises StageFailure for other ops."""
    assert e.functions is not None
    (block,) = region.blocks
    shape = e.result_shape
    values: Values = e.values | dict(zip(block.args, operands, strict=True))
    (*ops, end) = block.ops
    for op in ops:
        rows = TABLE.stablehlo(op.name)
        known = op.name == "stablehlo.constant" or _is_bitcast(op)
        if not known and not (rows and rows[0].group == "eltwise"):
            raise e.refuse(f"expected a body of elementwise ops on scalars, got {op.name}")
        wide = any(shape_of(values[v]) == shape for v in op.operands)
        types = [TensorType(element_type(r), shape if wide else ()) for r in op.results]
        new_op = type(op).create(
            operands=op.operands, result_types=types, attributes=op.attributes, location=op.location
        )
        e.functions.lower([new_op], e.block, values, e.functions)
        values.update(zip(op.results, (values[r] for r in new_op.results), strict=True))
        new_op.drop_all_references()
    flat = [1] * len(shape)
    return [
        e.broadcast(e.reshape(v, flat), shape) if shape_of(v) != shape else v for v in (values[r] for r in end.operands)
    ]


def element_type(value: SSAValue) -> Any:
    """Returns the element type of a tensor value."""
    kind: Any = value.type
    return kind.element_type
