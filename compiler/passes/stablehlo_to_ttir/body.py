"""What the body of a reduction computes, recognised by its one op; and the identities of those ops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import Signedness
from xdsl.ir import Operation, SSAValue

from compiler.passes.stablehlo_to_ttir.emit import Emit


@dataclass(frozen=True)
class Fold:
    """A reduction that the device has: its kernel, and the elementwise op that adds a start value to it."""

    kernel: str
    combine: str


NUMERIC = {
    "stablehlo.add": Fold("sum", "add"),
    "stablehlo.maximum": Fold("max", "maximum"),
    "stablehlo.minimum": Fold("min", "minimum"),
    "stablehlo.multiply": Fold("prod", "multiply"),
    "stablehlo.and": Fold("reduce_and", "bitwise_and"),
    "stablehlo.or": Fold("reduce_or", "bitwise_or"),
    "stablehlo.xor": Fold("reduce_xor", "bitwise_xor"),
}
BOOLEAN = {
    "stablehlo.or": Fold("reduce_or", "logical_or"),
    "stablehlo.add": Fold("reduce_or", "logical_or"),
    "stablehlo.maximum": Fold("reduce_or", "logical_or"),
    "stablehlo.xor": Fold("reduce_xor", "logical_xor"),
    "stablehlo.and": Fold("reduce_and", "logical_and"),
    "stablehlo.multiply": Fold("reduce_and", "logical_and"),
    "stablehlo.minimum": Fold("reduce_and", "logical_and"),
}


def is_bool(element: Any) -> bool:
    """Whether an element type is i1."""
    return str(element) == "i1"


def recognise(e: Emit) -> Fold:
    """The fold of a reduce or reduce_window of one tensor. Raises StageFailure where its body is anything else."""
    if len(e.operands) != 2:
        raise e.refuse(f"expected one tensor to reduce, got {len(e.operands) // 2} reduced together")
    block = e.op.regions[0].blocks[0]
    ops = list(block.ops)
    element: Any = e.result_type.element_type
    table = BOOLEAN if is_bool(element) else NUMERIC
    if (
        len(ops) == 2
        and ops[0].name in table
        and set(ops[0].operands) == set(block.args)
        and list(ops[1].operands) == list(ops[0].results)
    ):
        return table[ops[0].name]
    names = ", ".join(op.name for op in ops[:-1]) or "nothing"
    known = ", ".join(sorted(name.removeprefix("stablehlo.") for name in table))
    raise e.refuse(f"expected a body of one op ({known}) on {element}, got {names}")


def is_identity(fold: Fold, start: SSAValue, element: Any) -> bool:
    """Whether the start value is known, and changes nothing."""
    owner = start.owner
    fill: Any = owner.properties.get("fill_value") if isinstance(owner, Operation) else None
    if fill is None:
        return False
    value = fill.value.data
    width: int = element.width.data if hasattr(element, "width") else 0
    if fold.kernel in ("sum", "reduce_or", "reduce_xor"):
        return value == 0
    if fold.kernel == "prod":
        return value == 1
    if fold.kernel == "reduce_and":
        return (value + 1) % 2**width == 0  # all ones
    lowest = fold.kernel == "max"
    if not width:
        return value == (float("-inf") if lowest else float("inf"))
    unsigned = element.signedness.data == Signedness.UNSIGNED
    bounds = (0, 2**width - 1) if unsigned else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)
    return (value - bounds[0]) % 2**width == 0 if lowest else (value - bounds[1]) % 2**width == 0
