"""The rest of a program: what the host computes after the device has run, with the device's results."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from opscope.compiler.ir.functions import functions


@dataclass(frozen=True)
class RestPart:
    """A TTIR function of the program's arguments and of values of the device."""

    module: ModuleOp
    inputs: tuple[str, ...]
    """Outputs of the device that it takes after the arguments, in order."""
    results: tuple[int, ...]
    """The program's results that it computes, by number."""


def rest_needs(results: Sequence[SSAValue], rest: Collection[SSAValue]) -> list[SSAValue]:
    """Returns the values outside of `rest` that the results in it need, in the order in which they are met."""
    needed: dict[SSAValue, None] = {}
    seen: set[Operation] = set()
    left = [value for value in results if value in rest]
    while left:
        owner = left.pop().owner
        if not isinstance(owner, Operation) or owner in seen:
            continue
        seen.add(owner)
        for operand in owner.operands:
            if operand in rest:
                left.append(operand)
            else:
                needed[operand] = None
    return list(needed)


def rest_part(entry: FuncOp, inputs: Mapping[SSAValue, str], numbers: Sequence[int]) -> RestPart | None:
    """Returns the part that makes the results of these numbers; None if there are none.

    `inputs` are values of the device, with the names of the outputs that hold them.
    """
    block = entry.body.block
    last = block.last_op
    assert last is not None
    if not numbers:
        return None
    wanted = [last.operands[i] for i in numbers]
    body = Block(arg_types=[*(arg.type for arg in block.args), *(value.type for value in inputs)])
    values: dict[SSAValue, SSAValue] = dict(zip([*block.args, *inputs], body.args, strict=True))
    needed = _made_here(wanted, values)
    for op in block.ops:
        if op in needed:
            body.add_op(op.clone(value_mapper=values))
    body.add_op(ReturnOp(*(values[value] for value in wanted)))
    types = [arg.type for arg in body.args], [value.type for value in wanted]
    module = entry.parent_op()
    assert isinstance(module, ModuleOp)
    called = [function.clone() for function in functions(module) if function is not entry]
    return RestPart(ModuleOp([FuncOp("main", types, Region(body)), *called]), tuple(inputs.values()), tuple(numbers))


def _made_here(wanted: Sequence[SSAValue], available: Collection[SSAValue]) -> set[Operation]:
    """Returns the ops that make the wanted values from those that are given."""
    made: set[Operation] = set()
    left = [value for value in wanted if value not in available]
    while left:
        owner = left.pop().owner
        if isinstance(owner, BlockArgument) or not isinstance(owner, Operation) or owner in made:
            continue
        made.add(owner)
        left += [operand for operand in owner.operands if operand not in available]
    return made
