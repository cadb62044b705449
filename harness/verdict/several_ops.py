"""The verdict on a piece of a model: several ops that ran as one program.

A result is held to the coarsest row of the table among the ops of the piece. Between the ops nothing is seen, so that
an error is measured by what lies around it, as that of a whole model is. What fails that is red unless it is amplified
without an error: the ops are evaluated one by one, each value on the way off by what its own row allows, this way or
that. Where honest errors move a result as far, nobody can tell a fault from them (flag `amplified`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from opscope.base.op_families import TO_THE_LAST_BIT, op_family
from opscope.harness.prepare.operand_sizes import is_float, sums_terms
from opscope.harness.prepare.program import Node, SplitModule
from opscope.harness.prepare.split import split_module
from opscope.harness.record.records import PRODUCTS_IN_A_ROW, ResultCheck
from opscope.harness.verdict.check import check, check_truncated, refused
from opscope.harness.verdict.operands import NotEvaluatedError, Operands, magnitude, off_type, row_mean, wide
from opscope.harness.verdict.scores import Scale
from opscope.harness.verdict.steps import Steps
from opscope.harness.verdict.target import Target
from opscope.harness.verdict.tolerance import Tolerance, inner_size, tolerance

SAMPLES = 6
"""Evaluations with errors of random sign, beside one with all of them up and one with all of them down."""
MARGIN = 2.0
"""So many times the largest change among the samples is allowed: each of them has every error at its limit, of random
sign."""


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
            if index < len(moved) and _explained(g, d, row, moved[index]):
                result = result.model_copy(
                    update={"passed": True, "reason": "", "question": "", "flags": (*result.flags, "amplified")}
                )
        checks.append(result)
    return checks


def row_of(split: SplitModule, target: Target) -> Tolerance:
    """The coarsest row among the ops of a piece."""
    rows = [_row(split, node, target) for node in split.program.nodes if node.kind == "op"]
    return max(rows, key=lambda row: row.relative_l2)


def _row(split: SplitModule, node: Node, target: Target) -> Tolerance:
    """The coarsest row of an op of a piece, over its results. An op that is right to the last bit by itself may share
    a rounding with its neighbours, or change places with them."""
    op = split.ops[node.op_id]
    kind, body = op_family(op.op_name), op.op_params.get("body")
    inner = inner_size(kind, op.inputs, op.outputs, op.op_params)
    known_as = "" if op.op_name in TO_THE_LAST_BIT else op.op_name
    ulp = target.error_bound(op.op_name) if target.error_bound and known_as else None
    types = {desc.data_type for desc in op.outputs}
    rows = [tolerance(target, kind, name, inner, op_name=known_as, body=body, ulp=ulp) for name in types]
    return replace(max(rows, key=lambda row: row.relative_l2), by_element=False)


def _moved(split: SplitModule, golden: Sequence[np.ndarray], target: Target, operands: Operands) -> list[np.ndarray]:
    """How far honest errors of the ops move each element of each result, float64; none where XLA does not evaluate
    them."""
    moved = [np.zeros(array.shape) for array in golden]
    for results in _evaluations(split, target, operands):
        for index, (result, right) in enumerate(zip(results, golden, strict=True)):
            with np.errstate(all="ignore"):
                change = np.abs(wide(result) - wide(right)) if is_float(right) else (result != right).astype(np.float64)
            moved[index] = np.maximum(moved[index], np.where(np.isfinite(change), change, np.inf))
    return moved


def _evaluations(split: SplitModule, target: Target, operands: Operands) -> Iterator[list[np.ndarray]]:
    """The results of the ops one by one, each value off by what its row allows; nothing where one has no value."""
    from opscope.harness.prepare.live_golden import LiveGolden
    from opscope.harness.prepare.walk import Missing

    program = split.program
    walk = LiveGolden(split, operands.inputs, frozenset(), operands.cache_dir)
    sizes_of: dict[str, list[np.ndarray]] = {}
    rng = np.random.default_rng(0)
    try:
        for signs in ((1.0,), (-1.0,), *[(1.0, -1.0)] * SAMPLES):
            values = dict(zip(program.arguments, operands.inputs, strict=True))
            for node in program.nodes:
                if node.kind == "constant" and node.value is not None:
                    values[node.results[0]] = np.array(node.value, order="C")
                    continue
                made = walk.alone(node, values) if node.kind == "op" else []
                results = [result for result in made if not isinstance(result, Missing)]
                if len(results) < len(node.outputs) or not results:
                    return
                if node.path not in sizes_of:
                    sizes_of[node.path] = _sizes(split, node, values, operands.cache_dir)
                row, sizes = _row(split, node, target), sizes_of[node.path]
                for number, (value, result) in enumerate(zip(node.outputs, results, strict=True)):
                    terms = sizes[number] if number < len(sizes) else None
                    values[value] = _off(result, row, terms, rng.choice(signs, result.shape))
            yield [values[value] for value in program.results]
    finally:
        walk.close()


def _sizes(
    split: SplitModule, node: Node, values: Mapping[int, np.ndarray], cache_dir: Path | None
) -> list[np.ndarray]:
    """Of a sum, which may cancel: the root sum of squares of each element's terms, per result; none of other ops."""
    op = split.ops[node.op_id]
    body = op.op_params.get("body")
    if not sums_terms(op.op_name, body):
        return []
    inputs = [values[value] for value in node.inputs]
    try:
        return Operands(op.op_name, op.bytecode, lambda: inputs, body, None, cache_dir).term_sizes
    except NotEvaluatedError:
        return []


def _off(array: np.ndarray, row: Tolerance, terms: np.ndarray | None, signs: np.ndarray) -> np.ndarray:
    """A value whose elements are off by what its row allows of themselves, or of their terms, with these signs."""
    if row.exact or not is_float(array):
        return array
    size = magnitude(array) if terms is None else np.maximum(magnitude(array), terms)
    with np.errstate(all="ignore"):
        off = row.relative_l2 * size * signs
        return (array.astype(off_type(array)) + off).astype(array.dtype)


def _explained(golden: np.ndarray, got: np.ndarray, row: Tolerance, moved: np.ndarray) -> bool:
    """Whether every element is as near its golden as honest errors of the ops leave it."""
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
