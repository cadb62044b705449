"""Writes run folders from recorded runs and the story, night by night, as if they had been run."""

from __future__ import annotations

import random
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from opscope.base.digest import words_digest
from opscope.harness.record import artifacts
from opscope.harness.record.measures import MEASURES
from opscope.harness.record.optest import DEFAULT_BACKEND
from opscope.harness.record.records import ManifestHeader, OpRow, OpTest, Origin, RunRecord
from opscope.harness.record.signature import signature
from opscope.harness.record.stages import FAILED, Stage, Status
from opscope.harness.record.store import Journal, write_manifest, write_run
from opscope.reports.demo.recorded import Line, RecordedRun, recorded_runs, test_of
from opscope.reports.demo.story import (
    ABSENT,
    ARRIVALS,
    AS_RECORDED,
    FORMAT_NIGHT,
    JAXLIB_BEFORE,
    JAXLIB_CHANGES,
    NIGHTS,
    STEP,
    STEP_NIGHT,
    Episode,
    draw,
    episode,
)
from opscope.reports.records.night_record import NightRecord, join

MARK = "demo data: nothing was run"


@dataclass(frozen=True)
class Night:
    """One night of the demo: its number, its start, and what it was asked to run."""

    number: int
    started: datetime
    seed: int

    def record(self, recorded: RecordedRun) -> NightRecord:
        """The record of the night in one series; each series has its own night record, with its own models."""
        run = recorded.record
        return NightRecord(
            name=f"demo-{recorded.name}",
            started=self.started,
            demo=True,
            models=present(self.number, recorded),
            backends=(run.backend,),
            archs=(run.arch,),
            data_formats=(recorded.data_format,) if recorded.data_format else (),
            config={"note": MARK, "seed": self.seed},
        )


def nights(last: datetime, seed: int, count: int = NIGHTS) -> list[Night]:
    """The last `count` nights of the story, one per day; the last one starts at `last`."""
    return [Night(n, last - timedelta(days=NIGHTS - 1 - n), seed) for n in range(NIGHTS - count, NIGHTS)]


def present(number: int, recorded: RecordedRun) -> tuple[str, ...]:
    """The models of a recorded run that are there on a night."""
    if recorded.data_format and number != FORMAT_NIGHT:
        return ()
    return tuple(model for model, first in ARRIVALS.items() if first <= number and model in recorded.record.models)


def write_night(folder: Path, night: Night) -> Iterator[Path]:
    """Writes the runs of a night below `folder` and yields each run folder once it is complete."""
    for recorded in recorded_runs():
        absent = ABSENT.get((night.number, recorded.record.backend, recorded.record.arch), ())
        models = tuple(model for model in present(night.number, recorded) if model not in absent)
        if models:
            yield _write_run(folder, night, recorded, models)


def _write_run(folder: Path, night: Night, recorded: RecordedRun, models: Sequence[str]) -> Path:
    backend, arch = recorded.record.backend, recorded.record.arch
    run_id = f"demo-{night.started:%Y%m%d}-{recorded.name}"
    run_dir = folder / run_id
    rows, tests = [], []
    for row, recorded_test in recorded.ops:
        uses = tuple(use for use in row.uses if use.model in models)
        if uses:
            rows.append(row.model_copy(update={"uses": uses}))
            tests.append(_test(run_dir, run_id, night, recorded, rows[-1], recorded_test))
    header = ManifestHeader(
        models=tuple(models),
        export_dirs=("",) * len(models),
        structural={m: recorded.structural[m] for m in models},
        module_ops={m: recorded.module_ops[m] for m in models},
    )
    record = RunRecord(
        run_id=run_id,
        models=tuple(models),
        backend=backend,
        arch=arch,
        started=night.started,
        outcome="complete",
        ended=night.started + timedelta(minutes=20 + 3 * len(models)),
        origin=_origin(night, recorded),
    )
    write_manifest(run_dir, header, rows)
    (run_dir / "journal" / "demo.jsonl").unlink(missing_ok=True)
    with Journal(run_dir, "demo") as journal:
        for test in tests:
            journal.append(test)
    write_run(run_dir, record)  # last: it counts the lines of the journal
    join(run_dir, night.record(recorded))
    return run_dir


WRONG_Z, WORSE_Z = 40.0, 0.9
"""The largest error of a wrong result, and of one that is less exact but right, over its limit."""


def _origin(night: Night, recorded: RecordedRun) -> Origin:
    run, of_night = recorded.record, {}
    versions, options = dict(run.origin.versions), run.origin.options
    if run.backend not in AS_RECORDED:
        if night.number < JAXLIB_CHANGES:
            versions |= {"jax": JAXLIB_BEFORE, "jaxlib": JAXLIB_BEFORE}
        is_own = run.backend == "reference"
        revision = words_digest(f"{night.seed} {night.number} {run.backend}", digits=40) if is_own else ""
        options = {**options, "fingerprint": f"{run.backend}-{revision[:16] or versions['jaxlib']}"}
        of_night = {"revision": revision, "branch": "main", "backend_revision": revision}
    command_line = ("opscope", "demo", "--seed", str(night.seed))
    same = {"host": "demo", "cpu": "none", "ci_job": MARK, "command_line": command_line}
    return Origin.model_validate({**same, **of_night, "versions": versions, "options": options})


