"""The goldens of a whole model, made one after another while a device runs it: the walk of `prepare.walk`, in steps.

Nothing is stored and nothing drawn: the inputs are those that the device got. If XLA has no value for an op,
all that is computed from it is missing too, so that no golden depends on a random number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from opscope.base.temporary_folder import TemporaryFolder
from opscope.harness.prepare import golden
from opscope.harness.prepare.own_random_numbers import OWN_NUMBERS
from opscope.harness.prepare.program import Node, Program, SingleOp, SplitModule, last_uses
from opscope.harness.prepare.walk import Missing, Walker, WalkTask
from opscope.harness.record.records import Source


class LiveGolden(Walker):
    """A walk that advances on demand and returns the results of the wanted nodes."""

    def __init__(
        self, split: SplitModule, inputs: Sequence[np.ndarray], wanted: frozenset[str], cache_dir: Path | None
    ) -> None:
        """`inputs` are the values of the program's arguments, `wanted` the paths of nodes whose results are kept."""
        self._folder = TemporaryFolder("golden")
        super().__init__(
            WalkTask(
                split=split,
                distributions=(),
                seed=0,
                folder=Path(self._folder.name),
                provenance="",
                cache_dir=cache_dir,
            )
        )
        # Every op counts as met: nothing is stored.
        self.sources = dict.fromkeys(split.ops, ())
        self._inputs, self._wanted_paths = inputs, wanted
        self._kept_results: dict[str, list[Any]] = {}
        self._env: dict[int, Any] = {}
        self._last = last_uses(split.program)
        self._next = 0

    def results(self, path: str) -> list[np.ndarray | Missing]:
        """The results of the node at `path`, once. Evaluates the program up to it."""
        program = self.split.program
        while path not in self._kept_results and self._next < len(program.nodes):
            self.node(program.nodes[self._next], self._env)
            for value in self._last.get(self._next, ()):
                self.free(value, self._env)
            self._next += 1
        results = self._kept_results.pop(path, [])
        return [value if isinstance(value, Missing) else golden.view(value) for value in results]

    def node(self, node: Node, env: dict[int, Any]) -> None:
        """Evaluates a node and keeps its results where they are wanted."""
        super().node(node, env)
        if node.kind == "op" and node.path in self._wanted_paths:
            # If a body is evaluated several times, its first values are kept, as for the device's.
            values = [Missing(OWN_NUMBERS, self.drawn[v]) if v in self.drawn else env[v] for v in node.outputs]
            self._kept_results.setdefault(node.path, values)

    def enters(self, body: Program) -> bool:
        """Whether a body holds a node that is wanted."""
        return any(inner.path in self._wanted_paths for inner in body.walk())

    def argument(self, value: int) -> Any:
        """The buffer of an argument of the program."""
        return golden.put(self._inputs[self.arguments[value]])

    def inputs(
        self, op: SingleOp, node: Node, env: dict[int, Any], store: bool
    ) -> tuple[list[Any] | Missing, tuple[Source, ...]]:
        """The buffers of a node's inputs; missing if one of them is."""
        buffers = []
        for value in node.inputs:
            buffer = env[value] if value in env else self.argument(value)
            if isinstance(buffer, Missing):
                return buffer, ()
            buffers.append(golden.put(buffer) if isinstance(buffer, np.ndarray) else buffer)
            env[value] = buffers[-1]
        return buffers, ()

    def alone(self, node: Node, inputs: Mapping[int, np.ndarray]) -> list[np.ndarray | Missing]:
        """The results of one node for values of its inputs, by their numbers."""
        results = self.evaluate(self.split.ops[node.op_id], [golden.put(inputs[value]) for value in node.inputs])
        return [value if isinstance(value, Missing) else golden.view(value) for value in results]

    def close(self) -> None:
        """Ends the walk."""
        super().close()
        self._folder.cleanup()
