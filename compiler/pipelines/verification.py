"""Verifies a module after a pass, unless the pass has left it as it was.

Most passes find nothing in a module of one op, and verification would cost more than all of them together.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation


class Verification:
    """Of one module, from pass to pass."""

    def __init__(self) -> None:
        self._verified: list[tuple[Any, ...]] | None = None

    def __call__(self, module: ModuleOp) -> None:
        """Raises VerifyException for a module that is not valid; one that has not changed is not looked at again."""
        state = [_state(op) for op in module.walk()]
        if state != self._verified:
            self._verified = None
            module.verify()
            self._verified = state


def _state(op: Operation) -> tuple[Any, ...]:
    """All that a verifier can see of an op, beside its neighbours. Operations, blocks and values are equal if they are
    the same; attributes and types never change, so that most comparisons end at their identity."""
    return (
        op,
        op.parent,
        tuple(op.operands),
        tuple(value.type for value in op.operands),
        tuple(value.type for value in op.results),
        dict(op.properties),
        dict(op.attributes),
        tuple(op.successors),
        tuple((block, tuple(value.type for value in block.args)) for region in op.regions for block in region.blocks),
    )
