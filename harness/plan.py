"""The plan of a run: the ops, where they lie, and what each process of the run must know.

Made once by the controller (models prepared, run folder written), handed to xdist workers as JSON.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from harness import budget, export_folder, limitation_file, result_cache, resume, store
from harness.backends import registry
from harness.claims import Claims
from harness.climber import Climber, Terms
from harness.errors import InputError
from harness.flight import Ready
from harness.lane import Lane, LaneConfig
from harness.optest import RunContext, backend_label, now
from harness.progress import Event
from harness.records import ManifestHeader, OpRow, RunRecord
from harness.request import Request, chosen, to_prepare, wanted
from harness.scale import costs, shard, whole
from harness.scale.cluster import ClusterLane
from harness.stages import Stage

AnyLane = Lane | ClusterLane

MAIN = "main"
"""Writer of the journal where there are no xdist workers."""

FROM_THE_RUN = (
    "backend", "arch", "data_format", "math_fidelity", "unsupported_types", "optimization_level", "until",
    "op_timeout", "op_memory",
)  # fmt: skip
"""Settings that an op of an earlier run takes from that run, unless they are given anew."""


@dataclass(frozen=True)
class Orders:
    """What a worker is told; the ops themselves it reads from the run folder's manifest."""

    context: RunContext
    op_timeout: float
    op_memory: int | None
    cache_dir: str | None = None
    ready: Ready | None = None
    """What the backend says, by which kept verdicts are found; None: none is used."""
    deadline: float | None = None
    """Moment (time.time) from which on no op is started."""
    limitations: str | None = None
    """The user's file of expected failures."""
    reruns: int = 0
    """How often a failed op is run again."""
    order: tuple[str, ...] = ()
    """Ids of the ops in the order in which they are run; empty: the model's."""
    resumed: bool = False
    """Whether ops with a record in the journal keep it."""
    attempts: dict[str, int] = field(default_factory=dict)
    """Number of the next attempt at each op that was run before."""
    globs: tuple[str, ...] = ()
    op_ids: tuple[str, ...] = ()
    nodeids: tuple[str, ...] = ()
    cluster: str | None = None
    """Address of the scheduler on whose workers the ops are run; None: here."""
    share: tuple[str, ...] | None = None
    """Ids of the ops that are this job's share; None: all are."""
    whole: tuple[str, ...] = ()
    """Models that ran as one program: their ops are left out (`--op-by-op-on-fail`)."""
    others: tuple[Orders, ...] = ()
    """The same for each further backend of the run: another context, and what that backend says."""

    @property
    def caches(self) -> Path:
        """The folder of all caches."""
        return export_folder.cache_dir(self.cache_dir)


