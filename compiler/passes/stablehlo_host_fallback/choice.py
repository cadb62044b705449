"""Chooses the ops of a function that the host must compute, because the device has no format for their types.

A type that no part of the device can hold decides at once. A 64-bit integer does not: most are only indices, and
`ttir-narrow-indices` makes them 32 bits. So the function is lowered on trial, numbered op by op. An op that still has
64 bits afterwards goes to the host, and the trial is repeated with the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from xdsl.dialects.builtin import IntAttr, IntegerType, ModuleOp, TensorType, i1
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from opscope.compiler.errors import StageFailure
from opscope.compiler.ir.context import context
from opscope.compiler.ir.functions import SOURCE, functions
from opscope.compiler.ops.custom_calls import find
from opscope.compiler.ops.read_only import computed_in
from opscope.compiler.ops.row import TABLE
from opscope.compiler.passes.stablehlo_to_ttir import StablehloToTtir
from opscope.compiler.passes.stablehlo_to_ttir.custom_call import target_of
from opscope.compiler.passes.stablehlo_to_ttir.regions import captured
from opscope.compiler.passes.ttir_narrow_indices import TtirNarrowIndices
from opscope.compiler.target.formats import ELEMENT_TYPES

Outline = Callable[[FuncOp, Iterable[int]], None]
BETWEEN = frozenset({"ttir.host_op", "ttir.narrow_index", "ttir.split_words", "ttir.join_words"})
"""Ops of the host, whose values may have 64 bits."""
PATIENCE = 8
"""Trials that look for the fewest ops; after these, all remaining ops go to the host at once."""


def choose(module: ModuleOp, func: FuncOp, outline: Outline, formats: frozenset[str]) -> set[int]:
    """Returns the numbers (places in the function's block) of the ops that the host must compute; changes nothing.

    `formats` are those of the board.
    """
    (*ops, _) = func.body.blocks[0].ops
    chosen = {number for number, op in enumerate(ops) if _needs_host(op, formats)}
    wide = {number for number, op in enumerate(ops) if not is_collective(op) and any(_is_wide(v) for v in _values(op))}
    trials = 0
    while wide - chosen and (left := _left_on_trial(module, chosen, outline) & wide - chosen):
        # Ops that only read the first of them may be narrowed once those have gone.
        chosen |= _first(ops, left) if trials < PATIENCE else left
        trials += 1
    return chosen | _sources_only(func.body.blocks[0], chosen)


def _first(ops: list[Operation], numbers: set[int]) -> set[int]:
    """Returns those of `numbers` whose ops read no other op of them."""
    members = {ops[number] for number in numbers}
    return {n for n in numbers if not any(v.owner in members for v in (*ops[n].operands, *captured(ops[n].regions)))}


def _values(op: Operation) -> list[SSAValue]:
    """Returns all values that an op and its regions use."""
    inner = [value for part in op.walk() for value in (*part.operands, *part.results)]
    return inner + [
        arg for part in op.walk() for region in part.regions for block in region.blocks for arg in block.args
    ]


def _element(value: SSAValue) -> Any:
    return value.type.element_type if isinstance(value.type, TensorType) else None


def _is_wide(value: SSAValue) -> bool:
    element = _element(value)
    return isinstance(element, IntegerType) and element.width.data == 64


def is_collective(op: Operation) -> bool:
    """Whether an op needs other chips. One chip's host op cannot reach them, so the op is refused for its types."""
    rows = TABLE.stablehlo(op.name)
    return bool(rows) and rows[0].group == "collective"


def _needs_host(op: Operation, formats: frozenset[str]) -> bool:
    """Whether an op has a type that no format of the board represents, or calls code that only the host has."""
    if is_collective(op):
        return False
    if op.name == "stablehlo.custom_call" and (row := find(target_of(op))) is not None and row.way == "host":
        return True
    elements = {_element(v) for v in _values(op)}
    if op.name == "stablehlo.bitcast_convert" and i1 in elements and elements != {i1}:
        return True  # the device holds an i1 in a byte
    if computed_in(op) is not None:
        return True
    for value in _values(op):
        row = ELEMENT_TYPES.get(str(_element(value)))
        if row is not None and row.data_format not in formats and not _is_wide(value):
            return True
    return False


def _left_on_trial(module: ModuleOp, chosen: set[int], outline: Outline) -> set[int]:
    """Returns the numbers of the ops that still have 64 bits after lowering, or that were refused."""
    trial = module.clone()
    (func, *_) = functions(trial)
    for number, op in enumerate(func.body.blocks[0].ops):
        for part in op.walk():
            part.attributes[SOURCE] = IntAttr(number)
    outline(func, chosen)
    try:
        StablehloToTtir().apply(context(), trial)
    except StageFailure as refused:
        return set() if refused.source is None else {refused.source}
    TtirNarrowIndices().apply(context(), trial)
    left: set[int] = set()
    for op in trial.walk():
        number = op.attributes.get(SOURCE)
        if isinstance(number, IntAttr) and op.name not in BETWEEN and any(_is_wide(v) for v in _touched(op)):
            left.add(number.data)
    return left


def _touched(op: Operation) -> list[SSAValue]:
    return [*op.operands, *op.results]


def _sources_only(block: Block, chosen: set[int]) -> set[int]:
    """Returns ops without operands that only chosen ops read, so that the host makes these values itself."""
    (*ops, _) = block.ops
    numbers = {op: number for number, op in enumerate(ops)}
    readers: dict[Operation, set[int | None]] = {}
    for op in block.ops:
        for value in (*op.operands, *captured(op.regions)):
            if isinstance(value.owner, Operation):
                reader = None if isinstance(op, ReturnOp) else numbers[op]
                readers.setdefault(value.owner, set()).add(reader)
    return {numbers[op] for op in ops if not op.operands and not op.regions and op in readers and readers[op] <= chosen}
