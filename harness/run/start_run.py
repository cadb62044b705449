"""Makes the plan of a run: prepares the models and writes the run folder while lanes load their backends."""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from opscope.base import damage, machine
from opscope.base.children.slots import SlotFile
from opscope.base.file_names import as_text
from opscope.base.results_folder import make_folder
from opscope.harness.cache import export_folder
from opscope.harness.cache.claims import Claims
from opscope.harness.climb import result_cache
from opscope.harness.import_check import hold
from opscope.harness.lanes.flight import Ready
from opscope.harness.limitations import limitation_file
from opscope.harness.limitations.import_rows import judged_import
from opscope.harness.prepare.allowance import Allowance
from opscope.harness.prepare.whole_manifest import of_models
from opscope.harness.programs import derived_exports
from opscope.harness.record import artifacts, run_folders, store
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import backend_label, now
from opscope.harness.record.records import ImportCheck, ManifestHeader, OpRow, RunRecord
from opscope.harness.record.result_options import OPTIONS, ResultOptions
from opscope.harness.record.selection import find_op_ids, refuse_unmatched, unmatched_globs
from opscope.harness.record.workflows import FULL, SPLIT, WORKFLOWS
from opscope.harness.run import resume, server_ahead, whole_models
from opscope.harness.run.plan import MAIN, AnyLane, RunPlan, lane_of
from opscope.harness.run.process_plan import Orders, growing, mending, orders_of, settled, shared
from opscope.harness.run.progress import Event
from opscope.harness.run.request import Request, to_prepare
from opscope.harness.scale import costs, shard

if TYPE_CHECKING:
    from opscope.harness.prepare.preparation import Preparation, Task
    from opscope.harness.run.preparing import Preparing

FROM_THE_RUN = ("backend", *OPTIONS, "op_timeout", "op_memory")
"""Settings that an op of an earlier run takes from that run, unless they are given again."""

Making: TypeAlias = Generator[None, None, tuple[RunPlan, list[AnyLane]]]
"""Makes a run's plan and lanes."""


def make(
    request: Request,
    report: Callable[[Event], None],
    command_line: Sequence[str],
    dry: bool,
    claims: Claims,
    at_once: int = 1,
) -> Making:
    """Prepares the requested run, `at_once` models side by side, and writes the run folder; with `dry`, writes nothing.

    It yields once, as soon as exporters are at work if there are any: what is to start beside them starts then. Closing
    it there ends them.

    Each backend has accepted its options: in its lane, or in an earlier one if nothing has changed since. The lanes are
    in the order of `RunPlan.sides`. `claims` holds the folders that the run needs. Raises InputError for any bad input.
    """
    if request.models:
        return (yield from _from_models(request, report, command_line, dry, claims, at_once))
    yield
    if request.resume is not None:
        return _resumed(request, request.resume, report, dry, claims, at_once)
    plan = from_run(request)
    if not dry:
        lock(plan.run_dir, claims, "--op")
        _unseal(plan.run_dir, plan.orders.context.run_id)
    for folder in map(Path, plan.header.export_dirs):
        claims.hold(folder)
    export_folder.refuse_removed(plan.header, plan.selected(), plan.run_dir, "--op")
    lanes = [side.lane(side.writer(MAIN)) for side in plan.sides()]
    try:
        for lane in lanes:
            lane.ready()
    except BaseException:
        _close(lanes)
        raise
    return plan, lanes


