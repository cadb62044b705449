"""What the start of a run is given, and its steps that are the same for a new run, a resumed one, and ops again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from opscope.base import machine
from opscope.harness.cache import export_folder
from opscope.harness.cache.claims import Claims
from opscope.harness.lanes.flight import Ready
from opscope.harness.limitations import limitation_file
from opscope.harness.prepare.allowance import Allowing
from opscope.harness.prepare.whole_manifest import of_models
from opscope.harness.programs import derived_exports
from opscope.harness.record import artifacts, store
from opscope.harness.record.errors import InputError
from opscope.harness.record.manifests import Manifest
from opscope.harness.record.records import ManifestHeader
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.workflows import FULL, workflow
from opscope.harness.run import whole_models
from opscope.harness.run.plan import AnyLane, RunPlan
from opscope.harness.run.process_plan import Orders
from opscope.harness.run.progress import Event
from opscope.harness.run.request import Request

if TYPE_CHECKING:
    from opscope.harness.engine.preparing import Preparing
    from opscope.harness.prepare.preparation import Preparation, Task

Started: TypeAlias = tuple[RunPlan, list[AnyLane]]
"""A run's plan, and its lanes in the order of `RunPlan.sides`."""


@dataclass(frozen=True)
class Start:
    """What a run is started with."""

    request: Request
    report: Callable[[Event], None]
    """Gets the events of the preparation."""
    command_line: Sequence[str]
    dry: bool
    """Whether the tests are only to be listed: nothing is written."""
    claims: Claims
    """Hold the folders that the run needs."""
    at_once: int = 1
    """How many models are prepared, and how many ops run, at once."""

    @property
    def cached(self) -> bool:
        """Whether kept verdicts are used."""
        return not self.request.settings["no_cache"]


def lock(run_dir: Path, claims: Claims, where: str, hint: str = "again when it has ended") -> None:
    """Locks a run folder until `claims` are closed. Raises InputError if another process has it."""
    if not claims.hold_alone(run_dir):
        raise InputError(where, "a run folder that no other run writes to", f"{run_dir}, which is in use", hint)


def unseal(run_dir: Path, run_id: str) -> None:
    """Checks the artifacts of a run that goes on. Raises InputError if the disk refuses it."""
    try:
        artifacts.unseal(run_dir, run_id)
    except OSError as error:
        raise store.refused(run_dir / artifacts.FILE, error) from error


def located(run: store.StoredRun, orders: Orders) -> ManifestHeader:
    """The manifest of a stored run, with its export folders in this cache, or else in the run's own."""
    own = export_folder.cache_dir(run.record.origin.options.get("cache_dir"))
    return export_folder.located(run.header, orders.caches, own)


def preparing(
    start: Start, preparation: Preparation, named: Sequence[Task], orders: Orders, checks: bool = True
) -> Preparing:
    """The preparation of a run's models (`named`), begun; with `checks`, their imports are checked too. On a cluster,
    this machine exports and splits models on each of its processors, and workers walk them. Raises InputError."""
    from opscope.harness.engine.import_checks import import_check
    from opscope.harness.engine.model_jobs import Means
    from opscope.harness.engine.preparing import Preparing

    run_dir, walks, at_once = Path(orders.context.run_dir), None, start.at_once
    if orders.cluster is not None:
        from opscope.harness.scale.walks import Walks

        at_once = machine.processors()
        walks = Walks(orders.cluster, orders.context.run_id, at_once)
    check = import_check(start.claims, limitation_file.all_rows(orders.limitations)) if checks else None
    means = Means(start.claims, run_dir / artifacts.ARTIFACT_DIR, at_once, check, walks)
    try:
        return Preparing(preparation, run_dir, means, named)
    except OSError as error:
        raise store.refused(run_dir, error) from error


def prepared(
    start: Start,
    preparation: Preparation,
    named: Sequence[Task],
    orders: Orders,
    report: Callable[[Event], None],
    checks: bool = True,
) -> Manifest:
    """The manifest of a run's models, all of them prepared; those of a dry run leave nothing in its folder. Raises
    InputError, and what `report` raises."""
    if start.dry:
        from opscope.harness.engine.model_jobs import Means, prepare

        return prepare(preparation, report, Means(start.claims, at_once=start.at_once), named)
    begun = preparing(start, preparation, named, orders, checks)
    try:
        return begun.finish(report)
    except BaseException:
        begun.stop()
        raise


def by_workflow(
    start: Start, orders: Orders, ready: Sequence[Ready], manifest: Manifest, allowance: Allowing
) -> Manifest:
    """Returns the manifest for the run's workflow, derived from the models' own within an `allowance` for each."""
    name = orders.context.options.workflow
    if name == FULL:
        return of_models(manifest[0])
    if workflow(name).derived:
        return derived_exports.derive(
            name,
            manifest[0],
            orders.context,
            ready[0],
            orders.caches,
            start.report,
            start.claims,
            allowance,
            start.at_once,
        )
    return manifest


def run_whole(
    start: Start,
    orders: Orders,
    ready: Sequence[Ready],
    header: ManifestHeader,
    settings: Mapping[str, Any],
    until: float | None,
) -> Orders:
    """Runs the models as whole programs, those that begin before `until` (time.time), and returns the orders for the
    ops of those that failed or did not begin."""
    sides = RunPlan(orders, header, ()).sides()
    options = ResultOptions.of({**settings, "workflow": FULL})
    run_dir = Path(orders.context.run_dir)
    cached = not settings["no_cache"]
    whole_models.run(sides, ready if cached else None, header, start.report, options, until, start.at_once)
    models = whole_models.ran(store.whole_tests(run_dir))
    return replace(orders, whole=models, others=tuple(replace(other, whole=models) for other in orders.others))


def fingerprint(ready: Sequence[Ready]) -> str:
    """The fingerprint of a run's backends."""
    return ",".join(answer.fingerprint for answer in ready)
