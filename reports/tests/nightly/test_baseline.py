"""Which night a change is held against, and which of its ops are risky."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscope.harness.record import history
from opscope.harness.record.errors import InputError
from opscope.reports.compare.night_views import night_view
from opscope.reports.database.reading import read_database
from opscope.reports.nightly.baseline import baseline_night, first_baseline, series_like, usual_baselines, write_history
from opscope.reports.publish.publish import publish
from opscope.reports.tests.night_runs import fresh, record, shard_run
from opscope.reports.tests.nights import Op, op_id

BOTH = {"a": 1, "b": 1}


def test_a_change_is_held_against_the_branch_that_it_goes_to(tmp_path: Path) -> None:
    assert usual_baselines(tmp_path, "weekly", {}) == ["main", "master", "weekly"]
    job = {"GITHUB_ACTIONS": "true", "GITHUB_HEAD_REF": "mine", "GITHUB_BASE_REF": "release"}
    assert usual_baselines(tmp_path, "weekly", job) == ["release", "main", "master", "weekly"]


def test_the_newest_complete_night_of_the_branch(tmp_path: Path) -> None:
    url = fresh(tmp_path / "db.sqlite")
    for number, (branch, models, more) in enumerate(
        (
            ("main", ("a", "b"), {}),
            ("main", ("a", "b"), {}),
            ("main", ("a", "b", "c"), {}),
            ("topic", ("a", "b"), {}),
            ("main", ("a", "b"), {"demo": True}),
        )
    ):
        ops = {
            "add": Op(uses=BOTH),
            "tanh": Op("run_failed" if number == 0 else "success", BOTH),
            "fft": Op("compile_failed", BOTH),
        }
        night = record(number, models=models, **more)
        origin = {"branch": branch, "options": {"dtype": "float32", "seed": 0, "data_format": "Bfp8_b"}}
        publish(shard_run(tmp_path, night, number, ops, origin=origin), url)
    with read_database(url) as connection:
        night_id = baseline_night(connection, "main")
        assert night_id == "nightly-20261102-020000"
        assert baseline_night(connection, "topic") == baseline_night(connection, "nightly") == "nightly-20261104-020000"
        assert baseline_night(connection, "nightly-20261103-020000") == "nightly-20261103-020000"
        assert first_baseline(connection, ["none", "topic", "main"]) == "nightly-20261104-020000"
        with pytest.raises(InputError, match="of branch `none`"):
            first_baseline(connection, ["none", "nor this"])
        with pytest.raises(InputError, match="--baseline: expected a complete night of branch `mian`, got none; there"):
            baseline_night(connection, "mian")
        series = series_like(connection, night_id, "reference", "n150", "")
        assert series == series_like(connection, night_id, "reference", "n150", "Bfp8_b")
        assert series is not None
        assert series_like(connection, night_id, "reference", "n150", "Float16_b") is None
        assert series_like(connection, night_id, "xla", "n150", "") is None
        path = write_history(connection, night_view(connection, night_id, series), tmp_path / "history.json")
    pasts = history.read_file(str(path))
    # What is wrong, and what changed lately, before what has long been right.
    assert {name: pasts[op_id(name)].failed for name in ("add", "tanh", "fft")} == {
        "add": False,
        "tanh": True,
        "fft": True,
    }
