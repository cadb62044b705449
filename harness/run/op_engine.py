"""The engine of a run by its plan: what the lanes of each backend have in common, and what each has for itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from opscope.base.slots import Slots
from opscope.harness.climb import budget, result_cache
from opscope.harness.climb.keeping import Apart
from opscope.harness.climb.reruns import Reruns
from opscope.harness.engine.climber import Climber, Terms
from opscope.harness.engine.cluster import ClusterEngine
from opscope.harness.engine.engine import Engine
from opscope.harness.engine.goldens import AwaitedGoldens
from opscope.harness.engine.local import LocalEngine
from opscope.harness.lanes.lane import Lane, LaneConfig
from opscope.harness.lanes.protocol import AnyLane
from opscope.harness.limitations import limitation_file
from opscope.harness.record import store
from opscope.harness.record.optest import backend_label
from opscope.harness.run import resume
from opscope.harness.run.plan import MAIN, RunPlan, lane_of


def engine_of(
    plan: RunPlan, lanes: Sequence[AnyLane], at_once: int, in_step: bool = False
) -> tuple[Engine, list[store.Journal | Apart]]:
    """The engine for a run, with `at_once` lanes of each backend on this machine, and what is to be closed after it:
    the journals that it writes, and what keeps its verdicts.

    Lanes run `in_step` with whoever takes records, where one of these may end the run.

    `lanes` are the first ones, of each backend of `RunPlan.sides`.
    """
    keeping = Apart(plan.orders.caches, plan.run_dir)
    sides = [_Side(side, keeping) for side in plan.sides()]
    written = [*(side.journal for side in sides), keeping]
    if plan.orders.cluster is not None:
        climbers = {side.tag: side.climber(lane) for side, lane in zip(sides, lanes, strict=True)}
        return ClusterEngine(climbers), written
    preparing = plan.preparing
    server = None if preparing is None else preparing.slots

    def made(number: int, check: Callable[[], None], on_lane: Callable[[], None]) -> Mapping[str, Climber]:
        slots = None if server is None else Slots(server)
        own = lanes if number == 0 else [side.lane(f"lane{number + 1}") for side in sides]
        return {side.tag: side.climber(lane, slots, check, on_lane) for side, lane in zip(sides, own, strict=True)}

    exports = {} if preparing is None else preparing.growing(plan.header.unfinished)
    news = None if preparing is None else preparing.news
    return LocalEngine(made, at_once, exports, news, budget.clock(plan.orders.deadline), in_step), written


class _Side:
    """One backend of a run."""

    def __init__(self, plan: RunPlan, keeping: Apart) -> None:
        self._plan, self._keeping, orders = plan, keeping, plan.orders
        self.tag, self.journal = plan.tag, store.Journal(plan.run_dir, plan.writer(MAIN))
        tests = store.latest(store.read_journal(plan.run_dir)) if orders.resumed else ()
        label = backend_label(orders.context.backend)
        self._recorded = resume.recorded(test for test in tests if test.backend == label)
        self._limitations = limitation_file.all_rows(orders.limitations)
        self._reruns = Reruns(orders.reruns)
        lost = plan.header.lost
        self._lost = {model: f"no goldens of {model}: {lost.status}: {lost.error}" for model, lost in lost.items()}

    def lane(self, name: str) -> AnyLane:
        """A further lane; not started."""
        return lane_of(self._plan.orders, self._plan.folders, self._plan.writer(name))

    def climber(
        self,
        lane: AnyLane,
        slots: Slots | None = None,
        check: Callable[[], None] = lambda: None,
        on_lane: Callable[[], None] = lambda: None,
    ) -> Climber:
        """What climbs the ops of this backend in a lane."""
        plan, orders, preparing = self._plan, self._plan.orders, self._plan.preparing
        folders, goldens = plan.folders, None
        if isinstance(lane, Lane):
            lane.config = replace(lane.config, check=check)
        if preparing is not None:
            config: LaneConfig = cast("Lane", lane).config  # as a lane on a cluster has it too
            folders = cast("dict[str, str]", config.export_dirs)  # the lane's own: where a model's files are by now
            config.final_dirs.update(plan.folders)
            exports = preparing.growing(plan.header.unfinished)
            goldens = AwaitedGoldens(exports, preparing.news, folders, plan.folders)
        terms = Terms(
            cache=result_cache.ResultCache(
                orders.caches, orders.context, orders.ready, folders, orders.doubted, self._keeping
            ),
            recorded=self._recorded,
            attempts=orders.attempts,
            deadline=orders.deadline,
            limitations=self._limitations,
            reruns=self._reruns,
            goldens=goldens,
            lost=self._lost,
            slots=slots,
            check=check,
            on_lane=on_lane,
        )
        return Climber(orders.context, lane, self.journal, terms)
