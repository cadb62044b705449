"""What a night's row of a series says, and what of it is missing; nights of several series compared."""

from __future__ import annotations

import itertools
import shutil
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from opscope.harness.record.errors import InputError
from opscope.reports.compare.night_diff import compared_nights, diffs, names_night, newest_night
from opscope.reports.compare.night_views import is_night, night_of, nights_named, series_of
from opscope.reports.compare.run_selection import Runs, open_runs
from opscope.reports.database.database import open_database
from opscope.reports.database.endings import platform_of
from opscope.reports.database.rows import series_text
from opscope.reports.database.series_names import series_name
from opscope.reports.publish import counting
from opscope.reports.publish.publish import publish
from opscope.reports.tests.night_runs import fresh, publish_night, record, shard_run
from opscope.reports.tests.nights import START, Op, night

NIGHT = {"night_id": "n", "shards": 0, "started": START, "label": "2026-10-31 23:00", "zone": "UTC", "config": {}}


def run(run_id: str, **more: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "run_id": run_id,
        "backend": "xla",
        "arch": "n150",
        "options": {"dtype": "float32", "math_fidelity": "LoFi"},
        "shard": 0,
        "outcome": "complete",
        "compiler": "c1",
        "jaxlib": "0.1",
        "backend_revision": "0123456789abcdef",
    }
    return values | more


def model(name: str, outcome: str = "ran") -> dict[str, Any]:
    return {"model": name, "outcome": outcome}


def test_a_series_is_one_row_with_its_ledger() -> None:
    runs = [run("r2", compiler="c2", jaxlib=""), run("r1")]
    models = [
        model("a"),
        model("b"),
        model("c", "build_failed"),
        model("d", "export_failed"),
        model("e", "missing"),
        model("f", "not_run"),
        model("g", "prepare_failed"),
        model("h", "framework_missing"),
    ]
    assert counting._series_row(NIGHT, "xla n150 float32", runs, models, runs) == {
        "night_id": "n",
        "series": "xla n150 float32",
        "backend": "xla",
        "arch": "n150",
        "dtype": "float32",
        "data_format": "default",
        "math_fidelity": "LoFi",
        "started": START,
        "date": datetime(2026, 10, 31, tzinfo=UTC),
        "due": START + timedelta(hours=36),
        "previous_night": "",
        "compiler": "c1, c2",
        "jaxlib": "0.1",
        "revision": "0123456789ab",
        "compiler_changed": False,
        "jaxlib_changed": False,
        "models_changed": False,
        "status": "partial",
        "missing": "model e",
        "asked": 8,
        "ran": 2,
        "build_failed": 1,
        "export_failed": 1,
        "prepare_failed": 1,
        "framework_missing": 1,
        "not_run": 1,
        "models_missing": 1,
    }


@pytest.mark.parametrize(
    ("series", "backend", "arch"), [("xla n150 bf16", "xla", "n150"), ("xla n150", "xla", "n150"), ("xla", "xla", "")]
)
def test_a_series_without_a_run_is_named_by_its_words(series: str, backend: str, arch: str) -> None:
    row = counting._series_row(NIGHT, series, [], [model("a", "missing")], [])
    assert (row["backend"], row["arch"], row["dtype"], row["compiler"]) == (backend, arch, "", "")


@pytest.mark.parametrize(
    ("shards", "runs", "missing"),
    [
        (0, [run("a")], ""),
        (3, [run("a", shard=2)], "shard 1, shard 3"),
        (1, [run("a", shard=1)], ""),
        (
            0,
            [run("a", outcome="running"), run("b", outcome="interrupted"), run("c", outcome="failed")],
            "run a is running, run b is interrupted",
        ),
        # Shares of --shard: the highest number tells how many there are; what the night says is not said twice.
        (0, [run("a", options={"shard": "1/3"}), run("b", options={"shard": "2/4"})], "shard 3, shard 4"),
        (2, [run("a", options={"shard": "1/2"}, shard=1)], "shard 2"),
        (2, [run("a", options={"shard": "1/3"}, shard=2)], "shard 1, shard 2, shard 3"),
        (2, [run("a", options={"shard": "2/3"}, shard=2)], "shard 1, shard 3"),
    ],
)
def test_what_is_missing_of_a_night(shards: int, runs: list[dict[str, Any]], missing: str) -> None:
    row = counting._series_row({**NIGHT, "shards": shards}, "xla n150", runs, [model("a")], runs)
    assert (row["missing"], row["status"]) == (missing, "partial" if missing else "complete")


def test_arrays_that_a_call_keeps_in_its_run_folder_are_no_series_of_their_own() -> None:
    texts = {
        series_text("xla", "n150", {"inputs": f"{folder}/modules/net.npz", "run_dir": folder})
        for folder in ("/a", "/b")
    }
    assert texts == {"xla n150 modules/net.npz"}
    assert series_text("xla", "n150", {"inputs": "/a/x.npz", "run_dir": "/b"}) == "xla n150 /a/x.npz"