def _from_models(
    request: Request,
    report: Callable[[Event], None],
    command_line: Sequence[str],
    dry: bool,
    claims: Claims,
    at_once: int,
) -> Making:
    """Makes the plan of a new run, while lanes load their backends if these are needed."""
    from opscope.harness.prepare import prepare_models
    from opscope.harness.prepare.preparation import tasks

    for line in request.notes:
        damage.say(line)
    started = now()
    preparation = to_prepare(request, started=started.timestamp())
    named = request.named or tasks(preparation)
    measured = costs.from_option(request.settings["shard_costs"], request.folder)
    run_dir = request.run_dir or run_folders.default_run_dir([t.name for t in named], started, request.folder)
    if (run_dir / store.RUN_FILE).exists():
        raise _taken(run_dir)
    for where, folder in (("--run-dir", run_dir), ("cache folder", export_folder.cache_dir(preparation.cache_dir))):
        if as_text(place := str(folder)) != place:
            hint = "a UTF-8 locale (PYTHONUTF8=1), or another folder"
            raise InputError(where, "a folder whose name is text in this locale", repr(as_text(place)), hint)
    orders = orders_of(request, f"{started:%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:8]}", run_dir, request.settings.values)
    orders = mending(orders, preparation)
    preparing: Preparing | None = None
    if not dry:
        _claim(run_dir, claims)
    sides = RunPlan(orders, ManifestHeader(models=(), export_dirs=(), module_ops={}, structural={}), ()).sides()
    folders = {task.name: task.folder for task in named}
    lanes = [lane_of(side.orders, folders, side.writer(MAIN), dry) for side in sides]
    cached = not request.settings["no_cache"]
    try:
        climbs_early = not dry and _climbs_early(request)
        recalled = _recalled_ready(sides, lanes, cached, start=not climbs_early)
        listener = server_ahead.loading_lanes(lanes, recalled, report, exporters_first=climbs_early)
        if climbs_early:
            preparing = _preparing(preparation, claims, run_dir, at_once, orders)
        yield
        if preparing is not None:
            early = preparing.split(listener)
            header, rows = early or preparing.finish(listener)
            ready = _ready(sides, lanes, recalled)
            if early is not None:
                slots = preparing.slots if orders.cluster is None else None  # ops run elsewhere
                orders = growing(orders, preparing.announcements(header.unfinished), rows, at_once, slots)
        else:
            diagnostics = None if dry else run_dir / artifacts.ARTIFACT_DIR
            if orders.cluster is None or dry:
                header, rows = prepare_models.prepare(preparation, listener, claims, diagnostics, at_once)
            else:
                header, rows = _walked_there(preparation, listener, claims, run_dir, orders)
            imports = () if dry else _imports(named, header, claims, report, orders.limitations, at_once)
            ready = _ready(sides, lanes, recalled)
            header, rows = _by_workflow(orders, ready, header, rows, report, claims, preparation.allowance)
            header = header.model_copy(update={"imports": imports})
        folders.update(zip(header.models, header.export_dirs, strict=True))
        refuse_unmatched(rows, request.ops)
        for unmatched in unmatched_globs(rows, request.ops):
            damage.say(str(unmatched))
        share = shard.share(rows, request.settings["shard"], measured) if request.settings["shard"] else None
        if share is not None:
            orders = shared(orders, share)
        if request.settings["op_by_op_on_fail"] and not dry:
            orders = _whole(orders, ready, header, run_dir, report, request.settings.values, cached)
        orders = settled(orders, request, rows, ready, cached, started)
        plan = RunPlan(orders, header, rows, preparing=preparing if header.unfinished else None)
        if not dry:
            if share is not None:
                shard.write(run_dir, share)
            _write(plan, request, started, command_line, ready)
    except BaseException:
        if preparing is not None:
            preparing.stop()
        _close(lanes)
        if not dry:
            _abandon(run_dir)
        raise
    return plan, lanes


def _climbs_early(request: Request) -> bool:
    """Whether ops of a new run are climbed while goldens of others are made.

    Not where all goldens are needed first, for a model as a whole. Which ops are a share of a sweep is known from the
    split.
    """
    return request.settings["workflow"] == SPLIT and not request.settings["op_by_op_on_fail"]


def _walked_there(
    preparation: Preparation, report: Callable[[Event], None], claims: Claims, run_dir: Path, orders: Orders
) -> tuple[ManifestHeader, list[OpRow]]:
    """The manifest of a run's models, all of them prepared with the workers of its cluster. Raises InputError, and what
    `report` raises."""
    preparing = _preparing(preparation, claims, run_dir, 1, orders, checks=False)
    try:
        return preparing.finish(report)
    except BaseException:
        preparing.stop()
        raise


def _preparing(
    preparation: Preparation, claims: Claims, run_dir: Path, at_once: int, orders: Orders, checks: bool = True
) -> Preparing:
    """The preparation of a run's models, begun; with `checks`, their imports are checked then. On a cluster,
    this machine exports and splits models on each of its processors, and workers walk them. Raises InputError."""
    from opscope.harness.run.preparing import Preparing

    walks = None
    if orders.cluster is not None:
        from opscope.harness.scale.walks import Walks

        at_once = machine.processors()
        walks = Walks(orders.cluster, orders.context.run_id, at_once)

    def imports(
        named: Sequence[Task],
        header: ManifestHeader,
        report: Callable[[Event], None],
        stop: Callable[[], bool],
        slots: SlotFile | None,
    ) -> tuple[ImportCheck, ...]:
        return _imports(named, header, claims, report, orders.limitations, at_once, stop, slots) if checks else ()

    try:
        return Preparing(preparation, claims, run_dir, run_dir / artifacts.ARTIFACT_DIR, at_once, imports, walks)
    except OSError as error:
        raise store.refused(run_dir, error) from error


