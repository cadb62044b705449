"""Which ops of a run can run by now, while goldens of others are still made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from opscope.harness.cache.growing_export import GrowingExport
from opscope.harness.record.records import OpRow


class ReadyOps:
    """Some ops, of which each becomes ready once: its goldens are there, or it is known that there will be none."""

    def __init__(self, exports: Mapping[str, GrowingExport], rows: Iterable[OpRow]) -> None:
        """`exports` has the models that were not complete when the ops were collected."""
        self._exports = dict(exports)
        self._waiting = {row.op_id: row for row in rows}
        self._of_model: dict[str, list[str]] = {model: [] for model in exports}
        for row in self._waiting.values():
            for model in {use.model for use in row.uses} & self._of_model.keys():
                self._of_model[model].append(row.op_id)
        self._announced = dict.fromkeys(exports, 0)
        """How many ops of each of these models were announced at the last look."""
        self._first = True

    @property
    def waiting(self) -> bool:
        """Whether some are not ready."""
        return bool(self._waiting)

    def look(self) -> list[str]:
        """Ids of the ops that have become ready since the last look."""
        changed = list(self._waiting) if self._first else []
        self._first = False
        for model in list(self._of_model):
            export = self._exports[model]
            export.look()
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
