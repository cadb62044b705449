"""Pass `ttir-unroll-loops`: replaces a loop whose number of turns is known by that many copies of its body.

As in TT-Buda, whose graphs have no loops. A counter becomes a constant in each copy, so that what is picked by it is
known too. Loops of more than 512 turns, or that would make more than 50,000 ops, are left as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.known_numbers import known_number
from opscope.compiler.dialects.ttir_values import element, full, is_float, shape_of
from opscope.compiler.ir.functions import functions

MOST_TURNS = 512
MOST_OPS = 50_000


@dataclass(frozen=True)
class TtirUnrollLoops(ModulePass):
    """Unrolls loops of the entry function, the inner ones that appear too."""

    name = "ttir-unroll-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Changes the module in place."""
        known = {func.sym_name.data: func for func in op.body.block.ops if isinstance(func, FuncOp)}
        block = functions(op)[0].body.blocks[0]
        left: list[Operation] = []
        while (loop := next((o for o in block.ops if o.name == "ttir.while" and o not in left), None)) is not None:
            assert isinstance(loop, RowOp)
            if not _unrolled(loop, known, block):
                left.append(loop)


def _unrolled(loop: RowOp, known: Mapping[str, FuncOp], block: Block) -> bool:
    """Replaces a loop by copies of its body; changes nothing and returns False if its turns are not known."""
    condition, body = (known[str(name).removeprefix("@")].body.blocks[0] for name in loop.read()["programs"])
    if len(condition.args) != len(loop.operands) or len(body.args) != len(loop.operands):
        return False
    values, added = list(loop.operands), []
    for _ in range(MOST_TURNS + 1):
        tried, (again,) = _copied(condition, values, loop, block)
        number = known_number(again)
        _erase(tried)
        if number == 0:
            for result, value in zip(loop.results, values[: len(loop.results)], strict=True):
                result.replace_all_uses_with(value)
            block.erase_op(loop)
            return True
        if number is None or len(added) > MOST_OPS:
            break
        turn, state = _copied(body, values, loop, block)
        added += turn
        values = [*state, *values[len(state) :]]  # behind its state a loop has values that it only reads
        for i, value in enumerate(values):
            if not is_float(value) and not shape_of(value) and (now := known_number(value)) is not None:
                constant = full((), element(value), now, loop)
                block.insert_op_before(constant, loop)
                added.append(constant)
                values[i] = constant.results[0]
    _erase(added)
    return False


def _copied(
    function: Block, values: Sequence[SSAValue], loop: Operation, block: Block
) -> tuple[list[Operation], list[SSAValue]]:
    """Copies a function's ops before the loop; returns the copies and what they return."""
    mapper: dict[SSAValue, SSAValue] = dict(zip(function.args, values, strict=True))
    copies = []
    for op in function.ops:
        if isinstance(op, ReturnOp):
            return copies, [mapper.get(value, value) for value in op.operands]
        copy = op.clone(value_mapper=mapper)
        block.insert_op_before(copy, loop)
        copies.append(copy)
    raise AssertionError("a function ends with a return")


def _erase(ops: Sequence[Operation]) -> None:
    for op in reversed(ops):
        op.detach()
        op.erase()
