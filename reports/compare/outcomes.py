"""The outcome of each op of a run, the same from a run folder and from the database.

The comparison of runs, the ranking of fixes and the sections of report.html are made from these, so that all agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa
from pydantic import ValidationError

from opscope.base.op_families import WHOLE_MODEL as FAMILY_OF_MODELS
from opscope.base.statuses import NOT_ATTEMPTED, PASSED, RIGHT
from opscope.base.visible_text import cut
from opscope.harness.record.causes import UNSPLITTABLE, cause_of, cause_of_test
from opscope.harness.record.errors import InputError, closest
from opscope.harness.record.optest import board_of, release_in
from opscope.harness.record.records import WHOLE_MODEL, Structure, import_fails
from opscope.harness.record.selection import DESELECTED
from opscope.harness.record.stages import FAILED, Stage, Status
from opscope.harness.record.store import StoredRun, load_run
from opscope.reports.database.database import DamagedValueError
from opscope.reports.database.notes import Note, read_notes
from opscope.reports.database.reading import how_to_publish
from opscope.reports.database.rows import RAN, Row, compile_seconds, compiler_of, series_text, signature, structure_from
from opscope.reports.database.schema import MODELS, MODULE_OPS, OP_ALIAS, OP_TESTS, OPS, RUNS, STRUCTURES
from opscope.reports.database.series_names import series_name
from opscope.reports.database.whole_models import WHOLE_MODELS, cause_of_program, columns_of, rows_of_run
from opscope.reports.records.columns import plain

TAKEN = (
    *("op_id", "op_name", "op_kind", "backend", "status", "stage_reached", "failed_stage", "compile_seconds"),
    *("error_signature", "error_message", "crash_kind", "pcc", "cycles", "cycles_error", "largest_ulp", "run_ns"),
    *("run_spread_ns", "l1_peak_bytes", "ran_on", "expected", "flaky", "stability", "artifact", "repro", "card_type"),
)
"""Columns of `op_tests` that an outcome and its view are made from."""

NUMBERS = tuple(name for name in TAKEN if isinstance(OP_TESTS.c[name].type, sa.Double | sa.Integer))
"""Those that hold numbers."""

STATUSES = frozenset(map(str, Status))

SEVERAL = 4
"""So many ops are enough to say of a backend that it fails them all."""

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
    """How it ended: a status of the ledger, `passed` or `unsplittable` (opscope/base/statuses.py)."""
    stage: str
    """The last stage that it passed."""
    failed_stage: str = ""
    signature: str = ""
    cause: str = ""
    """The cause of the failure (harness/record/causes.py); empty if it is none."""
    error: str = ""
    crash: str = ""
    pcc: float | None = None
    cycles: int | None = None
    cycles_error: float | None = None
    largest_ulp: float | None = None
    run_ns: float | None = None
    run_spread_ns: float | None = None
    l1_peak_bytes: int | None = None
    compile_seconds: float = 0.0
    ran_on: str = "none"
    expected: str = ""
    """The limitation that names its failure, if one does."""
    flaky: bool = False
    stability: str = ""
    """Whether it repeats (`OpTest.stability`)."""
    artifact: str = ""
    """Full diagnostic, relative to the run's folder."""
    repro: str = ""
    params: Mapping[str, str] = field(default_factory=dict)
    """Its attributes; from the database only those of ops that did not come out right."""
    uses_of: Mapping[str, int] = field(default_factory=dict)
    """Model -> number of uses of the op."""
    structure: Structure | None = None
    """What is in its program, where the run has kept that."""

    @property
    def uses(self) -> int:
        """Number of its uses in all models of the run."""
        return sum(self.uses_of.values())

    @property
    def attempted(self) -> bool:
        """Whether the op was attempted."""
        return self.status not in NOT_ATTEMPTED

    @property
    def right(self) -> bool:
        """Whether it is right, as far as its backend can show."""
        return self.status in RIGHT

    @property
    def bad(self) -> bool:
        """Whether it went wrong. Expected failures count too, because they block their models as well."""
        return self.status in FAILED or self.status == UNSPLITTABLE

    @property
    def reason(self) -> tuple[str, str, str, str]:
        """Two failures are the same if these are equal."""
        return self.status, self.failed_stage, self.signature, self.crash


