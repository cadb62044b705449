"""Verifies a module after a pass: what the pass has changed, and nothing if it has left the module as it was.

Most passes change little in a module of one op, and verification would cost more than all of them together.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation

from opscope.compiler.pipelines.quick_check import certainly_valid


class Verification:
    """Of one module, from pass to pass."""

    def __init__(self) -> None:
        self._verified: list[_State] | None = None

    def __call__(self, module: ModuleOp) -> None:
        """Raises VerifyException for a module that is not valid.

        Only ops that are new or changed, and those that verify with a look at them, are looked at; all of them where
        ops are gone, have moved, or hold others and have changed.
        """
        ops: list[Operation] = [module]
        placed = _add_inside(module, ops)
        before, self._verified = self._verified, None
        states, changed, grown = _compared(before or [], ops)
        if before is None or not placed or not grown:
            if not placed or not all(map(certainly_valid, ops)):
                module.verify()
        elif changed:
            affected = _affected(changed)
            if not all(map(certainly_valid, affected)):
                for op in affected:
                    op.verify(verify_nested_ops=False)
        self._verified = states


def _add_inside(holder: Operation, ops: list[Operation]) -> bool:
    """Adds all ops that an op holds, each before those that it holds itself.

    Returns whether all are certainly where they say that they are, and no block is without ops.
    """
    placed = True
    for region in holder.regions:
        placed = placed and region.parent is holder
        block = region.first_block
        while block is not None:
            op = block.first_op
            placed = placed and block.parent is region and op is not None
            while op is not None:
                ops.append(op)
                placed = placed and op.parent is block
                if op.regions:
                    placed = _add_inside(op, ops) and placed
                op = op.next_op
            block = block.next_block
    return placed


def _compared(before: Sequence[_State], ops: Sequence[Operation]) -> tuple[list[_State], list[_State], bool]:
    """The states of ops, those that are new or changed among them, and whether the module has only grown: whether all
    ops of before are there, in their order, and those that hold others are as they were."""
    states, changed = list[_State](), list[_State]()
    place, grown = 0, True
    for op in ops:
        old = before[place] if place < len(before) else None
        if old is not None and old.op is op:
            place += 1
            if old.holds():
                states.append(old)
                continue
        new = _State(op)
        new.stays = old is None or old.op is not op or old.parent is op.parent
        grown = grown and not op.regions
        states.append(new)
        changed.append(new)
    return states, changed, grown and place == len(before)


def _affected(changed: Sequence[_State]) -> list[Operation]:
    """The ops that are new or changed, with what is next to them (only the last of a block may end it), what uses their
    results, and all that hold them, where these could notice it."""
    affected: dict[int, Operation] = {}
    for state in changed:
        op = state.op
        around = (op, op.prev_op, op.next_op, *[use.operation for result in op.results for use in result.uses])
        affected |= {id(other): other for other in around if other is not None}
    if not all(map(_only_reads_its_block, changed)):
        for op in list(affected.values()):
            holder = op.parent_op()
            while holder is not None and id(holder) not in affected:
                affected[id(holder)] = holder
                holder = holder.parent_op()
    return list(affected.values())


def _only_reads_its_block(state: _State) -> bool:
    """Whether an op is in a function's block, as before if it is not new, and reads values of this block alone.

    Function and module verify names, their own types, and that no value comes from outside.
    """
    block = state.parent
    if not state.stays or block is None or block.parent is None or type(block.parent.parent) is not FuncOp:
        return False
    for value in state.operands:
        owner = value.owner
        if (owner if isinstance(owner, Block) else owner.parent) is not block:
            return False
    return True


class _State:
    """All that a verifier can see of an op, beside its neighbours, as it was when it was verified.

    Operations, blocks and values are equal if they are the same; attributes and types never change, so that most
    comparisons end at their identity.
    """

    __slots__ = (
        "attributes",
        "blocks",
        "op",
        "operands",
        "parent",
        "properties",
        "results",
        "stays",
        "successors",
        "types",
    )

    def __init__(self, op: Operation) -> None:
        self.op, self.parent = op, op.parent
        self.operands = op._operands  # a view of them is made at each look
        self.results, self.successors = op.results, op._successors
        self.types = [value.type for value in (*self.operands, *self.results)]
        self.properties, self.attributes = op.properties.copy(), op.attributes.copy()
        self.blocks = _blocks(op)
        self.stays = True
        """Whether it was in the same block before, if it is not new."""

    def holds(self) -> bool:
        """Whether the op still is as it was."""
        op = self.op
        return (
            op.parent is self.parent
            and op._operands == self.operands
            and op.results == self.results
            and [value.type for value in (*self.operands, *self.results)] == self.types
            and op.properties == self.properties
            and op.attributes == self.attributes
            and op._successors == self.successors
            and (not (op.regions or self.blocks) or _blocks(op) == self.blocks)
        )


def _blocks(op: Operation) -> list[tuple[Block, list[object]]]:
    if not op.regions:
        return []
    return [(block, [value.type for value in block.args]) for region in op.regions for block in region.blocks]
