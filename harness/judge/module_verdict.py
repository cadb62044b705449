"""A whole StableHLO module as a run would judge it, on known inputs: one op, or several as a part of a model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from opscope.harness.record.records import ResultCheck
from opscope.harness.verdict.compare import compare, compare_op
from opscope.harness.verdict.operands import Operands
from opscope.harness.verdict.target import Target

if TYPE_CHECKING:
    from opscope.harness.prepare.program import Node, SingleOp, SplitModule

SEVERAL = "stablehlo.composite"
"""What several ops are judged as: a part of a model."""


class ModuleVerdict:
    """Judges results of one module on known inputs as a run would: one op by its error model, several as a part."""

    def __init__(self, module: bytes, feed: Sequence[np.ndarray]) -> None:
        self._module, self._feed = module, feed

    def checks(self, wanted: Sequence[np.ndarray], got: Sequence[np.ndarray], target: Target) -> list[ResultCheck]:
        """One check for each result."""
        if self.op is None:
            return compare(wanted, got, SEVERAL, target, operands=self.operands)
        return compare_op(self.op, wanted, got, target, self.operands)

    @cached_property
    def operands(self) -> Operands:
        """The operands of the op, of several those of the module."""
        if self._alone is None or self.op is None:
            return Operands(SEVERAL, self._module, lambda: self._feed)
        values = dict(zip(self._split.program.arguments, self._feed, strict=True))
        values |= {other.results[0]: other.value for other in self._split.program.nodes if other.value is not None}
        inputs = [np.asarray(values[number]) for number in self._alone.inputs]
        return Operands(self.op.op_name, self.op.bytecode, lambda: inputs, self.op.op_params.get("body"))

    @property
    def op(self) -> SingleOp | None:
        """The module's one op, if it has one and its results are the module's."""
        return None if self._alone is None else self._split.ops[self._alone.op_id]

    @property
    def sized_as_it_runs(self) -> bool:
        """Whether the size of a result is set while the module runs, so that what XLA returns is not it."""
        from opscope.harness.prepare.mlir import bounded, door

        sets = bounded.SET.partition(".")[2].encode() in self._module  # so in text and bytecode
        return sets and bounded.sized_as_it_runs(door.load(self._module), "case")

    @cached_property
    def _split(self) -> SplitModule:
        from opscope.harness.prepare.split import split_module

        return split_module(self._module, "case")

    @cached_property
    def _alone(self) -> Node | None:
        program = self._split.program
        ops = [node for node in program.nodes if node.kind != "constant"]
        (node, *others) = ops or [None]
        if node is None or others or node.kind != "op" or node.outputs != program.results:
            return None
        return node
