"""Runs elementwise ops over all of their inputs in lanes, as a run folder whose records a database and `diff` take."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from opscope.harness.backends import compiler_commits
from opscope.harness.formulas.nearest import off_by, rounded
from opscope.harness.lanes.lane import Lane, LaneConfig
from opscope.harness.prepare.golden import GoldenError, begin_compiling, level_of
from opscope.harness.prepare.split import split_module
from opscope.harness.record import origin, store
from opscope.harness.record.element_types import load, save
from opscope.harness.record.optest import RunContext, backend_label, now
from opscope.harness.record.records import ManifestHeader, OpRow, OpTest, RunRecord, Source, Use
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.ulp import inputs
from opscope.harness.ulp.inputs import in_rows
from opscope.harness.ulp.swept_op import SweptOp, element_dtype

PARTS = ("numbers", "specials")
MODEL = "ulp"
"""The model of the ops of a sweep, in records."""
FILES = "inputs"
"""Folder below the run's with modules, inputs and goldens."""
WORST = 3
"""Inputs that are named."""
FOR_A_LANE = 8
"""Parts for which another process is worth its start."""


@dataclass(frozen=True)
class Asked:
    """One op, on one part of the inputs of one type."""

    op: SweptOp
    element_type: str
    part: str
    inputs: tuple[np.ndarray, ...]
    """Without what fills up the last row."""
    exact: np.ndarray
    """The results in float64."""

    @property
    def title(self) -> str:
        """`tanh bf16 numbers`."""
        return f"{self.op.name} {self.element_type} {self.part}"


class Worst(NamedTuple):
    """An input at which a result is far off."""

    inputs: tuple[float, ...]
    expected: float
    got: float
    ulp: float

    def __str__(self) -> str:
        of = ", ".join(f"{x:.9g}" for x in self.inputs)
        return f"({of}): expected {self.expected:.9g}, got {self.got:.9g} ({self.ulp:.4g} ulp)"


@dataclass(frozen=True)
class Swept:
    """What a backend gave for one part."""

    asked: Asked
    test: OpTest
    got: np.ndarray | None
    """None if it gave nothing."""

    @property
    def key(self) -> str:
        """What it is called in a file of expected errors."""
        return f"{self.asked.title} {self.test.backend}"

    @cached_property
    def ulp(self) -> np.ndarray:
        """The error of each result in units in the last place, float64; infinite where one of two is no number."""
        return np.zeros(0) if self.got is None else off_by(self.asked.exact, self.got)

    @property
    def largest(self) -> float:
        """The largest error; NaN if there are no results."""
        return float(self.ulp.max(initial=0.0)) if self.got is not None else float("nan")

    @property
    def over(self) -> int:
        """How many results are more than a unit off."""
        return int((self.ulp > 1 + 1e-9).sum())

    @property
    def nearest(self) -> float:
        """The share of results that are the nearest number."""
        return float((self.ulp <= 0.5 + 1e-9).mean()) if self.got is not None else 0.0

    @property
    def worst(self) -> list[Worst]:
        """The inputs with the largest errors above half a unit, the worst first."""
        ulp = self.ulp
        if self.got is None:
            return []
        places = np.argsort(-np.where(np.isfinite(ulp), ulp, 1e300), kind="stable")[:WORST]
        return [
            Worst(
                tuple(float(x[at]) for x in self.asked.inputs),
                float(self.asked.exact[at]),
                float(self.got[at]),
                float(ulp[at]),
            )
            for at in places
            if ulp[at] > 0.5 + 1e-9
        ]

    @property
    def where(self) -> str:
        """The range of the first operand in which results are more than a unit off; empty if none is."""
        over = self.ulp > 1 + 1e-9
        if not over.any():
            return ""
        with np.errstate(invalid="ignore"):
            x = self.asked.inputs[0][over].astype(np.float64)
        x = x[~np.isnan(x)]
        return f"{x.min():.4g} to {x.max():.4g}" if x.size else "NaN"


def asked(op: SweptOp, element_type: str, limits: tuple[float, float] | None = None) -> list[Asked]:
    """Both parts of an op's inputs: numbers with a result, and all else. `limits`: only numbers between two, no
    special values."""
    dtype = element_dtype(element_type)
    numbers, specials = inputs.numbers(dtype, op.operands), inputs.specials(dtype, op.operands)
    exact = op.exact(numbers)
    known = ~np.isnan(exact)
    parts = {"numbers": [x[known] for x in numbers]}
    if limits is None:
        parts["specials"] = [np.concatenate(each) for each in zip(specials, [x[~known] for x in numbers], strict=True)]
    else:
        with np.errstate(invalid="ignore"):
            first = parts["numbers"][0].astype(np.float64)
        inside = (first >= limits[0]) & (first <= limits[1])
        parts["numbers"] = [x[inside] for x in parts["numbers"]]
    return [Asked(op, element_type, part, tuple(x), op.exact(x)) for part, x in parts.items() if x[0].size]


