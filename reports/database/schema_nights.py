"""Tables of counts per night, filled at publish so that a query over a year is quick (reports/publish/counting.py).

Every table has `night_id` and `series`, and its rows are computed again whenever a run of that night is published; all
of them can be derived from the records. An empty `model` stands for all models together, with each op counted once.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from opscope.reports.database.schema import METADATA
from opscope.reports.records.columns import COUNT, FLAG, REAL, TEXT, TIME, of

LEDGER = (
    *("asked", "ran", "build_failed", "export_failed"),
    *("prepare_failed", "framework_missing", "not_run", "models_missing"),
)
"""Columns of the ledger of models: the first is the sum of the others."""


def of_night() -> list[sa.Column[Any]]:
    """The first two columns of every table here."""
    night = of(TEXT, "night_id", sa.ForeignKey("nights.night_id", ondelete="CASCADE"), key=True)
    return [*night, *of(TEXT, "series", key=True)]


def in_series(table: sa.FromClause) -> sa.ColumnElement[bool]:
    """Whether a row is of a night in one series, which `of_series` gives as parameters.

    To build a statement and look up how it was compiled takes several times as long as to run it on the few rows of a
    small run: those of publishing and of views of nights are built once.
    """
    return (table.c.night_id == sa.bindparam("of_night")) & (table.c.series == sa.bindparam("of_series"))


def of_series(night_id: str, series: str) -> dict[str, str]:
    """The parameters of `in_series`."""
    return {"of_night": night_id, "of_series": series}


NIGHT_SERIES = sa.Table(
    "night_series",
    METADATA,
    *of_night(),
    *of(TEXT, "backend arch"),
    *of(TEXT, "board", null=True),
    *of(TEXT, "dtype data_format math_fidelity"),
    *of(TIME, "started", index=True),
    *of(TIME, "date"),
    *of(TIME, "due", null=True),
    *of(TEXT, "previous_night compiler jaxlib revision"),
    *of(FLAG, "compiler_changed jaxlib_changed models_changed"),
    *of(TEXT, "status missing"),
    *of(COUNT, " ".join(LEDGER)),
    sa.Index(None, "series", "date", "started"),
)
"""One row per night and series. `arch` is the board that was asked for, `board` the one that there is: empty where the
backend has none, null where no op was tried, so that nobody knows. `data_format` is `default` where none was asked for.
`date` is that of its start in its time zone, as a midnight in UTC; `previous_night` is the last earlier night of the
series with a model in common; `status` is `complete`, `partial` or `broken`, `missing` lists
what did not arrive, and where no night has followed by `due`, the series has stopped."""

NIGHT_MODELS = sa.Table(
    "night_models",
    METADATA,
    *of_night(),
    *of(TEXT, "model", key=True),
    *of(TEXT, "outcome reason run_id"),
    *of(TEXT, "module_id", null=True),
    *of(COUNT, "ops attempted_ops right_ops bad_ops flaky_ops uses attempted_uses right_uses bad_uses"),
    sa.Index(None, "model", "night_id"),
    sa.Index(None, "module_id", "night_id", "series"),
)
"""One row per model that was requested or expected; `missing` is an outcome too. An op counts as right if its numbers
are right, wherever it ran; `night_counts` separates the places (`ran_on`)."""

NIGHT_COUNTS = sa.Table(
    "night_counts",
    METADATA,
    *of_night(),
    *of(TEXT, "model op_name", key=True),
    *of(TEXT, "op_kind"),
    *of(TEXT, "status stage_reached ran_on", key=True),
    *of(FLAG, "known", key=True),
    *of(COUNT, "ops uses flaky_ops cycles l1_peak_bytes"),
    *of(REAL, "compile_seconds"),
    sa.Index(None, "model", "night_id"),
)
"""How the ops of a night ended. `cycles` is the sum over all uses, `compile_seconds` the sum over all ops."""

NIGHT_KINDS = sa.Table(
    "night_kinds",
    METADATA,
    *of_night(),
    *of(TEXT, "model op_kind", key=True),
    *of(COUNT, "attempted_ops right_ops host_ops bad_ops attempted_uses right_uses ops uses"),
)
"""Coverage: the rows of `night_counts` by model and op family, also of ops that were not attempted. An op counts as
right only if it ran where it should; `host_ops` are right on the host although they should run on a device."""

NIGHT_PAIRS = sa.Table(
    "night_pairs",
    METADATA,
    *of_night(),
    *of(TEXT, "model ran_on", key=True),
    *of(COUNT, "both_ops right_before right_now both_uses right_uses_before right_uses_now"),
    sa.Index(None, "model", "night_id"),
)
"""Ops attempted in both this night and the previous one, weighted by this night's uses."""

