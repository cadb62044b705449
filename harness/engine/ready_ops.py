"""Which ops of a run can run by now, while goldens of others are still made: for the lanes of this machine, and to be
sent to a cluster.

Nothing here waits. Whoever runs or sends ops looks again and again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from opscope.base.damage import Damaged
from opscope.harness.cache.growing_export import GrowingExport
from opscope.harness.engine.goldens import AwaitedGoldens, NoGoldens
from opscope.harness.record.records import OpRow

LOOK = 0.1
"""Seconds between two looks at what may be sent, at least."""

MOST_BACK = 3
"""How often an op may come back because its files were not where it was sent for them."""


class ReadyOps:
    """Some ops, of which each becomes ready once: its goldens are there, or it is known that there will be none."""

    def __init__(self, exports: Mapping[str, GrowingExport], rows: Iterable[OpRow]) -> None:
        """`exports` has the models that were not complete when the ops were collected."""
        self._exports = dict(exports)
        self._waiting = {row.op_id: row for row in rows}
        self._changed = list(self._waiting)
        """Ops of which more may be known than when they were last looked at."""
        self._of_model: dict[str, list[str]] = {model: [] for model in exports}
        for row in self._waiting.values():
            for model in {use.model for use in row.uses} & self._of_model.keys():
                self._of_model[model].append(row.op_id)
        self._announced = dict.fromkeys(exports, 0)
        """How many ops of each of these models were announced at the last look."""

    @property
    def waiting(self) -> bool:
        """Whether some are not ready."""
        return bool(self._waiting)

    def look(self) -> list[str]:
        """Ids of the ops that have become ready since the last look."""
        changed, self._changed = self._changed, []
        for model in list(self._of_model):
            export = self._exports[model]
            if export.ended:
                changed += self._of_model.pop(model)
            else:
                news = export.announced_after(self._announced[model])
                self._announced[model] += len(news)
                changed += news
        ready = [op_id for op_id in dict.fromkeys(changed) if op_id in self._waiting and self._is_ready(op_id)]
        for op_id in ready:
            del self._waiting[op_id]
        return ready

    def again(self, row: OpRow) -> None:
        """Takes an op back that was ready: the next look looks at it anew."""
        self._waiting[row.op_id] = row
        self._changed.append(row.op_id)

    def rest(self) -> list[str]:
        """Ids of all ops that are not ready: nobody is to wait for them any more."""
        ids = list(self._waiting)
        self._waiting.clear()
        return ids

    def _is_ready(self, op_id: str) -> bool:
        """As `AwaitedGoldens.now` takes the first model that has the op, or none."""
        for model in dict.fromkeys(use.model for use in self._waiting[op_id].uses):
            export = self._exports.get(model)
            if export is None or export.cut_off or export.has(op_id):
                return True
            if not export.failure:
                return False
        return True


class OpsToCome:
    """The ops of a run as a cluster may be sent them, in the order of the plan."""

    def __init__(
        self,
        rows: Iterable[OpRow],
        goldens: AwaitedGoldens | None = None,
        needs_lane: Callable[[OpRow], bool] = lambda row: True,
    ) -> None:
        """Without `goldens`, all can run. `needs_lane` says whether an op has to run once its goldens are known, or has
        a kept verdict."""
        self._goldens, self._needs_lane = goldens, needs_lane
        self._rows = {row.op_id: row for row in rows}
        self._place = {op_id: place for place, op_id in enumerate(self._rows)}
        self._ops = ReadyOps({} if goldens is None else goldens.exports, self._rows.values())
        self._back: dict[str, int] = {}
        self._looked = float("-inf")
        self.ready: dict[str, OpRow] = {}
        """The op as it was handed out or is settled, with its inputs and goldens, by id."""
        self._settled: list[str] = []

    def __bool__(self) -> bool:
        """Whether there are ops that were neither handed out nor settled."""
        return self._ops.waiting

    def take(self) -> Iterator[tuple[OpRow, str]]:
        """The ops that can run now, each with the folder of its files; empty where the export's own holds them."""
        if self._goldens is not None and time.monotonic() - self._looked < LOOK:
            return
        self._looked = time.monotonic()
        for op_id in sorted(self._ops.look(), key=self._place.__getitem__):
            try:
                row = self._rows[op_id] if self._goldens is None else self._goldens.now(self._rows[op_id])
            except (NoGoldens, Damaged):
                self._settled.append(op_id)  # whoever climbs it learns why
                continue
            if row is None:  # its files are gone, and nobody has said yet why
                self._ops.again(self._rows[op_id])
                continue
            self.ready[op_id] = row
            if self._needs_lane(row):
                yield row, "" if self._goldens is None else self._goldens.folder(row)
            else:
                self._settled.append(op_id)

    def settled(self) -> Iterator[str]:
        """Ids of the ops that need not be sent any more: they have a kept verdict, or will have no goldens."""
        while self._settled:
            yield self._settled.pop()

    def back(self, op_id: str) -> bool:
        """Takes an op back whose files were not where it was sent for them: their export may have been completed or
        given up meanwhile. False if it is not one of these, or has come back too often: then they are damaged."""
        if self._goldens is None or op_id not in self._rows or self._back.get(op_id, 0) >= MOST_BACK:
            return False
        self._back[op_id] = self._back.get(op_id, 0) + 1
        self.ready.pop(op_id, None)
        self._ops.again(self._rows[op_id])
        return True

    def idle(self, seconds: float) -> None:
        """Counts time in which a device had nothing to do because goldens were not there."""
        if self._goldens is not None and self._ops.waiting:
            self._goldens.waited += seconds