COLUMN_OF = {each.name: each.name for each in fields(Outcome) if each.name not in ("error", "uses_of")} | {
    "stage": "stage_reached",
    "signature": "error_signature",
    "crash": "crash_kind",
    "params": "op_params",
}
"""Field of an outcome -> the column of its test, for those that are just that."""


@dataclass(frozen=True)
class RunView:
    """One run, or one night in one series, op by op."""

    run_id: str
    """Id of the run, or of the night."""
    place: str
    """Where it was read from: the run folder, `database`, or `night`."""
    backend: str
    arch: str
    started: datetime
    outcome: str
    origin: Mapping[Any, Any]
    series: str = ""
    """The series: equal for runs that can be compared."""
    models: tuple[str, ...] = ()
    """Models that have a module."""
    ops: Mapping[str, Outcome] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    """Models and shards that were expected and are missing."""
    imports: Mapping[str, str] = field(default_factory=dict)
    """Model -> how its import differs from its framework, where that makes a run red."""
    board: str = ""
    """The board that it was compiled for; empty where its backend has none."""
    climbs: frozenset[tuple[str, ...]] = frozenset()
    """Stages that ops climbed, in the backend's order."""
    asked: tuple[str, ...] = ()
    """Models that were asked for and have no module: a later run that has them is not the first to know them."""
    day: str = ""
    """Its date, in the night's time zone."""
    notes: Mapping[str, Note] = field(default_factory=dict)
    """Cause -> what the database that it was read from has of it."""
    programs: Mapping[str, Outcome] = field(default_factory=dict)
    """Model -> how it came out as one program, where it ran as one: before its ops, or as the op of workflow `full`."""
    complete: RunView | None = None
    """Of a partial night, the last complete one before it: what it did not try is as that one left it."""
    from_complete: frozenset[str] = frozenset()
    """The ids of these ops."""

    @property
    def known_good(self) -> RunView:
        """From where on a change counts: the night itself, or the last complete one before it."""
        return self.complete or self

    def acknowledges(self, cause: str) -> bool:
        """Whether a note says that the cause is not to alarm on that date."""
        return cause in self.notes and self.notes[cause].quiets(self.day)

    @property
    def backends(self) -> tuple[str, ...]:
        """Its backends; several if each op ran on each."""
        return tuple(self.backend.split(","))

    @property
    def name(self) -> str:
        """What its series is called."""
        return series_name(self.backend, self.board, self.series)

    @property
    def deselected(self) -> int:
        """Number of ops that the user left out of the run (`--ops`, `-k`)."""
        return sum(op.status == Status.SKIPPED and op.error == DESELECTED for op in self.ops.values())

    @property
    def broken(self) -> str:
        """The text with which every op that was tried fails, several of them and none as a limitation expects: the
        backend may not work here at all. Empty where that is not so."""
        tried = [op for op in self.ops.values() if op.attempted and op.status != UNSPLITTABLE]
        texts = {op.signature or op.crash for op in tried}
        if len(tried) < SEVERAL or len(texts) > 1 or any(not op.bad or op.expected for op in tried):
            return ""
        return tried[0].error or tried[0].status

    @cached_property
    def lacking(self) -> Mapping[str, Sequence[Outcome]]:
        """Model -> what keeps it from being whole: the ops that went wrong or were not attempted; where none went
        wrong, the model itself, if it is wrong as one program. One that is right as one program needs no op attempted:
        those may have been left out because of it. A model without ops is not here."""
        lacking: dict[str, list[Outcome]] = {}
        for op in self.ops.values():
            for model in op.uses_of:
                ops = lacking.setdefault(model, [])
                if not op.right:
                    ops.append(op)
        for model, program in self.programs.items():
            wrong = [op for op in lacking.get(model, ()) if op.bad]
            if program.right:
                lacking[model] = wrong
            elif program.bad and not wrong:
                lacking.setdefault(model, []).append(program)
        return lacking

    def whole(self, model: str) -> bool:
        """Whether a model is whole: it lacks nothing."""
        return not self.lacking.get(model, (None,))

    @property
    def workflow(self) -> str:
        """What of a model its rows are (harness/record/workflows.py)."""
        return str(self.origin["options"].get("workflow") or "split")


