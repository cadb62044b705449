"""`opscope unblock --json`."""

from __future__ import annotations

from pydantic.dataclasses import dataclass

from opscope.reports.compare.unblock import FixPlan
from opscope.wire.answer import CONFIG, Answer


@dataclass(config=CONFIG, frozen=True)
class Unblock(FixPlan):
    """What to fix, in which order, for the models of some runs."""

    left_out: tuple[str, ...]
    """Ids of later runs of selected ops, which do not count."""
    stopped: tuple[str, ...]
    """The series that have stopped, or have no run in their newest night, by name and date: none of it is in this."""


class SeriesOfNight(Answer):
    """The same for each series of a night."""

    series: tuple[Unblock, ...]


PRINTS = Unblock | SeriesOfNight