def test_a_shard_of_another_series_is_there() -> None:
    all_runs = [run("a", shard=1), run("b", shard=2, backend="reference")]
    row = counting._series_row({**NIGHT, "shards": 2}, "xla n150", all_runs[:1], [model("a")], all_runs)
    assert row["missing"] == ""


@pytest.mark.parametrize(
    ("cell", "fits"),
    [
        ({}, True),
        ({"data_format": "bf16"}, True),
        ({"data_format": "bfp8"}, False),
        ({"arch": "p150"}, False),
        ({"backend": "reference"}, False),
        ({"arch": "p150", "data_format": "bf16"}, False),
    ],
)
def test_a_run_fits_what_was_expected(cell: dict[str, str], fits: bool) -> None:
    message: Any = type("Cell", (), {"backend": "xla", "arch": "n150", "data_format": ""} | cell)
    assert counting._fits(run("a", options={"data_format": "bf16"}), message) is fits


OPS = {"add": Op(uses={"a": 1}), "exp": Op("crashed", uses={"b": 1})}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two nights on one board, the second of them on another one too, and a run by itself before them."""
    folder = tmp_path_factory.mktemp("nights")
    url = fresh(folder / "db.sqlite")
    publish(night(folder, 0, OPS), url)
    for number, archs in ((1, ("n150",)), (2, ("n150", "p150"))):
        of_night = record(number, archs=archs)
        for place, arch in enumerate(archs):
            publish(shard_run(folder / arch, of_night, 10 * number + place, OPS, arch=arch), url)
    return folder


@pytest.fixture
def url(built: Path, tmp_path: Path) -> str:
    """A database of one's own with these nights."""
    shutil.copy(built / "db.sqlite", tmp_path)
    return f"sqlite:///{tmp_path}/db.sqlite"


FIRST, SECOND = "nightly-20261102-020000", "nightly-20261103-020000"
SERIES = "reference {} float32 0"


def test_nights_are_compared_in_each_series_that_both_have(url: str) -> None:
    n150, p150 = (SERIES.format(arch) for arch in ("n150", "p150"))
    with open_database(url) as connection:
        assert series_of(connection, FIRST) == [n150]
        assert series_of(connection, SECOND) == [n150, p150]
        assert newest_night(connection) == SECOND
        [changes] = compared_nights(connection, None, None)
        assert (changes.a.run_id, changes.b.run_id, changes.b.series) == (FIRST, SECOND, n150)
        assert changes.notes[-1] == f"there is no earlier night in {p150}"
        [named] = compared_nights(connection, FIRST, SECOND)
        assert named == replace(changes, notes=changes.notes[:-1])
        assert compared_nights(connection, SECOND, None) == [changes]
        assert compared_nights(connection, FIRST, None) == [], "the first night of its series"


def test_nights_that_share_no_series_are_named(url: str, tmp_path: Path) -> None:
    alone = record(3, archs=("e150",))
    publish(shard_run(tmp_path / "e150", alone, 30, OPS, arch="e150"), url)
    with open_database(url) as connection, pytest.raises(InputError) as caught:
        compared_nights(connection, FIRST, alone.night_id)
    assert str(caught.value) == (
        f"opscope diff: expected nights with a series in common, got {SERIES.format('n150')} and "
        f"{SERIES.format('e150')}; try two nights with the same configuration"
    )


def test_a_name_is_of_a_night_or_of_a_run(url: str, tmp_path: Path) -> None:
    names = {FIRST: True, "2026-11-03": True, "2026-11-03 02:00": True, "night00": False, "night20": False}
    with open_runs(url) as runs:
        assert runs.connection is not None
        assert {name: names_night(runs.connection, name) for name in names} == names
        assert {name: is_night(runs.connection, name) for name in (FIRST, "night00")} == {FIRST: True, "night00": False}
        assert not names_night(None, FIRST)
        for a, b, nights in (
            (None, None, True),
            (FIRST, SECOND, True),
            (SECOND, None, True),
            ("night10", "night20", False),
            ("night10", SECOND, None),
        ):
            if nights is None:
                with pytest.raises(InputError, match=f"expected a run folder or the id of a published run, got `{b}`"):
                    diffs(runs, a, b)
            else:
                assert diffs(runs, a, b)[1] is nights
        for a, b, where in (("2026-11-03", "2026-13-45", "RUN_B"), ("night10", "2026-11-03", "RUN_A")):
            with pytest.raises(InputError, match=f"{where}: expected a night, got `{a if where == 'RUN_A' else b}`"):
                diffs(runs, a, b)
        # A run by itself that is newer than all nights is what a diff without names is about.
        publish(night(tmp_path, 24, OPS), url)
        publish(night(tmp_path, 25, OPS), url)
    with open_runs(url) as runs:
        assert runs.connection is not None
        assert newest_night(runs.connection) is None
        [changes], nights = diffs(runs, None, None)
        assert (changes.a.run_id, changes.b.run_id, nights) == ("night24", "night25", False)
    with open_database(fresh(tmp_path / "empty.sqlite")) as connection:
        assert newest_night(connection) is None
        with pytest.raises(InputError, match="opscope diff: expected a night, got none; try opscope publish --night"):
            compared_nights(connection, None, None)


