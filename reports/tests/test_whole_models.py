"""Models as one program in the database: one row each, also of runs that ran them before their ops."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from harness.records import WHOLE_MODEL, Jump
from harness.store import WHOLE_FILE, load_run
from reports.database import open_database
from reports.publish import publish
from reports.rows import series_text
from reports.tests.sample_run import make_run
from reports.whole_models import WHOLE_MODELS


def test_a_model_is_a_row_with_where_its_error_jumps(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path / "run")
    jump = Jump(path="main/7", op_id="0" * 16, op_name="stablehlo.tanh", location="net (a.py:3)", pcc=0.8, error=0.6,
                pcc_before=0.999, error_before=0.01)  # fmt: skip
    (_, dot, *_) = load_run(run_dir).tests
    whole = dot.model_copy(update={"op_name": WHOLE_MODEL, "op_id": "f" * 16, "jump": jump, "intermediates": 9})
    (run_dir / WHOLE_FILE).write_text(f"{whole.model_dump_json()}\n{{torn")
    url = f"sqlite:///{tmp_path}/db.sqlite"
    publish(run_dir, url)
    publish(run_dir, url)
    with open_database(url) as connection:
        row = connection.execute(sa.select(WHOLE_MODELS)).mappings().one()
    assert (row["model"], row["backend"], row["status"], row["stage_reached"]) == (
        "demo", "reference", "success", "compare",
    )  # fmt: skip
    assert (row["pcc"], row["relative_l2"], row["intermediates"], row["cycles"]) == (0.9991, 0.01, 9, 120_000)
    assert (row["jump_path"], row["jump_op_name"], row["jump_location"]) == ("main/7", "stablehlo.tanh", "net (a.py:3)")
    assert (row["jump_pcc_before"], row["jump_pcc"], row["jump_confirmed"]) == (0.999, 0.8, True)


def test_runs_of_different_workflows_are_not_compared() -> None:
    plain, split, full = ({}, {"workflow": "split"}, {"workflow": "full"})
    assert series_text("reference", "n150", plain) == series_text("reference", "n150", split)
    assert series_text("reference", "n150", full) != series_text("reference", "n150", split)
    at_level = {name: {**plain, "optimization_level": name} for name in (0, 2)}
    assert series_text("reference", "n150", at_level[0]) == series_text("reference", "n150", plain)
    assert series_text("reference", "n150", at_level[2]) != series_text("reference", "n150", plain)
