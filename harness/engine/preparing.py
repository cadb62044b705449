"""The jobs of a run's models on a thread, so that ops are climbed while the goldens of others are made.

The ops are known once all models are split. Each model that is not complete by then announces the ops that can run
(`cache/growing_export.py`), to lanes that wait for them (`engine/goldens.py`).
"""

from __future__ import annotations

import queue
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from opscope.base.slots import SlotServer
from opscope.harness.cache.growing_export import FOLDER, GrowingExport
from opscope.harness.engine.model_jobs import Means, ModelJobs
from opscope.harness.prepare.preparation import Preparation, Task
from opscope.harness.prepare.turn import Stopped
from opscope.harness.record.manifests import Manifest, merge, merge_all
from opscope.harness.record.records import ModelFailure
from opscope.harness.record.stages import ModelStatus

Event = Mapping[str, Any]
OF_A_MODEL = frozenset({"split", "done", "failed"})
"""Events after which more is known of a model."""


class Preparing:
    """The preparation of a run's models, from now until `finish` or `stop`."""

    def __init__(self, preparation: Preparation, run_dir: Path, means: Means, named: Sequence[Task] = ()) -> None:
        """`named` has the models of the preparation, where they are known. Raises InputError as `model_jobs.prepare`
        does, OSError for a run folder that cannot be written."""
        self._folder = run_dir / FOLDER
        shutil.rmtree(self._folder, ignore_errors=True)  # of a run that was killed
        self._folder.mkdir(parents=True)
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self.news = threading.Condition()
        """Notified when more is known of an export."""
        self.slots = SlotServer(means.at_once) if means.at_once > 1 else None
        """Of these every process has one that prepares a model or runs an op. None where there is one of each."""
        address = None if self.slots is None else self.slots.address
        means = replace(means, splits=self._folder, changed=self._tell, slots=address)
        try:
            self._jobs = ModelJobs(preparation, means, self._take, self._stop.is_set, named)
        except BaseException:
            self._clean_up()
            raise
        self._elsewhere = means.elsewhere
        self._result: Manifest | None = None
        self._error: BaseException | None = None
        self._ended = False
        """Whether the last event was taken."""
        self._thread = threading.Thread(target=self._work, name="opscope preparation", daemon=True)
        self._thread.start()

    def _tell(self) -> None:
        with self.news:
            self.news.notify_all()

    def _take(self, event: Event) -> None:
        if self._stop.is_set():
            raise Stopped
        self._events.put(event)

    def _work(self) -> None:
        try:
            self._result = self._jobs.done()
        except BaseException as error:  # noqa: BLE001 - raised again on the caller's thread
            self._error = error
            for model, export in self._jobs.exports.items():  # nobody may wait for ever
                if model not in self._jobs.outcomes:
                    export.fails(str(error) or type(error).__name__, cut_off=True)  # `--resume` makes them
        finally:
            if self._elsewhere is not None:
                self._elsewhere.close()
            self._events.put(None)

    def split(self, report: Callable[[Event], None]) -> Manifest | None:
        """The ops of all models once they are known; in the header's `unfinished` are models that are under way, or
        have failed since they were split.

        None if there is none of these: `finish` has the manifest. `report` gets the events until then. Raises
        InputError, and what `report` raises.
        """
        for event in self._events_to_come():
            report(event)
            if event["event"] in OF_A_MODEL and all(self._known(task.name) for task in self._jobs.tasks):
                break
        else:
            return None
        manifests: list[Manifest | ModelFailure] = []
        unfinished = []
        for task in self._jobs.tasks:
            outcome, known = self._jobs.outcomes.get(task.name), self._jobs.exports[task.name].manifest
            if not isinstance(outcome, tuple) and known is not None:
                outcome = known  # also of one that has failed since: which was faster decides nothing
                unfinished.append(task.name)
            assert outcome is not None
            manifests.append(outcome)
        if not unfinished:
            return None
        header, rows = merge_all(manifests)
        return header.model_copy(update={"unfinished": tuple(unfinished)}), rows

    def _events_to_come(self) -> Iterator[Event]:
        """The events from now until the end of the preparation."""
        while not self._ended:
            event = self._events.get()
            if event is None:
                self._ended = True
                return
            yield event

    def _known(self, model: str) -> bool:
        """Whether the ops of a model are known, or why there are none."""
        return self._jobs.outcomes.get(model) is not None or self._jobs.exports[model].manifest is not None

    def growing(self, models: Sequence[str]) -> dict[str, GrowingExport]:
        """What becomes known of the exports of some models."""
        return {model: self._jobs.exports[model] for model in models}

    def finish(self, report: Callable[[Event], None], early: Manifest | None = None) -> Manifest:
        """The complete manifest, once all models are prepared and checked against their frameworks.

        `early` is what `split` returned: a model in it that has failed since keeps its ops, as far as they were
        announced. One that the budget has cut off stays unfinished. Raises InputError, and what `report` raises: then
        `early` is what there is, all of it unfinished.
        """
        for event in self._events_to_come():
            report(event)
        self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._result is not None
        result = self._result
        if early is not None:
            result = self._completed(early, result)
        self._clean_up()
        return result

    def _completed(self, early: Manifest, late: Manifest) -> Manifest:
        """The manifest of now, with the ops of models that have failed, or were cut off, since they were split."""
        header, _ = late
        failures = {failure.model: failure for failure in header.failed}
        if failures.keys().isdisjoint(early[0].models):
            return late
        made: list[Manifest] = []
        lost: list[Manifest] = []
        unfinished = []
        for model in early[0].models:
            outcome, failure = self._jobs.outcomes.get(model), failures.get(model)
            if isinstance(outcome, tuple) and failure is None:
                made.append(outcome)
                continue
            assert failure is not None
            known = self._jobs.exports[model]
            assert known.manifest is not None
            announced, (own, rows) = known.announced(), known.manifest
            if failure.status is ModelStatus.NOT_RUN:  # in its place, so that the rest of the run knows equal ops
                made.append((own, [announced.get(row.op_id, row) for row in rows]))
                unfinished.append(model)
                continue
            reason = f"no goldens of {model}: {failure.error}"
            lost.append(
                (
                    own,
                    [
                        announced.get(row.op_id) or row.model_copy(update={"no_golden": row.no_golden or reason})
                        for row in rows
                    ],
                )
            )
        joined, all_rows = merge([*made, *lost])
        kept = {"failed": header.failed, "imports": header.imports, "unfinished": tuple(unfinished)}
        return joined.model_copy(update=kept), all_rows

    def stop(self) -> None:
        """Ends the preparation and waits for its end. Models that are not complete are prepared again by `--resume`."""
        self._stop.set()
        self._thread.join()
        self._clean_up()

    def _clean_up(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        if self.slots is not None:
            self.slots.close()