def test_an_unknown_name_is_answered_with_three_known_ones(url: str, tmp_path: Path) -> None:
    for number in (3, 4):
        publish_night(url, tmp_path / str(number), number, OPS)
    with open_database(url) as connection:
        for find, expected in (
            (nights_named, "nightly-20261105-020000, nightly-20261104-020000, nightly-20261103-020000"),
            (night_of, "night21, night20, night10"),
        ):
            with pytest.raises(InputError) as caught:
                find(connection, "???")
            assert str(caught.value).partition("; try ")[2] == expected
    with open_database(fresh(tmp_path / "empty.sqlite")) as connection, pytest.raises(InputError, match=r"op-by-op$"):
        night_of(connection, "x")


def test_a_run_of_a_night_of_several_is_read_as_its_night(url: str, built: Path, tmp_path: Path) -> None:
    again = record(1)
    publish(shard_run(tmp_path / "again", again, 11, OPS, run_id="again"), url)
    with open_runs(url) as runs:
        nights = {run.run_id: run.night for run in runs.listed()}
        assert nights == {"again": FIRST, "night10": FIRST, "night20": "", "night21": "", "night00": ""}
        by_id = {run.run_id: run for run in runs.listed()}
        assert runs.read(by_id["night10"]).run_id == FIRST
        assert runs.read(by_id["night20"]).run_id == "night20"
        assert runs.folder("night20") is None
        assert by_id["night20"].models == {"a", "b"}
    folder = built / "n150" / "night20"
    with open_runs(url) as runs:
        assert runs.folder(str(folder)) == folder
        below = Runs(runs.connection, built / "n150")
        assert below.folder("night20") is None, "the database has a run of that name"
        assert Runs(None, built / "n150").folder("night20") == folder


def test_a_night_is_counted_anew_when_the_one_before_it_comes_late(tmp_path: Path) -> None:
    """The rows that hold what changed between nights are those of whichever night is the one before, now."""
    url = fresh(tmp_path / "db.sqlite")
    query = (
        "SELECT night_id, previous_night, compiler_changed, jaxlib_changed, models_changed FROM night_series ORDER BY 1"
    )
    late = {"add": Op(uses={"a": 1})}
    publish_night(url, tmp_path / "3", 3, OPS)
    publish_night(url, tmp_path / "1", 1, OPS)
    other = {"origin": {"versions": {"jaxlib": "0.11"}}}
    publish(shard_run(tmp_path / "2", record(2), 2, late, **other), url)
    with open_database(url) as connection:
        rows = [tuple(row) for row in connection.execute(sa.text(query))]
    third = "nightly-20261104-020000"
    assert rows == [(FIRST, "", 0, 0, 0), (SECOND, FIRST, 1, 1, 1), (third, SECOND, 1, 1, 1)]


def test_a_series_that_nobody_ran_is_a_row_all_the_same(tmp_path: Path) -> None:
    url = fresh(tmp_path / "db.sqlite")
    for number in (1, 2):
        publish(shard_run(tmp_path, record(number, backends=("reference", "xla")), number, OPS), url)
    query = (
        "SELECT series, status, missing, asked, models_missing, previous_night FROM night_series ORDER BY started, 1"
    )
    with open_database(url) as connection:
        rows = [tuple(row) for row in connection.execute(sa.text(query))]
    nobody = ("xla n150", "partial", "model a, model b", 2, 2, "")
    of_runs = (SERIES.format("n150"), "complete", "", 2, 0)
    assert rows == [(*of_runs, ""), nobody, (*of_runs, FIRST), nobody]


@pytest.mark.parametrize("board", ["n150", ""])
def test_a_series_has_one_name_in_python_and_in_sql(board: str) -> None:
    values = {
        "seed": (0, 7, 12),
        "inputs": ("captured", "random"),
        "data_format": (None, "Bfp8_b"),
        "until": (None, "x"),
    }
    for chosen in itertools.product(*values.values()):
        series = series_text("mine", "n150", {"dtype": "float32", **dict(zip(values, chosen, strict=True))})
        row = "SELECT ? AS series, 'mine' AS backend, 'n150' AS arch, ? AS board"
        query = f"SELECT {platform_of('s', 's.board')} FROM ({row}) s"
        assert sqlite3.connect(":memory:").execute(query, (series, board)).fetchone() == (
            series_name("mine", board, series),
        )
