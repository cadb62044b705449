"""What became of each op of a run, the same whether it was read from a run folder or from the database.

The comparison of runs, the ranking of fixes and the sections of report.html are made from these, so that all agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from harness.errors import InputError, closest
from harness.stages import FAILED, Stage, Status
from harness.store import StoredRun, load_run
from reports.publish import run_rows
from reports.schema import MODULES, OP_TESTS, OPS, RUNS, USES

UNSPLITTABLE = "unsplittable"
"""In place of a status: no module could be made of the op, so nothing was tried."""

UNATTEMPTED = frozenset({Status.STOPPED, Status.SKIPPED, Status.NOT_RUN})
"""Statuses of ops that nobody asked the numbers of: they count in no rate."""

AFTER_COMPILE = frozenset({Stage.RUN, Stage.COMPARE})

TAKEN = (
    "op_id", "op_name", "op_kind", "status", "stage_reached", "failed_stage", "stages", "error_signature",
    "error_message", "crash_kind", "pcc", "cycles", "ran_on", "expected", "flaky", "repro",
)  # fmt: skip
"""Columns of `op_tests` that an outcome is made from."""

LIMIT = 500
"""Ids in one statement, below SQLite's limit of parameters."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One unique op in one run."""

    op_id: str
    op_name: str
    op_kind: str
    types: str
    status: str
    """A status of the ledger, or `unsplittable`."""
    stage: str
    """The furthest stage that it passed."""
    failed_stage: str = ""
    signature: str = ""
    error: str = ""
    crash: str = ""
    pcc: float | None = None
    cycles: int | None = None
    compile_seconds: float = 0.0
    ran_on: str = "none"
    expected: str = ""
    """The limitation that names its failure, if one does."""
    flaky: bool = False
    repro: str = ""
    params: Mapping[str, str] = field(default_factory=dict)
    """Its attributes; from the database only those of ops that did not come out right."""
    uses_of: Mapping[str, int] = field(default_factory=dict)
    """Model -> how often the op stands in it."""

    @property
    def uses(self) -> int:
        """How often it stands in all models of the run."""
        return sum(self.uses_of.values())

    @property
    def attempted(self) -> bool:
        """Whether its numbers were asked for."""
        return self.status not in UNATTEMPTED

    @property
    def bad(self) -> bool:
        """Whether it went wrong, also where a limitation names the failure: it holds its models back either way."""
        return self.status in FAILED or self.status == UNSPLITTABLE

    @property
    def cluster(self) -> str:
        """Ops of one cluster fail for one reason: their error's fingerprint, or what stands in for it."""
        return self.signature or f"{self.crash or self.status} {self.failed_stage or self.stage} {self.op_name}"

    @property
    def reason(self) -> tuple[str, str, str, str]:
        """What must be equal for two failures to be the same one."""
        return self.status, self.failed_stage, self.signature, self.crash


@dataclass(frozen=True)
class RunView:
    """One run, op by op."""

    run_id: str
    place: str
    """Where it was read: the run folder, or `database`."""
    models: tuple[str, ...]
    """Models that it has a module of."""
    backend: str
    arch: str
    started: datetime
    outcome: str
    origin: Mapping[str, Any]
    ops: Mapping[str, Outcome]


DECIDING = ("dtype", "data_format", "math_fidelity", "inputs", "seed")
"""Options that decide an op's numbers: runs that differ in them are not of one series."""


def series(backend: str, arch: str, options: Mapping[str, Any]) -> tuple[Any, ...]:
    """What two runs have in common if a difference between them is news about the code."""
    return (backend, arch, *(options.get(name) for name in DECIDING))


# --- from a run folder


def from_folder(run_dir: Path) -> RunView:
    """The run in `run_dir`. Raises InputError where there is none."""
    return from_stored(load_run(run_dir), str(run_dir))


def from_stored(run: StoredRun, place: str) -> RunView:
    """A run as the store read it."""
    tables = run_rows(run)
    uses: dict[str, Counter[str]] = {}
    for row in tables[USES.name]:
        uses.setdefault(row["op_id"], Counter())[row["model"]] += 1
    ops = {row["op_id"]: row for row in tables[OPS.name]}
    tests = [row | {"types": ops[row["op_id"]]["signature"]} for row in tables[OP_TESTS.name]]
    tested = {row["op_id"] for row in tests}
    return _view(
        tables[RUNS.name][0] | {"started": run.record.started},
        [row["model"] for row in tables[MODULES.name]],
        tests,
        [row for op_id, row in ops.items() if op_id not in tested],
        uses,
        place,
    )


# --- from the database


