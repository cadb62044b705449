"""What is counted at publish, night by night, so that a look at a year is quick (summaries.py, night_changes.py).

Every table has `night_id` and `series`, and its rows are made again whenever a run of that night arrives: they hold
nothing that the records do not. In `model`, an empty text stands for all models together, each op counted once.
"""

from __future__ import annotations

import sqlalchemy as sa

from opscope.reports.database.schema import METADATA, count, text
from opscope.reports.records.columns import Utc

LEDGER = ("asked", "ran", "build_failed", "export_failed", "prepare_failed", "framework_missing", "models_missing")
"""The ledger of models: the first is the sum of the others."""


def of_night() -> list[sa.Column[str]]:
    """The two columns that every table here begins with."""
    return [text("night_id", sa.ForeignKey("nights.night_id", ondelete="CASCADE"), key=True), text("series", key=True)]


NIGHT_SERIES = sa.Table(
    "night_series",
    METADATA,
    *of_night(),
    text("backend"),
    text("arch"),
    text("dtype"),
    text("data_format"),
    text("math_fidelity"),
    sa.Column("started", Utc(), nullable=False, index=True),
    text("previous_night"),
    text("compiler"),
    text("jaxlib"),
    text("revision"),
    sa.Column("compiler_changed", sa.Boolean(), nullable=False),
    sa.Column("jaxlib_changed", sa.Boolean(), nullable=False),
    sa.Column("models_changed", sa.Boolean(), nullable=False),
    text("status"),
    text("missing"),
    *(count(name) for name in LEDGER),
)
"""One row per night and series. `previous_night` is the one before it in the series with a model in common; `status` is
`complete` or `partial`, and `missing` says what is not there."""

NIGHT_MODELS = sa.Table(
    "night_models",
    METADATA,
    *of_night(),
    text("model", key=True),
    text("outcome"),
    text("reason"),
    text("run_id"),
    sa.Column("module_id", sa.Text(), nullable=True),
    *(count(name) for name in ("ops", "attempted_ops", "right_ops", "bad_ops", "flaky_ops")),
    *(count(name) for name in ("uses", "attempted_uses", "right_uses", "bad_uses")),
    sa.Index(None, "model", "night_id"),
)
"""One row per model that was asked for or expected; `missing` is an outcome too. A right op is one whose numbers are
right on whatever it ran on; places are kept apart in `night_counts`."""

NIGHT_COUNTS = sa.Table(
    "night_counts",
    METADATA,
    *of_night(),
    text("model", key=True),
    text("op_name", key=True),
    text("op_kind"),
    text("status", key=True),
    text("stage_reached", key=True),
    text("ran_on", key=True),
    sa.Column("known", sa.Boolean(), primary_key=True, nullable=False),
    *(count(name) for name in ("ops", "uses", "flaky_ops", "cycles", "l1_peak_bytes")),
    sa.Column("compile_seconds", sa.Double(), nullable=False),
    sa.Index(None, "model", "night_id"),
)
"""How the ops of a night ended. `cycles` and `compile_seconds` are of all uses and of all ops, one after another."""

NIGHT_KINDS = sa.Table(
    "night_kinds",
    METADATA,
    *of_night(),
    text("model", key=True),
    text("op_kind", key=True),
    *(count(name) for name in ("attempted_ops", "right_ops", "host_ops", "bad_ops", "attempted_uses", "right_uses")),
)
"""The rows of `night_counts` of each model by family of ops, without ops that were not attempted: coverage. An op is
right only at the place where it has to run to count; `host_ops` are right on the host although that is a device."""

NIGHT_PAIRS = sa.Table(
    "night_pairs",
    METADATA,
    *of_night(),
    text("model", key=True),
    text("ran_on", key=True),
    *(count(name) for name in ("both_ops", "right_before", "right_now")),
    *(count(name) for name in ("both_uses", "right_uses_before", "right_uses_now")),
    sa.Index(None, "model", "night_id"),
)
"""Like for like: ops attempted in this night and in the one before it, weighed by this night's uses."""

NIGHT_CHANGES = sa.Table(
    "night_changes",
    METADATA,
    *of_night(),
    text("op_id", key=True),
    text("label"),
    text("note"),
    text("known"),
    text("cluster"),
    text("stage"),
    text("message"),
    text("status_before"),
    text("status_now"),
    text("models"),
    count("model_count"),
    count("uses"),
    sa.Column("flaky", sa.Boolean(), nullable=False),
    sa.Column("pcc_before", sa.Double(), nullable=True),
    sa.Column("pcc_now", sa.Double(), nullable=True),
    sa.Column("cycles_before", sa.BigInteger(), nullable=True),
    sa.Column("cycles_now", sa.BigInteger(), nullable=True),
    sa.Column("compile_ms_before", sa.Double(), nullable=True),
    sa.Column("compile_ms_now", sa.Double(), nullable=True),
    sa.Index(None, "op_id"),
)
"""What `opscope diff` says of the night against the one before it; ops that are SAME or ADDED have no row."""

NIGHT_CHANGE_MODELS = sa.Table(
    "night_change_models",
    METADATA,
    *of_night(),
    text("op_id", key=True),
    text("model", key=True),
    count("uses"),
)
"""The models of the night that each op of `night_changes` stands in, and how often."""

NIGHT_FIXES = sa.Table(
    "night_fixes",
    METADATA,
    *of_night(),
    count("position", key=True),
    text("cluster"),
    text("stage"),
    text("message"),
    text("op_names"),
    text("models"),
    *(count(name) for name in ("model_count", "alone", "uses", "ops", "known")),
    text("repro"),
)
"""What `opscope unblock` says of the night: causes of failure, what holds the most back first."""

NIGHT_CURVE = sa.Table(
    "night_curve",
    METADATA,
    *of_night(),
    count("fixes", key=True),
    text("cluster"),
    count("whole"),
    count("models"),
    text("unlocked"),
)
"""The unlock curve: after so many fixes, so many of the models are whole."""

COUNTED = (
    NIGHT_SERIES, NIGHT_MODELS, NIGHT_COUNTS, NIGHT_KINDS, NIGHT_PAIRS, NIGHT_CHANGES, NIGHT_CHANGE_MODELS, NIGHT_FIXES,
    NIGHT_CURVE,
)  # fmt: skip
