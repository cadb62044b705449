"""The harness's verdict on a whole module, for a suite whose answers are those of graphs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from opscope.harness.prepare.program import Node, SplitModule
from opscope.harness.prepare.split import split_module
from opscope.harness.record.records import ResultCheck
from opscope.harness.verdict.compare import compare, compare_op
from opscope.harness.verdict.operands import Operands
from opscope.harness.verdict.target import Target

SEVERAL = "stablehlo.composite"
"""What several ops are judged as: a part of a model."""


class ModuleVerdict:
    """Judges results of one module on known inputs as a run would: one op by its error model, several as a part."""

    def __init__(self, module: bytes, feed: Sequence[np.ndarray]) -> None:
        self._module, self._feed = module, feed

    def checks(self, wanted: Sequence[np.ndarray], got: Sequence[np.ndarray], target: Target) -> list[ResultCheck]:
        """One check for each result."""
        if (node := self._alone) is None:
            operands = Operands(SEVERAL, self._module, lambda: self._feed)
            return compare(wanted, got, SEVERAL, target, operands=operands)
        op = self._split.ops[node.op_id]
        values = dict(zip(self._split.program.arguments, self._feed, strict=True))
        values |= {other.results[0]: other.value for other in self._split.program.nodes if other.value is not None}
        inputs = [np.asarray(values[number]) for number in node.inputs]
        operands = Operands(op.op_name, op.bytecode, lambda: inputs, op.op_params.get("body"))
        return compare_op(op, wanted, got, target, operands)

    @cached_property
    def _split(self) -> SplitModule:
        return split_module(self._module, "case")

    @cached_property
    def _alone(self) -> Node | None:
        """The module's one op, if it has one and its results are the module's."""
        program = self._split.program
        ops = [node for node in program.nodes if node.kind != "constant"]
        (node, *others) = ops or [None]
        if node is None or others or node.kind != "op" or node.outputs != program.results:
            return None
        return node
