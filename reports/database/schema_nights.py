"""Tables of counts per night, filled at publish so that a query over a year is quick (reports/publish/counting.py).

Every table has `night_id` and `series`, and its rows are computed again whenever a run of that night is published; all
of them can be derived from the records. An empty `model` stands for all models together, with each op counted once.
"""

from __future__ import annotations

import sqlalchemy as sa

from opscope.reports.database.schema import METADATA, count, text
from opscope.reports.records.columns import Utc

LEDGER = (
    "asked",
    "ran",
    "build_failed",
    "export_failed",
    "prepare_failed",
    "framework_missing",
    "not_run",
    "models_missing",
)
"""Columns of the ledger of models: the first is the sum of the others."""


def of_night() -> list[sa.Column[str]]:
    """The first two columns of every table here."""
    return [text("night_id", sa.ForeignKey("nights.night_id", ondelete="CASCADE"), key=True), text("series", key=True)]


NIGHT_SERIES = sa.Table(
    "night_series",
    METADATA,
    *of_night(),
    text("backend"),
    text("arch"),
    sa.Column("board", sa.Text(), nullable=True),
    text("dtype"),
    text("data_format"),
    text("math_fidelity"),
    sa.Column("started", Utc(), nullable=False, index=True),
    sa.Column("date", Utc(), nullable=False),
    sa.Column("due", Utc(), nullable=True),
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
    text("model", key=True),
    text("outcome"),
    text("reason"),
    text("run_id"),
    sa.Column("module_id", sa.Text(), nullable=True),
    *(count(name) for name in ("ops", "attempted_ops", "right_ops", "bad_ops", "flaky_ops")),
    *(count(name) for name in ("uses", "attempted_uses", "right_uses", "bad_uses")),
    sa.Index(None, "model", "night_id"),
    sa.Index(None, "module_id", "night_id", "series"),
)
"""One row per model that was requested or expected; `missing` is an outcome too. An op counts as right if its numbers
are right, wherever it ran; `night_counts` separates the places (`ran_on`)."""

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
"""How the ops of a night ended. `cycles` is the sum over all uses, `compile_seconds` the sum over all ops."""

NIGHT_KINDS = sa.Table(
    "night_kinds",
    METADATA,
    *of_night(),
    text("model", key=True),
    text("op_kind", key=True),
    *(count(name) for name in ("attempted_ops", "right_ops", "host_ops", "bad_ops", "attempted_uses", "right_uses")),
    *(count(name) for name in ("ops", "uses")),
)
"""Coverage: the rows of `night_counts` by model and op family, also of ops that were not attempted. An op counts as
right only if it ran where it should; `host_ops` are right on the host although they should run on a device."""

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
"""Ops attempted in both this night and the previous one, weighted by this night's uses."""

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
"""What `opscope diff` reports between the previous night and this one; ops that are SAME or ADDED have no row."""

NIGHT_CHANGE_MODELS = sa.Table(
    "night_change_models",
    METADATA,
    *of_night(),
    text("op_id", key=True),
    text("model", key=True),
    count("uses"),
)
"""The models of the night that use each op of `night_changes`, and how often."""

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
    sa.Index(None, "cluster"),
)
"""What `opscope unblock` reports for the night: causes of failure, those that block the most first. Those without a fix
to offer, since a limitation of kind `never` names all their ops, have positions below 0."""

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
"""The unlock curve: how many of the models are whole after each number of fixes."""

NIGHT_STAGES = sa.Table("night_stages", METADATA, *of_night(), text("stage", key=True), count("depth"))
"""The ladder of a series: each stage that its ops climbed, those of a backend's own words too, by its number from 1."""

NEWEST_OPS = sa.Table(
    "night_newest_ops",
    METADATA,
    *of_night(),
    text("model", key=True),
    text("op_id", key=True),
    text("op_kind"),
    text("op_name"),
    text("signature"),
    text("dtype"),
    count("rank"),
    count("uses"),
    text("status"),
    text("stage_reached"),
    *(sa.Column(name, sa.Text(), nullable=True) for name in ("failed_stage", "cluster", "error_message")),
    text("expected"),
    text("ran_on"),
    *(sa.Column(name, sa.Double(), nullable=True) for name in ("z_max", "pcc")),
    *(sa.Column(name, sa.BigInteger(), nullable=True) for name in ("cycles", "l1_peak_bytes", "dram_peak_bytes")),
    sa.Column("cycles_error", sa.Double(), nullable=True),
    sa.Column("limiter", sa.Text(), nullable=True),
    sa.Column("utilisation", sa.Double(), nullable=True),
    *(sa.Column(name, sa.BigInteger(), nullable=True) for name in ("dram_bytes", "noc_bytes")),
    sa.Column("compile_seconds", sa.Double(), nullable=True),
    sa.Column("seconds", sa.Double(), nullable=True),
    sa.Column("flaky", sa.Boolean(), nullable=False),
    text("run_id"),
    *(sa.Column(name, sa.Text(), nullable=True) for name in ("artifact", "repro")),
)
"""The ops of the newest night of each series, one row per model that uses the op, with the result that counts. Earlier
nights have no rows here. A join of five tables gives the same, in half a second for each chart of a night of 11,000."""

NIGHT_SENTENCES = sa.Table(
    "night_sentences",
    METADATA,
    *of_night(),
    text("verdict"),
    *(count(name) for name in ("new_failures", "causes", "fixed_ops", "slower_ops")),
    text("most_in"),
    text("sentence"),
    *(sa.Column(name, sa.Text(), nullable=False, server_default="") for name in ("about", "chips")),
)
"""What the night comes to (reports/compare/first_sentence.py): one row for each series, and one with an empty `series`
for all series of all nights of its kind on that date."""

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