@dataclass(frozen=True)
class Plan:
    """The ops of a run and the orders for running them."""

    orders: Orders
    header: ManifestHeader
    rows: Sequence[OpRow]
    again: bool = False
    tag: str = ""
    """Name of the backend that these orders are for, where the run has several; its tests carry it."""

    @property
    def run_dir(self) -> Path:
        """The run folder."""
        return Path(self.orders.context.run_dir)

    def sides(self) -> list[Plan]:
        """The plan as each backend of the run sees it; with one backend, itself."""
        if self.tag or not self.orders.others:
            return [self]
        each = (replace(self.orders, others=()), *self.orders.others)
        return [replace(self, orders=orders, tag=backend_label(orders.context.backend)) for orders in each]

    def writer(self, process: str) -> str:
        """Name of the journal segment and log that a process keeps for this backend."""
        return f"{process}-{self.tag}" if self.tag else process

    def by_model(self) -> dict[str, list[OpRow]]:
        """The ops that can be run, by the model of their first use."""
        found: dict[str, list[OpRow]] = {}
        for row in self.rows:
            if row.module is not None:
                found.setdefault(row.uses[0].model, []).append(row)
        return found

    def asks_for(self, row: OpRow, tag: str = "") -> bool:
        """Whether `--ops`, `--op` and the tests named on the command line leave this op of a backend in."""
        orders = self.orders
        return (
            (not orders.globs or wanted(row, orders.globs))
            and (not orders.op_ids or row.op_id in self._op_ids)
            and (not orders.nodeids or nodeid(row, tag) in self._nodeids)
            and self.owns(row)
            and not self.ran_whole(row)
        )

    def ran_whole(self, row: OpRow) -> bool:
        """Whether every model that uses an op ran as one program."""
        whole = self.orders.whole
        return bool(whole) and all(use.model in whole for use in row.uses)

    def owns(self, row: OpRow) -> bool:
        """Whether an op is of the share that this job runs."""
        return self._share is None or row.op_id in self._share

    # Looked up for each of what may be 20,000 ops.
    @cached_property
    def _op_ids(self) -> frozenset[str]:
        return frozenset(self.orders.op_ids)

    @cached_property
    def _nodeids(self) -> frozenset[str]:
        return frozenset(self.orders.nodeids)

    @cached_property
    def _share(self) -> frozenset[str] | None:
        return None if self.orders.share is None else frozenset(self.orders.share)

    def lane(self, writer: str) -> AnyLane:
        """A lane for this run; not started."""
        folders = dict(zip(self.header.models, self.header.export_dirs, strict=True))
        return _lane(self.orders, folders, writer)

    def climber(self, lane: AnyLane, writer: str) -> Climber:
        """What takes the ops of this run up the ladder in one process."""
        orders = self.orders
        tests = store.latest(store.read_journal(self.run_dir)) if orders.resumed else ()
        label = backend_label(orders.context.backend)
        terms = Terms(
            cache=result_cache.ResultCache(orders.caches, orders.context, orders.ready),
            recorded=resume.recorded(test for test in tests if test.backend == label),
            attempts=orders.attempts,
            deadline=orders.deadline,
            limitations=limitation_file.all_rows(orders.limitations),
            reruns=orders.reruns,
        )
        return Climber(orders.context, lane, writer, terms)

    def told(self) -> dict[str, Any]:
        """The orders as JSON for an xdist worker."""
        return asdict(self.orders)

    @classmethod
    def heard(cls, told: dict[str, Any]) -> Plan:
        """The plan in an xdist worker."""
        orders = _heard(told)
        header, rows = store.read_manifest(Path(orders.context.run_dir))
        return cls(orders, header, rows)


def _heard(told: dict[str, Any]) -> Orders:
    """Orders from their JSON."""
    words = {name: tuple(told[name]) for name in ("order", "globs", "op_ids", "nodeids", "share", "whole")
             if told[name] is not None}  # fmt: skip
    ready = told["ready"]
    if ready is not None:
        ready = Ready(**{**ready, "stages": tuple(Stage(stage) for stage in ready["stages"])})
    others = tuple(_heard(other) for other in told["others"])
    return Orders(**{**told, **words, "ready": ready, "context": RunContext(**told["context"]), "others": others})


def name(row: OpRow, tag: str = "") -> str:
    """The name of an op's test; `tag` is its backend's where a run has several."""
    return f"{row.op_name}[{row.op_id}{f'@{tag}' if tag else ''}]"


def nodeid(row: OpRow, tag: str = "") -> str:
    """The id of an op's test: stable over runs, so that --lf finds it again."""
    return f"{row.uses[0].model}::{name(row, tag)}"


def make(
    request: Request, report: Callable[[Event], None], command_line: Sequence[str], dry: bool, claims: Claims
) -> tuple[Plan, list[AnyLane]]:
    """Prepares what was asked for and writes the run folder (`dry`: writes nothing).

    Each backend has taken its options: in its lane, or in an earlier one to which nothing has changed since. The lanes
    are in the order of `Plan.sides`. What the run needs to stay is in `claims`. Raises InputError for bad input,
    wherever it shows.
    """
    if request.resume is not None:
        return _resumed(request, request.resume, report, dry, claims)
    if request.again:
        plan = from_run(request)
        for folder in (plan.run_dir, *map(Path, plan.header.export_dirs)):
            claims.hold(folder)
        if not resume.exports_there(plan.header):
            raise InputError("--op", f"the exports of {plan.run_dir}", "some that were cleared away since",
                             f"--model {' --model '.join(plan.header.models)} --ops ID")  # fmt: skip
        lanes = [side.lane(side.writer(MAIN)) for side in plan.sides()]
        try:
            for lane in lanes:
                lane.ready()
        except BaseException:
            _close(lanes)
            raise
        return plan, lanes
    return _from_models(request, report, command_line, dry, claims)