ORIGIN = (
    *("revision", "dirty", "branch", "backend_revision", "backend_dirty"),
    *("host", "python", "versions", "options", "compiler"),
)
"""Fields of a run's origin that a view keeps."""


# --- from a run folder


def from_folder(run_dir: Path, backend: str = "") -> RunView:
    """The run in `run_dir`, or what it says of one of its backends. Raises InputError where there is none."""
    return from_stored(load_run(run_dir), str(run_dir), backend)


def from_stored(run: StoredRun, place: str, backend: str = "") -> RunView:
    """A run as the store read it, or what it says of one of its backends."""
    uses: dict[str, Counter[str]] = {}
    for row in run.rows:
        for use in row.uses:
            uses.setdefault(row.op_id, Counter())[plain(use.model)] += 1
    tests = (
        {name: plain(getattr(test, name, None)) for name in TAKEN}
        | {"types": signature(test.inputs, test.outputs), "compile_seconds": compile_seconds(test)}
        | {"cause": cause_of_test(test)}
        | {"op_params": plain(test.op_params), "structure": test.structure}
        for test in run.tests
        if backend in ("", test.backend)
    )
    tested = {test.op_id for test in run.tests}
    described = ("op_id", "op_name", "unsplittable")
    untested = [
        {name: plain(getattr(row, name)) for name in described}
        | {"op_kind": "", "signature": signature(row.inputs, row.outputs)}
        for row in run.rows
        if row.op_id not in tested
    ]
    record = run.record
    return _filled(
        RunView(
            record.run_id,
            place,
            backend or record.backend,
            record.arch,
            record.started,
            record.outcome,
            plain({**record.origin.model_dump(), "compiler": compiler_of(record)}),
            imports=plain({check.model: check.text for check in run.header.imports if check.fails_run}),
            climbs=frozenset(tuple(plain(time.stage) for time in test.stages) for test in run.tests),
            asked=tuple(plain(failure.model) for failure in run.header.failed),
        ),
        plain(list(run.header.module_ops)),
        tests,
        untested,
        uses,
        [(plain(columns_of(test)), test.structure) for test in run.whole if backend in ("", test.backend)],
    )


# --- from the database


def from_database(connection: sa.Connection, run_id: str, where: str = "RUN", backend: str = "") -> RunView:
    """The run of that id, or what it says of one of its backends.

    Raises InputError, with the closest id, where there is none.
    """
    run = connection.execute(sa.select(RUNS).where(RUNS.c.run_id == run_id)).mappings().one_or_none()
    if run is None:
        raise no_such_run(connection, run_id, where)
    models_of_run = sa.select(MODELS.c.model, MODELS.c.module_id, MODELS.c.outcome).where(MODELS.c.run_id == run_id)
    asked = connection.execute(models_of_run.order_by(MODELS.c.position)).all()
    modules = {row.model: row.module_id for row in asked if row.outcome == RAN}
    which = Selected(_OF_BACKEND if backend else _OF_RUN, {"of_run": run_id, "of_backend": backend})
    if not isinstance(run["options"], dict):
        raise InputError(
            where, f"the options of run `{run_id}`", cut(str(run["options"]), 80), "publishing the run again"
        )
    view = RunView(
        run_id,
        "database",
        backend or run["backend"],
        run["arch"],
        run["started"],
        run["outcome"],
        run,
        imports=imports_of(connection, [run_id]),
        asked=tuple(row.model for row in asked if row.outcome != RAN),
    )
    return with_ops(connection, view, modules, which, rows_of_run(connection, run_id, backend))