class Sweep:
    """Runs parts on one backend and keeps what came as a run."""

    def __init__(
        self, backend: str, options: ResultOptions, run_dir: Path, words: Sequence[str], *, lanes: int, timeout: float
    ) -> None:
        self._started = now()
        run_id = f"{self._started:%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:8]}"
        self._context = RunContext(run_id, str(run_dir), backend, options, dump_tensors="all")
        self._run_dir, self._words, self._count, self._timeout = run_dir, words, lanes, timeout
        self._files = run_dir / FILES

    def run(self, parts: Sequence[Asked]) -> Iterator[Swept]:
        """Each part's results as they come, in order; the run folder is whole when they have all been taken.

        Raises InputError if there is no such backend, or if the disk refuses the files.
        """
        store_folder(self._files)
        (self._run_dir / store.JOURNAL_DIR).mkdir(exist_ok=True)
        config = LaneConfig(self._context, {MODEL: str(self._files)}, op_timeout=self._timeout)
        lanes = [Lane(config) for _ in range(max(1, min(self._count, len(parts) // FOR_A_LANE)))]
        try:
            for lane in lanes:
                lane.start()
            with ThreadPoolExecutor(len(lanes)) as pool, store.Journal(self._run_dir, "ulp") as journal:
                yield from self._swept(parts, lanes, pool, journal)
        finally:
            for lane in lanes:
                lane.close()

    def _swept(
        self, parts: Sequence[Asked], lanes: Sequence[Lane], pool: ThreadPoolExecutor, journal: store.Journal
    ) -> Iterator[Swept]:
        """Lanes run the first parts while the next ones get their files."""
        free = list(lanes)

        def climbed(row: OpRow) -> tuple[OpTest, np.ndarray | None]:
            lane = free.pop()
            try:
                test = lane.run(row)
            finally:
                free.append(lane)
            return test, self._result(row)

        rows = [self._row(parts[0], 0)]
        record = self._record(lanes[0].ready().commit)
        climbs = [pool.submit(climbed, rows[0])]
        for number, each in enumerate(parts[1:], 1):
            rows.append(self._row(each, number))
            climbs.append(pool.submit(climbed, rows[-1]))
        header = ManifestHeader(
            models=(MODEL,),
            export_dirs=(str(self._files),),
            module_ops={MODEL: len(rows)},
            structural={MODEL: 0},
        )
        store.write_manifest(self._run_dir, header, rows)
        store.write_run(self._run_dir, record)
        for each, climb in zip(parts, climbs, strict=True):
            test, got = climb.result()
            swept = Swept(each, test, None if got is None else got[: each.exact.size])
            if got is not None:
                figures = {"largest_ulp": _finite(swept.largest), "over_ulp": swept.over}
                swept = replace(swept, test=test.model_copy(update=figures))
            journal.append(swept.test)
            yield swept
        store.write_run(self._run_dir, record.model_copy(update={"ended": now(), "outcome": "complete"}))

    def _record(self, commit: Mapping[str, str]) -> RunRecord:
        """What run.json says of the sweep; `commit` is the backend's own."""
        commits = compiler_commits.commits({self._context.backend: commit}, Path.cwd())
        options = {**self._context.options.model_dump(mode="json"), "ops": []}
        return RunRecord(
            run_id=self._context.run_id,
            models=(MODEL,),
            backend=backend_label(self._context.backend),
            arch=self._context.options.arch,
            started=self._started,
            origin=origin.origin(self._words, options, None, commits),
        )

    def _row(self, each: Asked, number: int) -> OpRow:
        """The manifest row of a part, its files beside it."""
        arrays = in_rows(each.inputs) if each.part == "numbers" else list(each.inputs)
        (single,) = split_module(each.op.module(arrays[0].shape, each.element_type), MODEL).ops.values()
        # The record's verdict is that of a run, by XLA's golden: in units in the last place the exact result counts.
        level = level_of(single.op_name, [each.element_type], sum(x.nbytes for x in arrays))
        try:
            (golden,) = begin_compiling(single.bytecode, widen=True, level=level)()(arrays)
        except GoldenError:
            golden = rounded(each.op.exact(arrays), arrays[0].dtype)
        stem = f"{number:04}"
        (self._files / f"{stem}.mlirbc").write_bytes(single.bytecode)
        paths = [f"{stem}-{n}.npy" for n in range(len(arrays))]
        for path, array in zip([*paths, f"{stem}-golden.npy"], [*arrays, golden], strict=True):
            save(self._files / path, array)
        return OpRow(
            op_id=single.op_id,
            op_name=single.op_name,
            module=f"{stem}.mlirbc",
            inputs=single.inputs,
            outputs=single.outputs,
            sources=tuple(Source(kind="captured", path=path) for path in paths),
            golden=(f"{stem}-golden.npy",),
            op_params=single.op_params,
            provenance=f"ulp:{each.part}",
            uses=(Use(model=MODEL, path=f"main/{number}", location=each.title),),
        )

    def _result(self, row: OpRow) -> np.ndarray | None:
        """What the device gave, flat; None if there is nothing of the right shape and type."""
        folder = store.artifact_dir(self._run_dir, row.op_id) / f"tensors-{backend_label(self._context.backend)}"
        desc = row.outputs[0]
        try:
            return load(folder / "result-0.npy", desc.shape, desc.data_type).reshape(-1)
        except (OSError, ValueError):
            return None
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def store_folder(folder: Path) -> None:
    """Makes a folder for a run's files. Raises InputError where the disk refuses it."""
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise store.refused(folder, error) from error


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