def completed(plan: RunPlan, report: Callable[[Event], None]) -> RunPlan:
    """The plan once all of its models are prepared and checked against their frameworks; its manifest is written again.

    Raises InputError, and what `report` raises.
    """
    assert plan.preparing is not None
    header, rows = plan.preparing.finish(report, (plan.header, list(plan.rows)))
    plan = replace(plan, header=header, rows=rows, preparing=None)
    store.write_manifest(plan.run_dir, export_folder.below(plan.orders.caches, header), rows)
    return plan


def _imports(
    named: Sequence[Task],
    header: ManifestHeader,
    claims: Claims,
    report: Callable[[Event], None],
    own_limitations: str | None,
    at_once: int,
    stop: Callable[[], bool] = lambda: False,
    slots: SlotFile | None = None,
) -> tuple[ImportCheck, ...]:
    """Each model's check against its own framework, and whether a limitation names it."""
    rows = limitation_file.all_rows(own_limitations)
    return tuple(judged_import(check, rows) for check in hold.hold(named, header, claims, report, at_once, stop, slots))


def _by_workflow(
    orders: Orders,
    ready: Sequence[Ready],
    header: ManifestHeader,
    rows: list[OpRow],
    report: Callable[[Event], None],
    claims: Claims,
    allowance: Callable[[], Allowance],
) -> tuple[ManifestHeader, list[OpRow]]:
    """Returns the manifest for the run's workflow, derived from the models' own within an `allowance` for each."""
    workflow = orders.context.options.workflow
    if workflow == FULL:
        return of_models(header)
    if WORKFLOWS[workflow].of_ttnn:
        return derived_exports.derive(
            workflow, header, orders.context, ready[0], orders.caches, report, claims, allowance
        )
    return header, rows


def _whole(
    orders: Orders,
    ready: Sequence[Ready],
    header: ManifestHeader,
    run_dir: Path,
    report: Callable[[Event], None],
    settings: Mapping[str, Any],
    cached: bool,
) -> Orders:
    """Runs the models as whole programs, and returns the orders for the ops of those that failed."""
    sides = RunPlan(orders, header, ()).sides()
    options = ResultOptions.of({**settings, "workflow": FULL})
    whole_models.run(sides, ready, header, run_dir, report, options, cached=cached)
    models = whole_models.ran(store.whole_tests(run_dir))
    return replace(orders, whole=models, others=tuple(replace(other, whole=models) for other in orders.others))


def _claim(run_dir: Path, claims: Claims) -> None:
    """Creates the run folder and locks it before a model is exported. Raises InputError if it cannot be written, or if
    another run writes to it or has done so."""
    probe = run_dir / ".writable"
    try:
        make_folder(run_dir)
        lock(run_dir, claims, "--run-dir", "another folder")
        if (run_dir / store.RUN_FILE).exists():  # of a run that ended meanwhile
            raise _taken(run_dir)
        probe.write_bytes(b"opscope")
        probe.unlink()
    except OSError as error:
        raise store.refused(run_dir, error) from error


def lock(run_dir: Path, claims: Claims, where: str, hint: str = "again when it has ended") -> None:
    """Locks a run folder until `claims` are closed. Raises InputError if another process has it."""
    if not claims.hold_alone(run_dir):
        raise InputError(where, "a run folder that no other run writes to", f"{run_dir}, which is in use", hint)


def _unseal(run_dir: Path, run_id: str) -> None:
    """Checks the artifacts of a run that goes on. Raises InputError if the disk refuses it."""
    try:
        artifacts.unseal(run_dir, run_id)
    except OSError as error:
        raise store.refused(run_dir / artifacts.FILE, error) from error


def _taken(run_dir: Path) -> InputError:
    return InputError(
        "--run-dir",
        "a new folder with --model",
        f"{run_dir}, which contains a run",
        "another folder, or --op to run its ops again",
    )


def _abandon(run_dir: Path) -> None:
    """Removes the run folder of a run that did not begin, if it is empty."""
    with contextlib.suppress(OSError):
        run_dir.rmdir()


