"""Verifies a module after a pass: what the pass has changed, and nothing if it has left the module as it was.

Most passes change little in a module of one op, and verification would cost more than all of them together.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

State = tuple[Any, ...]


class Verification:
    """Of one module, from pass to pass."""

    def __init__(self) -> None:
        self._verified: dict[Operation, State] | None = None

    def __call__(self, module: ModuleOp) -> None:
        """Raises VerifyException for a module that is not valid.

        Only ops that are new or changed, and those that verify with a look at them, are looked at; all of them where
        ops are gone, have moved, or hold others and have changed.
        """
        states = {op: _state(op) for op in module.walk()}
        before, self._verified = self._verified, None
        if before is None or not _only_grown(before, states):
            module.verify()
        else:
            for op in _affected(before, states):
                op.verify(verify_nested_ops=False)
        self._verified = states


def _only_grown(before: dict[Operation, State], now: dict[Operation, State]) -> bool:
    """Whether all ops are still there, in their order, and those that hold others are as they were."""
    if any(op.regions and before.get(op) != state for op, state in now.items()):
        return False
    return list(before) == [op for op in now if op in before]


def _affected(before: dict[Operation, State], now: dict[Operation, State]) -> dict[Operation, None]:
    """The ops that are new or changed, with what is next to them (only the last of a block may end it), what uses their
    results, and all that hold them."""
    affected: dict[Operation, None] = {}
    for op, state in now.items():
        if before.get(op) != state:
            around = [op.prev_op, op.next_op, *(use.operation for result in op.results for use in result.uses)]
            affected |= dict.fromkeys((op, *(other for other in around if other is not None)))
    for op in list(affected):
        holder = op.parent_op()
        while holder is not None and holder not in affected:
            affected[holder] = None
            holder = holder.parent_op()
    return affected


def _state(op: Operation) -> State:
    """All that a verifier can see of an op, beside its neighbours. Operations, blocks and values are equal if they are
    the same; attributes and types never change, so that most comparisons end at their identity."""
    operands = op.operands
    return (
        op.parent,
        tuple(operands),
        tuple([value.type for value in operands]),
        tuple([value.type for value in op.results]),
        dict(op.properties),
        dict(op.attributes),
        tuple(op.successors),
        tuple((block, tuple(value.type for value in block.args)) for region in op.regions for block in region.blocks),
    )