def _lane(orders: Orders, export_dirs: dict[str, str], writer: str, dry: bool = False) -> AnyLane:
    """A lane that follows the orders."""
    config = LaneConfig(
        context=orders.context,
        export_dirs=export_dirs,
        op_timeout=orders.op_timeout,
        memory_limit=orders.op_memory,
        log=None if dry else Path(orders.context.run_dir) / "logs" / f"{writer}.txt",
        environment={"OPSCOPE_CACHE_DIR": cache_dir} if (cache_dir := orders.cache_dir) else {},
    )
    return Lane(config) if orders.cluster is None else ClusterLane(orders.cluster, config)


def _orders(request: Request, run_id: str, run_dir: Path, settings: dict[str, Any]) -> Orders:
    """The orders of a request for a run, those of its first backend holding the others'."""
    names = registry.several(settings["backend"])
    for backend in names:
        registry.check_name(backend)
    first, *others = [_orders_of(backend, request, run_id, run_dir, settings) for backend in names]
    return replace(first, others=tuple(others))


def _orders_of(backend: str, request: Request, run_id: str, run_dir: Path, settings: dict[str, Any]) -> Orders:
    """The orders of a request for one backend of a run."""
    context = RunContext(
        run_id=run_id,
        run_dir=str(run_dir),
        backend=backend,
        arch=settings["arch"],
        data_format=settings["data_format"],
        math_fidelity=settings["math_fidelity"],
        unsupported_types=settings["unsupported_types"],
        optimization_level=settings["optimization_level"],
        until=settings["until"],
        keep_ir=settings["keep_ir"],
    )
    return Orders(
        context=context,
        op_timeout=settings["op_timeout"],
        op_memory=settings["op_memory"],
        cache_dir=settings["cache_dir"],
        cluster=settings["cluster"],
        limitations=settings["limitations"],
        reruns=settings["reruns"],
        globs=request.ops,
        nodeids=request.nodeids,
    )


def _from_models(
    request: Request, report: Callable[[Event], None], command_line: Sequence[str], dry: bool, claims: Claims
) -> tuple[Plan, list[AnyLane]]:
    """The plan of a new run, and lanes that have loaded their backends meanwhile, unless that is not needed."""
    from harness import prepare

    started = now()
    asked = to_prepare(request)
    tasks = prepare.tasks(asked)
    measured = costs.given(request.settings["shard_costs"], request.folder)
    run_dir = request.run_dir or store.default_run_dir([t.name for t in tasks], started, request.folder)
    if (run_dir / store.RUN_FILE).exists():
        raise InputError("--run-dir", "a new folder beside --model", f"{run_dir}, which holds a run",
                         "another folder, or no --model to run its ops again")  # fmt: skip
    orders = _orders(request, f"{started:%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:8]}", run_dir, request.settings.values)
    if not dry:
        _claim(run_dir)
        claims.hold(run_dir)
    sides = Plan(orders, ManifestHeader(models=(), export_dirs=(), module_ops={}, structural={}), ()).sides()
    lanes = [_lane(side.orders, {t.name: t.folder for t in tasks}, side.writer(MAIN), dry) for side in sides]
    cached = not request.settings["no_cache"]
    try:
        known = _said(sides, lanes, cached)
        artifacts = None if dry else run_dir / store.ARTIFACT_DIR
        header, rows = prepare.prepare(asked, _beside(lanes, known, report), claims, artifacts)
        ready = _ready(sides, lanes, known)
        mine = shard.share(rows, request.settings["shard"], measured) if request.settings["shard"] else None
        if mine is not None:
            orders = _shared(orders, mine)
        if request.settings["op_by_op_on_fail"] and not dry:
            orders = _whole(orders, header, run_dir, report)
        plan = Plan(_settled(orders, request, rows, ready, cached, started), header, rows)
        if not dry:
            if mine is not None:
                shard.write(run_dir, mine)
            _write(plan, request, started, command_line, _fingerprint(ready))
    except BaseException:
        _close(lanes)
        if not dry:
            _abandon(run_dir)
        raise
    return plan, lanes


