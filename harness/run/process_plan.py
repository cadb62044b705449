"""The orders of a run: options, deadlines, selection, and each backend's report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.harness.backends import compiler_options, registry
from opscope.harness.cache import export_folder
from opscope.harness.climb import budget, keeping, result_cache
from opscope.harness.lanes.flight import Ready
from opscope.harness.lanes.scratch import Place, of_run
from opscope.harness.record import history
from opscope.harness.record.optest import RunContext
from opscope.harness.record.records import OpRow
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.workflows import workflow
from opscope.harness.run.request import Request
from opscope.harness.scale import shard

if TYPE_CHECKING:
    from opscope.harness.prepare.preparation import Preparation


@dataclass(frozen=True)
class Orders:
    """The orders for the ops of one backend."""

    context: RunContext
    op_timeout: float
    op_memory: int | None
    cache_dir: str | None = None
    ready: Ready | None = None
    """The backend's report, which is part of the key of kept verdicts. With None, no kept verdict is used."""
    doubted: bool = False
    """Whether a sample of the kept verdicts does not hold: none is used, and none is kept."""
    deadline: float | None = None
    """The time (time.time) after which no op is started."""
    limitations: str | None = None
    """The user's file of expected failures."""
    reruns: int = 0
    """How often a failed op is run again."""
    order: tuple[str, ...] = ()
    """Ids of the ops in the order in which they run. If empty, the model's order applies."""
    resumed: bool = False
    """Whether ops with a record in the journal keep it."""
    attempts: dict[str, int] = field(default_factory=dict)
    """Number of the next attempt at each op that ran before."""
    globs: tuple[str, ...] = ()
    op_ids: tuple[str, ...] = ()
    nodeids: tuple[str, ...] = ()
    cluster: str | None = None
    """Address of the scheduler on whose workers the ops run. With None, they run on this machine."""
    share: tuple[str, ...] | None = None
    """Ids of the ops in this job's share. None means all ops."""
    whole: tuple[str, ...] = ()
    """Models that ran as one program: their ops are left out (`--op-by-op-on-fail`)."""
    preparation: dict[str, Any] | None = None
    """The `Preparation` of the run, to make damaged exports again. With None, their ops do not run."""
    scratch: Place | None = None
    """The folder of the run for what libraries of its backends write, where one needs it."""
    alone: bool = True
    """Whether the run has no other backend."""
    others: tuple[Orders, ...] = ()
    """The orders for each further backend of the run, with its own context and report."""

    @property
    def caches(self) -> Path:
        """The folder of all caches."""
        return export_folder.cache_dir(self.cache_dir)

    def alike(self, **changes: Any) -> Orders:
        """The orders with changes that every backend gets."""
        return replace(self, **changes, others=tuple(replace(other, **changes) for other in self.others))


def orders_of(request: Request, run_id: str, run_dir: Path, settings: dict[str, Any]) -> Orders:
    """The orders for a requested run: those of its first backend, which hold the orders of the other backends."""
    names = registry.split_names(settings["backend"])
    for backend in names:
        registry.check_name(backend)
    compiler_options.check(names, ResultOptions.of(settings))
    place = None if settings["cluster"] else of_run(names)
    first, *others = [
        replace(_for_backend(backend, request, run_id, run_dir, settings), scratch=place, alone=len(names) == 1)
        for backend in names
    ]
    return replace(first, others=tuple(others))


def _for_backend(backend: str, request: Request, run_id: str, run_dir: Path, settings: dict[str, Any]) -> Orders:
    """The orders for one backend of a requested run."""
    kept = not (settings["no_cache"] or settings["cluster"] or settings["dump_tensors"] != "none")
    context = RunContext(
        run_id=run_id,
        run_dir=str(run_dir),
        backend=backend,
        options=ResultOptions.of(settings),
        keep_ir=settings["keep_ir"],
        dump_tensors=settings["dump_tensors"],
        server=settings["artifact_url"] or "",
        verdicts=str(export_folder.cache_dir(settings["cache_dir"]) / keeping.FOLDER) if kept else "",
    )
    return Orders(
        context=context,
        op_timeout=settings["op_timeout"] * workflow(settings["workflow"]).patience,
        op_memory=settings["op_memory"],
        cache_dir=settings["cache_dir"],
        cluster=settings["cluster"],
        limitations=settings["limitations"],
        reruns=settings["reruns"],
        globs=request.ops,
        nodeids=request.nodeids,
    )


def mending(orders: Orders, preparation: Preparation) -> Orders:
    """The orders of a run whose models are prepared again if an export is damaged."""
    if workflow(orders.context.options.workflow).derived:
        return orders  # its exports are derived from others (harness/programs/derived_exports.py)
    return orders.alike(preparation=asdict(preparation))


def growing(orders: Orders, rows: Sequence[OpRow], at_once: int) -> Orders:
    """The orders of a run some of whose models are prepared meanwhile, `at_once` side by side."""
    return orders.alike(order=as_they_are_made(rows, at_once) if at_once > 1 else ())


def as_they_are_made(rows: Sequence[OpRow], at_once: int) -> tuple[str, ...]:
    """Ids of the ops in about the order in which their goldens are made, where that many models are walked at once."""
    seen: dict[str, int] = {}
    places: dict[str, tuple[int, int]] = {}
    models = {model: number for number, model in enumerate(dict.fromkeys(row.uses[0].model for row in rows))}
    for row in rows:
        model = row.uses[0].model
        seen[model] = seen.get(model, 0) + 1
        places[row.op_id] = models[model] // at_once, seen[model]
    return tuple(sorted(places, key=lambda op_id: places[op_id]))


def shared(orders: Orders, own_share: shard.Share | None) -> Orders:
    """The orders for one share of the ops; with None, for all ops."""
    return orders.alike(share=None if own_share is None else own_share.ops)


def settled(
    orders: Orders, request: Request, rows: Sequence[OpRow], ready: Sequence[Ready], cached: bool, started: datetime
) -> Orders:
    """Completes the orders once the ops are known: kept verdicts, and the order in which the budget is spent."""
    settled_orders = [
        _settled_one(backend_orders, request, rows, backend_ready if cached else None, started)
        for backend_orders, backend_ready in zip((orders, *orders.others), ready, strict=True)
    ]
    return replace(settled_orders[0], others=tuple(settled_orders[1:]))


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
    pasts = history.read_file(request.settings["budget_history"])
    order = budget.order(runnable, request.folder, orders.context, cache.has, pasts)
    return replace(orders, deadline=started.timestamp() + seconds, order=order)
