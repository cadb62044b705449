"""The walk over some parts of a program; what it stores of an op equals what one walk over all of it stores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from opscope.harness.prepare.parts.independent import Part
from opscope.harness.prepare.program import Node, last_uses
from opscope.harness.prepare.walk import Missing, Walker, WalkTask


class PartWalker(Walker):
    """The state of a walk over parts, one after another."""

    def __init__(self, plan: WalkTask, first: Mapping[str, Node]) -> None:
        """`first` has the first use of each op in the whole program: other uses are evaluated, and not stored."""
        super().__init__(plan)
        self._first = {op_id: node.path for op_id, node in first.items()}
        self._last = last_uses(self.split.program)
        self._constants: dict[int, Any] = {}
        for node in self.split.program.nodes:
            if node.kind == "constant":
                self.node(node, self._constants)

    def meets(self, node: Node) -> bool:
        """Whether a node is the first use of its op."""
        return self._first.get(node.op_id) == node.path

    def part(self, part: Part) -> list[tuple[int, np.ndarray | Missing]]:
        """Evaluates a part; the final outputs that come of it, with their places."""
        if self.plan.random:
            for node in part.nodes:
                self.evaluate_alone(self.split.ops[node.op_id], node)
                self.announce(self.split.ops[node.op_id])
            return []
        program, env = self.split.program, dict(self._constants)
        for position in part.positions:
            self.node(program.nodes[position], env)
            for value in self._last.get(position, ()):
                self.free(value, env)
        results = [(index, self.final(program.results[index], env)) for index in part.results]
        self.live_bytes = 0
        self.computed.clear()
        return results
