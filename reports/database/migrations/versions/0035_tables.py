"""The tables of the results database, which 35 migrations had made before anything was released.

It has the number of the last of these, so that a database which they made is up to date as it is.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = None

TEXT, COUNT, REAL, FLAG, JSON, TIME = (
    sa.Text(),
    sa.BigInteger(),
    sa.Double(),
    sa.Boolean(),
    sa.JSON(),
    sa.DateTime(timezone=True),
)
HAS_ERROR, HAS_CAUSE = sa.text("error_signature IS NOT NULL"), sa.text("cause IS NOT NULL")
KEYS = {"nights": "night_id", "runs": "run_id", "ops": "op_id"}
"""Table that others refer to -> its key, which has the same name in all of them."""


def upgrade() -> None:
    _table(
        "benchmarks",
        "benchmark_id",
        *_of(TEXT, "benchmark_id"),
        *_of(TIME, "started"),
        *_of(TEXT, "host device model config task board compiler"),
        *_of(COUNT, "microbatch loop_count inputs"),
        *_of(FLAG, "timing_only"),
        *_of(COUNT, "epochs simulated_cycles_per_input", null=True),
        *_of(
            REAL,
            "push_seconds device_seconds pop_seconds total_seconds inputs_per_second "
            "simulated_seconds_per_input simulated_inputs_per_second",
            null=True,
        ),
    )
    op.create_index("ix_benchmarks_model_device", "benchmarks", ["model", "device"])
    op.create_index("ix_benchmarks_started", "benchmarks", ["started"])
    _table(
        "errors",
        "error_signature",
        *_of(TEXT, "error_signature stage message"),
        *_of(TIME, "first_seen last_seen"),
    )
    _table(
        "limitations",
        "limitation",
        *_of(TEXT, "limitation kind"),
        *_of(TIME, "first_seen last_seen"),
    )
    _table(
        "nights",
        "night_id",
        *_of(TEXT, "night_id kind name label"),
        *_of(TIME, "started"),
        *_of(TEXT, "zone"),
        *_of(JSON, "config"),
        *_of(TEXT, "config_hash"),
        *_of(JSON, "models backends archs data_formats"),
        *_of(COUNT, "shards"),
        *_of(FLAG, "demo"),
        *_of(TEXT, "axis release"),
    )
    op.create_index("ix_nights_started", "nights", ["started"])
    _table(
        "notes",
        "cause",
        *_of(TEXT, "cause text author written until"),
    )
    _table(
        "op_alias",
        "old_id",
        *_of(TEXT, "old_id new_id reason"),
    )
    _table(
        "ops",
        "op_id",
        *_of(TEXT, "op_id op_name op_kind"),
        *_of(JSON, "inputs outputs op_params"),
        *_of(TEXT, "signature dtype"),
        *_of(COUNT, "rank"),
        *_of(TEXT, "unsplittable cause"),
    )
    op.create_index("ix_ops_op_name", "ops", ["op_name"])
    _table(
        "owners",
        "position",
        *_of(COUNT, "position"),
        *_of(TEXT, "team op stage cluster model"),
    )
    _table(
        "uses",
        "module_id position",
        *_of(TEXT, "module_id"),
        *_of(COUNT, "position"),
        *_of(TEXT, "op_id path location framework_op"),
    )
    _table(
        "module_ops",
        "module_id op_id",
        *_of(TEXT, "module_id op_id"),
        *_of(COUNT, "uses"),
        names="ops",
    )
    op.create_index("ix_module_ops_op_id", "module_ops", ["op_id"])
    _table(
        "night_cells",
        "night_id backend arch data_format model",
        *_of(TEXT, "night_id backend arch data_format model"),
        part_of="nights",
    )
    _table(
        "night_change_models",
        "night_id series op_id model",
        *_of(TEXT, "night_id series op_id model"),
        *_of(COUNT, "uses"),
        part_of="nights",
    )
    _table(
        "night_changes",
        "night_id series op_id",
        *_of(TEXT, "night_id series op_id label note known cluster stage message status_before status_now models"),
        *_of(COUNT, "model_count uses"),
        *_of(FLAG, "flaky"),
        *_of(REAL, "pcc_before pcc_now", null=True),
        *_of(COUNT, "cycles_before cycles_now", null=True),
        *_of(REAL, "compile_ms_before compile_ms_now", null=True),
        part_of="nights",
    )
    op.create_index("ix_night_changes_op_id", "night_changes", ["op_id"])
    _table(
        "night_counts",
        "night_id series model op_name status stage_reached ran_on known",
        *_of(TEXT, "night_id series model op_name op_kind status stage_reached ran_on"),
        *_of(FLAG, "known"),
        *_of(COUNT, "ops uses flaky_ops cycles l1_peak_bytes"),
        *_of(REAL, "compile_seconds"),
        part_of="nights",
    )
    op.create_index("ix_night_counts_model_night_id", "night_counts", ["model", "night_id"])
    _table(
        "night_curve",
        "night_id series fixes",
        *_of(TEXT, "night_id series"),
        *_of(COUNT, "fixes"),
        *_of(TEXT, "cluster"),
        *_of(COUNT, "whole models"),
        *_of(TEXT, "unlocked"),
        part_of="nights",
    )
    _table(
        "night_fixes",
        "night_id series position",
        *_of(TEXT, "night_id series"),
        *_of(COUNT, "position"),
        *_of(TEXT, "cluster stage message op_names models"),
        *_of(COUNT, "model_count alone uses ops known"),
        *_of(TEXT, "repro"),
        part_of="nights",
    )
    op.create_index("ix_night_fixes_cluster", "night_fixes", ["cluster"])
    _table(
        "night_kinds",
        "night_id series model op_kind",
        *_of(TEXT, "night_id series model op_kind"),
        *_of(COUNT, "attempted_ops right_ops host_ops bad_ops attempted_uses right_uses ops uses"),
        part_of="nights",
    )
    _table(
        "night_models",
        "night_id series model",
        *_of(TEXT, "night_id series model outcome reason run_id"),
        *_of(TEXT, "module_id", null=True),
        *_of(COUNT, "ops attempted_ops right_ops bad_ops flaky_ops uses attempted_uses right_uses bad_uses"),
        part_of="nights",
    )
    op.create_index("ix_night_models_model_night_id", "night_models", ["model", "night_id"])
    _table(
        "night_newest_ops",
        "night_id series model op_id",
        *_of(TEXT, "night_id series model op_id op_kind op_name signature dtype"),
        *_of(COUNT, "rank uses"),
        *_of(TEXT, "status stage_reached"),
        *_of(TEXT, "failed_stage cluster error_message", null=True),
        *_of(TEXT, "expected ran_on"),
        *_of(REAL, "z_max pcc", null=True),
        *_of(COUNT, "cycles l1_peak_bytes dram_peak_bytes", null=True),
        *_of(TEXT, "limiter", null=True),
        *_of(REAL, "utilisation", null=True),
        *_of(COUNT, "dram_bytes noc_bytes", null=True),
        *_of(REAL, "compile_seconds seconds", null=True),
        *_of(FLAG, "flaky"),
        *_of(TEXT, "run_id"),
        *_of(TEXT, "artifact repro", null=True),
        part_of="nights",
    )
    _table(
        "night_pairs",
        "night_id series model ran_on",
        *_of(TEXT, "night_id series model ran_on"),
        *_of(COUNT, "both_ops right_before right_now both_uses right_uses_before right_uses_now"),
        part_of="nights",
    )
    op.create_index("ix_night_pairs_model_night_id", "night_pairs", ["model", "night_id"])
    _table(
        "night_sentences",
        "night_id series",
        *_of(TEXT, "night_id series verdict"),
        *_of(COUNT, "new_failures causes fixed_ops slower_ops"),
        *_of(TEXT, "most_in sentence about chips"),
        part_of="nights",
    )
    _table(
        "night_series",
        "night_id series",
        *_of(TEXT, "night_id series backend arch"),
        *_of(TEXT, "board", null=True),
        *_of(TEXT, "dtype data_format math_fidelity"),
        *_of(TIME, "started date"),
        *_of(TIME, "due", null=True),
        *_of(TEXT, "previous_night compiler jaxlib revision"),
        *_of(FLAG, "compiler_changed jaxlib_changed models_changed"),
        *_of(TEXT, "status missing"),
        *_of(COUNT, "asked ran build_failed export_failed prepare_failed framework_missing not_run models_missing"),
        part_of="nights",
    )
    op.create_index("ix_night_series_started", "night_series", ["started"])
    op.create_index("ix_night_series_series_date_started", "night_series", ["series", "date", "started"])
    _table(
        "night_stages",
        "night_id series stage",
        *_of(TEXT, "night_id series stage"),
        *_of(COUNT, "depth"),
        part_of="nights",
    )
    _table(
        "runs",
        "run_id",
        *_of(COUNT, "schema_version"),
        *_of(TEXT, "run_id"),
        *_of(JSON, "models"),
        *_of(TEXT, "backend arch"),
        *_of(TIME, "started"),
        *_of(TIME, "ended", null=True),
        *_of(TEXT, "outcome revision"),
        *_of(FLAG, "dirty"),
        *_of(TEXT, "branch backend_revision"),
        *_of(FLAG, "backend_dirty"),
        *_of(TEXT, "ci_job ci_url host cpu python"),
        *_of(JSON, "versions command_line options"),
        *_of(TEXT, "night_id"),
        *_of(COUNT, "shard"),
        *_of(TEXT, "series compiler jaxlib"),
        *_of(JSON, "published", null=True),
        names="nights",
    )
    op.create_index("ix_runs_night_id", "runs", ["night_id"])
    _table(
        "models",
        "run_id model",
        *_of(TEXT, "run_id model framework outcome reason artifact"),
        *_of(TEXT, "module_id", null=True),
        *_of(COUNT, "module_ops structural position"),
        *_of(TEXT, "import_status import_text import_expected"),
        part_of="runs",
    )
    _table(
        "op_tests",
        "run_id op_id attempt backend",
        *_of(TEXT, "arch data_format math_fidelity numerics"),
        *_of(FLAG, "exact_order"),
        *_of(TEXT, "workflow"),
        *_of(COUNT, "optimization_level amp_level"),
        *_of(TEXT, "backend_option system_desc shape mesh"),
        *_of(COUNT, "schema_version"),
        *_of(TEXT, "run_id op_id"),
        *_of(COUNT, "attempt"),
        *_of(TEXT, "test_case_name full_test_name filepath"),
        *_of(TIME, "test_start_ts test_end_ts"),
        *_of(FLAG, "success skipped"),
        *_of(TEXT, "error_message", null=True),
        *_of(JSON, "config"),
        *_of(TEXT, "frontend model_name op_kind op_name framework_op_name"),
        *_of(JSON, "inputs outputs"),
        *_of(COUNT, "github_job_id", null=True),
        *_of(TEXT, "status card_type backend stage_reached compile_depth"),
        *_of(TEXT, "failed_stage", null=True),
        *_of(JSON, "stages"),
        *_of(TEXT, "error_signature artifact crash_kind", null=True),
        *_of(REAL, "pcc z_max", null=True),
        *_of(TEXT, "z_place question hypothesis second_authority"),
        *_of(JSON, "results"),
        *_of(COUNT, "uses"),
        *_of(TEXT, "provenance ran_on compiled_by"),
        *_of(JSON, "narrowed overwritten_inputs left_behind"),
        *_of(TEXT, "expected"),
        *_of(FLAG, "flaky"),
        *_of(TEXT, "stability"),
        *_of(JSON, "outcomes"),
        *_of(TEXT, "cached_from"),
        *_of(COUNT, "cycles", null=True),
        *_of(REAL, "cycles_error device_ns", null=True),
        *_of(COUNT, "l1_peak_bytes dram_peak_bytes", null=True),
        *_of(TEXT, "limiter", null=True),
        *_of(REAL, "utilisation", null=True),
        *_of(COUNT, "dram_bytes noc_bytes link_bytes", null=True),
        *_of(REAL, "link_ns run_ns run_spread_ns", null=True),
        *_of(TEXT, "pipeline repro"),
        *_of(COUNT, "intermediates", null=True),
        *_of(TEXT, "night_id series superseded_by"),
        *_of(REAL, "seconds compile_seconds"),
        *_of(FLAG, "is_failure"),
        *_of(TEXT, "cause", null=True),
        part_of="runs",
        names="ops",
    )
    op.create_index(
        "ix_op_tests_error_signature",
        "op_tests",
        ["error_signature"],
        sqlite_where=HAS_ERROR,
        postgresql_where=HAS_ERROR,
    )
    op.create_index("ix_op_tests_cause", "op_tests", ["cause"], sqlite_where=HAS_CAUSE, postgresql_where=HAS_CAUSE)
    op.create_index("ix_op_tests_night_id_series_op_id", "op_tests", ["night_id", "series", "op_id"])
    op.create_index("ix_op_tests_op_id", "op_tests", ["op_id"])
    _table(
        "whole_models",
        "run_id model backend",
        *_of(TEXT, "run_id model backend night_id series op_id status stage_reached"),
        *_of(TEXT, "failed_stage error_message error_signature", null=True),
        *_of(TEXT, "expected"),
        *_of(REAL, "pcc relative_l2", null=True),
        *_of(TEXT, "ran_on"),
        *_of(COUNT, "cycles", null=True),
        *_of(REAL, "seconds compile_seconds"),
        *_of(COUNT, "intermediates", null=True),
        *_of(TEXT, "jump_path jump_op_id jump_op_name jump_location", null=True),
        *_of(REAL, "jump_pcc_before jump_pcc jump_error_before jump_error", null=True),
        *_of(FLAG, "jump_confirmed", null=True),
        part_of="runs",
    )
    op.execute("CREATE INDEX ix_ops_label ON ops ((op_name || ' ' || op_id))")


def _of(kind: Any, names: str, *, null: bool = False) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, nullable=null, autoincrement=False) for name in names.split()]


def _table(name: str, keys: str, *columns: sa.Column[Any], part_of: str = "", names: str = "") -> None:
    """`part_of`: the table whose rows take the rows of this one with them; `names`: one whose rows must stay."""
    op.create_table(
        name,
        *columns,
        sa.PrimaryKeyConstraint(*keys.split(), name=f"pk_{name}"),
        *(
            sa.ForeignKeyConstraint([KEYS[other]], [f"{other}.{KEYS[other]}"], name=f"fk_{name}_{other}", ondelete=then)
            for other, then in ((part_of, "CASCADE"), (names, None))
            if other
        ),
        sqlite_with_rowid=name != "uses",
    )