def from_run(request: Request) -> RunPlan:
    """Makes the plan for running ops of an earlier run again.

    Raises InputError if there is no run, if it has another schema, or if there is no such op.
    """
    server = request.settings["artifact_url"]
    run_dir = run_of_ops(request.run_dir, request.folder, request.op_ids, server)
    run = store.load_run(run_dir)
    store.refuse_other_values(run.rows, run_dir, "--op")
    settings = dict(request.settings.values)
    for name in FROM_THE_RUN:
        stored = run.record.origin.options.get(name)
        if stored is not None and not request.settings.is_set(name):
            settings[name] = stored
    ids = find_op_ids(run.rows, request.op_ids) if request.op_ids else set()
    attempts = resume.attempts(store.read_journal(run_dir))
    orders = orders_of(request, run.record.run_id, run_dir, settings)
    rest: dict[str, Any] = {"attempts": attempts, "op_ids": tuple(ids)}
    orders = replace(orders, **rest, others=tuple(replace(other, **rest) for other in orders.others))
    if models := run.record.origin.options.get("models"):
        orders = mending(orders, to_prepare(request, settings, models))
    plan = RunPlan(orders, _located(run, orders), run.rows, again=True)
    store.refuse_unprepared(plan.header, plan.selected(), run_dir, "--op")
    return plan


def run_of_ops(run_dir: Path | None, folder: Path, op_ids: Sequence[str], server: str | None = None) -> Path:
    """The run whose ops run again: `run_dir`, or the newest in `folder` that has them, or the newest of all.

    Raises InputError where there is none, with the command that fetches an op from the machine that has the run.
    """
    words = [op_id for op_id in op_ids if op_id]
    address = server or "DATABASE, or --from http://HOST:PORT of the artifact server of that machine"
    fetch = f"opscope repro {words[0] if words else 'ID'} --from {address}"
    if run_dir is not None:
        if words and not (run_dir / store.RUN_FILE).is_file():
            raise InputError("--run-dir", "a run folder of this machine", f"{run_dir}, which has no run.json", fetch)
        return run_dir
    run = next(run_folders.runs_with_ops(words, folder), None) or run_folders.newest_run(folder)
    if run is None:
        raise InputError("--op", "a run that contains the op", "no run in .opscope/runs", f"--run-dir DIR, or {fetch}")
    return run


def _located(run: store.StoredRun, orders: Orders) -> ManifestHeader:
    """The manifest of a stored run, with its export folders in this cache, or else in the run's own."""
    own = export_folder.cache_dir(run.record.origin.options.get("cache_dir"))
    return export_folder.located(run.header, orders.caches, own)


def _recalled_ready(
    sides: Sequence[RunPlan], lanes: Sequence[AnyLane], cached: bool, start: bool = True
) -> list[Ready | None]:
    """Each backend's report in an earlier run. If no report is kept, or every op will run, its lane starts now, if it
    is to `start` already."""
    recalled: list[Ready | None] = []
    for side, lane in zip(sides, lanes, strict=True):
        ready = result_cache.recall(side.orders.caches, side.orders.context) if cached else None
        if ready is None and start:
            lane.start()
        recalled.append(ready)
    return recalled


def _ready(sides: Sequence[RunPlan], lanes: Sequence[AnyLane], recalled: Sequence[Ready | None]) -> list[Ready]:
    """Each backend's report, which is kept for later runs. Raises InputError if a backend refuses its options."""
    answers = []
    for side, lane, ready in zip(sides, lanes, recalled, strict=True):
        if ready is None:
            ready = lane.ready()
            result_cache.note(side.orders.caches, side.orders.context, ready)
        answers.append(ready)
    return answers


def _fingerprint(ready: Sequence[Ready]) -> str:
    """The fingerprint of a run's backends."""
    return ",".join(answer.fingerprint for answer in ready)


def _versions(plan: RunPlan, ready: Sequence[Ready]) -> dict[str, dict[str, str]]:
    """What the backends of a run consist of, for each one that says so."""
    labels = [backend_label(side.orders.context.backend) for side in plan.sides()]
    return {label: dict(answer.versions) for label, answer in zip(labels, ready, strict=True) if answer.versions}


def _close(lanes: Sequence[AnyLane]) -> None:
    for lane in lanes:
        lane.close()


