"""Old names of views and columns, which keep working beside the new ones for one release.

The files of the views have only the new names; `with_old_names` adds the old ones when the views are created.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile

UNTIL = "0.2.0"
"""The version that removes the old names and this module."""

VIEWS = {
    "night_lanes": "night_places",
    **{
        f"board_{what}": f"dashboard_{what}"
        for what in (
            "changes",
            "counts",
            "curve",
            "fixes",
            "history",
            "models",
            "nights",
            "ops",
            "pairs",
        )
    },
}
"""Old name of a view -> its new name."""

_NIGHT = {"label": "night"}
_PLATFORM = {"target": "platform"}
_FAILURE = {"stage": "failed_stage", "message": "error_message", "known": "expected"}

COLUMNS: dict[str, dict[str, str]] = {
    "coverage": {"passed_ops": "right_ops", "passed_uses": "right_uses", "coverage": "pass_rate"},
    "dashboard_changes": {**_PLATFORM, "stage": "failed_stage", "error": "error_message", "known": "expected"},
    "dashboard_counts": {
        **_PLATFORM,
        "lane": "place",
        "stage": "furthest_stage",
        "known_ops": "expected_ops",
        "cycles": "cycles_of_all_uses",
    },
    "dashboard_fixes": {**_PLATFORM, "stage": "failed_stage", "error": "error_message", "known_ops": "expected_ops"},
    "dashboard_history": {**_PLATFORM, "error": "error_message"},
    "dashboard_ops": {**_PLATFORM, "stage": "furthest_stage", "error": "error_message"},
    "dashboard_curve": _PLATFORM,
    "dashboard_models": _PLATFORM,
    "dashboard_pairs": _PLATFORM,
    "ledger": {"known_limitation": "is_expected", "flaky": "flaky_ops"},
    "model_blockers": {"label_of_night": "night", **_FAILURE},
    "model_readiness": _NIGHT,
    "newest_ops": {"cause": "cluster", "error": "error_message"},
    "night_clusters": {
        **_NIGHT,
        "stage": "failed_stage",
        "message": "error_message",
        "known_ops": "expected_ops",
    },
    "night_costs": {**_NIGHT, "cycles": "cycles_of_all_uses", "measured_ops": "right_ops"},
    "night_coverage": {**_NIGHT, "coverage": "pass_rate"},
    "night_diff": _FAILURE,
    "night_failures": {"label_of_night": "night", **_FAILURE},
    "night_ladder": {**_NIGHT, "step": "depth", "known": "is_expected", "cycles": "cycles_of_all_uses"},
    "night_ops": _NIGHT,
    "night_places": {"lane": "place"},
    "night_rates": {
        **_NIGHT,
        "rate": "pass_rate",
        "rate_before": "pass_rate_before",
        "rate_of_uses": "pass_rate_of_uses",
    },
    "night_status": {**_NIGHT, "status": "night_status"},
    "night_statuses": {**_NIGHT, "known": "is_expected"},
    "night_unlock": {**_NIGHT, "models": "all_models", "message": "error_message"},
    "pass_rate": {"passed_ops": "right_ops", "passed_uses": "right_uses"},
}
"""View -> old name of a column -> its new name."""


def with_old_names(selects: Mapping[str, str]) -> dict[str, str]:
    """Returns `selects` with the old column names added, and with a view for each old view name at the end."""
    views = {name: _with_columns(select, COLUMNS.get(name, {})) for name, select in selects.items()}
    aliases = {
        old: f"-- Old name of `{new}`, until opscope {UNTIL}.\nSELECT * FROM {new}" for old, new in VIEWS.items()
    }
    return {**views, **aliases}


def _with_columns(select: str, old_names: dict[str, str]) -> str:
    if not old_names:
        return select
    # The comment that describes the view stays at the top.
    comment = "".join(takewhile(lambda line: line.startswith("--"), select.splitlines(keepends=True)))
    more = ", ".join(f"v.{new} AS {old}" for old, new in old_names.items())
    return f"{comment}SELECT v.*, {more}\nFROM (\n{select.removeprefix(comment)}\n) v"
