"""Judges ops that draw random numbers by an algorithm of the implementation's own, which have no golden."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from opscope.base.stored import checked
from opscope.harness.backends.base import Backend, Job, Target
from opscope.harness.prepare.inputs import row_inputs
from opscope.harness.prepare.own_random_numbers import DRAWS, OWN_NUMBERS, draws_by_itself
from opscope.harness.record.records import OpRow, ResultCheck
from opscope.harness.record.stages import Stage
from opscope.harness.verdict.compare import compare

GENERATOR = "stablehlo.rng_bit_generator"


def are_judged(row: OpRow) -> bool:
    """Whether an op without a golden is held to its distribution, or a model to what follows from its draws."""
    if DRAWS in row.op_params:
        return True
    own = draws_by_itself(row.op_name, row.op_params) and row.no_golden == OWN_NUMBERS
    return own and row.level == "stablehlo" and not row.shards


def drawn_again(
    row: OpRow, job: Job, backend: Backend, export_dir: Path, compiled: Mapping[Stage | str, Any]
) -> list[list[np.ndarray]]:
    """What a generator of bits gives from the same state, from the state that it has left, and from one that differs
    by a bit; nothing of an op without a state. Raises what the backend raises.

    `compiled` is the job's `state` from before it ran, which a backend may have used up.
    """
    if row.op_name != GENERATOR or len(job.outputs) != 2:
        return []
    first, [state] = job.outputs, row_inputs(row, export_dir)
    flipped = state.copy()
    flipped.reshape(-1)[:1] ^= flipped.dtype.type(1)
    results = []
    for words in (state, np.asarray(first[0]), flipped):
        if words.shape != state.shape or words.dtype != state.dtype:
            break  # the verdict on the new state says so
        job.state |= compiled
        job.inputs, job.outputs = [np.array(words, copy=True)], []
        backend.climb(Stage.RUN, job)
        results.append(job.outputs)
    job.inputs, job.inputs_after, job.outputs = [], None, first
    return results


def checks(
    row: OpRow, job: Job, again: list[list[np.ndarray]], target: Target, export_dir: Path
) -> list[ResultCheck] | None:
    """One check per result; None where nothing says what the distribution is."""
    from opscope.harness.verdict import random_numbers

    if DRAWS in row.op_params:
        return _by_draws(row, job, int(row.op_params[DRAWS]), target, export_dir)
    expected = [(desc.shape, desc.data_type) for desc in row.outputs]
    if len(job.outputs) != len(expected):
        return [random_numbers.failed(f"expected {len(expected)} results, got {len(job.outputs)}")]
    for got, desc in zip(job.outputs, row.outputs, strict=True):
        if (reason := random_numbers.other_type(got, desc)) != "":
            return [random_numbers.failed(reason)]
    if row.op_name == GENERATOR:
        [state] = row_inputs(row, export_dir)
        new, bits = job.outputs
        if len(again) < 3 or any(len(results) != 2 or results[1].shape != bits.shape for results in again):
            return [random_numbers.failed("expected as many numbers from each state, got fewer from another")]
        same, *others = (results[1] for results in again)
        return [random_numbers.depends_on_state(state, new, bits, same, others), random_numbers.bits(bits)]
    kind, low, high = _distribution(row, export_dir)
    check = random_numbers.distribution(job.outputs[0], kind, low, high, target)
    return None if check is None else [check]


def no_distribution(row: OpRow, export_dir: Path) -> str:
    """Why no numbers of an op are right."""
    kind, low, high = _distribution(row, export_dir)
    return f"{kind} of {low:g} and {high:g}: no such distribution, so that no numbers are right"


def _distribution(row: OpRow, export_dir: Path) -> tuple[str, float, float]:
    """The distribution that an op names, and its bounds, or mean and deviation."""
    from opscope.harness.prepare.mlir.drawn import bounds

    kind = "NORMAL" if "NORMAL" in row.op_params.get("rng_distribution", "") else "UNIFORM"
    return kind, *bounds(checked(export_dir, str(row.module)).read_bytes(), row_inputs(row, export_dir))


def _by_draws(row: OpRow, job: Job, count: int, target: Target, export_dir: Path) -> list[ResultCheck]:
    """The checks of a model's results, by what XLA computes from the last `count` of them, which the backend drew. Of
    the draws themselves, types alone are judged: each op's own verdict is on its distribution."""
    from opscope.harness.prepare import golden, mlir
    from opscope.harness.prepare.mlir.drawn import with_draws_given
    from opscope.harness.verdict import random_numbers

    outputs = row.outputs[:-count]
    if len(job.outputs) != len(row.outputs):
        return [random_numbers.failed(f"expected {len(row.outputs)} results, got {len(job.outputs)}")]
    results, draws = job.outputs[:-count], job.outputs[-count:]
    types = [random_numbers.other_type(got, desc) for got, desc in zip(draws, row.outputs[-count:], strict=True)]
    if any(types):
        return [
            *(random_numbers.failed("its draws are of another type") for _ in outputs),
            *map(random_numbers.failed, types),
        ]
    program = with_draws_given(mlir.load(checked(export_dir, str(row.module)).read_bytes()), count)
    right = golden.compile_module(program)([*row_inputs(row, export_dir), *draws])
    judged = compare(right, results, row.op_name, target, inputs=row.inputs, outputs=outputs, params=row.op_params)
    return [*judged, *map(random_numbers.failed, types)]
