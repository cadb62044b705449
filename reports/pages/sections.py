"""Sections of report.html about more than the run's own rows: what changed since the last run, what to fix first.

They have the same rows as the output of `opscope diff` and `opscope unblock`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opscope.base.statuses import STATUSES
from opscope.harness.record.causes import short
from opscope.harness.record.errors import InputError
from opscope.harness.record.store import StoredRun
from opscope.reports.compare import diff as comparison
from opscope.reports.compare import to_fix
from opscope.reports.compare.changed_causes import document
from opscope.reports.compare.diff import Diff
from opscope.reports.compare.first_sentence import first_sentence, head_of, of_view
from opscope.reports.compare.history import slower_between
from opscope.reports.compare.outcomes import RunView, from_stored
from opscope.reports.compare.owned import Owned, own_diff, own_plan
from opscope.reports.compare.readiness import views_of
from opscope.reports.compare.run_selection import Runs
from opscope.reports.compare.unblock import FixPlan, plan
from opscope.reports.database.reading import exists, read_database
from opscope.reports.pages import night_causes
from opscope.reports.pages.vega_lite import Spec, channel, chart, layer, tooltip

MOST_ROWS = 200
"""Largest number of causes below a heading of the comparison; `opscope diff --json` has them all."""
MOST_FIXES = 30


def sections(run: StoredRun, url: str | None, owned: Owned) -> dict[str, Any]:
    """The values of the sections for the template, and night by cause; a list is empty if there is nothing to show."""
    backends = run.record.backend.split(",")
    views = [from_stored(run, "", backend) for backend in (backends if len(backends) > 1 else [""])]
    sides = [(view, since_last(view, url), plan(views_of(view))) for view in views]
    names = [view.name if len(views) > 1 else "" for view in views]
    diffs = [(name, diff) for name, (_, diff, _) in zip(names, sides, strict=True) if diff is not None]
    facts = [of_view(view, diff) for view, diff, _ in sides]
    return {
        **shown(diffs, [(name, fixes) for name, (_, _, fixes) in zip(names, sides, strict=True)], owned),
        "night": night_causes.of_run(sides, owned),
        "sentence": first_sentence(head_of(None, views), facts, owned.rules, owned.team),
        "quiet": {(view.backend, op_id) for view, each in zip(views, facts, strict=True) for op_id in each.quiet},
        "started": views[0].started.isoformat(),
    }


def shown(diffs: Sequence[tuple[str, Diff]], plans: Sequence[tuple[str, FixPlan]], owned: Owned) -> dict[str, Any]:
    """The same for given comparisons and rankings, each with its series' name if there are several."""
    diffs = [(series, own_diff(diff, owned.rules, owned.team)) for series, diff in diffs]
    plans = [(series, own_plan(fix_plan, owned.rules, owned.team)) for series, fix_plan in plans]
    return {
        "changes": [{"series": series, "nodes": [*document(diff, MOST_ROWS)]} for series, diff in diffs],
        "fixes": [
            {"series": series, "plan": fix_plan, "nodes": [*to_fix.document(fix_plan, MOST_FIXES, curve=False)]}
            for series, fix_plan in plans
            if fix_plan.fixes
        ],
        "most_rows": MOST_ROWS,
        "short": short,
    }


def since_last(view: RunView, url: str | None) -> Diff | None:
    """Compares the run with the newest comparable one before it; returns None if there is none, or no database."""
    try:
        if url is None or not exists(url):
            return None
        with read_database(url) as connection:
            runs = Runs(connection, Path())
            earlier = runs.before(view.run_id, view.started, view.series, view.models)
            if not earlier:
                return None
            before = runs.read(earlier[0], view.backend if len(earlier[0].backends) > 1 else "")
            return comparison.compare(before, view, slower_between(runs, before, view))
    except InputError:
        return None  # publishing reports what is wrong with a database; the rest of the report does not need it


def unlock_chart(fix_plan: FixPlan) -> Spec | None:
    """The unlock curve as a Vega-Lite specification; None for a single model, whose curve has no information."""
    if len(fix_plan.models) < 2 or len(fix_plan.curve) < 2:
        return None
    error = {fix.fix: fix.error for fix in fix_plan.fixes}
    data = [
        {
            "fixes": step.fixes,
            "whole": step.whole,
            "fix": short(step.fix),
            "error": error.get(step.fix, ""),
            "models": ", ".join(step.unlocked),
        }
        for step in fix_plan.curve
    ]
    steps = {
        "x": channel("fixes:Q", title="fixes, the best first", axis={"format": "d", "tickCount": _ticks(len(data))}),
        "y": channel(
            "whole:Q",
            title="whole models",
            scale={"domain": [0, len(fix_plan.models)]},
            axis={"format": "d", "tickCount": _ticks(len(fix_plan.models))},
        ),
        "tooltip": tooltip("fixes:Q", "whole:Q", "fix:N", "error:N", "models:N"),
    }
    style = {"interpolate": "step-after", "point": True, "color": STATUSES["success"].colour}
    return chart(220, layer("line", steps, data, **style))


def _ticks(most: int) -> int:
    """How many ticks an axis of whole numbers may have without repeating a number."""
    return min(most, 10)
