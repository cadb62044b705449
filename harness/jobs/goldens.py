"""Waits for the goldens of an op whose model is still being evaluated, until they are stored or will not be.

The preparation's own limits bound the time (`--prepare-timeout`, `--prepare-memory`), and the run's budget does; how
long a process has waited is counted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path

from opscope.base.damage import Damaged
from opscope.harness.cache import export_folder
from opscope.harness.cache.growing_export import GrowingExport
from opscope.harness.record.records import OpRow

PAUSE, MOST_PAUSE, SHARE = 0.01, 0.25, 1 / 50
"""Seconds between two looks at what was announced, least and most; between them, this share of what an op has waited so
far. Many workers that look often would take their time from what they wait for."""


class NoGoldens(Exception):
    """An op's goldens will not be made; the text says why."""


class CutOff(NoGoldens):
    """The time of --budget was over before an op's goldens were there."""


class AwaitedGoldens:
    """The exports under construction, as one process that climbs their ops sees them."""

    def __init__(
        self,
        announcements: Mapping[str, str],
        folders: MutableMapping[str, str],
        final: Mapping[str, str],
        controller: int,
        before_waiting: Callable[[], None] = lambda: None,
    ) -> None:
        """`announcements` has a file for each model that was not complete when the ops were collected. `final` has
        each model's export folder as it will be, and `folders` gets the one with the files of the op that `row`
        returned last. `controller` is the process that prepares the models. `before_waiting` is called where an op
        has to wait."""
        self._before_waiting = before_waiting
        self._exports = {model: GrowingExport(Path(path)) for model, path in announcements.items()}
        self._folders, self._final, self._controller = folders, final, controller
        self.waited = 0.0
        """Seconds that this process has waited."""

    def row(self, row: OpRow, in_time: Callable[[], bool] = lambda: True) -> OpRow:
        """The op with its inputs and goldens, of the first of its models that has them. Raises NoGoldens, also where
        they are not there once it is no more `in_time`."""
        if not row.uses or row.uses[0].model not in self._exports:
            return row
        since = time.monotonic()
        try:
            while (ready := self.now(row)) is None:
                if not in_time():
                    raise CutOff("budget")
                if self._controller not in (os.getpid(), os.getppid()):
                    raise NoGoldens("the process that prepared its model has ended")
                self._pause(since)
            return ready
        except Damaged as error:
            raise NoGoldens(str(error)) from error
        finally:
            self.waited += time.monotonic() - since

    @property
    def exports(self) -> Mapping[str, GrowingExport]:
        """The exports under construction, by model."""
        return self._exports

    def wait(self, is_over: Callable[[], bool]) -> None:
        """Waits until something is over, as `row` does."""
        since = time.monotonic()
        try:
            while not is_over():
                self._pause(since)
        finally:
            self.waited += time.monotonic() - since

    def _pause(self, since: float) -> None:
        """Waits a while, between two looks of which the first was at `since` (time.monotonic)."""
        self._before_waiting()
        time.sleep(min(MOST_PAUSE, max(PAUSE, SHARE * (time.monotonic() - since))))

    def now(self, row: OpRow) -> OpRow | None:
        """The op as it can run now; None if its goldens may still come. Raises NoGoldens, Damaged."""
        if not row.uses or row.uses[0].model not in self._exports:
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
        export = self._exports.get(model)
        if export is None:  # complete when the ops were collected
            return self._final_row(model, op_id)
        export.look()
        if export.cut_off:  # nor another model's, which a run with more time would not take
            raise CutOff(export.failure)
        if export.failure:
            return export.failure
        own = export.row(op_id)
        if own is None and export.gone:
            complete = export_folder.complete(Path(self._final[model]))
            return self._final_row(model, op_id) if complete else "what is known of them could not be written"
        if own is None and export.complete:
            return "it has no such op"
        folder = export.folder_of(op_id)
        if own is not None and folder is not None:
            if not export.ended and not folder.is_dir():  # why it is gone comes next, or nothing will
                complete = export_folder.complete(Path(self._final[model]))
                return self._final_row(model, op_id) if complete else None
            self._folders[model] = str(folder)
        return own

    def _final_row(self, model: str, op_id: str) -> OpRow | str:
        self._folders[model] = self._final[model]
        return export_folder.Rows(Path(self._final[model])).get(op_id) or "it has no such op"
