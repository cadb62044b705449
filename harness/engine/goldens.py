"""Waits for the goldens of an op whose model is still being evaluated, until they are stored or will not be.

The preparation's own limits bound the time (`--prepare-timeout`, `--prepare-memory`), and the run's budget does; how
long a lane has waited is counted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path

from opscope.base.damage import Damaged
from opscope.harness.cache import export_folder
from opscope.harness.cache.growing_export import GrowingExport
from opscope.harness.record.records import OpRow

LOOK = 0.05
"""Seconds between two looks whether there is time to wait, and whether an export that has moved is complete."""


class NoGoldens(Exception):
    """An op's goldens will not be made; the text says why."""


class CutOff(NoGoldens):
    """The time of --budget was over before an op's goldens were there."""


class AwaitedGoldens:
    """The exports under construction, as one lane sees them."""

    def __init__(
        self,
        exports: Mapping[str, GrowingExport],
        news: threading.Condition,
        folders: MutableMapping[str, str],
        final: Mapping[str, str],
    ) -> None:
        """`exports` has each model that was not complete when the ops were collected; `news` is notified when more is
        known of one. `final` has each model's export folder as it will be, and `folders` gets the one with the files
        of the op that `row` returned last."""
        self.exports, self.news = exports, news
        self._folders, self._final = folders, final
        self.waited = 0.0
        """Seconds that this lane has waited."""

    def row(
        self, row: OpRow, in_time: Callable[[], bool] = lambda: True, check: Callable[[], None] = lambda: None
    ) -> OpRow:
        """The op with its inputs and goldens, of the first of its models that has them. `check` is called while it
        waits and may raise. Raises NoGoldens, also where they are not there once it is no more `in_time`."""
        if not row.uses or row.uses[0].model not in self.exports:
            return row
        since = time.monotonic()
        try:
            with self.news:
                while (ready := self.now(row)) is None:
                    if not in_time():
                        raise CutOff("budget")
                    check()
                    self.news.wait(LOOK)
            return ready
        except Damaged as error:
            raise NoGoldens(str(error)) from error
        finally:
            self.waited += time.monotonic() - since

    def now(self, row: OpRow) -> OpRow | None:
        """The op as it can run now; None if its goldens may still come. Raises NoGoldens, Damaged."""
        if not row.uses or row.uses[0].model not in self.exports:
            return row
        reasons = []
        for model in dict.fromkeys(use.model for use in row.uses):
            own = self._own(model, row.op_id)
            if isinstance(own, str):
                reasons.append(f"no goldens of {model}: {own}")
                continue
            if own is None:
                return None
            # Its files are in the folder of the first use's model.
            uses = sorted(row.uses, key=lambda use: use.model != model) if reasons else row.uses
            return own.model_copy(update={"uses": tuple(uses)})
        raise NoGoldens(reasons[0])

    def folder(self, row: OpRow) -> str:
        """Where the files are of an op that `now` has returned just before."""
        return self._folders[row.uses[0].model]

    def _own(self, model: str, op_id: str) -> OpRow | str | None:
        """One model's row of an op; why there will be none; None if it may still come."""
        export = self.exports.get(model)
        if export is None:  # complete when the ops were collected
            return self._final_row(model, op_id)
        if export.cut_off:  # nor another model's, which a run with more time would not take
            raise CutOff(export.failure)
        if export.failure:
            return export.failure
        own = export.row(op_id)
        if own is None and export.complete:
            return "it has no such op"
        folder = export.folder_of(op_id)
        if own is not None and folder is not None:
            if not export.ended and not folder.is_dir():  # why it is gone comes next
                complete = export_folder.complete(Path(self._final[model]))
                return self._final_row(model, op_id) if complete else None
            self._folders[model] = str(folder)
        return own

    def _final_row(self, model: str, op_id: str) -> OpRow | str:
        self._folders[model] = self._final[model]
        return export_folder.Rows(Path(self._final[model])).get(op_id) or "it has no such op"