def _resumed(
    request: Request, run_dir: Path, report: Callable[[Event], None], dry: bool, claims: Claims, at_once: int
) -> tuple[RunPlan, list[AnyLane]]:
    """Makes the plan for the rest of a run. Raises InputError if the rest would not agree with its beginning."""
    from opscope.harness.prepare import prepare_models
    from opscope.harness.prepare.preparation import tasks

    started = now()
    if dry:
        run = resume.unfinished(run_dir)
    else:
        lock(run_dir, claims, "--resume")
        run = store.load_run(run_dir)
        _unseal(run_dir, run.record.run_id)
    store.refuse_other_values(run.rows, run_dir, "--resume")
    settings = resume.options(run, request.settings.values, request.settings.sources)
    preparation = to_prepare(request, settings, run.record.origin.options["models"], started.timestamp())
    orders = mending(orders_of(request, run.record.run_id, run_dir, settings), preparation)
    run = run._replace(header=_located(run, orders))
    rest: dict[str, Any] = {
        "resumed": True,
        "attempts": resume.attempts(store.read_journal(run_dir)),
        "op_ids": resume.selection(run_dir) or (),
    }
    orders = replace(orders, **rest, others=tuple(replace(other, **rest) for other in orders.others))
    share = shard.read(run_dir)
    plan = RunPlan(shared(orders, share), run.header, run.rows)
    for folder in map(Path, run.header.export_dirs):
        claims.hold(folder)
    sides, folders = plan.sides(), plan.folders
    lanes = [lane_of(side.orders, folders, side.writer(MAIN)) for side in sides]
    try:
        recalled = _recalled_ready(sides, lanes, not settings["no_cache"])
        ready = _ready(sides, lanes, recalled)

        def again() -> tuple[Sequence[str], ManifestHeader]:
            listener = server_ahead.loading_lanes(lanes, recalled, report)
            diagnostics = None if dry else run_dir / artifacts.ARTIFACT_DIR
            if orders.cluster is None or dry:
                header, rows = prepare_models.prepare(preparation, listener, claims, diagnostics, at_once)
            else:
                header, rows = _walked_there(preparation, listener, claims, run_dir, orders)
            header, _ = _by_workflow(orders, ready, header, rows, report, claims, preparation.allowance)
            return [task.name for task in tasks(preparation)], header

        before = run
        run = resume.prepared(run, again, some=share is not None or bool(orders.op_ids))
        folders.update(zip(run.header.models, run.header.export_dirs, strict=True))  # of models that it had not reached
        if run is not before or hold.out_of_time(run.header.imports):
            if not dry:
                there = export_folder.those_complete(run.header)
                checks = _imports(tasks(preparation), there, claims, report, orders.limitations, at_once)
                run = run._replace(header=run.header.model_copy(update={"imports": checks}))
            plan = replace(plan, header=run.header, rows=run.rows)
            if not dry:
                store.write_manifest(run_dir, export_folder.below(orders.caches, run.header), run.rows)
        resume.check_backend(run, _fingerprint(ready))
        if settings.get("op_by_op_on_fail"):
            cached = not settings["no_cache"]
            plan = replace(plan, orders=_whole(plan.orders, ready, run.header, run_dir, report, settings, cached))
        orders = settled(plan.orders, request, run.rows, ready, not settings["no_cache"], started)
        if not dry:
            models = run.record.models if set(run.header.models) <= set(run.record.models) else run.header.models
            going_on = {"models": models, "ended": None, "outcome": "running"}
            store.write_run(run_dir, run.record.model_copy(update=going_on))
    except BaseException:
        _close(lanes)
        raise
    return replace(plan, orders=orders), lanes


def _anywhere(url: str, folder: Path) -> str:
    """A URL as it is meant in `folder`: `--resume` may be called in another one, where a file's name means another."""
    relative = re.fullmatch(r"(sqlite(?:\+\w+)?:///)(?!/|:memory:|file:)(.+)", url, re.DOTALL)
    return f"{relative[1]}{folder.absolute()}/{relative[2]}" if relative else url


def _write(
    plan: RunPlan, request: Request, started: datetime, command_line: Sequence[str], ready: Sequence[Ready]
) -> None:
    """Writes run.json and manifest.jsonl."""
    from opscope.harness.backends import compiler_commits
    from opscope.harness.record import origin

    options = {
        **request.settings.masked(),
        "models": list(request.models),
        "ops": list(request.ops),
        "fingerprint": _fingerprint(ready),
    }
    if options.get("publish"):
        options["publish"] = _anywhere(options["publish"], request.folder)
    if versions := _versions(plan, ready):
        options["versions"] = versions
    compilers = compiler_commits.commits(
        {side.orders.context.backend: answer.commit for side, answer in zip(plan.sides(), ready, strict=True)},
        request.folder,
    )
    record = RunRecord(
        run_id=plan.orders.context.run_id,
        models=plan.header.models,
        backend=",".join(backend_label(side.orders.context.backend) for side in plan.sides()),
        arch=plan.orders.context.options.arch,
        started=started,
        origin=origin.origin(command_line, options, request.folder, compilers),
    )
    store.write_manifest(plan.run_dir, export_folder.below(plan.orders.caches, plan.header), plan.rows)
    store.write_run(plan.run_dir, record)
