"""What a run's first children certainly need, imported by the process of which they are forks while pytest starts.

That process needs half a second for a framework, and as much for a backend, and does one thing at a time. It has the
framework when the first exporter is asked for, if it begins once the command line is read. While that exporter works,
it imports what splits and walks a model, and backends only when a split has begun: nothing waits for them before.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.base.children import forked
from opscope.harness.backends import registry
from opscope.harness.cache import export_folder
from opscope.harness.prepare import exporting, make_folder
from opscope.harness.run import lanes_ahead
from opscope.models import frontends
from opscope.models.frontends import packages_ahead

if TYPE_CHECKING:
    from opscope.harness.run.request import Request


def begin(request: Request) -> None:
    """Begins for a new run: with what makes models that are not in the cache, else with lanes if all ops will run."""
    unmade = [
        task
        for task in request.named
        if not (task.missing or task.unreadable or export_folder.complete(Path(task.folder)))
    ]
    if unmade:
        packages = {
            packages_ahead.for_all_children(frontends.get(task.export.framework))
            for task in unmade
            if task.export is not None and not exporting.is_kept(task.export, Path(task.folder).parent.parent)
        }
        for ahead in filter(None, packages):
            forked.get_ready(exporting.EXPORTER, ahead)
        if request.settings["cluster"] is None:
            lanes_ahead.load_libraries(registry.split_names(request.settings["backend"]))
    elif request.named and request.settings["no_cache"] and request.settings["cluster"] is None:
        lanes_ahead.for_lanes(registry.split_names(request.settings["backend"]))


def for_splits() -> None:
    """Begins for models that are being exported, once the first exporter has been asked for."""
    forked.get_ready(make_folder.CHILD)


def lanes_may_load(event: Mapping[str, Any]) -> bool:
    """Whether an event of the preparation says that a model is being made, and that nothing waits for the process of
    which children are forks: not an exporter that is one, nor the child that will split its export."""
    return event["event"] == "stage" and not event.get("forked")
