"""`opscope readiness --json`."""

from __future__ import annotations

from opscope.reports.compare import readiness
from opscope.reports.compare.readiness import Counted
from opscope.reports.compare.unblock import Missing
from opscope.reports.compare.whole_since import Night, Since
from opscope.wire.answer import Answer


class Readiness(Answer):
    """What keeps one model from being whole in a run, and how it was before."""

    model: str
    run_id: str
    missing: tuple[Missing, ...]
    history: tuple[Counted, ...]
    """Earlier runs and this one, oldest first."""
    nights: tuple[Night, ...]
    """Oldest first."""
    since: Since | None
    left_out: tuple[str, ...]
    """Ids of later runs of selected ops, which do not count."""
    stopped: tuple[str, ...]
    """The series with this model that have stopped, or have no run in their newest night, by name and date."""


def readiness_of(found: readiness.Readiness) -> Readiness:
    """The readiness of a model as `--json` prints it."""
    return Readiness(
        model=found.model,
        run_id=found.view.run_id,
        missing=tuple(found.missing),
        history=tuple(found.runs),
        nights=tuple(found.nights),
        since=found.since,
        left_out=tuple(run.run_id for run in found.left_out),
        stopped=tuple(found.stopped),
    )


class SeriesOfNight(Answer):
    """The same for each series of a night."""

    series: tuple[Readiness, ...]


PRINTS = Readiness | SeriesOfNight