def no_such_run(connection: sa.Connection, run_id: str, where: str, or_else: str = "") -> InputError:
    """The error about a run that the database does not have; `or_else`: what the name could have been too."""
    run_ids = connection.scalars(sa.select(RUNS.c.run_id)).all()
    hint = closest(run_id, run_ids, 3) if run_ids and not release_in(run_id) else how_to_publish(run_id)
    return InputError(where, f"{or_else}a run folder or the id of a published run", f"`{run_id}`", hint)


class Selected(NamedTuple):
    """Rows of `op_tests`: a condition, which is there once for all that ask by it, and its parameters."""

    condition: sa.ColumnElement[bool]
    values: Mapping[str, Any]


_OF_RUN = (OP_TESTS.c.run_id == sa.bindparam("of_run")) & (OP_TESTS.c.superseded_by != sa.bindparam("of_run"))
_OF_BACKEND = _OF_RUN & (OP_TESTS.c.backend == sa.bindparam("of_backend"))


class _Selects(NamedTuple):
    """What is asked of the rows of `op_tests` that a condition selects."""

    tests: sa.Select[*tuple[Any, ...]]
    params: sa.Select[*tuple[Any, ...]]
    """Parameters of the ops that are not right."""
    structures: sa.Select[*tuple[Any, ...]]
    climbs: sa.Select[*tuple[Any, ...]]


@cache
def _selects(which: sa.ColumnElement[bool]) -> _Selects:
    tests = sa.select(*(OP_TESTS.c[name] for name in TAKEN), OP_TESTS.c.cause, OPS.c.signature)
    tests = tests.join(OPS, OPS.c.op_id == OP_TESTS.c.op_id).where(which).order_by(OP_TESTS.c.op_id)
    params = sa.select(OPS.c.op_id, OPS.c.op_params).join(OP_TESTS, OPS.c.op_id == OP_TESTS.c.op_id)
    first = sa.select(sa.func.min(OP_TESTS.c.op_id)).where(which).group_by(OP_TESTS.c.stage_reached)
    return _Selects(
        tests,
        params.where(which, OP_TESTS.c.status != str(Status.SUCCESS)),
        _structures_of(OP_TESTS).where(which),
        sa.select(OP_TESTS.c.stages).where(which, OP_TESTS.c.op_id.in_(first)),
    )


def with_ops(
    connection: sa.Connection,
    run: RunView,
    modules: Mapping[str, str | None],
    which: Selected,
    programs: Sequence[Row],
) -> RunView:
    """The run with the op tests that `which` selects, the uses of `modules` (model -> module), and its models as one
    program, rows of `whole_models`."""
    renamed = aliases(connection)
    tests = _tests(connection, which)
    for test in tests:
        test["op_id"] = renamed.get(test["op_id"], test["op_id"])
    uses: dict[str, dict[str, int]] = {}
    models: dict[str, list[str]] = {}
    for model, module_id in modules.items():
        if module_id is not None:
            models.setdefault(module_id, []).append(model)
    for piece in pieces_of(list(models)):
        for module_id, op_id, count in connection.execute(_USES, {"piece": piece}).all():
            key = renamed.get(str(op_id), str(op_id))
            for model in models[module_id]:
                uses.setdefault(key, {})[model] = count
    tested = {test["op_id"] for test in tests}
    untested = _untested(connection, [op_id for op_id in uses if op_id not in tested])
    run = replace(run, climbs=climbs_of(connection, which), notes=read_notes(connection))
    return _filled(run, modules, tests, untested, uses, _programs_of(connection, programs))


PIECE = sa.bindparam("piece", expanding=True)
_USES = sa.select(MODULE_OPS.c.module_id, MODULE_OPS.c.op_id, MODULE_OPS.c.uses).where(
    MODULE_OPS.c.module_id.in_(PIECE)
)
_DESCRIBED = sa.select(OPS.c.op_id, OPS.c.op_name, OPS.c.op_kind, OPS.c.signature, OPS.c.unsplittable).where(
    OPS.c.op_id.in_(PIECE)
)


