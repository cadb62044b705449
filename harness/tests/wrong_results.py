"""Seeded faults on results of real ops, and what the verdict says of them: for tests and `ci/benchmarks/verdicts.py`.

An op of a model runs on the simulated card on its captured inputs, its result gets one fault, and the verdict must
refuse it and say where. A fault whose every error the documented rounding could have made (at most the hard bound: the
op on absolute values times what each step costs) is undetectable and counted apart.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from opscope.base.op_families import op_family
from opscope.compiler.target import binary
from opscope.harness.backends.base import Declined, Job, StageError
from opscope.harness.backends.reference import Reference
from opscope.harness.engine import model_jobs
from opscope.harness.prepare.inputs import row_golden, row_inputs, row_term_sizes
from opscope.harness.prepare.operand_sizes import is_float, sums_terms
from opscope.harness.prepare.preparation import Preparation
from opscope.harness.record.records import OpRow, ResultCheck
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage
from opscope.harness.verdict.compare import compare
from opscope.harness.verdict.operands import Operands, block_largest, magnitude
from opscope.harness.verdict.scores import BLOCK_SLACK, SLACK, Scale
from opscope.harness.verdict.steps import Steps, steps_of
from opscope.harness.verdict.tolerance import inner_size
from opscope.simulator.tests.mutants import NO_MUTANTS, PLACED, placed_mutation

MODELS = ("mnist_mlp", "resnet50", "bert_base", "vit_base", "gpt2_small")
FORMATS = (None, "Float16_b", "Bfp8_b")
FIDELITIES = ("HiFi4", "LoFi")
FACE, TILE = 16, 32
Changed = tuple[np.ndarray, np.ndarray]
"""A result with a fault, and a mask of the elements that it touched."""


@dataclass(frozen=True)
class Ran:
    """One op of a model as it ran on the device: what a verdict needs."""

    row: OpRow
    folder: Path
    options: ResultOptions
    golden: list[np.ndarray]
    got: list[np.ndarray]
    operands: Operands

    @property
    def steps(self) -> Steps | None:
        """The steps of the first result."""
        row, target = self.row, Reference().target(self.options)
        kind = op_family(row.op_name)
        inner = inner_size(kind, row.inputs, row.outputs, row.op_params)
        ulp = target.error_bound(row.op_name) if target.error_bound else None
        body = row.op_params.get("body")
        return steps_of(target, kind, row.outputs[0].data_type, inner, op_name=row.op_name, body=body, ulp=ulp)

    def verdict(self, got: list[np.ndarray]) -> ResultCheck:
        """The verdict on the first result, as a lane gives it."""
        return compare(
            self.golden,
            got,
            self.row.op_name,
            Reference().target(self.options),
            inputs=self.row.inputs,
            outputs=self.row.outputs,
            params=self.row.op_params,
            operands=self.operands,
        )[0]

    def scale(self) -> np.ndarray:
        """The scale of each element of the first result, all of its operands evaluated."""
        steps = self.steps
        golden = self.golden[0]
        if steps is None:
            return np.zeros(golden.shape)
        terms = self.operands.term_sizes[0].ravel() if self.operands.sums else None
        needs = steps.error_model != "sum" or (steps.block and steps.stored)
        moved = self.operands.moved(steps, self.golden)[0].ravel() if needs else None
        columns = golden.shape[-1] if golden.ndim else 1
        scale = Scale(steps, terms, moved)
        return scale.of(slice(0, golden.size), golden.ravel().astype(np.float64), columns).reshape(golden.shape)

    def hard_bound(self) -> np.ndarray:
        """The most that documented rounding can change each element of the first result."""
        steps = self.steps
        if steps is None:
            return np.zeros(self.golden[0].shape)
        if not sums_terms(self.row.op_name, self.row.op_params.get("body")):
            return (BLOCK_SLACK if steps.block else SLACK) * self.scale()
        sizes = [np.abs(x) if is_float(x) else x for x in self.operands.inputs]
        total = magnitude(self.operands.run(sizes)[0])
        inner = inner_size(op_family(self.row.op_name), self.row.inputs, self.row.outputs, self.row.op_params)
        lost = steps.cuts + 2 * steps.stored + inner * 2.0**-24
        rounded = max(steps.packed, steps.declared) + steps.declared + steps.function
        size = block_largest(self.golden[0]) if steps.block else magnitude(self.golden[0])
        return lost * total + rounded * size * (total > 0)


def rows_of(model: str, dtype: str = "float32") -> tuple[Path, list[OpRow]]:
    """The export folder of a model, and its ops that have a golden."""
    header, rows = model_jobs.prepare(Preparation((model,), dtype=dtype))
    return Path(header.export_dirs[0]), [row for row in rows if row.module and row.golden]


def floats_of(rows: list[OpRow]) -> list[OpRow]:
    """The ops whose first result is of floats."""
    return [row for row in rows if row.outputs[0].data_type.startswith(("f", "bf"))]


def compiled(row: OpRow, folder: Path, options: ResultOptions) -> Job | None:
    """The op up to its flatbuffer; None if the card does not run it."""
    module = (folder / str(row.module)).read_bytes()
    job = Job(row.op_id, module, row_inputs(row, folder), options, row.outputs, row.argument_types, None)
    backend = Reference()
    try:
        for stage in backend.stages[: backend.stages.index(Stage.RUN)]:
            backend.climb(stage, job)
    except (Declined, StageError):
        return None
    return job


def run(row: OpRow, folder: Path, options: ResultOptions, job: Job | None = None) -> Ran | None:
    """The op on the simulated card; None if the card does not run it."""
    job = job or compiled(row, folder, options)
    if job is None:
        return None
    job = replace(job, state=dict(job.state))  # a run takes the flatbuffer out of it
    try:
        Reference().climb(Stage.RUN, job)
    except (Declined, StageError):
        return None
    kept = (lambda: row_term_sizes(row, folder)) if row.term_sizes else None
    operands = Operands(row.op_name, job.module, lambda: row_inputs(row, folder), row.op_params.get("body"), kept)
    return Ran(row, folder, options, row_golden(row, folder), job.outputs, operands)


# --- faults


def _element(ran: Ran, got: np.ndarray, rng: random.Random) -> Changed | None:
    """One element off by 8 to 100 times its scale."""
    scale = ran.scale()
    at = _pick(np.isfinite(got.astype(np.float64)) & (scale > 0), rng)
    if at is None:
        return None
    off = scale[at] * 8 * 12.5 ** rng.random() * rng.choice((-1, 1))
    wrong = got.copy()
    # From the golden: the device's own error could be of the other sign.
    wrong[at] = (ran.golden[0][at].astype(np.float64) + off).astype(got.dtype)
    return wrong, _mask(got, at)


def _sign(ran: Ran, got: np.ndarray, rng: random.Random) -> Changed | None:
    """One element with its sign turned."""
    at = _pick(got != 0, rng)
    if at is None:
        return None
    wrong = got.copy()
    wrong[at] = -wrong[at]
    return wrong, _mask(got, at)


def _swapped(ran: Ran, got: np.ndarray, rng: random.Random) -> Changed | None:
    """Two neighbours in a row swapped."""
    if got.ndim == 0 or got.shape[-1] < 2:
        return None
    at = _pick(got[..., :-1] != got[..., 1:], rng)
    if at is None:
        return None
    beside = (*at[:-1], at[-1] + 1)
    wrong = got.copy()
    wrong[at], wrong[beside] = got[beside], got[at]
    return wrong, _mask(got, at) | _mask(got, beside)


def _zeroed(
    where: Callable[[np.ndarray, random.Random], tuple[slice | int, ...] | None],
) -> Callable[..., Changed | None]:
    """A fault that leaves a structure unwritten."""

    def fault(ran: Ran, got: np.ndarray, rng: random.Random) -> Changed | None:
        place = where(got, rng)
        if place is None or not got[place].any():
            return None
        wrong = got.copy()
        wrong[place] = 0
        return wrong, _mask(got, place)

    return fault


def _face_row(got: np.ndarray, rng: random.Random) -> tuple[slice | int, ...] | None:
    if got.ndim == 0 or got.shape[-1] < 2:
        return None
    start = rng.randrange(0, got.shape[-1], FACE)
    return (*(rng.randrange(size) for size in got.shape[:-1]), slice(start, start + FACE))


def _last_row(got: np.ndarray, rng: random.Random) -> tuple[slice | int, ...] | None:
    if got.ndim < 2 or got.shape[-2] < 2:
        return None
    return (*(rng.randrange(size) for size in got.shape[:-2]), -1)


def _tile(got: np.ndarray, rng: random.Random) -> tuple[slice | int, ...] | None:
    if got.ndim < 2:
        return None
    row, column = rng.randrange(0, got.shape[-2], TILE), rng.randrange(0, got.shape[-1], TILE)
    return (*(rng.randrange(size) for size in got.shape[:-2]), slice(row, row + TILE), slice(column, column + TILE))


def _larger(ran: Ran, got: np.ndarray, rng: random.Random) -> Changed | None:
    """Everything 0.3 % too large or too small."""
    factor = rng.choice((1.003, 0.997))
    wrong = (got.astype(np.float64) * factor).astype(got.dtype)
    return wrong, wrong != got


def _truncated(ran: Ran, got: np.ndarray, rng: random.Random) -> Changed | None:
    """The result truncated to bfloat16 where it should be rounded, or kept."""
    spread = np.random.default_rng(rng.randrange(2**32)).uniform(-(2.0**-9), 2.0**-9, got.shape)
    source = ran.golden[0].astype(np.float32) * (1 + spread * (got.dtype != np.float32)).astype(np.float32)
    wrong = (source.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32).astype(got.dtype)
    return wrong, wrong != got


def _small_lost(ran: Ran, got: np.ndarray, rng: random.Random) -> Changed | None:
    """The smaller 40 % of the values lost."""
    size = np.abs(got.astype(np.float64))
    lost = (size <= np.quantile(size, 0.4)) & (got != 0)
    return np.where(lost, got.dtype.type(0), got), lost


def _ghosts(ran: Ran, got: np.ndarray, rng: random.Random) -> Changed | None:
    """A tenth of the zeros hold a thousandth of what the others hold."""
    zeros = ran.golden[0] == 0
    if zeros.mean() < 0.01 or zeros.all():
        return None
    ghost = 1e-3 * float(np.sqrt(np.mean(np.square(got.astype(np.float64)))))
    chosen = zeros & (np.random.default_rng(rng.randrange(2**32)).random(got.shape) < 0.1)
    return np.where(chosen, got.dtype.type(ghost), got), chosen


def _permuted(ran: Ran, got: np.ndarray, rng: random.Random) -> Changed | None:
    """The entries of the first dim that has several, rolled by one."""
    axis = next((axis for axis, size in enumerate(got.shape) if size > 1), None)
    if axis is None:
        return None
    wrong = np.roll(got, 1, axis=axis)
    return wrong, wrong != got


FAULTS: dict[str, Callable[[Ran, np.ndarray, random.Random], Changed | None]] = {
    "one element": _element,
    "sign": _sign,
    "neighbours swapped": _swapped,
    "row of a face": _zeroed(_face_row),
    "last row": _zeroed(_last_row),
    "tile": _zeroed(_tile),
    "0.3 %": _larger,
    "truncation": _truncated,
    "small values lost": _small_lost,
    "ghosts": _ghosts,
    "batch permuted": _permuted,
}
"""Class of fault -> the function that makes one; None where an op has no such place."""


def _pick(possible: np.ndarray, rng: random.Random) -> tuple[int, ...] | None:
    """A seeded index among those that are possible."""
    flat = np.flatnonzero(possible)
    if not flat.size:
        return None
    return tuple(int(i) for i in np.unravel_index(flat[rng.randrange(flat.size)], possible.shape))


def _mask(array: np.ndarray, place: tuple) -> np.ndarray:
    mask = np.zeros(array.shape, bool)
    mask[place] = True
    return mask


@dataclass(frozen=True)
class Outcome:
    """One fault and what became of it."""

    fault: str
    setting: str
    caught: bool
    placed: bool
    """Whether the verdict names one of the elements that are wrong, or says that the error is everywhere."""
    possible: bool
    """Whether documented rounding could have made it: then it is undetectable."""
    op: str
    said: str


PATIENCE = 12
"""Ops in a row that may have no place for a fault before the next class has its turn."""


def outcomes(
    seed: int, per_setting: int, models: tuple[str, ...] = MODELS, dtype: str = "float32"
) -> Iterator[Outcome]:
    """`per_setting` faults for each model, format and fidelity, of all classes in turn."""
    rng = random.Random(seed)
    kinds = list(FAULTS)
    turn, failed = 0, 0
    for model in models:
        folder, rows = rows_of(model, dtype)
        rows = floats_of(rows)
        for data_format in FORMATS:
            for fidelity in FIDELITIES:
                options = ResultOptions(arch="n150", data_format=data_format, math_fidelity=fidelity)
                once = functools.cache(functools.partial(_ran, rows, folder, options))
                left, tries = per_setting, 0
                while left and tries < 20 * per_setting:
                    tries += 1
                    ran = once(rng.randrange(len(rows)))
                    outcome = None if ran is None else _outcome(ran, kinds[turn % len(kinds)], rng)
                    failed += 1
                    if outcome is not None:
                        left -= 1
                        yield outcome
                    if outcome is not None or failed > PATIENCE:
                        turn, failed = turn + 1, 0


def _ran(rows: list[OpRow], folder: Path, options: ResultOptions, number: int) -> Ran | None:
    """One of the ops on the card; None if the card does not run it."""
    return run(rows[number], folder, options)


def _outcome(ran: Ran, kind: str, rng: random.Random) -> Outcome | None:
    """What became of one fault; None if the op has no place for it."""
    golden, got = ran.golden[0], ran.got[0]
    if not is_float(golden) or golden.size < 2 or golden.shape != got.shape or not ran.verdict(ran.got).passed:
        return None
    made = FAULTS[kind](ran, got, rng)
    if made is None or not made[1].any():
        return None
    return _told(ran, kind, *made)


def _told(ran: Ran, kind: str, wrong: np.ndarray, mask: np.ndarray) -> Outcome:
    """What the verdict says of a wrong first result, which differs from the device's where `mask` says."""
    golden = ran.golden[0]
    result = ran.verdict([wrong, *ran.got[1:]])
    with np.errstate(invalid="ignore"):
        error = np.abs(wrong.astype(np.float64) - golden.astype(np.float64))
        possible = not (np.nan_to_num(error) > ran.hard_bound()).any()
    named = bool(result.z_index) and bool(mask[result.z_index])
    exact = result.tolerance == "exact" and "element" in result.reason
    placed = named or exact or result.question in ("systematic", "placed", "rounding")
    setting = f"{ran.options.data_format or 'float32'} {ran.options.math_fidelity}"
    text = f"{ran.row.op_name} {golden.shape}"
    return Outcome(kind, setting, not result.passed, placed, possible, text, result.reason)


