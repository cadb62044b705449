"""What changed, as one piece of data: what `opscope diff` prints and answers as JSON, and what an assistant reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.base.document.nodes import Cause
from opscope.base.labels import Label
from opscope.harness.record.causes import cause_named
from opscope.harness.record.errors import InputError
from opscope.reports.compare import diff as comparison
from opscope.reports.compare.changed_causes import sections_of
from opscope.reports.compare.diff import Diff
from opscope.reports.compare.first_sentence import Said, first_sentence, head_of, not_tonight, of_view
from opscope.reports.compare.lowered_differently import Lowered, compare_lowered, folder_of
from opscope.reports.compare.night_diff import diffs, series_alone, series_missing, since_date
from opscope.reports.compare.outcomes import RunView
from opscope.reports.compare.owned import own_diff
from opscope.reports.compare.run_selection import open_runs
from opscope.reports.database.newest import ahead_line
from opscope.reports.database.owners import rules_here

if TYPE_CHECKING:
    from opscope.wire import diff as wire


@dataclass(frozen=True)
class WhatChanged:
    """Two runs compared, or nights, series by series."""

    said: Said
    compared: Sequence[Diff]
    alone: Sequence[RunView]
    """Series that have nothing before them."""
    lowered: Sequence[Lowered]
    nights: bool
    of_release: bool
    cause: str = ""
    """The only cause that was asked for; empty for all."""

    @property
    def newest(self) -> datetime:
        """When the newest of the later runs began."""
        return max(view.started for view in [*(each.b for each in self.compared), *self.alone])

    def answer(self) -> wire.Diff | wire.Nights:
        """All of it, as `--json` prints it."""
        from opscope.wire import diff as wire

        series = [
            wire.series_of(each, None if self.cause else of)
            for each, of in zip(self.compared, self.lowered, strict=False)
        ]
        if self.nights or len(series) != 1:
            return wire.Nights(sentence=str(self.said), series=tuple(series))
        return wire.Diff(sentence=str(self.said), **dict(series[0]))

    def brief(self) -> dict[str, Any]:
        """Each cause once, the most urgent first, with the series that have it; of each series only its numbers."""
        places: dict[tuple[str, str], list[tuple[str, Cause]]] = {}
        for each in self.compared:
            for section in sections_of(each):
                for cause in section.causes:
                    key = section.title, cause.cause or cause.ops[0].op_id
                    places.setdefault(key, []).append((each.b.name, cause))
        order = [*map(str, Label)]
        causes = []
        for (title, _), of in places.items():
            widest = max((cause for _, cause in of), key=lambda cause: (len(cause.models), cause.uses))
            urgency = order.index(title) if title in order else len(order)
            causes.append((urgency, -len(widest.models), {"on": sorted({name for name, _ in of}), **widest.brief()}))
        causes.sort(key=lambda one: one[:2])
        from opscope.wire import diff as wire
        from opscope.wire.answer import text_of

        numbers = ("since", "counts", "news", "changes", "notes")
        return {
            "sentence": str(self.said),
            "causes": [cause for *_, cause in causes],
            "series": [
                {
                    "series": each.b.name,
                    "after": each.b.run_id,
                    "before": each.a.run_id,
                    **{
                        name: value
                        for name, value in json.loads(text_of(wire.series_of(each, None))).items()
                        if name in numbers
                    },
                }
                for each in self.compared
            ],
        }


def what_changed(
    url: str | None,
    run_a: str | None = None,
    run_b: str | None = None,
    since: datetime | None = None,
    cause: str | None = None,
    team: str | None = None,
    owners: Path | None = None,
) -> WhatChanged:
    """Compares two runs, nights or backends; without names the newest; `since` a date. `cause` begins the id of the
    only one that is asked for. Raises InputError for names that no run has, and where there is nothing to compare."""
    if since is not None and run_a is not None:
        raise InputError("opscope diff", "--since alone", f"`{run_a}` too", "opscope diff RUN_A RUN_B, or --since DATE")
    with open_runs(url, needed=since is not None, named=(run_a, run_b)) as runs:
        connection = runs.connection
        rules = rules_here(connection, owners, team=team)
        alone: list[RunView] = []
        missing = []
        if since is not None and connection is not None:
            (compared, alone), nights = since_date(connection, since.replace(tzinfo=UTC)), True
        else:
            compared, nights = diffs(runs, run_a, run_b)
        if nights and connection is not None and run_b is None:
            alone = alone if since is not None else series_alone(connection, run_a, compared)
            missing = series_missing(connection, (view.run_id for view in [*(each.b for each in compared), *alone]))
        lowered = [
            compare_lowered(each.a, each.b, *(folder_of(connection, view, runs.root) for view in (each.a, each.b)))
            for each in compared
        ]
        if run_a is None and connection is not None and compared and (line := ahead_line(connection)):
            compared[0] = replace(compared[0], notes=(*compared[0].notes, line))
        beginning = head_of(connection, [*(each.b for each in compared), *alone])
        compared = [own_diff(each, rules, team) for each in compared]
        facts = [*(of_view(each.b, each) for each in compared), *(of_view(view, None) for view in alone), *missing]
        if nights and connection is not None and run_a is None:
            facts += not_tonight(connection, facts)
    said = first_sentence(beginning, facts, rules, team)
    one = (
        "" if cause is None else cause_named(cause, (row.cluster for each in compared for row in each.rows), "--cause")
    )
    if one:
        compared = [of for each in compared if (of := comparison.of_cause(each, one)).rows]
    return WhatChanged(said, compared, alone, lowered, nights, beginning.startswith("release "), one)