def climbs_of(connection: sa.Connection, which: Selected) -> frozenset[tuple[str, ...]]:
    """The stages that ops climbed, in their order: those of one op for each stage that ops reached."""
    climbs = connection.scalars(_selects(which.condition).climbs, which.values)
    return frozenset(tuple(str(time["stage"]) for time in stages or ()) for stages in climbs)


def imports_of(connection: sa.Connection, run_ids: Sequence[str]) -> dict[str, str]:
    """`RunView.imports` of some runs; of a model in several of them what the last one says."""
    checked = connection.execute(_CHECKED, {"piece": run_ids}).mappings()
    rows = sorted(checked, key=lambda row: run_ids.index(row["run_id"]))
    newest = {row["model"]: row for row in rows}
    red = (row for row in newest.values() if import_fails(row["import_status"], row["import_expected"]))
    return {row["model"]: row["import_text"] for row in red}


_CHECKED = sa.select(MODELS).where(MODELS.c.run_id.in_(PIECE), MODELS.c.import_status != "")
_ALIASES = sa.select(OP_ALIAS)


def aliases(connection: sa.Connection) -> dict[str, str]:
    """Old id of an op -> the id under which its history continues."""
    return {str(row.old_id): str(row.new_id) for row in connection.execute(_ALIASES)}


def _tests(connection: sa.Connection, which: Selected) -> list[dict[str, Any]]:
    names, selects = (*TAKEN, "cause", "types"), _selects(which.condition)
    tests: list[dict[str, Any]] = [
        dict(zip(names, row, strict=True)) for row in connection.execute(selects.tests, which.values).all()
    ]
    params_of_ops = {row[0]: row[1] for row in connection.execute(selects.params, which.values)}
    for test in tests:
        if test["status"] not in STATUSES:
            raise DamagedValueError(f"status of {test['op_id']}: expected one of a record, got {test['status']!r:.80}")
        for name in NUMBERS:
            if not isinstance(test[name], int | float | None):
                raise DamagedValueError(f"{name} of {test['op_id']}: expected a number, got {test[name]!r:.80}")
        test["op_params"] = params_of_ops.get(test["op_id"], {})
    structures = _structures(connection, selects.structures, which.values)
    of_ops = {(op_id, backend): structure for (_, op_id, backend), structure in structures.items()}
    for test in tests:
        test["structure"] = of_ops.get((test["op_id"], test["backend"]))
    return tests


def _programs_of(connection: sa.Connection, rows: Sequence[Row]) -> list[tuple[Row, Structure | None]]:
    """Rows of `whole_models`, each with what is in its program."""
    if not rows:
        return []
    run_ids = sorted({row["run_id"] for row in rows})
    structures = _structures(connection, _OF_PROGRAMS, {"piece": run_ids})
    return [(row, structures.get((row["run_id"], row["op_id"], row["backend"]))) for row in rows]


def _structures_of(of: sa.Table) -> sa.Select[*tuple[Any, ...]]:
    """What is in the programs of the rows of a table."""
    keys = ("run_id", "op_id", "backend")
    return sa.select(STRUCTURES).join(of, sa.and_(*(of.c[name] == STRUCTURES.c[name] for name in keys))).distinct()


_OF_PROGRAMS = _structures_of(WHOLE_MODELS).where(WHOLE_MODELS.c.run_id.in_(PIECE))


def _structures(
    connection: sa.Connection, query: sa.Select[*tuple[Any, ...]], values: Mapping[str, Any]
) -> dict[tuple[str, str, str], Structure]:
    """Run, op id and backend -> what is in the program."""
    found: dict[tuple[str, str, str], list[tuple[str, str, str, int]]] = {}
    for row in connection.execute(query, values):
        found.setdefault((row.run_id, row.op_id, row.backend), []).append((row.part, row.name, row.place, row.number))
    try:
        return {key: structure_from(of) for key, of in found.items()}
    except ValidationError as error:
        raise DamagedValueError(f"structures: expected counts, got {error.errors()[0]['msg']}") from error


