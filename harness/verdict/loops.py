"""The verdict on a loop whose steps depend on values: a solver, a search, an early exit.

Its error is what its steps make of theirs, so that it is evaluated step by step (`with_errors.py`), without errors and
several times with them. Where these disagree on whether to go on, a device may end there as well: its result is held to
the value at the step at which it ended. What honest errors do not explain stays wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from opscope.harness.prepare.operand_sizes import is_float
from opscope.harness.prepare.program import Node, Program
from opscope.harness.prepare.split import split_module
from opscope.harness.record.records import ResultCheck
from opscope.harness.verdict.operands import NotEvaluatedError, Operands, off_type, wide
from opscope.harness.verdict.target import Target
from opscope.harness.verdict.with_errors import MARGIN, SIGNS, WHILE, Evaluation, change, explained, row_of


def excused(
    golden: Sequence[np.ndarray],
    got: Sequence[np.ndarray],
    checks: Sequence[ResultCheck],
    target: Target,
    operands: Operands,
) -> list[ResultCheck]:
    """The checks of a loop's results, of which some are wrong; right with the flag `amplified` if all are as near their
    golden as errors of the steps leave them, or another step's value at which the loop may end as well: the flag
    `12_steps_instead_of_13` says so."""
    if len(golden) != len(got) or any(not check.passed and check.max_abs is None for check in checks):
        return [*checks]
    split = split_module(operands.module)
    ops = [node for node in split.program.nodes if node.kind != "constant"]
    if [node.name for node in ops] != [WHILE] or len(ops[0].results) != len(golden):
        return [*checks]
    row = row_of(split, ops[0], target)
    own, ends = None, []
    try:
        with Evaluation(split, target, operands) as evaluation:
            for number, step in enumerate(_steps(evaluation, ops[0], _values(split.program, operands))):
                if own is None and not step.goes_on:
                    own = number
                right = golden if number == own else step.state
                if step.may_end and all(map(explained, right, got, [row] * len(got), step.moved)):
                    ends.append(number)
    except NotEvaluatedError:
        return [*checks]
    if own is None or not ends:
        return [*checks]
    end = min(ends, key=lambda number: abs(number - own))
    flag = "amplified" if end == own else f"{end}_steps_instead_of_{own}"
    right = {"passed": True, "reason": "", "question": ""}
    return [check.model_copy(update={"flags": (*check.flags, flag), **right}) for check in checks]


@dataclass(frozen=True)
class _Step:
    """A loop after so many steps."""

    state: Sequence[np.ndarray]
    """The values that it hands on, without errors."""
    moved: Sequence[np.ndarray]
    """How far honest errors move each element of each of them."""
    goes_on: bool
    """Whether its condition holds, without errors."""
    may_end: bool
    """Whether it may not hold: no value is farther off than so often the farthest of the evaluations (MARGIN)."""


def _steps(evaluation: Evaluation, loop: Node, values: Mapping[int, np.ndarray]) -> Iterator[_Step]:
    """The loop after each of its steps, as long as it may go on. All evaluations take each step together."""
    cond, body = loop.bodies
    state = [values[value] for value in loop.operands]
    others = [state] * len(SIGNS)
    while True:
        moved = [
            np.max([change(other, right) for other in each], axis=0)
            for right, *each in zip(state, *others, strict=True)
        ]
        goes_on = bool(evaluation.run(cond, state, values, ())[0])
        answers = {goes_on}
        for signs, other in zip(SIGNS, others, strict=True):
            for asked in (other, [*map(_farther, state, other)]):
                answers.add(bool(evaluation.run(cond, asked, values, signs)[0]))
        yield _Step(state, moved, goes_on, False in answers)
        if True not in answers:
            return
        evaluation.next_step()
        state = evaluation.run(body, state, values, ())
        others = [evaluation.run(body, other, values, signs) for signs, other in zip(SIGNS, others, strict=True)]


def _farther(right: np.ndarray, other: np.ndarray) -> np.ndarray:
    """A value that is MARGIN times as far off; an integer as it is."""
    if not is_float(right):
        return other
    with np.errstate(all="ignore"):
        return (right.astype(off_type(right)) + MARGIN * (wide(other) - wide(right))).astype(right.dtype)


def _values(program: Program, operands: Operands) -> dict[int, np.ndarray]:
    """The values of a module's arguments and constants."""
    values = dict(zip(program.arguments, operands.inputs, strict=True))
    return values | {node.results[0]: np.array(node.value) for node in program.nodes if node.value is not None}
