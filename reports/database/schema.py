"""The tables of the results database, made from the records of a run (database.py builds it and brings it up to date).

    nights       one night, and what was expected of it (NightRecord); a single run counts as a night
    night_cells  per night: each backend, board, data format and model that was expected
    runs         one run and where it came from (RunRecord with its Origin), and the night that it belongs to
    models       per run and model: whether it ran, or why not, and which module it has
    uses         per module: each place where an op is used
    module_ops   per module: how often each op is used in it
    ops          one row per unique op, for all runs: everything that follows from its id
    op_tests     per run, op and attempt: the result on a backend (OpTest)
    structures   per run, op and backend: what the compiler made of it (Structure), mostly of whole models
    whole_models per run, model and backend: the model as one program (whole_models.py)
    errors       each fingerprint of an error, with an example message
    limitations  each limitation that named a failure
    op_alias     old and new id of an op whose id changed with the algorithm
    owners       which team owns which ops (ci/owners.yaml)
    notes        what people know of a cause, and until when it is acknowledged (opscope note)
    benchmarks   one row per `opscope benchmark --database` (reports/publish/benchmarks.py)

A module is the program of a model; a model that did not change has the same module in all runs. Metrics are SQL views
of the tables (reports/database/views/), so that command line, report and dashboards agree. What is too slow to count at
every query is counted at publish (schema_nights.py).
"""

from __future__ import annotations

import sqlalchemy as sa

from opscope.harness.record.records import OpTest, Origin, RunRecord
from opscope.reports.records.columns import COUNT, FLAG, JSON, REAL, TEXT, TIME, columns, of

# Constraint names that both databases share, for migrations to name.
METADATA = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s",
    }
)


NIGHTS = sa.Table(
    "nights",
    METADATA,
    *of(TEXT, "night_id", key=True),
    *of(TEXT, "kind name label"),
    *of(TIME, "started", index=True),
    *of(TEXT, "zone"),
    *of(JSON, "config"),
    *of(TEXT, "config_hash"),
    *of(JSON, "models backends archs data_formats"),
    *of(COUNT, "shards"),
    *of(FLAG, "demo"),
    *of(TEXT, "axis release"),
)
"""`kind` is `night`, or `run` for a single run, or `selection` for one in which ops were deselected, or `release` for
the night of a release. `label` is the date and time in the night's time zone. `axis` is `version` for a night of a
release, `time` for every other; `release` is the release, else empty."""

NIGHT_CELLS = sa.Table(
    "night_cells",
    METADATA,
    *of(TEXT, "night_id", sa.ForeignKey("nights.night_id", ondelete="CASCADE"), key=True),
    *of(TEXT, "backend arch data_format model", key=True),
)

RUNS = sa.Table(
    "runs",
    METADATA,
    *columns(RunRecord, keys=("run_id",), without=("origin",)),
    *columns(Origin),
    *of(TEXT, "night_id", sa.ForeignKey("nights.night_id")),
    *of(COUNT, "shard"),
    *of(TEXT, "series compiler jaxlib"),
    sa.Column("published", sa.JSON(none_as_null=True), nullable=True),
    sa.Index(None, "night_id"),
)
"""One row per run, with the fields of its Origin. `shard` is 0 if the run is not a shard. Runs of one `series` agree in
everything that affects an op's numbers. `compiler` is the backend's fingerprint. `published` holds the digest of the
records and of the code that made the rows (publish_digest.py), and the number of rows."""

MODELS = sa.Table(
    "models",
    METADATA,
    *of(TEXT, "run_id", sa.ForeignKey("runs.run_id", ondelete="CASCADE"), key=True),
    *of(TEXT, "model", key=True),
    *of(TEXT, "framework outcome reason artifact"),
    *of(TEXT, "module_id", null=True),
    *of(COUNT, "module_ops structural dead position"),
    *of(TEXT, "import_status import_text import_expected"),
)
"""One row per requested model. `framework` is what it was built with, empty for a StableHLO file. `outcome` is `ran` or
a ModelStatus, and `artifact` is the file with its traceback; the counts are those of ManifestHeader. The last columns
are its ImportCheck; empty if nothing was imported."""

OPS = sa.Table(
    "ops",
    METADATA,
    *of(TEXT, "op_id", key=True),
    *of(TEXT, "op_name", index=True),
    *of(TEXT, "op_kind"),
    *of(JSON, "inputs outputs op_params"),
    *of(TEXT, "signature dtype"),
    *of(COUNT, "rank"),
    *of(TEXT, "unsplittable cause"),
    sa.Index("ix_ops_label", sa.text("(op_name || ' ' || op_id)")),
)
"""One row per op id. `signature` is its types in one line: `f32[1,64], f32[64,10] -> f32[1,10]`; `dtype` and `rank`
are those of its first operand (of its first result if it has no operands). `cause` is that of an op that cannot be
split off (harness/record/causes.py), else empty. Dashboards look up an op by name and id together, with an index that
SQLAlchemy cannot reflect in SQLite."""

USES = sa.Table(
    "uses",
    METADATA,
    *of(TEXT, "module_id", key=True),
    *of(COUNT, "position", key=True),
    *of(TEXT, "op_id path location framework_op"),
    sqlite_with_rowid=False,
)
"""Where ops are used: one row per place in a module, in the manifest's order. A night may have a million of these rows,
so they are stored only in the primary key's index; `module_ops` finds the modules of an op and refers to `ops`."""

