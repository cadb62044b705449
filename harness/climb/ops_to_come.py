"""The ops of a run as a cluster may be sent them: each once its goldens are stored, in the order of the plan.

Nothing here waits. Whoever sends ops asks again and again, and says how long its devices had nothing to do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

from opscope.base.damage import Damaged
from opscope.harness.climb.awaited_goldens import AwaitedGoldens, NoGoldens
from opscope.harness.record.records import OpRow

LOOK = 0.1
"""Seconds between two looks at what was announced, at least."""

MOST_BACK = 3
"""How often an op may come back because its files were not where it was sent for them."""


class OpsToCome:
    """Ops whose goldens are being made."""

    def __init__(
        self,
        rows: Iterable[OpRow],
        goldens: AwaitedGoldens | None = None,
        needs_lane: Callable[[OpRow], bool] = lambda row: True,
    ) -> None:
        """`rows` are in the order of the plan. Without `goldens`, all can run. `needs_lane` says whether an op has to
        run once its goldens are known, or has a kept verdict."""
        self._goldens, self._needs_lane = goldens, needs_lane
        self._rows = {row.op_id: row for row in rows}
        self._place = {op_id: place for place, op_id in enumerate(self._rows)}
        self._waiting = dict.fromkeys(self._rows)
        """Ids of the ops that were neither handed out nor settled."""
        self._unasked = set(self._rows)
        """Those of which more may be known than when they were last asked about."""
        self._of_model: dict[str, list[str]] = {}
        for row in self._rows.values():
            for model in {use.model for use in row.uses}:
                self._of_model.setdefault(model, []).append(row.op_id)
        self._back: dict[str, int] = {}
        self._looked = float("-inf")
        self.ready: dict[str, OpRow] = {}
        """The op as it was handed out or is settled, with its inputs and goldens, by id."""
        self._settled: list[str] = []

    def __bool__(self) -> bool:
        """Whether there are ops that were neither handed out nor settled."""
        return bool(self._waiting)

    def take(self) -> Iterator[tuple[OpRow, str]]:
        """The ops that can run now, each with the folder of its files; empty where the export's own holds them."""
        if not self._waiting:
            return
        if self._goldens is not None:
            if time.monotonic() - self._looked < LOOK:
                return
            self._looked = time.monotonic()
            announced, ended = self._goldens.news()
            for model in ended:
                announced.update(self._of_model.get(model, ()))
            self._unasked |= announced
        asked, self._unasked = sorted(self._unasked & self._waiting.keys(), key=self._place.__getitem__), set()
        for op_id in asked:
            try:
                row = self._rows[op_id] if self._goldens is None else self._goldens.now(self._rows[op_id])
            except (NoGoldens, Damaged):
                self._settle(op_id)  # whoever climbs it learns why
                continue
            if row is None:
                continue
            self.ready[op_id] = row
            if self._needs_lane(row):
                del self._waiting[op_id]
                yield row, "" if self._goldens is None else self._goldens.folder(row)
            else:
                self._settle(op_id)

    def settled(self) -> Iterator[str]:
        """Ids of the ops that need not be sent any more: they have a kept verdict, or will have no goldens."""
        while self._settled:
            yield self._settled.pop()

    def _settle(self, op_id: str) -> None:
        del self._waiting[op_id]
        self._settled.append(op_id)

    def back(self, op_id: str) -> bool:
        """Takes an op back whose files were not where it was sent for them: their export may have been completed or
        given up meanwhile. False if it is not one of these, or has come back too often: then they are damaged."""
        if self._goldens is None or op_id not in self._rows or self._back.get(op_id, 0) >= MOST_BACK:
            return False
        self._back[op_id] = self._back.get(op_id, 0) + 1
        self.ready.pop(op_id, None)
        self._waiting[op_id] = None
        self._unasked.add(op_id)
        return True

    def idle(self, seconds: float) -> None:
        """Counts time in which a device had nothing to do because goldens were not there."""
        if self._goldens is not None and self._waiting:
            self._goldens.waited += seconds