def from_database(connection: sa.Connection, run_id: str, where: str = "RUN") -> RunView:
    """The run of that id. Raises InputError, with the closest id, where there is none."""
    run = connection.execute(sa.select(RUNS).where(RUNS.c.run_id == run_id)).mappings().one_or_none()
    if run is None:
        known = connection.scalars(sa.select(RUNS.c.run_id)).all()
        hint = closest(run_id, known) if known else "opscope publish RUN_DIR"
        raise InputError(where, "a run folder or the id of a published run", f"`{run_id}`", hint)
    tests = _tests(connection, run_id)
    uses: dict[str, Counter[str]] = {}
    counted = sa.select(USES.c.op_id, USES.c.model, sa.func.count()).where(USES.c.run_id == run_id)
    for op_id, model, count in connection.execute(counted.group_by(USES.c.op_id, USES.c.model)).all():
        uses.setdefault(op_id, Counter())[model] = count
    models = connection.scalars(sa.select(MODULES.c.model).where(MODULES.c.run_id == run_id)).all()
    tested = {test["op_id"] for test in tests}
    lost = _lost(connection, [op_id for op_id in uses if op_id not in tested])
    return _view(run, models, tests, lost, uses, "database")


def _tests(connection: sa.Connection, run_id: str) -> list[dict[str, Any]]:
    names = (*TAKEN, "types")
    wanted = sa.select(*(OP_TESTS.c[name] for name in TAKEN), OPS.c.signature)
    wanted = wanted.join(OPS, OPS.c.op_id == OP_TESTS.c.op_id).where(OP_TESTS.c.run_id == run_id)
    tests: list[dict[str, Any]] = [
        dict(zip(names, row, strict=True)) for row in connection.execute(wanted.order_by(OP_TESTS.c.op_id))
    ]
    params = sa.select(OP_TESTS.c.op_id, OP_TESTS.c.op_params).where(
        OP_TESTS.c.run_id == run_id, OP_TESTS.c.status != str(Status.SUCCESS)
    )
    found = {row[0]: row[1] for row in connection.execute(params)}
    for test in tests:
        test["op_params"] = found.get(test["op_id"], {})
    return tests


def _lost(connection: sa.Connection, op_ids: list[str]) -> list[Mapping[Any, Any]]:
    found: list[Mapping[Any, Any]] = []
    for start in range(0, len(op_ids), LIMIT):
        described = sa.select(OPS.c.op_id, OPS.c.op_name, OPS.c.op_kind, OPS.c.signature, OPS.c.unsplittable)
        some = described.where(OPS.c.op_id.in_(op_ids[start : start + LIMIT]))
        found.extend(connection.execute(some).mappings())
    return found


# --- rows of either


def _view(
    run: Mapping[Any, Any], models: Iterable[str], tests: Iterable[Mapping[Any, Any]],
    lost: Iterable[Mapping[Any, Any]], uses: Mapping[str, Counter[str]], place: str,
) -> RunView:  # fmt: skip
    """`lost`: ops without a test in this run: no module could be made of them."""
    found = {test["op_id"]: _outcome(test, dict(uses.get(test["op_id"], {}))) for test in tests}
    for op in lost:
        found[op["op_id"]] = Outcome(
            op["op_id"], op["op_name"], op["op_kind"] or "other", op["signature"], UNSPLITTABLE, str(Stage.SPLIT),
            failed_stage=str(Stage.SPLIT), error=op["unsplittable"] or "no module could be made of it",
            uses_of=dict(uses.get(op["op_id"], {})),
        )  # fmt: skip
    return RunView(
        run["run_id"], place, tuple(sorted(models)), run["backend"], run["arch"], run["started"], run["outcome"],
        {name: run[name] for name in ("revision", "dirty", "branch", "backend_revision", "backend_dirty", "host",
                                      "python", "versions", "options")},
        found,
    )  # fmt: skip


def _outcome(test: Mapping[Any, Any], uses: Mapping[str, int]) -> Outcome:
    return Outcome(
        op_id=test["op_id"],
        op_name=test["op_name"],
        op_kind=test["op_kind"] or "other",
        types=test["types"],
        status=test["status"],
        stage=test["stage_reached"],
        failed_stage=test["failed_stage"] or "",
        signature=test["error_signature"] or "",
        error=test["error_message"] or test["crash_kind"] or "",
        crash=test["crash_kind"] or "",
        pcc=test["pcc"],
        cycles=test["cycles"],
        compile_seconds=compile_seconds(test["stages"]),
        ran_on=test["ran_on"],
        expected=test["expected"],
        flaky=test["flaky"],
        repro=test["repro"],
        params=test["op_params"],
        uses_of=uses,
    )


def compile_seconds(stages: Iterable[Mapping[str, Any]]) -> float:
    """What the stages before `run` took."""
    return sum(stage["seconds"] or 0.0 for stage in stages if stage["stage"] not in AFTER_COMPILE)
