"""Helpers for rewrites of ttir, to query values and to create new ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, TensorType, f32, i32
from xdsl.ir import Attribute, Operation, SSAValue

from opscope.compiler.dialects import ttir
from opscope.compiler.dialects.from_row import RowOp, write_attrs
from opscope.compiler.dialects.locations import moved, name_of
from opscope.compiler.ops.shapes import Shape, shape_of


def maker(value: SSAValue, *names: str) -> RowOp | None:
    """Returns the ttir op that makes `value`; None unless it is one of `names` (without prefix; none means any)."""
    op = value.owner
    if isinstance(op, RowOp) and op.name.startswith("ttir.") and (not names or op.ROW.ttir in names):
        return op
    return None


def readers(value: SSAValue) -> list[Operation]:
    """Returns the ops that read a value, each once."""
    return list(dict.fromkeys(use.operation for use in value.uses))


def read_once(value: SSAValue) -> bool:
    """Whether exactly one op reads a value, exactly once."""
    return value.has_one_use()


def element(value: SSAValue) -> Any:
    """Returns the element type of a tensor value."""
    kind: Any = value.type
    return kind.element_type


def is_float(value: SSAValue) -> bool:
    """Whether a value's elements are floats."""
    return not hasattr(element(value), "width") or str(element(value))[0] not in "iu"


def like(value: SSAValue, shape: Sequence[int]) -> TensorType:
    """Returns the type of `value`'s elements in another shape."""
    return TensorType(element(value), list(shape))


def splat(value: SSAValue) -> float | None:
    """Returns the number that every element is, if a `full` makes the value, perhaps through moves; else None."""
    op = maker(value, "full", "reshape", "broadcast", "permute")
    while op is not None and op.ROW.ttir != "full":
        op = maker(op.operands[0], "full", "reshape", "broadcast", "permute")
    if op is None:
        return None
    fill = op.properties["fill_value"]
    return float(fill.value.data) if isinstance(fill, FloatAttr | IntegerAttr) else None


def make(name: str, operands: Sequence[SSAValue], result: Attribute, source: Operation, **attrs: Any) -> RowOp:
    """Returns a new ttir op by its row, with the location of `source` and not yet in a block."""
    cls = ttir.CLASSES[name]
    return cls.create(
        operands=list(operands),
        result_types=[result],
        properties=write_attrs(cls.ROW, attrs) if attrs else {},
        attributes=dict(source.attributes),
        location=source.location,
    )


def move_name_to_source(value: SSAValue) -> None:
    """Gives the source of the movement that makes `value` the name of `value`, before the movement is removed.

    Does so only if both are steps of the same op of the program; the name then notes the movement.
    """
    move = maker(value, "permute", "reshape")
    source = move.operands[0].owner if move is not None else None
    if move is None or not isinstance(source, Operation) or len(source.results) != 1:
        return
    if name_of(move) and name_of(move) == name_of(source):
        numbers = move.read()["permutation"] if move.ROW.ttir == "permute" else shape_of(value)
        source.location = moved(move.location, move.ROW.ttir, numbers)


def full(shape: Sequence[int], kind: Any, number: float, source: Operation) -> RowOp:
    """Returns a new op for a tensor of one value, as `make` does."""
    fill: Attribute = IntegerAttr(int(number), i32) if hasattr(kind, "width") else FloatAttr(number, f32)
    return make("full", [], TensorType(kind, list(shape)), source, shape=tuple(shape), fill_value=fill)


def without_ones(shape: Iterable[int]) -> Shape:
    """A shape without its dims of size 1."""
    return tuple(n for n in shape if n != 1)
