"""The start of a run: what it is given, and the steps that a new run, the rest of one, and ops of one again share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from opscope.base import machine
from opscope.harness.cache.claims import Claims
from opscope.harness.lanes.flight import Ready
from opscope.harness.limitations import limitation_file
from opscope.harness.prepare.whole_manifest import of_models
from opscope.harness.programs import derived_exports
from opscope.harness.record import artifacts, store
from opscope.harness.record.errors import InputError
from opscope.harness.record.manifests import Manifest
from opscope.harness.record.workflows import FULL, workflow
from opscope.harness.run import kept_verdicts, whole_models
from opscope.harness.run.plan import AnyLane, RunPlan
from opscope.harness.run.process_plan import settled
from opscope.harness.run.progress import Event
from opscope.harness.run.request import Request
from opscope.harness.run.run_lanes import RunLanes

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


class Starting(ABC):
    """A run that starts. Its subclasses say what a new run, the rest of one, and ops of one again have of their own."""

    def __init__(
        self,
        start: Start,
        plan: RunPlan,
        settings: Mapping[str, Any],
        preparation: Preparation | None,
        moment: datetime,
    ) -> None:
        """`plan` has the ops that are known already, `settings` those of the run, which began or goes on at `moment`.
        Without a preparation none of its models can be prepared."""
        self.start, self.known, self.settings, self.moment = start, plan, settings, moment
        self.run_dir, self.orders, self.folders = plan.run_dir, plan.orders, plan.folders
        self.lanes = RunLanes(plan, self.folders, start.dry)
        self._preparation = preparation
        for folder in self.folders.values():
            start.claims.hold(Path(folder))

    @property
    def preparation(self) -> Preparation:
        """How the models of the run are prepared."""
        assert self._preparation is not None
        return self._preparation

    @cached_property
    def named(self) -> Sequence[Task]:
        """The models of the preparation. Raises InputError."""
        from opscope.harness.prepare.preparation import tasks

        return self.start.request.named or tasks(self.preparation)

    @cached_property
    def ready(self) -> Sequence[Ready]:
        """Each backend's report. Raises InputError if a backend refuses its options."""
        return self.lanes.ready()

    def begin(self) -> None:
        """What can begin before the ops are known."""
        self.lanes.recall(self.start.cached)

    @abstractmethod
    def prepared(self) -> RunPlan:
        """The plan with all ops of the run that can be known. Raises InputError."""

    @abstractmethod
    def write(self, plan: RunPlan) -> None:
        """Writes the run folder. Raises InputError."""

    @abstractmethod
    def abandon(self) -> None:
        """Takes back what a start that failed has left."""

    def settled(self, plan: RunPlan) -> RunPlan:
        """The plan once models that are to run whole have run, and it is known which kept verdicts hold; of ops that
        run again none does."""
        start, ready = self.start, self.ready
        if plan.again:
            return plan
        if self.settings.get("op_by_op_on_fail"):
            if not start.dry:
                until = self.preparation.until
                whole_models.run(
                    plan, ready if start.cached else None, start.report, self.settings, until, start.at_once
                )
            whole = whole_models.ran(store.whole_tests(self.run_dir))
            plan = replace(plan, orders=plan.orders.alike(whole=whole))
        if self.settings.get("check_kept") and start.cached and not start.dry:
            day = f"{self.moment:%Y-%m-%d}"
            orders = kept_verdicts.checked(plan.orders, self.lanes.lanes, plan.header, plan.rows, ready, day)
            plan = replace(plan, orders=orders)
        return replace(plan, orders=settled(plan.orders, start.request, plan.rows, ready, start.cached, self.moment))

    def preparing(self, checks: bool = True) -> Preparing:
        """The preparation of the run's models, begun; with `checks`, their imports are checked too. On a cluster, this
        machine exports and splits models on each of its processors, and workers walk them. Raises InputError."""
        from opscope.harness.engine.import_checks import import_check
        from opscope.harness.engine.model_jobs import Means
        from opscope.harness.engine.preparing import Preparing

        start, orders, walks, at_once = self.start, self.orders, None, self.start.at_once
        if orders.cluster is not None:
            from opscope.harness.scale.walks import Walks

            at_once = machine.processors()
            walks = Walks(orders.cluster, orders.context.run_id, at_once)
        check = import_check(start.claims, limitation_file.all_rows(orders.limitations)) if checks else None
        means = Means(start.claims, self.run_dir / artifacts.ARTIFACT_DIR, at_once, check, walks)
        try:
            return Preparing(self.preparation, self.run_dir, means, self.named)
        except OSError as error:
            raise store.refused(self.run_dir, error) from error

    def all_prepared(self, report: Callable[[Event], None], checks: bool = True) -> Manifest:
        """The manifest of the run's models, all of them prepared; those of a dry run leave nothing in its folder.
        Raises InputError, and what `report` raises."""
        start = self.start
        if start.dry:
            from opscope.harness.engine.model_jobs import Means, prepare

            return prepare(self.preparation, report, Means(start.claims, at_once=start.at_once), self.named)
        begun = self.preparing(checks)
        try:
            return begun.finish(report)
        except BaseException:
            begun.stop()
            raise

    def by_workflow(self, manifest: Manifest) -> Manifest:
        """The manifest for the run's workflow, derived from the models' own within an allowance for each."""
        start, context = self.start, self.orders.context
        if context.options.workflow == FULL:
            return of_models(manifest[0])
        if workflow(context.options.workflow).derived:
            return derived_exports.derive(
                context.options.workflow,
                manifest[0],
                context,
                self.ready[0],
                self.orders.caches,
                start.report,
                start.claims,
                self.preparation.allowance,
                start.at_once,
            )
        return manifest


def lock(run_dir: Path, claims: Claims, where: str, hint: str = "again when it has ended") -> None:
    """Locks a run folder until `claims` are closed. Raises InputError if another process has it."""
    if not claims.hold_alone(run_dir):
        raise InputError(where, "a run folder that no other run writes to", f"{run_dir}, which is in use", hint)


def fingerprint(ready: Sequence[Ready]) -> str:
    """The fingerprint of a run's backends."""
    return ",".join(answer.fingerprint for answer in ready)