NIGHT_CHANGES = sa.Table(
    "night_changes",
    METADATA,
    *of_night(),
    *of(TEXT, "op_id", key=True),
    *of(TEXT, "label note known cluster stage message status_before status_now models"),
    *of(COUNT, "model_count uses"),
    *of(FLAG, "flaky"),
    *of(REAL, "pcc_before pcc_now", null=True),
    *of(COUNT, "cycles_before cycles_now", null=True),
    *of(REAL, "compile_ms_before compile_ms_now", null=True),
    sa.Index(None, "op_id"),
)
"""What `opscope diff` reports between the previous night and this one; ops that are SAME or ADDED have no row."""

NIGHT_CHANGE_MODELS = sa.Table(
    "night_change_models",
    METADATA,
    *of_night(),
    *of(TEXT, "op_id model", key=True),
    *of(COUNT, "uses"),
)
"""The models of the night that use each op of `night_changes`, and how often."""

NIGHT_FIXES = sa.Table(
    "night_fixes",
    METADATA,
    *of_night(),
    *of(COUNT, "position", key=True),
    *of(TEXT, "cluster stage message op_names models"),
    *of(COUNT, "model_count alone uses ops known"),
    *of(TEXT, "repro"),
    sa.Index(None, "cluster"),
)
"""What `opscope unblock` reports for the night: causes of failure, those that block the most first. Those without a fix
to offer, since a limitation of kind `never` names all their ops, have positions below 0."""

NIGHT_CURVE = sa.Table(
    "night_curve",
    METADATA,
    *of_night(),
    *of(COUNT, "fixes", key=True),
    *of(TEXT, "cluster"),
    *of(COUNT, "whole models"),
    *of(TEXT, "unlocked"),
)
"""The unlock curve: how many of the models are whole after each number of fixes."""

NIGHT_STAGES = sa.Table(
    "night_stages",
    METADATA,
    *of_night(),
    *of(TEXT, "stage", key=True),
    *of(COUNT, "depth"),
)
"""The ladder of a series: each stage that its ops climbed, those of a backend's own words too, by its number from 1."""

NEWEST_OPS = sa.Table(
    "night_newest_ops",
    METADATA,
    *of_night(),
    *of(TEXT, "model op_id", key=True),
    *of(TEXT, "op_kind op_name signature dtype"),
    *of(COUNT, "rank uses"),
    *of(TEXT, "status stage_reached"),
    *of(TEXT, "failed_stage cluster error_message", null=True),
    *of(TEXT, "expected ran_on"),
    *of(REAL, "z_max pcc", null=True),
    *of(COUNT, "cycles l1_peak_bytes dram_peak_bytes", null=True),
    *of(REAL, "cycles_error", null=True),
    *of(TEXT, "limiter", null=True),
    *of(REAL, "utilisation", null=True),
    *of(COUNT, "dram_bytes noc_bytes", null=True),
    *of(REAL, "compile_seconds seconds", null=True),
    *of(FLAG, "flaky"),
    *of(TEXT, "run_id"),
    *of(TEXT, "artifact repro", null=True),
)
"""The ops of the newest night of each series, one row per model that uses the op, with the result that counts. Earlier
nights have no rows here. A join of five tables gives the same, in half a second for each chart of a night of 11,000."""

NIGHT_SENTENCES = sa.Table(
    "night_sentences",
    METADATA,
    *of_night(),
    *of(TEXT, "verdict"),
    *of(COUNT, "new_failures causes fixed_ops slower_ops"),
    *of(TEXT, "most_in sentence"),
    *of(TEXT, "about chips", server_default=""),
)
"""What the night comes to (reports/compare/first_sentence.py): one row for each series, and one with an empty `series`
for all series of all nights of its kind on that date. Notes and owners that are written later are in those of the
newest night of each series alone."""

COUNTED = (
    NIGHT_SERIES,
    NIGHT_MODELS,
    NIGHT_COUNTS,
    NIGHT_KINDS,
    NIGHT_PAIRS,
    NIGHT_CHANGES,
    NIGHT_CHANGE_MODELS,
    NIGHT_FIXES,
    NIGHT_CURVE,
    NIGHT_STAGES,
    NEWEST_OPS,
    NIGHT_SENTENCES,
)
