"""Evaluates several ops one by one, loops and branches included, each value off by what the row of its op allows.

What honest errors do to a result is seen by a few such evaluations: they are amplified, cancel and decide branches in
them as they may on a device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from opscope.base.op_families import TO_THE_LAST_BIT, op_family
from opscope.harness.prepare.live_golden import LiveGolden
from opscope.harness.prepare.operand_sizes import is_float, root_sizes, sums_terms
from opscope.harness.prepare.walk import Missing
from opscope.harness.verdict.operands import NotEvaluatedError, Operands, magnitude, off_type, row_mean, wide
from opscope.harness.verdict.tolerance import Tolerance, inner_size, tolerance

if TYPE_CHECKING:
    from opscope.harness.prepare.program import Node, Program, SplitModule
    from opscope.harness.verdict.target import Target

WHILE, CASE = "stablehlo.while", "stablehlo.case"
SIGNS: tuple[tuple[float, ...], ...] = ((1.0,), (-1.0,), *[(1.0, -1.0)] * 6)
"""The signs that errors may have in each evaluation: all up, all down, and six times random ones."""
MARGIN = 2.0
"""So many times the largest change among the evaluations is allowed: each of them has every error at its limit, of
random sign."""
MOST = 30_000
"""Evaluations of single ops after which no more is evaluated: they take some 10 s."""


class Evaluation:
    """The ops of a module, to be evaluated several times; to be closed."""

    def __init__(self, split: SplitModule, target: Target, operands: Operands) -> None:
        self._split, self._target = split, target
        self._walk = LiveGolden(split, operands.inputs, frozenset(), operands.caches())
        self._rng = np.random.default_rng(0)
        self._sizes: dict[str, list[np.ndarray]] = {}
        self._left = MOST

    def __enter__(self) -> Evaluation:
        return self

    def __exit__(self, *_: object) -> None:
        self._walk.close()

    def run(
        self, program: Program, arguments: Sequence[np.ndarray], outer: Mapping[int, np.ndarray], signs: Sequence[float]
    ) -> list[np.ndarray]:
        """The results of a program, whose errors have one of these signs each; without signs, there are none. `outer`
        has the values around a body. Raises NotEvaluatedError where an op has no value, or too many are evaluated."""
        values = {**outer, **dict(zip(program.arguments, arguments, strict=True))}
        for node in program.nodes:
            values |= dict(zip(node.results, self._results(node, values, signs), strict=True))
        return [values[value] for value in program.results]

    def next_step(self) -> None:
        """Says that values are no more those of before: the sizes of sums' terms are taken anew."""
        self._sizes.clear()

    def _results(self, node: Node, values: Mapping[int, np.ndarray], signs: Sequence[float]) -> list[np.ndarray]:
        if node.value is not None:
            return [np.array(node.value, order="C")]
        if node.bodies:
            return self._through_bodies(node, values, signs)
        made = self._alone(node, [values[value] for value in node.inputs])
        if not signs:
            return made
        if node.path not in self._sizes:
            self._sizes[node.path] = self._term_sizes(node, values)
        row, sizes = row_of(self._split, node, self._target), self._sizes[node.path]
        return [
            _off(result, row, sizes[number] if number < len(sizes) else None, self._rng.choice(signs, result.shape))
            for number, result in enumerate(made)
        ]

    def _through_bodies(self, node: Node, values: Mapping[int, np.ndarray], signs: Sequence[float]) -> list[np.ndarray]:
        state = [values[value] for value in node.operands]
        if node.name == WHILE:
            cond, body = node.bodies
            while self.run(cond, state, values, signs)[0]:
                state = self.run(body, state, values, signs)
                self.next_step()
            return state
        asked, count = int(state[0]), len(node.bodies)
        chosen = (asked if 0 <= asked < count else count - 1) if node.name == CASE else 1 - asked
        return self.run(node.bodies[chosen], (), values, signs)

    def _alone(self, node: Node, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The results of one op."""
        self._left -= 1
        made = self._walk.alone(node, dict(zip(node.inputs, inputs, strict=True))) if node.kind == "op" else []
        results = [result for result in made if not isinstance(result, Missing)]
        if self._left < 0 or len(results) < len(node.results):
            raise NotEvaluatedError(f"{node.name} at {node.path}")
        return results

    def _term_sizes(self, node: Node, values: Mapping[int, np.ndarray]) -> list[np.ndarray]:
        """Of a sum, which may cancel: the root sum of squares of each element's terms, per result; none else."""
        op = self._split.ops[node.op_id]
        if not sums_terms(op.op_name, op.op_params.get("body")):
            return []
        return root_sizes(
            op.op_name, lambda inputs: self._alone(node, inputs), [values[value] for value in node.inputs]
        )


def row_of(split: SplitModule, node: Node, target: Target) -> Tolerance:
    """The coarsest row of an op among others, over its results. An op that is right to the last bit by itself may share
    a rounding with its neighbours, or change places with them."""
    op = split.ops[node.op_id]
    kind, body = op_family(op.op_name), op.op_params.get("body")
    inner = inner_size(kind, op.inputs, op.outputs, op.op_params)
    known_as = "" if op.op_name in TO_THE_LAST_BIT else op.op_name
    ulp = target.error_bound(op.op_name) if target.error_bound and known_as else None
    types = {desc.data_type for desc in op.outputs}
    rows = [tolerance(target, kind, name, inner, op_name=known_as, body=body, ulp=ulp) for name in types]
    return replace(max(rows, key=lambda row: row.relative_l2), by_element=False)


def change(result: np.ndarray, right: np.ndarray) -> np.ndarray:
    """How far each element is from the right one, float64; of integers and booleans 1 where it is another."""
    with np.errstate(all="ignore"):
        off = np.abs(wide(result) - wide(right)) if is_float(right) else (result != right).astype(np.float64)
    return np.where(np.isfinite(off), off, np.inf)


def explained(golden: np.ndarray, got: np.ndarray, row: Tolerance, moved: np.ndarray) -> bool:
    """Whether every element is as near its golden as honest errors of the ops leave it, which move it so far."""
    if golden.shape != got.shape or golden.dtype != got.dtype:
        return False
    if not is_float(golden):
        return bool((moved[golden != got] > 0).all())
    with np.errstate(all="ignore"):
        error = np.abs(wide(got) - wide(golden))
        error = np.where((got == golden) | ((got != got) & (golden != golden)), 0.0, error)
        # Of an element whose few samples are small by chance, half of its row's mean.
        allowed = MARGIN * np.maximum(moved, row_mean(moved) / 2) + row.relative_l2 * magnitude(golden)
        return bool((error <= allowed).all())


def _off(array: np.ndarray, row: Tolerance, terms: np.ndarray | None, signs: np.ndarray) -> np.ndarray:
    """A value whose elements are off by what its row allows of themselves, or of their terms, with these signs."""
    if row.exact or not is_float(array):
        return array
    size = magnitude(array) if terms is None else np.maximum(magnitude(array), terms)
    with np.errstate(all="ignore"):
        off = row.relative_l2 * size * signs
        return (array.astype(off_type(array)) + off).astype(array.dtype)