# --- broken kernels


def kernel_outcomes(
    seed: int, count: int, models: tuple[str, ...] = MODELS, dtype: str = "float32"
) -> Iterator[Outcome]:
    """`count` kernels that are wrong in one element or in one row of a face, of ops of the models in turn.

    Each ran an op on its captured inputs, and changed its first result; what changes nothing is drawn again.
    """
    rng = random.Random(seed)
    exports = [rows_of(model, dtype) for model in models]
    settings = [(data_format, fidelity) for data_format in FORMATS for fidelity in FIDELITIES]
    made = 0
    while made < count:
        folder, rows = exports[made % len(exports)]
        data_format, fidelity = rng.choice(settings)
        options = ResultOptions(arch="n150", data_format=data_format, math_fidelity=fidelity)
        outcome = _by_kernel(rng.choice(rows), folder, options, sorted(PLACED)[made % len(PLACED)], rng)
        if outcome is not None:
            made += 1
            yield outcome


def _by_kernel(row: OpRow, folder: Path, options: ResultOptions, kind: str, rng: random.Random) -> Outcome | None:
    """What the verdict says of an op one of whose kernels is wrong in one place; None if that changes no result."""
    job = compiled(row, folder, options)
    if job is None:
        return None
    right = run(row, folder, options, job)
    if right is None or not right.verdict(right.got).passed:
        return None
    kernels = sorted({op.kernel for op in binary.read(job.state[Stage.TTNN_TO_FLATBUFFER]).programs[0].operations})
    kernels = [kernel for kernel in kernels if kernel not in NO_MUTANTS]
    if not kernels:
        return None
    mutation = placed_mutation(kind, rng.choice(kernels), rng.random())
    with mutation.apply():
        broken = run(row, folder, options, job)
    if broken is None or broken.got[0].tobytes() == right.got[0].tobytes():
        return None
    mask = broken.got[0].astype(np.float64) != right.got[0].astype(np.float64)
    return _told(right, kind, broken.got[0], mask)
