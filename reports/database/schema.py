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
from opscope.reports.records.columns import Utc, columns

# Constraint names that both databases share, for migrations to name.
METADATA = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s",
    }
)


def text(name: str, *more: sa.ForeignKey, key: bool = False) -> sa.Column[str]:
    """A text column that is never NULL."""
    return sa.Column(name, sa.Text(), *more, primary_key=key, nullable=False)


def count(name: str, *, key: bool = False) -> sa.Column[int]:
    """A column of whole numbers that is never NULL."""
    return sa.Column(name, sa.BigInteger(), primary_key=key, nullable=False, autoincrement=False)


NIGHTS = sa.Table(
    "nights",
    METADATA,
    text("night_id", key=True),
    text("kind"),
    text("name"),
    text("label"),
    sa.Column("started", Utc(), nullable=False, index=True),
    text("zone"),
    sa.Column("config", sa.JSON(), nullable=False),
    text("config_hash"),
    sa.Column("models", sa.JSON(), nullable=False),
    sa.Column("backends", sa.JSON(), nullable=False),
    sa.Column("archs", sa.JSON(), nullable=False),
    sa.Column("data_formats", sa.JSON(), nullable=False),
    count("shards"),
    sa.Column("demo", sa.Boolean(), nullable=False),
    text("axis"),
    text("release"),
)
"""`kind` is `night`, or `run` for a single run, or `selection` for one in which ops were deselected, or `release` for
the night of a release. `label` is the date and time in the night's time zone. `axis` is `version` for a night of a
release, `time` for every other; `release` is the release, else empty."""

NIGHT_CELLS = sa.Table(
    "night_cells",
    METADATA,
    text("night_id", sa.ForeignKey("nights.night_id", ondelete="CASCADE"), key=True),
    text("backend", key=True),
    text("arch", key=True),
    text("data_format", key=True),
    text("model", key=True),
)

RUNS = sa.Table(
    "runs",
    METADATA,
    *columns(RunRecord, keys=("run_id",), without=("origin",)),
    *columns(Origin),
    text("night_id", sa.ForeignKey("nights.night_id")),
    count("shard"),
    text("series"),
    text("compiler"),
    text("jaxlib"),
    sa.Column("published", sa.JSON(none_as_null=True), nullable=True),
    sa.Index(None, "night_id"),
)
"""One row per run, with the fields of its Origin. `shard` is 0 if the run is not a shard. Runs of one `series` agree in
everything that affects an op's numbers. `compiler` is the backend's fingerprint. `published` holds the digest of the
records and of the code that made the rows (publish_digest.py), and the number of rows."""

MODELS = sa.Table(
    "models",
    METADATA,
    text("run_id", sa.ForeignKey("runs.run_id", ondelete="CASCADE"), key=True),
    text("model", key=True),
    text("framework"),
    text("outcome"),
    text("reason"),
    text("artifact"),
    sa.Column("module_id", sa.Text(), nullable=True),
    count("module_ops"),
    count("structural"),
    count("dead"),
    count("position"),
    text("import_status"),
    text("import_text"),
    text("import_expected"),
)
"""One row per requested model. `framework` is what it was built with, empty for a StableHLO file. `outcome` is `ran` or
a ModelStatus, and `artifact` is the file with its traceback; the counts are those of ManifestHeader. The last columns
are its ImportCheck; empty if nothing was imported."""

OPS = sa.Table(
    "ops",
    METADATA,
    text("op_id", key=True),
    sa.Column("op_name", sa.Text(), nullable=False, index=True),
    text("op_kind"),
    sa.Column("inputs", sa.JSON(), nullable=False),
    sa.Column("outputs", sa.JSON(), nullable=False),
    sa.Column("op_params", sa.JSON(), nullable=False),
    text("signature"),
    text("dtype"),
    count("rank"),
    text("unsplittable"),
    text("cause"),
)
"""One row per op id. `signature` is its types in one line: `f32[1,64], f32[64,10] -> f32[1,10]`; `dtype` and `rank`
are those of its first operand (of its first result if it has no operands). `cause` is that of an op that cannot be
split off (harness/record/causes.py), else empty. Dashboards look up an op by name and id
together, with an index (its migration) that SQLAlchemy cannot reflect in SQLite."""

