"""The verdict on a piece of a model: several ops that ran as one program.

A result is held to the coarsest row of the table among the ops of the piece. Between the ops nothing is seen, so that
an error is measured by what lies around it, as that of a whole model is. What fails that is red unless it is amplified
without an error: the ops are evaluated one by one, each value on the way off by what its own row allows, this way or
that. Where honest errors move a result as far, nobody can tell a fault from them (flag `amplified`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from opscope.harness.prepare.program import SplitModule
from opscope.harness.prepare.split import split_module
from opscope.harness.record.records import AMPLIFIED, PRODUCTS_IN_A_ROW, ResultCheck
from opscope.harness.verdict import with_errors
from opscope.harness.verdict.check import check, check_truncated, refused
from opscope.harness.verdict.operands import NotEvaluatedError, Operands
from opscope.harness.verdict.scores import Scale
from opscope.harness.verdict.steps import Steps
from opscope.harness.verdict.target import Target
from opscope.harness.verdict.tolerance import Tolerance


def compare(
    golden: Sequence[np.ndarray],
    got: Sequence[np.ndarray],
    params: Mapping[str, str],
    target: Target,
    operands: Operands,
) -> list[ResultCheck]:
    """One check per result of a piece; `params` are its row's, `operands` have its module and inputs."""
    # Any value may be what a product reads, and lies in that format then.
    target = replace(target, float_format=target.product_format) if target.product_format else target
    split = split_module(operands.module)
    row = row_of(split, target)
    moved: list[np.ndarray] | None = None
    checks = []
    for index in range(max(len(golden), len(got))):
        if index >= len(golden) or index >= len(got):
            checks.append(refused("count", f"expected {len(golden)} results, got {len(got)}"))
            continue
        g, d = golden[index], got[index]
        scale = None if row.exact else Scale(Steps("part", function=row.relative_l2))
        result = check(g, d, row, scale)
        if not result.passed and row.truncates and (products := int(params.get(PRODUCTS_IN_A_ROW, 0))):
            result = check_truncated(g, d, row, products, result, scale and scale.steps)
        if not result.passed and result.max_abs is not None:
            moved = _moved(split, golden, target, operands) if moved is None else moved
            if index < len(moved) and with_errors.explained(g, d, row, moved[index]):
                result = result.model_copy(
                    update={"passed": True, "reason": "", "question": "", "flags": (*result.flags, AMPLIFIED)}
                )
        checks.append(result)
    return checks


def row_of(split: SplitModule, target: Target) -> Tolerance:
    """The coarsest row among the ops of a piece."""
    rows = [with_errors.row_of(split, node, target) for node in split.program.nodes if node.kind == "op"]
    return max(rows, key=lambda row: row.relative_l2)


def _moved(split: SplitModule, golden: Sequence[np.ndarray], target: Target, operands: Operands) -> list[np.ndarray]:
    """How far honest errors of the ops move each element of each result, float64; none where XLA does not evaluate
    them."""
    moved = [np.zeros(array.shape) for array in golden]
    with with_errors.Evaluation(split, target, operands) as evaluation, contextlib.suppress(NotEvaluatedError):
        for signs in with_errors.SIGNS:
            results = evaluation.run(split.program, operands.inputs, {}, signs)
            moved = [np.maximum(*pair) for pair in zip(moved, map(with_errors.change, results, golden), strict=True)]
    return moved
