"""Sums whose terms cancel: what the card computes of them is right, however small they are, and lost terms are not.

Quickly with the card's kernel alone, goldens and sizes by NumPy; slowly as a run does it, goldens by XLA.
"""

from __future__ import annotations

import numpy as np
import pytest

from ci.wrong_numbers.cancelling import DRAWS, Cancelling, drawn, fault, judged, lacking
from opscope.compiler.target.program import ReduceParams
from opscope.harness.backends.base import Target
from opscope.harness.backends.reference import Reference
from opscope.harness.prepare.split import split_module
from opscope.harness.record.records import ResultCheck
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.verdict.compare import compare
from opscope.harness.verdict.operands import Operands
from opscope.simulator.tests.programs import run_kernel

SUMS, SAMPLES = 2000, 20


class ByNumPy(Operands):
    """The operand of a sum, which NumPy adds up in double precision."""

    dims: tuple[int, ...] = ()

    def run(self, inputs):
        return [np.asarray(inputs[0].astype(np.float64).sum(axis=self.dims)).astype(self.inputs[0].dtype)]

    def run_wide(self):
        return [np.asarray(self.inputs[0].astype(np.float64).sum(axis=self.dims))]

    def run_as_written(self):
        return self.run(self.inputs)


def judged_by_kernel(cancelling: Cancelling, target: Target) -> tuple[str, bool]:
    """`judged` of a sum as the card's kernel computes it."""
    case = cancelling.case()
    (op,) = split_module(case.text, "case").ops.values()
    inputs = case.make(np.random.default_rng(cancelling.seed))
    operands = ByNumPy(op.op_name, op.bytecode, lambda: inputs, "stablehlo.add")
    operands.dims = cancelling.dims
    (golden,) = operands.run(inputs)
    got = run_kernel("sum", ReduceParams(cancelling.dims), inputs, golden.shape, cancelling.element)
    wrong, shows = lacking(inputs[0], got, cancelling)

    def verdict(result: np.ndarray) -> ResultCheck:
        return compare(
            [golden],
            [result],
            op.op_name,
            target,
            inputs=op.inputs,
            outputs=op.outputs,
            params=op.op_params,
            operands=operands,
        )[0]

    return fault(cancelling, verdict(got), lambda: verdict(wrong) if shows else None), shows


def test_a_few_dozen():
    target = Reference().target(ResultOptions(arch="n150"))
    sums = [drawn(seed, most=20_000) for seed in range(36)]
    assert {len(each.shape) for each in sums} == {1, 2, 3, 4, 5}
    assert {each.draw for each in sums} == set(DRAWS)
    assert {each.element for each in sums} == {"f32", "bf16"}
    outcomes = [judged_by_kernel(each, target) for each in sums]
    assert [text for text, _ in outcomes if text] == []
    assert sum(shows for _, shows in outcomes) > 30


@pytest.mark.slow
@pytest.mark.parametrize("sample", range(SAMPLES))
def test_two_thousand(sample: int):
    outcomes = [judged(drawn(seed)) for seed in range(sample, SUMS, SAMPLES)]
    assert [text for text, _ in outcomes if text] == []
    assert sum(shows for _, shows in outcomes) > 0.9 * len(outcomes)