MODULE_OPS = sa.Table(
    "module_ops",
    METADATA,
    *of(TEXT, "module_id", key=True),
    *of(TEXT, "op_id", sa.ForeignKey("ops.op_id"), key=True),
    *of(COUNT, "uses"),
    sa.Index(None, "op_id"),
)
"""The number of rows in `uses` per module and op."""

DROPPED = ("op_params", "models", "locations", "jump", "structure")
"""Fields of OpTest that follow from the op and from the modules of its run; `jump` is in `whole_models`, `structure` in
`structures`."""

HAS_ERROR = sa.text("error_signature IS NOT NULL")
"""Condition of the index on error signatures: only the few ops that have one are in it."""
HAS_CAUSE = sa.text("cause IS NOT NULL")
"""Condition of the index on causes."""

TOLD_APART_BY = (
    *("night_id", "series", "op_id", "superseded_by", "status", "failed_stage", "error_signature", "crash_kind"),
    *("pcc", "largest_ulp", "cycles", "cycles_error", "stability"),
)
"""What an op's label depends on (opscope/base/labels.py), after what finds its row: two nights are compared in this
index alone, and only rows of ops that differ are read."""

OP_TESTS = sa.Table(
    "op_tests",
    METADATA,
    *columns(OpTest, keys=("run_id", "op_id", "backend", "attempt"), without=DROPPED),
    *of(TEXT, "night_id series superseded_by"),
    *of(REAL, "seconds compile_seconds"),
    *of(FLAG, "is_failure"),
    *of(TEXT, "cause", null=True),
    sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], ondelete="CASCADE"),
    sa.ForeignKeyConstraint(["op_id"], ["ops.op_id"]),
    sa.Index(None, "op_id"),
    sa.Index("ix_op_tests_labels", *TOLD_APART_BY),
    sa.Index(None, "error_signature", sqlite_where=HAS_ERROR, postgresql_where=HAS_ERROR),
    sa.Index(None, "cause", sqlite_where=HAS_CAUSE, postgresql_where=HAS_CAUSE),
)
"""The fields of OpTest and columns derived from them. `superseded_by` is empty in the row that counts in its night; in
other rows it names the run of the row that counts (the same run, if a later attempt counts). `is_failure`: whether the
op fails its run (rows.py); `compile_seconds`: seconds of the stages before `run`; `cause`: the cause of its failure
(harness/record/causes.py), NULL where it did not go wrong."""

STRUCTURES = sa.Table(
    "structures",
    METADATA,
    *of(TEXT, "run_id", sa.ForeignKey("runs.run_id", ondelete="CASCADE"), key=True),
    *of(TEXT, "op_id backend part name place", key=True),
    *of(COUNT, "number"),
    sqlite_with_rowid=False,
)
"""What is in the program of a record that has a Structure: a row per number. `part` is the field: `ops`, `ahead`,
`fused`, `memory`, `cycles`, each of whose rows has a `name`, or one that is a number itself (`casts`, `launches`, ...),
without a name. `place` is the memory and layout of a row of `memory`, else empty."""

ERRORS = sa.Table(
    "errors",
    METADATA,
    *of(TEXT, "error_signature", key=True),
    *of(TEXT, "stage message"),
    *of(TIME, "first_seen last_seen"),
)
"""`message` is the error message that was published first; `first_seen` and `last_seen` are start times of runs."""

LIMITATIONS = sa.Table(
    "limitations",
    METADATA,
    *of(TEXT, "limitation", key=True),
    *of(TEXT, "kind"),
    *of(TIME, "first_seen last_seen"),
)
"""`kind` is `notimpl`, `notyet` or `never`."""

OP_ALIAS = sa.Table(
    "op_alias",
    METADATA,
    *of(TEXT, "old_id", key=True),
    *of(TEXT, "new_id reason"),
)
"""The history of `old_id` continues under `new_id`."""

OWNERS = sa.Table(
    "owners",
    METADATA,
    *of(COUNT, "position", key=True),
    *of(TEXT, "team op stage cluster model"),
)
"""The rules of ci/owners.yaml in their order; the first that matches decides the team. Patterns are those of SQL's
LIKE with `!` as the escape character; those of `op` and `model` match a list that is written `, one, two,`."""

NOTES = sa.Table(
    "notes",
    METADATA,
    *of(TEXT, "cause", key=True),
    *of(TEXT, "text author written until"),
)
"""One note per cause. `written` is a date and time in UTC, as text; `until` is the last date for which the cause is
acknowledged, as text, and empty if it is not (notes.py)."""

BENCHMARKS = sa.Table(
    "benchmarks",
    METADATA,
    *of(TEXT, "benchmark_id", key=True),
    *of(TIME, "started", index=True),
    *of(TEXT, "host device model config task board compiler"),
    *of(COUNT, "microbatch loop_count inputs"),
    *of(FLAG, "timing_only"),
    *of(COUNT, "epochs simulated_cycles_per_input", null=True),
    *of(
        REAL,
        "push_seconds device_seconds pop_seconds total_seconds inputs_per_second simulated_seconds_per_input "
        "simulated_inputs_per_second",
        null=True,
    ),
    sa.Index(None, "model", "device"),
)
"""`benchmark_id` is the digest of the report, so that publishing it again changes nothing. A figure is NULL where it
was not measured: the host's with `--timing-only`, the simulated card's on another device."""
