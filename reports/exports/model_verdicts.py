"""Verdicts of models as rows of an export: what fails a run although every op of it is right.

A model that was not prepared, one whose import differs from its own framework, and one that ran as one program before
its ops each have a row of their own, from a run folder as from the database; so has a run whose ledger does not add up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from opscope.base.digest import words_digest
from opscope.harness.record import ledger, store
from opscope.harness.record.records import WHOLE_MODEL, OpTest
from opscope.harness.record.stages import FAILED, ImportStatus, ModelStatus, Stage, Status, failed_status
from opscope.harness.record.store import StoredRun
from opscope.reports.compare.outcomes import RunView
from opscope.reports.database.rows import RAN
from opscope.reports.database.schema import MODELS
from opscope.reports.database.whole_models import rows_of_run
from opscope.reports.records.columns import plain

EXPORT, IMPORT, LEDGER = "model.export", "model.import", "run.ledger"
"""Names of the rows, where those of ops have the op's."""

FAMILY = "whole_model"

BY_IMPORT = {
    ImportStatus.AGREES: Status.SUCCESS,
    ImportStatus.DIFFERS: failed_status(Stage.COMPARE),
    ImportStatus.NOT_CHECKED: Status.SKIPPED,
}

BY_MODEL = {ModelStatus.FRAMEWORK_MISSING: Status.SKIPPED, ModelStatus.NOT_RUN: Status.NOT_RUN}
"""Status of a model that was not prepared -> that of its row; every other one has failed."""


def from_stored(view: RunView, run: StoredRun, folder: Path) -> list[OpTest]:
    """The rows of a run folder."""
    books = ledger.by_backend(run.header, run.rows, run.tests, run.record.backend.split(","))
    return [
        *_exports(view, ((failure.model, failure.status, failure.error) for failure in run.header.failed)),
        *_imports(view, ((check.model, check.status, check.text, check.expected) for check in run.header.imports)),
        *store.whole_tests(folder),
        *([] if all(map(_adds_up, books.values())) else [_lost(view)]),
    ]


def from_database(view: RunView, connection: sa.Connection, tested: Collection[str]) -> list[OpTest]:
    """The rows of a published run; a model as one program that is among its ops, `tested`, has none."""
    of_run = sa.select(MODELS).where(MODELS.c.run_id == view.run_id).order_by(MODELS.c.position)
    models = connection.execute(of_run).mappings().all()
    whole = rows_of_run(connection, view.run_id)
    return [
        *_exports(view, ((row["model"], row["outcome"], row["reason"]) for row in models if row["outcome"] != RAN)),
        *_imports(
            view,
            (
                (row["model"], row["import_status"], row["import_text"], row["import_expected"])
                for row in models
                if row["import_status"]
            ),
        ),
        *(_whole(view, row) for row in whole if row["op_id"] not in tested),
    ]


def _adds_up(books: Any) -> bool:
    """Whether no op is lost; one that was not reached has a row that says so."""
    return books.adds_up or sum(books.by_status.values()) < books.unique


def _exports(view: RunView, failures: Iterable[tuple[str, str, str]]) -> Iterator[OpTest]:
    for model, outcome, error in failures:
        status = BY_MODEL.get(ModelStatus(outcome), Status.COMPILE_FAILED)
        yield _row(view, EXPORT, model, status, f"{outcome}: {error}", failed_stage=Stage.SPLIT)


def _imports(view: RunView, checks: Iterable[tuple[str, str, str, str]]) -> Iterator[OpTest]:
    for model, outcome, text, expected in checks:
        status = BY_IMPORT[ImportStatus(outcome)]
        yield _row(view, IMPORT, model, status, text, expected=expected, failed_stage=Stage.COMPARE)


def _whole(view: RunView, row: Mapping[Any, Any]) -> OpTest:
    names = ("op_id", "backend", "stage_reached", "failed_stage", "expected", "pcc", "ran_on", "error_signature")
    known = {name: row[name] for name in names}
    return _row(view, WHOLE_MODEL, row["model"], Status(row["status"]), row["error_message"] or "", **known)


def _lost(view: RunView) -> OpTest:
    error = "the counts do not add up: an op of the manifest or of a model is lost"
    return _row(view, LEDGER, "", Status.CRASHED, error)


def named(view: RunView, op_id: str, name: str) -> dict[str, Any]:
    """The fields by which a row that is no record of the run is known, as a record's are."""
    return {
        "run_id": view.run_id,
        "op_id": op_id,
        **dict.fromkeys(("test_case_name", "full_test_name"), name),
        **dict.fromkeys(("test_start_ts", "test_end_ts"), view.started),
        "backend": view.backend,
        "arch": view.arch,
    }


def _row(view: RunView, what: str, model: str, status: Status, error: str, **more: Any) -> OpTest:
    """A row of `model`, with an id that it has in every run."""
    fields = {
        **named(view, words_digest(what, model, digits=16), f"{what}[{model}]"),
        "success": status is Status.SUCCESS,
        "skipped": status is Status.SKIPPED,
        "model_name": model,
        "models": (model,) if model else (),
        "op_kind": FAMILY,
        "op_name": what,
        "status": status,
        "error_message": None if status is Status.SUCCESS else error,
        "stage_reached": Stage.SPLIT,
        **more,
    }
    fields["failed_stage"] = fields.get("failed_stage") if status in FAILED else None
    return OpTest.model_validate(plain(fields))
