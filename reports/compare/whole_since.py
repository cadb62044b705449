"""Since which night, and by which commits, a model has been whole, or has not been."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from opscope.harness.record.commits.checkout import Commit
from opscope.reports.compare.commit_range import CommitRange, commit_of
from opscope.reports.compare.night_times import timed
from opscope.reports.compare.night_views import newest_run
from opscope.reports.database.rows import RAN

if TYPE_CHECKING:
    from opscope.wire.show import ModelNight


@dataclass(frozen=True)
class Night:
    """A model in one night, in unique ops."""

    night_id: str
    label: str
    """The night's date and time, in its `zone`."""
    outcome: str
    reason: str
    ops: int
    right_ops: int
    bad_ops: int
    not_attempted: int
    whole: int
    started: str
    """Date and time with its zone."""
    zone: str


@dataclass(frozen=True)
class Since:
    """The oldest night of those in which a model has been as it is now, without a break."""

    whole: bool
    night: str
    """The label of that night, with its zone."""
    range: str = ""
    """The commits between it and the night before; empty where neither names one."""
    url: str = ""

    @property
    def text(self) -> str:
        """One sentence for a page."""
        commits = "  ".join(filter(None, (self.range, self.url)))
        state = "whole" if self.whole else "not whole"
        return f"{state} since {self.night}" + (f", commits {commits}" if commits else "")


def whole_since(
    connection: sa.Connection, nights: Sequence[Night | ModelNight], series: str, backend: str
) -> Since | None:
    """Since when a model is as it is in the newest of its nights in a series; None where it ran in no night.

    The newest night is the first. One in which the model did not run says nothing, and neither does one before the
    newest that left out some of its ops and went wrong at none.
    """
    ran = [night for night in nights if night.outcome == RAN]
    ran = [*ran[:1], *(night for night in ran[1:] if night.whole or night.bad_ops or not night.not_attempted)]
    if not ran:
        return None
    whole = [bool(night.whole) for night in ran]
    changed = next((place for place, each in enumerate(whole) if each != whole[0]), len(ran))
    first = ran[changed - 1]
    before = _commit(connection, ran[changed].night_id, series, backend) if changed < len(ran) else Commit()
    commits = CommitRange(before, _commit(connection, first.night_id, series, backend))
    when = timed(first.label, first.zone)
    if not (commits.old.revision or commits.new.revision):
        return Since(whole[0], when)
    return Since(whole[0], when, commits.text, commits.url)


def _commit(connection: sa.Connection, night_id: str, series: str, backend: str) -> Commit:
    """The commit of a night in a series: that of its newest run."""
    run = newest_run(connection, night_id, series)
    return Commit() if run is None else commit_of(run, backend)