def _whole(orders: Orders, header: ManifestHeader, run_dir: Path, report: Callable[[Event], None]) -> Orders:
    """Runs the models as whole programs; the orders for the ops of those that failed."""
    whole.run(Plan(orders, header, ()).sides(), header, run_dir, report)
    models = whole.ran(whole.records(run_dir))
    return replace(orders, whole=models, others=tuple(replace(other, whole=models) for other in orders.others))


def _shared(orders: Orders, mine: shard.Share | None) -> Orders:
    """The orders for one share of the ops; None: for all."""
    ops = None if mine is None else mine.ops
    return replace(orders, share=ops, others=tuple(replace(other, share=ops) for other in orders.others))


def _claim(run_dir: Path) -> None:
    """Creates the run folder. Raises InputError where it cannot be written, before a model is exported for it."""
    probe = run_dir / ".writable"
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"opscope")
        probe.unlink()
    except OSError as error:
        raise store.refused(run_dir, error) from error


def _abandon(run_dir: Path) -> None:
    """Takes away the run folder of a run that did not begin, unless something lies in it."""
    with contextlib.suppress(OSError):
        run_dir.rmdir()


def from_run(request: Request) -> Plan:
    """The plan for running ops of an earlier run again. Raises InputError: no run, another schema, no such op."""
    run_dir = request.run_dir or store.newest_run(request.folder)
    if run_dir is None:
        raise InputError("--op", "a run to take the op from", "no run below .opscope/runs", "--run-dir DIR")
    run = store.load_run(run_dir)
    settings = dict(request.settings.values)
    for name in FROM_THE_RUN:
        stored = run.record.origin.options.get(name)
        if stored is not None and not request.settings.given(name):
            settings[name] = stored
    ids = chosen(run.rows, request.op_ids) if request.op_ids else set()
    attempts = resume.attempts(store.read_journal(run_dir))
    orders = _orders(request, run.record.run_id, run_dir, settings)
    rest: dict[str, Any] = {"attempts": attempts, "op_ids": tuple(ids)}
    orders = replace(orders, **rest, others=tuple(replace(other, **rest) for other in orders.others))
    return Plan(orders, run.header, run.rows, again=True)


def _said(sides: Sequence[Plan], lanes: Sequence[AnyLane], cached: bool) -> list[Ready | None]:
    """What each backend is known to say; where it is not known, or every op will be run, its lane starts at once."""
    found: list[Ready | None] = []
    for side, lane in zip(sides, lanes, strict=True):
        known = result_cache.recall(side.orders.caches, side.orders.context) if cached else None
        if known is None:
            lane.start()
        found.append(known)
    return found


def _beside(
    lanes: Sequence[AnyLane], known: Sequence[Ready | None], report: Callable[[Event], None]
) -> Callable[[Event], None]:
    """Hears of the export: the lanes' imports run beside it, and an option that a backend refuses ends it all."""

    def told(event: Event) -> None:
        report(event)
        for lane, said in zip(lanes, known, strict=True):
            if said is None:
                lane.ready()
            elif event["event"] == "stage":  # something is made anew: so will be its verdicts
                lane.start()

    return told


def _ready(sides: Sequence[Plan], lanes: Sequence[AnyLane], known: Sequence[Ready | None]) -> list[Ready]:
    """What each backend says, noted for later runs. Raises InputError where one refuses its options."""
    found = []
    for side, lane, said in zip(sides, lanes, known, strict=True):
        if said is None:
            said = lane.ready()
            result_cache.note(side.orders.caches, side.orders.context, said)
        found.append(said)
    return found