def _untested(connection: sa.Connection, op_ids: list[str]) -> list[Mapping[Any, Any]]:
    rows: list[Mapping[Any, Any]] = []
    for piece in pieces_of(op_ids):
        rows.extend(connection.execute(_DESCRIBED, {"piece": piece}).mappings())
    return rows


def pieces_of(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yields the names in pieces that fit into one statement."""
    for start in range(0, len(names), LIMIT):
        yield names[start : start + LIMIT]


# --- rows of either


def _filled(
    run: RunView,
    models: Iterable[str],
    tests: Iterable[Mapping[Any, Any]],
    untested: Iterable[Mapping[Any, Any]],
    uses: Mapping[str, Mapping[str, int]],
    programs: Iterable[tuple[Mapping[Any, Any], Structure | None]],
) -> RunView:
    """The run with its ops and what follows from them; a series and a day that are not given are those of backend,
    board and options, and of its start in UTC. `untested` ops have no test: no module could be made of them, or they
    were not reached (yet). `programs`: rows of `whole_models`, each with what is in its program."""
    outcomes: dict[str, Outcome] = {}
    cards = set()
    for test in tests:
        cards.add(test["card_type"])
        outcome, other = _outcome(test, dict(uses.get(test["op_id"], {}))), outcomes.get(test["op_id"])
        if other is None or not other.bad:  # of several backends, one on which it went wrong speaks for the op
            outcomes[test["op_id"]] = outcome
    for op in untested:
        lost = bool(op["unsplittable"])
        outcomes[op["op_id"]] = Outcome(
            op["op_id"],
            op["op_name"],
            op["op_kind"] or "other",
            op["signature"],
            UNSPLITTABLE if lost else str(Status.NOT_RUN),
            str(Stage.SPLIT),
            failed_stage=str(Stage.SPLIT) * lost,
            cause=cause_of(UNSPLITTABLE, Stage.SPLIT, op["op_name"], "") * lost,
            error=op["unsplittable"] or "",
            uses_of=dict(uses.get(op["op_id"], {})),
        )
    return replace(
        run,
        models=tuple(sorted(models)),
        ops=outcomes,
        origin={name: run.origin[name] for name in ORIGIN},
        series=run.series or series_text(run.backend, run.arch, run.origin["options"]),
        board=board_of(cards, run.arch),
        day=run.day or f"{run.started:%Y-%m-%d}",
        programs=_programs(programs, outcomes),
    )


def _programs(
    rows: Iterable[tuple[Mapping[Any, Any], Structure | None]], ops: Mapping[str, Outcome]
) -> dict[str, Outcome]:
    programs: dict[str, Outcome] = {}
    for row, structure in rows:
        model, other = row["model"], programs.get(row["model"])
        if other is None or not other.bad:  # as of an op on several backends
            of_model = {
                "op_name": WHOLE_MODEL,
                "op_kind": FAMILY_OF_MODELS,
                "types": "",
                "cause": cause_of_program(row),
            }
            found = {**row, **of_model, "cause": cause_of_program(row), "structure": structure}
            programs[model] = _outcome(found, {model: 1})
    return programs | {model: op for op in ops.values() if op.op_name == WHOLE_MODEL for model in op.uses_of}


def _outcome(test: Mapping[Any, Any], uses: Mapping[str, int]) -> Outcome:
    own = {name: test[column] for name, column in COLUMN_OF.items() if test.get(column) is not None}
    status = str(test["status"])
    error = "" if status == PASSED else test["error_message"] or test.get("crash_kind") or ""
    return Outcome(**own | {"op_kind": test["op_kind"] or "other", "status": status, "error": error, "uses_of": uses})
