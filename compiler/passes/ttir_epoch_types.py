"""Pass `ttir-epoch-types`: marks ops of a training step as forward pass, backward pass or optimizer.

TT-Buda makes the backward pass itself. Here it comes from JAX, which leaves it in locations: `transpose(jvp(...))` is
backward, `jvp(...)` forward. An op without such a location belongs to the optimizer if it depends on the backward pass,
else to the kind of its first reader. Ops are marked and sorted in that order. Without a backward pass none is marked.
A program that is one of the three passes as a whole says so (`only`), and all its ops are marked as that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, NameLoc, StringAttr
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass

from opscope.compiler.dialects.epoch_types import EPOCH_TYPE, EPOCH_TYPES, is_backward
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.ir.functions import functions

_FORWARD = re.compile(r"(^|/)jvp\(")


@dataclass(frozen=True)
class TtirEpochTypes(ModulePass):
    """Marks ops as forward, backward or optimizer, and sorts them so."""

    name = "ttir-epoch-types"
    only: str = ""
    """The kind of all ops: `forward`, `backward` or `optimizer`; empty: each op's location tells."""

    def __post_init__(self) -> None:
        if self.only not in ("", *EPOCH_TYPES):
            raise CompilerInputError(f"{self.name}: expected only={'|'.join(EPOCH_TYPES)}, got {self.only!r}")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Changes the module in place."""
        for func in functions(op):
            block = func.body.blocks[0]
            if self.only:
                for one in block.ops:
                    if one is not block.last_op:
                        one.attributes[EPOCH_TYPE] = StringAttr(self.only)
            else:
                _mark(block)


def _mark(block: Block) -> None:
    *ops, end = block.ops
    kinds_by_location = {op: _by_location(op) for op in ops}
    if EPOCH_TYPES.index("backward") not in kinds_by_location.values():
        return
    kinds = _by_dataflow(ops, kinds_by_location, end)
    for op in ops:
        op.attributes[EPOCH_TYPE] = StringAttr(EPOCH_TYPES[kinds[op]])
        op.detach()
    block.insert_ops_before(sorted(ops, key=lambda op: kinds[op]), end)


def _by_location(op: Operation) -> int | None:
    name = op.location.desc.data if isinstance(op.location, NameLoc) else ""
    if is_backward(op):
        return EPOCH_TYPES.index("backward")
    return EPOCH_TYPES.index("forward") if _FORWARD.search(name) else None


def _by_dataflow(
    ops: Sequence[Operation], by_location: dict[Operation, int | None], end: Operation
) -> dict[Operation, int]:
    """Returns the place of each op in `EPOCH_TYPES`; an op never comes before one that it reads from."""
    kinds: dict[Operation, int] = {}
    backward = EPOCH_TYPES.index("backward")
    for op in ops:
        before = max((kinds[producer] for producer in _makers(op) if producer in kinds), default=0)
        where = by_location[op]
        if where is None and before >= backward:
            where = EPOCH_TYPES.index("optimizer")
        if where is not None:
            kinds[op] = max(where, before)
    for op in reversed(ops):
        if op not in kinds:
            readers = {use.operation for result in op.results for use in result.uses} - {end}
            kinds[op] = min((kinds[_outermost(reader, op)] for reader in readers), default=0)
    return kinds


def _makers(op: Operation) -> Iterable[Operation]:
    """Returns the ops whose results an op reads, in its regions too."""
    for inner in op.walk():
        for operand in inner.operands:
            if isinstance(operand.owner, Operation):
                yield operand.owner


def _outermost(reader: Operation, beside: Operation) -> Operation:
    """Returns the op of `beside`'s block that is `reader` or contains it."""
    while reader.parent is not beside.parent:
        parent = reader.parent_op()
        assert parent is not None
        reader = parent
    return reader