def _fingerprint(ready: Sequence[Ready]) -> str:
    """The fingerprint of a run's backends."""
    return ",".join(said.fingerprint for said in ready)


def _close(lanes: Sequence[AnyLane]) -> None:
    for lane in lanes:
        lane.close()


def _settled(
    orders: Orders, request: Request, rows: Sequence[OpRow], ready: Sequence[Ready], cached: bool, started: datetime
) -> Orders:
    """The orders with what only shows when the ops are known: kept verdicts, and how a budget is spent."""
    each = [
        _settled_one(one, request, rows, said if cached else None, started)
        for one, said in zip((orders, *orders.others), ready, strict=True)
    ]
    return replace(each[0], others=tuple(each[1:]))


def _settled_one(
    orders: Orders, request: Request, rows: Sequence[OpRow], ready: Ready | None, started: datetime
) -> Orders:
    """The orders of one backend, settled."""
    orders = replace(orders, ready=ready)
    seconds = request.settings["budget"]
    if seconds is None:
        return orders
    cache = result_cache.ResultCache(orders.caches, orders.context, ready)
    runnable = [row for row in rows if row.module is not None]
    order = budget.order(runnable, request.folder, orders.context, cache.has)
    return replace(orders, deadline=started.timestamp() + seconds, order=order)


def _resumed(
    request: Request, run_dir: Path, report: Callable[[Event], None], dry: bool, claims: Claims
) -> tuple[Plan, list[AnyLane]]:
    """The plan of the rest of a run. Raises InputError where it cannot end as it would have."""
    from harness import prepare

    started = now()
    run = resume.unfinished(run_dir)
    settings = resume.options(run, request.settings.values, request.settings.sources)
    orders = _orders(request, run.record.run_id, run_dir, settings)
    rest: dict[str, Any] = {
        "resumed": True, "attempts": resume.attempts(store.read_journal(run_dir)),
        "op_ids": resume.selection(run_dir) or (),
    }  # fmt: skip
    orders = replace(orders, **rest, others=tuple(replace(other, **rest) for other in orders.others))
    plan = Plan(_shared(orders, shard.read(run_dir)), run.header, run.rows)
    for folder in (run_dir, *map(Path, run.header.export_dirs)):
        claims.hold(folder)
    sides = plan.sides()
    lanes = [side.lane(side.writer(MAIN)) for side in sides]
    try:
        known = _said(sides, lanes, not settings["no_cache"])
        resume.prepared(run, to_prepare(request, settings, run.record.origin.options["models"]),
                        lambda asked: prepare.prepare(asked, _beside(lanes, known, report), claims))  # fmt: skip
        ready = _ready(sides, lanes, known)
        resume.check_backend(run, _fingerprint(ready))
        if settings.get("op_by_op_on_fail"):
            plan = replace(plan, orders=_whole(plan.orders, run.header, run_dir, report))
        orders = _settled(plan.orders, request, run.rows, ready, not settings["no_cache"], started)
        if not dry:
            store.write_run(run_dir, run.record.model_copy(update={"ended": None, "outcome": "running"}))
    except BaseException:
        _close(lanes)
        raise
    return replace(plan, orders=orders), lanes


def _write(plan: Plan, request: Request, started: datetime, command_line: Sequence[str], fingerprint: str) -> None:
    """Writes run.json and manifest.jsonl."""
    from harness import origin

    options = {
        **request.settings.masked(), "models": list(request.models), "ops": list(request.ops),
        "fingerprint": fingerprint,
    }  # fmt: skip
    record = RunRecord(
        run_id=plan.orders.context.run_id,
        models=plan.header.models,
        backend=",".join(backend_label(side.orders.context.backend) for side in plan.sides()),
        arch=plan.orders.context.arch,
        started=started,
        origin=origin.origin(command_line, options),
    )
    store.write_manifest(plan.run_dir, plan.header, plan.rows)
    store.write_run(plan.run_dir, record)