def _test(run_dir: Path, run_id: str, night: Night, recorded: RecordedRun, row: OpRow, recorded_test: Line) -> OpTest:
    backend, arch = recorded.record.backend, recorded.record.arch
    change = None
    if not recorded.data_format:
        change = episode(row.op_name, row.op_id, night.number, backend, arch, night.seed)
    started = night.started + timedelta(seconds=int(600 * draw(row.op_id)))
    fields: dict[str, Any] = {
        "run_id": run_id,
        "full_test_name": f"{row.uses[0].model}::{row.op_name}[{row.op_id}]",
        "test_start_ts": started,
        "test_end_ts": started + timedelta(seconds=1),
        "config": {"note": MARK},
        "stages": _stages(recorded_test, night, row.op_id, backend),
        "repro": _line(row, recorded),
    }
    if change is not None:
        fields |= _changed(change, recorded_test, recorded, fields["stages"])
    if fields.get("error_message") or recorded_test.get("error_message"):
        fields["artifact"] = _log(run_dir, row, recorded_test | fields, night)
    return test_of(recorded_test, row, **fields)


def _line(row: OpRow, recorded: RecordedRun) -> str:
    """The command that runs the op for real: nothing was run in the demo's own folders."""
    run = recorded.record
    words = ["pytest", "--op-by-op", "--model", row.uses[0].model, "--ops", row.op_id, "--arch", run.arch]
    words += ["--backend", run.backend] if run.backend != DEFAULT_BACKEND else []
    return shlex.join([*words, *(["--data-format", recorded.data_format] if recorded.data_format else [])])


def _stages(recorded_test: Line, night: Night, op_id: str, backend: str) -> list[dict[str, Any]]:
    """The recorded seconds with added noise, and with the step that a compiler change caused."""
    noise = random.Random(f"{night.seed} {night.number} {op_id}")
    step = STEP if backend == "reference" and night.number >= STEP_NIGHT else 1.0
    return [
        {
            **stage,
            "seconds": stage["seconds"]
            * noise.lognormvariate(0, 0.07)
            * (step if stage["stage"] not in (Stage.RUN, Stage.COMPARE) else 1.0),
        }
        for stage in recorded_test.get("stages", ())
    ]


def _changed(
    change: Episode, recorded_test: Line, recorded: RecordedRun, stages: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The fields that an episode changes."""
    fields: dict[str, Any] = {"flaky": change.flaky}
    if change.cycles != 1 and recorded_test.get("cycles"):
        fields["cycles"] = round(recorded_test["cycles"] * change.cycles)
        fields["device_ns"] = recorded_test["device_ns"] * change.cycles
    if change.pcc is not None:
        fields |= _worse_numbers(change.pcc, change.status is Status.WRONG_RESULT, recorded_test)
    if change.status is None or change.failed is None:
        return fields
    passed = [stage for stage in stages if not _from(stage["stage"], change.failed, stages)]
    text = change.error
    fields |= {
        "status": change.status,
        "success": False,
        "failed_stage": change.failed,
        "error_message": text,
        "stages": passed,
        "stage_reached": passed[-1]["stage"] if passed else Stage.SPLIT,
        "expected": change.expected,
        "crash_kind": change.crash,
        "error_signature": signature(change.failed, text) if change.status in FAILED else None,
    }
    if change.status is not Status.WRONG_RESULT:
        fields |= dict.fromkeys(("pcc", "z_max", *MEASURES)) | {"ran_on": "none", "results": ()}
        fields |= {"z_place": "", "question": ""}
    return fields


def _worse_numbers(pcc: float, wrong: bool, recorded_test: Line) -> dict[str, Any]:
    """The fields of numbers that are worse than recorded: beyond the limit of the largest error, or close to it."""
    fields: dict[str, Any] = {"pcc": min(pcc, recorded_test.get("pcc") or 1.0)}
    checks = [dict(check) for check in recorded_test.get("results", ())]
    if checks:
        question = "largest" if wrong else ""
        checks[0] |= {"pcc": fields["pcc"], "passed": not wrong, "question": question}
        fields["question"] = question
        if (limit := checks[0].get("z_limit")) is not None:
            z = checks[0]["z_max"] = limit * (WRONG_Z if wrong else WORSE_Z)
            fields["z_max"] = z if wrong else max(check.get("z_max") or 0.0 for check in checks)
    fields["results"] = checks
    return fields


def _from(stage: str, failed: Stage, stages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a stage is the failed one or comes after it."""
    names = [entry["stage"] for entry in stages]
    return failed not in names or names.index(stage) >= names.index(failed)


def _log(run_dir: Path, row: OpRow, fields: Mapping[str, Any], night: Night) -> str | None:
    """Writes the diagnostic of a failing op and returns its path in the run folder."""
    places = "\n".join(f"  {use.model} {use.path} {use.location}" for use in row.uses[:20])
    text = (
        f"{MARK} (night {night.number} of the story, seed {night.seed})\n\n{row.op_name} [{row.op_id}]\n"
        f"{fields['status']} at {fields['failed_stage']}\n\n{fields['error_message']}\n\nstands in\n{places}\n"
    )
    return artifacts.write(run_dir, row.op_id, f"{fields['failed_stage']}.txt", text)
