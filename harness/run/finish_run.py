"""Finishes a run: gives every op of the manifest a record, and checks that the ledger adds up."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

from opscope.base.damage import Damaged
from opscope.harness.cache import export_folder
from opscope.harness.climb import budget, doubts, keeping, result_cache
from opscope.harness.limitations import limitation_file, limitation_notes
from opscope.harness.limitations.limitations import Limitation
from opscope.harness.page.summary import Run
from opscope.harness.record import artifacts, isolation, ledger, one_failure, store
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import RunContext, backend_label, now, unrun_test
from opscope.harness.record.records import OpRow, OpTest
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.selection import DESELECTED, kills, unmatched_globs
from opscope.harness.record.stages import ModelStatus, Status
from opscope.harness.record.store import StoredRun
from opscope.harness.record.workflows import FULL, SPLIT, workflow
from opscope.harness.run import kept_verdicts, whole_models
from opscope.harness.run.plan import RunPlan, nodeid
from opscope.harness.scale.shard import ELSEWHERE

REPORT = "report.html"
"""The report of a run, which `reports` writes into the run folder."""

_CLOCKS = 60.0
"""Seconds by which the clock of a file system may differ."""

WRITER = "controller"
"""Journal segment of the records that no lane wrote."""


@dataclass(frozen=True)
class Closed:
    """A finished run. `problem` describes what is wrong with its records, and is empty if nothing is."""

    run: Run | None
    problem: str = ""
    stored: StoredRun | None = None
    """The run as read from its folder now."""
    attempts: Sequence[OpTest] = ()
    """All of its records, including those that a later attempt replaced."""


def close(plan: RunPlan, selected: set[str] | None, *, interrupted: bool) -> Closed:
    """Writes a record for every op without one, then the outcome of the run.

    `selected` holds the ids of the selected tests; None means that the run ended before the selection. If the disk
    refuses the records, the page is still made from the journal. Raises InputError if the run folder cannot be read.
    """
    stored, attempts = store.load_attempts(plan.run_dir, (plan.header, plan.rows))
    recorded = {(test.op_id, test.backend) for test in stored.tests}
    unrun = [
        _unrun(row, side, selected)
        for side in plan.sides()
        for row in plan.rows
        if row.module is not None and (row.op_id, backend_label(side.orders.context.backend)) not in recorded
    ]
    # Ops without goldens are their model's failure: the run has not been interrupted.
    lost = {failure.model for failure in plan.header.failed}
    missing = [
        test for test in (*stored.tests, *unrun) if test.status is Status.NOT_RUN and test.model_name not in lost
    ]
    unprepared = any(failure.status is ModelStatus.NOT_RUN for failure in plan.header.failed)
    doubted = list(doubts.found_later(stored.tests))
    _drop_verdicts_of_one_text(plan, stored)
    outcome = "out_of_budget" if missing or unprepared else "complete"
    killed = bool(kills([*stored.tests, *store.whole_models(plan.run_dir, ())], plan.header.failed))
    if interrupted or killed or not all(budget.left_out(test) for test in missing):
        outcome = "interrupted"
    record = stored.record.model_copy(update={"ended": now(), "outcome": outcome})
    problem = ""
    try:
        with store.Journal(plan.run_dir, WRITER) as journal:
            for test in (*doubted, *unrun):
                journal.append(test)
        store.write_run(plan.run_dir, record)
    except InputError as error:
        problem = str(error)
    tests = store.in_order(stored.rows, store.latest([*stored.tests, *doubted]))
    run = stored._replace(record=record, tests=[*tests, *unrun])
    try:
        name = plan.orders.context.options.workflow
        held = {op.op_id for test in isolation.failed_pieces(run.tests) for op in test.holds}
        if name == FULL or held:
            whole_tests = store.whole_models(plan.run_dir, run.tests)
            alone = _kept_alone(plan, held or None)
            isolation.write(plan.run_dir, isolation.between(plan.run_dir, whole_tests, run.tests, alone))
    except InputError as error:
        problem = problem or str(error)
    notes = (
        *map(str, unmatched_globs(plan.rows, plan.orders.globs)),
        *limitation_notes.notes(run, _rows(plan)),
        *kept_verdicts.notes(plan, run.tests, bool(record.origin.options.get("explain_kept"))),
    )
    page = replace(page_of(run, plan.run_dir), notes=notes)
    if not all(books.adds_up for books in page.ledgers.values()):
        problem = "the counts do not add up: an op of the manifest or of a model is lost"
    return Closed(page, problem, run._replace(tests=store.in_order(run.rows, run.tests)), [*attempts, *doubted, *unrun])


def _drop_verdicts_of_one_text(plan: RunPlan, run: StoredRun) -> None:
    """Removes the kept verdicts of a backend that has failed every op with one text: it may not work here at all."""
    for side in plan.sides():
        label = backend_label(side.orders.context.backend)
        if one_failure.failure_of_all(test for test in run.tests if test.backend == label) is not None:
            since = run.record.started.timestamp() - _CLOCKS
            keeping.drop(side.orders.caches, run.record.run_id, label, since)


def _kept_alone(plan: RunPlan, wanted: Set[str] | None = None) -> dict[tuple[str, str], OpTest]:
    """Kept verdicts of the ops of a run's models, or of those that are `wanted`, when they run alone."""
    tests: dict[tuple[str, str], OpTest] = {}
    folders = {model: str(export_folder.base_of(Path(folder))) for model, folder in plan.folders.items()}
    for side in plan.sides():
        orders = side.orders
        ready = orders.ready or result_cache.recall(orders.caches, orders.context)
        if ready is None or orders.doubted:
            continue
        options = orders.context.options
        for types in dict.fromkeys((workflow(SPLIT).unsupported_types, options.unsupported_types)):
            alone = options.changed(workflow=SPLIT, unsupported_types=types)
            context = replace(orders.context, options=alone)
            cache = result_cache.ResultCache(orders.caches, context, ready, folders)
            for folder in folders.values():
                for row in _rows_of(Path(folder)):
                    if wanted is not None and row.op_id not in wanted:
                        continue
                    key = (row.op_id, backend_label(context.backend))
                    test = cache.find(row) if key not in tests and row.module is not None else None
                    if test is not None:
                        tests[key] = test
    return tests


