"""The plan of a run: its ops, the folders of their files, and the orders for each backend (run/start_run.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from opscope.base.damage import Damaged
from opscope.base.visible_text import one_line
from opscope.harness.cache.claims import Claims
from opscope.harness.lanes.lane import Lane, LaneConfig
from opscope.harness.lanes.protocol import AnyLane
from opscope.harness.prepare.preparation import Preparation, request_of
from opscope.harness.record.optest import backend_label
from opscope.harness.record.records import ManifestHeader, OpRow
from opscope.harness.record.selection import matches_globs
from opscope.harness.run.process_plan import Orders

if TYPE_CHECKING:
    from opscope.harness.engine.preparing import Preparing

MAIN = "main"
"""Writer of the journal."""


@dataclass(frozen=True)
class RunPlan:
    """The ops of a run and the orders for running them."""

    orders: Orders
    header: ManifestHeader
    rows: Sequence[OpRow]
    again: bool = False
    tag: str = ""
    """Name of the orders' backend if the run has several; the names of its tests contain it."""
    preparing: Preparing | None = None
    """The preparation of the models, until they are all prepared."""

    @property
    def run_dir(self) -> Path:
        """The run folder."""
        return Path(self.orders.context.run_dir)

    def sides(self) -> list[RunPlan]:
        """One plan for each backend of the run; with one backend, this plan itself."""
        if self.tag or not self.orders.others:
            return [self]
        every_orders = (replace(self.orders, others=()), *self.orders.others)
        return [replace(self, orders=orders, tag=backend_label(orders.context.backend)) for orders in every_orders]

    def writer(self, name: str) -> str:
        """The name of a journal segment, or of a lane's log, for this backend."""
        return f"{name}-{self.tag}" if self.tag else name

    def by_model(self) -> dict[str, list[OpRow]]:
        """The ops that can be run, by the model of their first use."""
        rows_of_model: dict[str, list[OpRow]] = {}
        for row in self.rows:
            if row.module is not None:
                rows_of_model.setdefault(row.uses[0].model, []).append(row)
        return rows_of_model

    def selects(self, row: OpRow, tag: str = "") -> bool:
        """Whether `--ops`, `--op` and the tests named on the command line select this op of a backend."""
        orders = self.orders
        return (
            (not orders.globs or matches_globs(row, orders.globs))
            and (not orders.op_ids or row.op_id in self._op_ids)
            and (not orders.nodeids or nodeid(row, tag) in self._nodeids)
            and self.owns(row)
            and not self.ran_whole(row)
        )

    def selected(self) -> list[OpRow]:
        """The ops that can be run and are selected on some backend."""
        tags = [side.tag for side in self.sides()]
        return [row for row in self.rows if row.module is not None and any(self.selects(row, tag) for tag in tags)]

    def ran_whole(self, row: OpRow) -> bool:
        """Whether every model that uses an op ran as one program."""
        whole = self.orders.whole
        return bool(whole) and all(use.model in whole for use in row.uses)

    def owns(self, row: OpRow) -> bool:
        """Whether an op belongs to the share that this job runs."""
        return self._share is None or row.op_id in self._share

    # Cached, because they are looked up for each op, of which there may be 20,000.
    @cached_property
    def _op_ids(self) -> frozenset[str]:
        return frozenset(self.orders.op_ids)

    @cached_property
    def _nodeids(self) -> frozenset[str]:
        return frozenset(self.orders.nodeids)

    @cached_property
    def _share(self) -> frozenset[str] | None:
        return None if self.orders.share is None else frozenset(self.orders.share)

    @property
    def folders(self) -> dict[str, str]:
        """The export folder of each model."""
        return dict(zip(self.header.models, self.header.export_dirs, strict=True))


def lane_of(
    orders: Orders,
    export_dirs: dict[str, str],
    writer: str,
    check: Callable[[], None] = lambda: None,
    dry: bool = False,
) -> AnyLane:
    """A lane that follows the orders; `check` is called while it waits, and raises what is to end it."""
    config = LaneConfig(
        context=orders.context,
        export_dirs=export_dirs,
        op_timeout=orders.op_timeout,
        memory_limit=orders.op_memory,
        log=None if dry else Path(orders.context.run_dir) / "logs" / f"{writer}.txt",
        environment={"OPSCOPE_CACHE_DIR": cache_dir} if (cache_dir := orders.cache_dir) else {},
        mend=mender(request_of(orders.preparation), export_dirs) if orders.preparation else None,
        alone=orders.alone,
        refused=orders.ready.refused if orders.ready is not None else "",
        scratch=orders.scratch,
        check=check,
    )
    if orders.cluster is None:
        return Lane(config)
    from opscope.harness.scale.cluster import ClusterLane

    return ClusterLane(orders.cluster, config)


def mender(preparation: Preparation, export_dirs: dict[str, str]) -> Callable[[OpRow, Damaged], OpRow]:
    """What a lane calls for an op whose files are damaged. `export_dirs` then says where its model is whole."""
    claims = Claims()

    def mend(row: OpRow, error: Damaged) -> OpRow:
        from opscope.harness.engine.model_jobs import mend as mended

        row, export_dirs[row.uses[0].model] = mended(preparation, row, error, claims)
        return row

    return mend


def name(row: OpRow, tag: str = "") -> str:
    """The name of an op's test; `tag` is its backend's name if the run has several."""
    return one_line(f"{row.op_name}[{row.op_id}{f'@{tag}' if tag else ''}]")


def nodeid(row: OpRow, tag: str = "") -> str:
    """The id of an op's test, which is the same in every run, so that --lf finds it again."""
    return f"{row.uses[0].model}::{name(row, tag)}"