USES = sa.Table(
    "uses",
    METADATA,
    text("module_id", key=True),
    count("position", key=True),
    text("op_id"),
    text("path"),
    text("location"),
    text("framework_op"),
    sqlite_with_rowid=False,
)
"""Where ops are used: one row per place in a module, in the manifest's order. A night may have a million of these rows,
so they are stored only in the primary key's index; `module_ops` finds the modules of an op and refers to `ops`."""

MODULE_OPS = sa.Table(
    "module_ops",
    METADATA,
    text("module_id", key=True),
    text("op_id", sa.ForeignKey("ops.op_id"), key=True),
    count("uses"),
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
    text("night_id"),
    text("series"),
    text("superseded_by"),
    sa.Column("seconds", sa.Double(), nullable=False),
    sa.Column("compile_seconds", sa.Double(), nullable=False),
    sa.Column("is_failure", sa.Boolean(), nullable=False),
    sa.Column("cause", sa.Text(), nullable=True),
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
    text("run_id", sa.ForeignKey("runs.run_id", ondelete="CASCADE"), key=True),
    text("op_id", key=True),
    text("backend", key=True),
    text("part", key=True),
    text("name", key=True),
    text("place", key=True),
    count("number"),
    sqlite_with_rowid=False,
)
"""What is in the program of a record that has a Structure: a row per number. `part` is the field: `ops`, `ahead`,
`fused`, `memory`, `cycles`, each of whose rows has a `name`, or one that is a number itself (`casts`, `launches`, ...),
without a name. `place` is the memory and layout of a row of `memory`, else empty."""

ERRORS = sa.Table(
    "errors",
    METADATA,
    text("error_signature", key=True),
    text("stage"),
    text("message"),
    sa.Column("first_seen", Utc(), nullable=False),
    sa.Column("last_seen", Utc(), nullable=False),
)
"""`message` is the error message that was published first; `first_seen` and `last_seen` are start times of runs."""

LIMITATIONS = sa.Table(
    "limitations",
    METADATA,
    text("limitation", key=True),
    text("kind"),
    sa.Column("first_seen", Utc(), nullable=False),
    sa.Column("last_seen", Utc(), nullable=False),
)
"""`kind` is `notimpl`, `notyet` or `never`."""

OP_ALIAS = sa.Table("op_alias", METADATA, text("old_id", key=True), text("new_id"), text("reason"))
"""The history of `old_id` continues under `new_id`."""

OWNERS = sa.Table(
    "owners",
    METADATA,
    count("position", key=True),
    text("team"),
    text("op"),
    text("stage"),
    text("cluster"),
    text("model"),
)
"""The rules of ci/owners.yaml in their order; the first that matches decides the team. Patterns are those of SQL's
LIKE with `!` as the escape character; those of `op` and `model` match a list that is written `, one, two,`."""

NOTES = sa.Table("notes", METADATA, text("cause", key=True), *map(text, ("text", "author", "written", "until")))
"""One note per cause. `written` is a date and time in UTC, as text; `until` is the last date for which the cause is
acknowledged, as text, and empty if it is not (notes.py)."""

BENCHMARKS = sa.Table(
    "benchmarks",
    METADATA,
    text("benchmark_id", key=True),
    sa.Column("started", Utc(), nullable=False, index=True),
    *(text(name) for name in ("host", "device", "model", "config", "task", "board", "compiler")),
    *(count(name) for name in ("microbatch", "loop_count", "inputs")),
    sa.Column("timing_only", sa.Boolean(), nullable=False),
    *(sa.Column(name, sa.BigInteger(), nullable=True) for name in ("epochs", "simulated_cycles_per_input")),
    *(
        sa.Column(name, sa.Double(), nullable=True)
        for name in (
            "push_seconds",
            "device_seconds",
            "pop_seconds",
            "total_seconds",
            "inputs_per_second",
            "simulated_seconds_per_input",
            "simulated_inputs_per_second",
        )
    ),
    sa.Index(None, "model", "device"),
)
"""`benchmark_id` is the digest of the report, so that publishing it again changes nothing. A figure is NULL where it
was not measured: the host's with `--timing-only`, the simulated card's on another device."""