def _rows_of(folder: Path) -> list[OpRow]:
    """The rows of an export folder; none if it has become damaged meanwhile, and the next run makes it again."""
    try:
        return export_folder.read_manifest(folder)[1]
    except Damaged:
        return []


def _rows(plan: RunPlan) -> tuple[Limitation, ...]:
    """The expected failures of a run; none if the file has become invalid meanwhile."""
    try:
        return limitation_file.all_rows(plan.orders.limitations)
    except InputError:
        return ()


def _unrun(row: OpRow, plan: RunPlan, selected: set[str] | None) -> OpTest:
    """The record of an op that no lane ran."""
    if not plan.owns(row):
        return unrun_test(row, plan.orders.context, Status.SKIPPED, ELSEWHERE)
    if plan.ran_whole(row):
        return unrun_test(row, plan.orders.context, Status.SKIPPED, whole_models.SPARED)
    deselected = selected is not None and nodeid(row, plan.tag) not in selected
    if deselected:
        return unrun_test(row, plan.orders.context, Status.SKIPPED, DESELECTED)
    return unrun_test(row, plan.orders.context, Status.NOT_RUN, "the run ended before this op")


def page_of(run: StoredRun, run_dir: Path) -> Run:
    """The page of a stored run. Ops without a record, because the run was killed, count as not_run."""
    recorded = {(test.op_id, test.backend) for test in run.tests}
    backends = run.record.backend.split(",")
    options = ResultOptions.of_run(run.record)
    lost = [
        unrun_test(
            row,
            RunContext(run.record.run_id, str(run_dir), backend, options),
            Status.NOT_RUN,
            "the run ended before this op",
        )
        for backend in backends
        for row in run.rows
        if row.module is not None and (row.op_id, backend) not in recorded
    ]
    tests = [*run.tests, *lost]
    books = ledger.by_backend(run.header, run.rows, tests, backends)
    models = store.whole_models(run_dir, tests)
    differ = isolation.of_run(run_dir, models, tests)
    return Run(run.record, run.header, run.rows, tests, books, whole=models, isolation=differ)


def stored_page(run_dir: Path, alone: Path | None = None) -> Run:
    """The page of a run folder.

    `alone` is another run, whose ops ran alone and are compared with the models of this one. Raises InputError if a
    folder holds no run, or a run with another schema.
    """
    run = store.load_run(run_dir)
    artifacts.check(run_dir, run.record.run_id)
    page = page_of(run, run_dir.resolve())
    if alone is not None:
        by_op = isolation.by_op(store.load_run(alone).tests)
        page = replace(page, isolation=isolation.between(run_dir, page.whole, page.tests, by_op))
    run_dir = run_dir.resolve()
    report = {"report": str(run_dir / REPORT)} if (run_dir / REPORT).is_file() else {}
    return replace(page, places={"run": str(run_dir), **report}, folder=Path.cwd())
