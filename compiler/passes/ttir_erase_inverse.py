"""Pass `ttir-erase-inverse`: data movement that undoes what moved data before it is taken out, and what nobody reads.

A permutation after its inverse, a reshape after a reshape (one does for both), either to what it was: gone. Runs until
nothing changes, since what is between two of them may go first.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from compiler.ir.functions import functions

MOVES = ("ttir.permute", "ttir.reshape")


class TtirEraseInverse(ModulePass):
    """Takes out pairs of movements that cancel, and ops without readers."""

    name = "ttir-erase-inverse"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Changes the module in place."""
        for func in functions(op):
            for block in func.body.blocks:
                while any(_simplified(one) for one in list(block.ops)) or _without_readers(list(block.ops)):
                    pass


def _shape(value: SSAValue) -> tuple[int, ...]:
    assert isinstance(value.type, TensorType)
    return tuple(value.type.get_shape())


def _permutation(op: Operation) -> tuple[int, ...]:
    found = op.properties["permutation"]
    assert isinstance(found, DenseArrayBase)
    return tuple(int(v) for v in found.get_values())


def _simplified(op: Operation) -> bool:
    """Whether the op was taken out, or reads further up than before."""
    if op.name not in MOVES or op.parent is None:
        return False
    (source,), (result,) = op.operands, op.results
    before = source.owner
    same = isinstance(before, Operation) and before.name == op.name
    if op.name == "ttir.reshape":
        if _shape(source) == _shape(result) and source.type == result.type:
            return _replaced(op, source)
        if same and len(list(source.uses)) >= 1:
            op.operands[0] = before.operands[0]  # type: ignore[union-attr]
            return True
        return False
    order = _permutation(op)
    if order == tuple(range(len(order))):
        return _replaced(op, source)
    if same:
        first = _permutation(before)  # type: ignore[arg-type]
        if tuple(first[i] for i in order) == tuple(range(len(order))):
            return _replaced(op, before.operands[0])  # type: ignore[union-attr]
    return False


def _replaced(op: Operation, value: SSAValue) -> bool:
    op.results[0].replace_all_uses_with(value)
    op.detach()
    op.erase()
    return True


def _without_readers(ops: list[Operation]) -> bool:
    """Whether ops that compute what nobody reads were taken out, last first."""
    found = False
    for op in reversed(ops):
        if op.parent is None or not op.name.startswith("ttir.") or not op.results or op.regions:
            continue
        if not any(list(result.uses) for result in op.results):
            op.detach()
            op.erase()
            found = True
    return found
