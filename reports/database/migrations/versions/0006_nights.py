"""Nights, models and shared modules; every attempt is kept; results stand in their op test."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

OLD = ("runs", "modules", "uses", "op_tests", "results", "ops")
"""Tables that others take the place of; their rows are carried over."""
DERIVED = ("op_params", "models", "locations")
"""Columns of op tests that follow from ops and modules."""
DECIDING = ("dtype", "data_format", "math_fidelity", "inputs", "seed")


def t(name: str, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def n(name: str, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), autoincrement=False, nullable=nullable)


def real(name: str, nullable: bool = False) -> sa.Column[float]:
    return sa.Column(name, sa.Double(), nullable=nullable)


def at(name: str, nullable: bool = False) -> sa.Column[datetime]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def flag(name: str) -> sa.Column[bool]:
    return sa.Column(name, sa.Boolean(), nullable=False)


def json(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.JSON(), nullable=False)


def _columns(table: str, without: tuple[str, ...] = ()) -> list[sa.Column[Any]]:
    """The columns that a table has so far, but those that follow from others now."""
    found = sa.inspect(op.get_bind()).get_columns(table)
    return [sa.Column(c["name"], c["type"], nullable=c["nullable"]) for c in found if c["name"] not in without]


def upgrade() -> None:
    kept = {"runs": _columns("runs"), "op_tests": _columns("op_tests", DERIVED)}
    for name in OLD:  # without constraints, whose names the new tables want
        op.execute(f"CREATE TABLE old_{name} AS SELECT * FROM {name}")
    for name in ("results", "op_tests", "uses", "modules", "runs", "ops"):
        op.drop_table(name)
    op.create_table(
        "nights",
        t("night_id"),
        t("kind"),
        t("name"),
        t("label"),
        at("started"),
        t("zone"),
        json("config"),
        t("config_hash"),
        json("models"),
        json("backends"),
        json("archs"),
        json("data_formats"),
        n("shards"),
        flag("demo"),
        sa.PrimaryKeyConstraint("night_id", name=op.f("pk_nights")),
    )
    op.create_index(op.f("ix_nights_started"), "nights", ["started"], unique=False)
    op.create_table(
        "night_cells",
        t("night_id"),
        t("backend"),
        t("arch"),
        t("data_format"),
        t("model"),
        sa.ForeignKeyConstraint(
            ["night_id"], ["nights.night_id"], name=op.f("fk_night_cells_nights"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("night_id", "backend", "arch", "data_format", "model", name=op.f("pk_night_cells")),
    )
    op.create_table(
        "runs",
        *kept["runs"],
        t("night_id"),
        n("shard"),
        t("series"),
        t("compiler"),
        t("jaxlib"),
        sa.ForeignKeyConstraint(["night_id"], ["nights.night_id"], name=op.f("fk_runs_nights")),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_runs")),
    )
    op.create_index(op.f("ix_runs_night_id"), "runs", ["night_id"], unique=False)
    op.create_table(
        "models",
        t("run_id"),
        t("model"),
        t("framework"),
        t("outcome"),
        t("reason"),
        t("artifact"),
        t("module_id", True),
        n("module_ops"),
        n("structural"),
        n("position"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_models_runs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "model", name=op.f("pk_models")),
    )
    op.create_table(
        "ops",
        t("op_id"),
        t("op_name"),
        t("op_kind"),
        json("inputs"),
        json("outputs"),
        json("op_params"),
        t("signature"),
        t("dtype"),
        n("rank"),
        t("unsplittable"),
        sa.PrimaryKeyConstraint("op_id", name=op.f("pk_ops")),
    )
    op.create_index(op.f("ix_ops_op_name"), "ops", ["op_name"], unique=False)
    op.create_table(
        "uses",
        t("module_id"),
        n("position"),
        t("op_id"),
        t("path"),
        t("location"),
        t("framework_op"),
        sa.ForeignKeyConstraint(["op_id"], ["ops.op_id"], name=op.f("fk_uses_ops")),
        sa.PrimaryKeyConstraint("module_id", "position", name=op.f("pk_uses")),
    )
    op.create_index(op.f("ix_uses_op_id"), "uses", ["op_id"], unique=False)
    op.create_table(
        "module_ops",
        t("module_id"),
        t("op_id"),
        n("uses"),
        sa.ForeignKeyConstraint(["op_id"], ["ops.op_id"], name=op.f("fk_module_ops_ops")),
        sa.PrimaryKeyConstraint("module_id", "op_id", name=op.f("pk_module_ops")),
    )
    op.create_index(op.f("ix_module_ops_op_id"), "module_ops", ["op_id"], unique=False)
    op.create_table(
        "op_tests",
        *kept["op_tests"],
        json("results"),
        t("night_id"),
        t("series"),
        t("superseded_by"),
        real("compile_seconds"),
        sa.ForeignKeyConstraint(["op_id"], ["ops.op_id"], name=op.f("fk_op_tests_ops")),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_op_tests_runs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "op_id", "attempt", "backend", name=op.f("pk_op_tests")),
    )
    op.create_index(op.f("ix_op_tests_error_signature"), "op_tests", ["error_signature"], unique=False)
    op.create_index(
        op.f("ix_op_tests_night_id_series_op_id"), "op_tests", ["night_id", "series", "op_id"], unique=False
    )
    op.create_index(op.f("ix_op_tests_op_id"), "op_tests", ["op_id"], unique=False)
    op.create_table(
        "errors",
        t("error_signature"),
        t("stage"),
        t("message"),
        at("first_seen"),
        at("last_seen"),
        sa.PrimaryKeyConstraint("error_signature", name=op.f("pk_errors")),
    )
    op.create_table(
        "limitations",
        t("limitation"),
        t("kind"),
        at("first_seen"),
        at("last_seen"),
        sa.PrimaryKeyConstraint("limitation", name=op.f("pk_limitations")),
    )
    op.create_table(
        "op_alias", t("old_id"), t("new_id"), t("reason"), sa.PrimaryKeyConstraint("old_id", name=op.f("pk_op_alias"))
    )
    op.create_table(
        "owners",
        n("position"),
        t("team"),
        t("op"),
        t("stage"),
        t("cluster"),
        t("model"),
        sa.PrimaryKeyConstraint("position", name=op.f("pk_owners")),
    )
    _carry_over(op.get_bind())
    for name in OLD:
        op.drop_table(f"old_{name}")


# --- rows of before


def _table(name: str, /, **kinds: Any) -> sa.TableClause:
    """A table as far as this migration reads or writes it."""
    return sa.table(name, *(sa.column(column, kind) for column, kind in kinds.items()))


TEXT, NUMBER, JSON, TIME = sa.Text(), sa.BigInteger(), sa.JSON(), sa.DateTime(timezone=True)
OLD_USES = _table("old_uses", run_id=TEXT, op_id=TEXT, model=TEXT, path=TEXT, location=TEXT, framework_op=TEXT)


def _carry_over(bind: sa.Connection) -> None:
    bind.execute(
        sa.text("""
        INSERT INTO ops (op_id, op_name, op_kind, inputs, outputs, op_params, signature, dtype, rank, unsplittable)
        SELECT op_id, op_name, op_kind, inputs, outputs, op_params, signature, '', 0, unsplittable FROM old_ops""")
    )
    _describe_ops(bind)
    runs = sa.table(
        "old_runs",
        sa.column("run_id"),
        sa.column("started", TIME),
        sa.column("backend"),
        sa.column("arch"),
        sa.column("options", JSON),
        sa.column("versions", JSON),
    )
    for run in bind.execute(sa.select(runs)).all():
        _run(bind, run)
    _modules(bind)
    _op_tests(bind)


def _describe_ops(bind: sa.Connection) -> None:
    ops = _table("ops", op_id=TEXT, inputs=JSON, outputs=JSON, dtype=TEXT, rank=NUMBER)
    for row in bind.execute(sa.select(ops.c.op_id, ops.c.inputs, ops.c.outputs)).all():
        tensors = [*row.inputs, *row.outputs]
        if tensors:
            told = {"dtype": tensors[0]["data_type"], "rank": len(tensors[0]["shape"])}
            bind.execute(sa.update(ops).where(ops.c.op_id == row.op_id).values(told))


def _run(bind: sa.Connection, run: Any) -> None:
    night = _table(
        "nights",
        night_id=TEXT,
        kind=TEXT,
        name=TEXT,
        label=TEXT,
        started=TIME,
        zone=TEXT,
        config=JSON,
        config_hash=TEXT,
        models=JSON,
        backends=JSON,
        archs=JSON,
        data_formats=JSON,
        shards=NUMBER,
        demo=sa.Boolean(),
    )
    bind.execute(
        sa.insert(night).values(
            night_id=run.run_id,
            kind="run",
            name=run.run_id,
            label=f"{run.started:%Y-%m-%d %H:%M}",
            started=run.started,
            zone="UTC",
            config={},
            config_hash="",
            models=[],
            backends=[],
            archs=[],
            data_formats=[],
            shards=0,
            demo=False,
        )
    )
    kept = [column["name"] for column in sa.inspect(bind).get_columns("old_runs")]
    series = " ".join(
        str(value) for value in (run.backend, run.arch, *(run.options.get(n) for n in DECIDING)) if value is not None
    )
    bind.execute(
        sa.text(f"""INSERT INTO runs ({", ".join(kept)}, night_id, shard, series, compiler, jaxlib)
                    SELECT {", ".join(kept)}, run_id, 0, :series, :compiler, :jaxlib FROM old_runs
                    WHERE run_id = :run_id"""),
        {
            "run_id": run.run_id,
            "series": series,
            "compiler": str(run.options.get("fingerprint", "")),
            "jaxlib": str(run.versions.get("jaxlib", "")),
        },
    )


def _modules(bind: sa.Connection) -> None:
    models = _table(
        "models",
        run_id=TEXT,
        model=TEXT,
        framework=TEXT,
        outcome=TEXT,
        reason=TEXT,
        artifact=TEXT,
        module_id=TEXT,
        module_ops=NUMBER,
        structural=NUMBER,
        position=NUMBER,
    )
    old = sa.table("old_modules", *(sa.column(name) for name in ("run_id", "model", "module_ops", "structural")))
    known: set[str] = set()
    for position, row in enumerate(bind.execute(sa.select(old).order_by(old.c.run_id, old.c.model)).all()):
        places = list(_places(bind, row.run_id, row.model))
        module_id = hashlib.sha256(repr(places).encode()).hexdigest()[:16] if places else None
        bind.execute(
            sa.insert(models).values(
                run_id=row.run_id,
                model=row.model,
                framework="",
                outcome="ran",
                reason="",
                artifact="",
                module_id=module_id,
                module_ops=row.module_ops,
                structural=row.structural,
                position=position,
            )
        )
        if module_id is None or module_id in known:
            continue
        known.add(module_id)
        uses = _table("uses", module_id=TEXT, position=NUMBER, op_id=TEXT, path=TEXT, location=TEXT, framework_op=TEXT)
        bind.execute(
            sa.insert(uses),
            [
                {
                    "module_id": module_id,
                    "position": number,
                    "op_id": op_id,
                    "path": path,
                    "location": location,
                    "framework_op": framework_op,
                }
                for number, (op_id, path, location, framework_op) in enumerate(places)
            ],
        )
    bind.execute(
        sa.text("""INSERT INTO module_ops (module_id, op_id, uses)
                            SELECT module_id, op_id, COUNT(*) FROM uses GROUP BY module_id, op_id""")
    )


def _places(bind: sa.Connection, run_id: str, model: str) -> Iterator[tuple[str, str, str, str]]:
    wanted = sa.select(OLD_USES).where(OLD_USES.c.run_id == run_id, OLD_USES.c.model == model)
    for row in bind.execute(wanted.order_by(OLD_USES.c.op_id, OLD_USES.c.path)):
        yield row.op_id, row.path, row.location, row.framework_op


def _op_tests(bind: sa.Connection) -> None:
    there = {column["name"] for column in sa.inspect(bind).get_columns("op_tests")}
    kept = ", ".join(
        column["name"] for column in sa.inspect(bind).get_columns("old_op_tests") if column["name"] in there
    )
    moved = ", ".join(f"t.{name.strip()}" for name in kept.split(","))
    bind.execute(
        sa.text(f"""
        INSERT INTO op_tests ({kept}, results, night_id, series, superseded_by, compile_seconds)
        SELECT {moved}, '[]', t.run_id, r.series, '', 0.0 FROM old_op_tests t JOIN runs r ON r.run_id = t.run_id""")
    )
    tests = _table(
        "op_tests", run_id=TEXT, op_id=TEXT, backend=TEXT, stages=JSON, results=JSON, compile_seconds=sa.Double()
    )
    key = (tests.c.run_id, tests.c.op_id, tests.c.backend)
    results: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    checks = _table(
        "old_results",
        run_id=TEXT,
        op_id=TEXT,
        backend=TEXT,
        position=NUMBER,
        passed=sa.Boolean(),
        pcc=sa.Double(),
        relative_l2=sa.Double(),
        max_abs=sa.Double(),
        tolerance=TEXT,
        reason=TEXT,
        flags=JSON,
    )
    for row in bind.execute(sa.select(checks).order_by(checks.c.position)).mappings():
        told = {name: row[name] for name in row if name not in ("run_id", "op_id", "backend", "position")}
        results.setdefault((row["run_id"], row["op_id"], row["backend"]), []).append(told)
    for row in bind.execute(sa.select(*key, tests.c.stages)).all():
        seconds = sum(stage["seconds"] for stage in row.stages if stage["stage"] not in ("run", "compare"))
        found = results.get((row.run_id, row.op_id, row.backend), [])
        bind.execute(
            sa.update(tests)
            .where(*(column == row[i] for i, column in enumerate(key)))
            .values(results=found, compile_seconds=seconds)
        )
