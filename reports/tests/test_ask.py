"""SQL over the results: every stored question against an answer counted from the runs, and nothing but reading."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
import time
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from opscope.base.tests.resealed import reseal
from opscope.harness.record.errors import InputError
from opscope.harness.record.stages import Stage
from opscope.reports.commands.ask import sql as command
from opscope.reports.database.ask import Answer, as_csv, ask, questions
from opscope.reports.publish.publish import publish
from opscope.reports.tests.night_runs import fresh
from opscope.reports.tests.nights import Op, night, op_id

F = "f32[8,8] -> f32[8,8]"
OLD = {"add": Op("crashed", uses={"a": 1}), "old": Op(uses={"a": 1})}
NEW = {
    "add": Op(uses={"a": 3, "b": 1}, pcc=0.999, cycles=100),
    # It passes though a limitation names it: that costs nothing.
    "mul": Op(uses={"b": 1}, pcc=0.9, cycles=1000, more={"expected": "notyet: mul"}),
    "exp": Op("wrong_result", uses={"b": 2}, failed=Stage.COMPARE, error="PCC 0.1 below 0.99", pcc=0.1),
    "sort": Op("compile_failed", uses={"c": 1, "d": 2}, error="no sort"),
    "fft": Op("compile_failed", uses={"d": 1}, error="no fft", more={"expected": "never: no fft"}),
    "host": Op(uses={"c": 5}, more={"ran_on": "host"}),
    "lost": Op("unsplittable", uses={"d": 1}, error="no body"),
    "idle": Op("not_run", uses={"a": 1}),
}
BAD_TWIN = {"add": Op("run_failed", uses={"e": 1}, failed=Stage.RUN, error="L1 is full")}

# Question -> columns, and the rows that they must hold, in order. `...` is not looked at.
EXPECTED: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "ops_by_stage": (
        "arch op_kind stage_reached ops uses",
        [
            ("n150", "data_movement", "split", 1, 3),
            ("n150", "eltwise", "compare", 1, 4),
            ("n150", "linalg", "split", 1, 1),
            ("n150", "other", "split", 3, 4),
            ("n150", "other", "compare", 2, 6),
            ("p150", "eltwise", "split", 1, 1),
        ],
    ),
    "not_compiling": (
        "op_name failed_stage models uses error_message",
        [
            ("stablehlo.sort", "stablehlo-to-ttir", 2, 3, "no sort"),
            ("stablehlo.fft", "stablehlo-to-ttir", 1, 1, "no fft"),
            ("stablehlo.lost", "split", 1, 1, "no body"),
        ],
    ),
    "top_errors": (
        "arch models ops uses error_message",
        [
            ("n150", 2, 1, 3, "no sort"),
            ("n150", 1, 1, 2, "PCC 0.1 below 0.99"),
            (..., 1, 1, 1, ...),
            (..., 1, 1, 1, ...),
            (..., 1, 1, 1, ...),
        ],
    ),
    "failing_ops": (
        "arch op_name models uses error_message",
        [
            ("n150", "stablehlo.sort", 2, 3, "no sort"),
            ("n150", "stablehlo.exp", 1, 2, "PCC 0.1 below 0.99"),
            (..., ..., 1, 1, ...),
            (..., ..., 1, 1, ...),
            (..., ..., 1, 1, ...),
        ],
    ),
    "model_coverage": (
        "model ops bad not_attempted right_ops share share_of_uses",
        [
            ("c", 2, 1, 0, 0, 0.0, 0.0),
            ("d", 3, 3, 0, 0, 0.0, 0.0),
            ("a", 2, 0, 1, 1, 0.5, 0.75),
            ("b", 3, 1, 0, 2, 2 / 3, 0.5),
            ("e", 1, 1, 0, 0, 0.0, 0.0),
        ],
    ),
    "one_fix_away": (
        "arch model ops uses error_message",
        [("n150", "b", 1, 2, "PCC 0.1 below 0.99"), ("n150", "c", 1, 1, "no sort"), ("p150", "e", 1, 1, "L1 is full")],
    ),
    "coverage_by_dtype": (
        "arch dtype ops attempted right_ops bad",
        [("n150", "f32", 8, 7, 3, 4), ("p150", "f32", 1, 1, 0, 1)],
    ),
    "coverage_by_op": (
        "arch op_name dtype supported fails known_gaps never_tried",
        [
            ("n150", "stablehlo.add", "f32", 1, 0, 0, 0),
            ("n150", "stablehlo.exp", "f32", 0, 1, 0, 0),
            ("n150", "stablehlo.fft", "f32", 0, 0, 1, 0),
            ("n150", "stablehlo.host", "f32", 1, 0, 0, 0),
            ("n150", "stablehlo.idle", "f32", 0, 0, 0, 1),
            ("n150", "stablehlo.mul", "f32", 1, 0, 0, 0),
            ("n150", "stablehlo.old", "f32", 1, 0, 0, 0),
            ("n150", "stablehlo.sort", "f32", 0, 1, 0, 0),
            ("p150", "stablehlo.add", "f32", 0, 1, 0, 0),
            ("p150", "stablehlo.exp", "f32", 0, 0, 0, 1),
        ],
    ),
    "shape_dependent": ("op_name right_ops bad_ops", []),
    "worst_numbers": ("op_name pcc models uses", [("stablehlo.mul", 0.9, 1, 1), ("stablehlo.add", 0.999, 2, 4)]),
    "wrong_numbers": ("op_name signature pcc models uses", [("stablehlo.exp", F, 0.1, 1, 2)]),
    "heaviest_ops": (
        "op_name models uses cycles cycles_of_all_uses",
        [("stablehlo.mul", 1, 1, 1000, 1000), ("stablehlo.add", 2, 4, 100, 400)],
    ),
    "ran_on_host": ("op_name ran_on models uses", [("stablehlo.host", "host", 1, 5)]),
    "cost_of_limitations": ("limitation ops models uses", [("never: no fft", 1, 1, 1)]),
    "shared_ops": (
        "arch op_name status models uses",
        [
            ("n150", "stablehlo.add", "success", 2, 4),
            ("n150", "stablehlo.sort", "compile_failed", 2, 3),
            ("n150", "stablehlo.host", "success", 1, 5),
            ("n150", "stablehlo.exp", "wrong_result", 1, 2),
        ],
    ),
    "pass_rate_by_run": (
        "run_id ran_on attempted_ops right_ops",
        [
            ("night01", "simulator", 2, 1),
            ("night02", "host", 6, 1),
            ("night02", "simulator", 6, 2),
            ("night03", "none", 1, 0),
        ],
    ),
    "pass_rate_by_framework": (
        "arch framework models ops attempted_ops right_ops host_ops pass_rate",
        [("n150", "", 4, 8, 7, 3, 1, 3 / 7), ("p150", "", 1, 1, 1, 0, 0, 0.0)],
    ),
    "pass_rate_by_format": (
        "arch data_format models ops attempted_ops right_ops both_ops right_by_default",
        [("n150", "default", 4, 8, 7, 3, 7, 3), ("p150", "default", 1, 1, 1, 0, 1, 0)],
    ),
    "cycles_over_two_weeks": ("model both_ops cycles_before cycles_now", []),
    "flipping_ops": ("arch op_name runs endings right_runs", [("n150", "stablehlo.add", 3, 2, 1)]),
}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("ask")
    return fill(folder, fresh(folder / "db.sqlite"))


def fill(folder: Path, url: str) -> str:
    publish(night(folder, 1, OLD), url)
    publish(night(folder, 2, NEW), url)
    publish(night(folder, 3, BAD_TWIN, arch="p150"), url)
    publish(night(folder, 4, {"add": Op("crashed", uses={"a": 1})}, outcome="running"), url)
    return url


def check(url: str, name: str) -> None:
    """The rows of one question are those of the table, as far as the table goes."""
    columns, rows = EXPECTED[name]
    answer = ask(url, name)
    got = [tuple(record[column] for column in columns.split()) for record in answer.records()][: len(rows) or None]
    expected = [
        tuple(
            have if want is ... else pytest.approx(want) if isinstance(want, float) else want
            for have, want in zip(mine, row, strict=True)
        )
        for mine, row in zip(got, rows, strict=True)
    ]
    assert got == expected


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_each_question_has_its_answer(url: str, name: str) -> None:
    check(url, name)


def test_there_are_twenty_questions_and_each_asks_something() -> None:
    stored = questions()
    assert set(stored) == set(EXPECTED)
    assert len(stored) == 20
    for question in stored.values():
        assert question.asks.endswith("?"), question.name
        assert "%%" not in question.sql


def test_shapes_that_fail_beside_shapes_that_pass(tmp_path: Path) -> None:
    good, bad = Op(uses={"a": 1}), Op("compile_failed", uses={"a": 1}, error="not a multiple of 32")
    run_dir = night(tmp_path, 1, {"add": good, "add2": bad, "log": good})
    manifest = run_dir / "manifest.jsonl"
    reseal(manifest, lambda line: line.replace("stablehlo.add2", "stablehlo.add"))
    url = fresh(tmp_path / "db.sqlite")
    publish(run_dir, url)
    assert ask(url, "shape_dependent").rows == (
        (
            "reference n150 float32 0",
            "2026-11-02",
            "newest",
            "reference",
            "n150",
            "default",
            "stablehlo.add",
            1,
            1,
            F,
            F,
            "not a multiple of 32",
        ),
    )


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "DELETE FROM runs",
            "one statement that reads (SELECT, WITH, VALUES, EXPLAIN or PRAGMA), got `DELETE`",
        ),
        ("/* SELECT */ DROP TABLE runs", "got `DROP`"),
        ("SELECT 1; DROP TABLE runs", "one statement at a time"),
        ("ATTACH DATABASE '{folder}/new.sqlite' AS other", "got `ATTACH`"),
        ("SELEC 1", "got `SELEC`; try SELECT"),
        ("SELECT 1 FRM runs", "syntax error"),
        ("WITH one AS (SELECT 1) DELETE FROM runs", "not authorized"),
        ("PRAGMA user_version = 7", "not authorized"),
        ("SELECT load_extension('{folder}/x')", "not authorized to use function: load_extension"),
        ("top_eror", "expected SQL or the name of a stored question, got `top_eror`; try top_errors"),
        ("SELECT * FROM nobody", "no such table: nobody"),
    ],
)
def test_bad_queries_are_one_line_and_change_nothing(url: str, tmp_path: Path, query: str, message: str) -> None:
    before = Path(url.removeprefix("sqlite:///")).read_bytes()
    with pytest.raises(InputError) as error:
        ask(url, query.format(folder=tmp_path))
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert Path(url.removeprefix("sqlite:///")).read_bytes() == before
    assert list(tmp_path.iterdir()) == []


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT {} FROM n"


def check_endless(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for what in ("COUNT(*)", "i"):
        begun = time.monotonic()
        with pytest.raises(InputError, match=r"QUERY: expected an answer within 0\.05 s, got none; try a narrower"):
            ask(url, ENDLESS.format(what), seconds=0.05)
        assert time.monotonic() - begun < 30
    monkeypatch.setattr("opscope.reports.database.ask.MOST_ROWS", 20_000)
    with pytest.raises(InputError, match=r"QUERY: expected at most 20,000 rows, got more; try a LIMIT"):
        ask(url, ENDLESS.format("i"))


def test_a_query_without_end_has_a_limit_of_time_and_of_rows(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_endless(url, monkeypatch)
    answer = CliRunner().invoke(command, [ENDLESS.format("i"), "--timeout", "0.05", "--db", url])
    assert isinstance(answer.exception, InputError)


def check_misspelt(url: str) -> None:
    for query, reason in (
        ("SELECT statu FROM op_tests", r"statu.*; try status"),
        ("SELECT o.statu FROM op_tests AS o", r"o\.statu.*; try status"),
        ("SELECT * FROM failure", r"failure.*; try failures"),
        ("SELECT * FROM runs WHERE", r".*; try opscope sql"),
        ("SELECT 1; SELECT 2", r".*; try opscope sql"),
    ):
        with pytest.raises(InputError, match=f"^QUERY: expected SQL that this database can run, got .*{reason}"):
            ask(url, query)


def test_a_misspelt_query_is_at_fault_and_not_the_database(url: str) -> None:
    check_misspelt(url)


def test_percent_and_colon_are_sql(url: str) -> None:
    rows = ask(url, "SELECT COUNT(*) AS n, ':x' AS x FROM op_tests WHERE op_name LIKE '%.so%' AND 5 % 2 = 1").rows
    assert rows == ((1, ":x"),)


def test_a_database_of_another_opscope_says_what_renews_it(url: str, tmp_path: Path) -> None:
    old = tmp_path / "old.sqlite"
    old.write_bytes(Path(url.removeprefix("sqlite:///")).read_bytes())
    with sqlite3.connect(old) as connection:
        connection.execute("DROP VIEW newest_ops")
        connection.execute("UPDATE opscope_settings SET value = 'x' WHERE name = 'views_digest'")
    connection.close()
    with pytest.raises(InputError, match="try opscope db upgrade"):
        ask(f"sqlite:///{old}", "top_errors")
    with sqlite3.connect(old) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(InputError, match=r"expected a database of schema .*, got schema 9999; try a newer opscope"):
        ask(f"sqlite:///{old}", "SELECT 1")


def test_values_of_either_database_become_json_and_csv() -> None:
    now = datetime(2026, 11, 20, tzinfo=UTC)
    answer = Answer(("a", "b"), ((Decimal(3), now), (Decimal("0.5"), None), (float("nan"), ["x", 'say "y", z'])))
    assert json.loads(json.dumps(answer.records(), allow_nan=False)) == [
        {"a": 3, "b": "2026-11-20T00:00:00+00:00"},
        {"a": 0.5, "b": None},
        {"a": None, "b": ["x", 'say "y", z']},
    ]
    rows = list(csv.reader(io.StringIO(as_csv(answer.columns, answer.rows))))
    assert rows[:3] == [["a", "b"], ["3", "2026-11-20T00:00:00+00:00"], ["0.5", ""]]
    assert json.loads(rows[3][1]) == ["x", 'say "y", z']


def test_a_stored_time_says_that_it_is_utc(url: str) -> None:
    (row,) = ask(url, "SELECT MIN(started) AS started, '2026-11-20 02:00' AS text FROM runs").records()
    assert datetime.fromisoformat(row["started"]).tzinfo == UTC
    assert row["text"] == "2026-11-20 02:00"


@pytest.fixture
def run(url: str) -> Callable[..., str]:
    return lambda *words, **more: (
        CliRunner().invoke(command, [*words, "--db", url], catch_exceptions=False, **more).output
    )


def test_the_command_in_its_formats(run: Callable[..., str], url: str) -> None:
    answer = ask(url, "model_coverage")
    assert json.loads(run("model_coverage", "--json")) == answer.records()
    assert next(csv.reader(io.StringIO(run("model_coverage", "--csv")))) == list(answer.columns)
    assert "stablehlo.mul" in run("-", input="SELECT op_name FROM ops")
    assert "and 2 more rows" in run("SELECT 1 AS x UNION SELECT 2 UNION SELECT 3", "--limit", "1")
    assert len(json.loads(run("--json"))) == 20
    assert "What blocks the most models: which errors, by their causes?" in run()
    assert op_id("add") in run("SELECT op_id FROM ops ORDER BY 1", "--csv")


def test_no_cell_of_a_csv_is_a_formula() -> None:
    texts = ("=1+1", "+1", "-x", "@SUM(A1)", "a=b", "", "'=1")
    lines = as_csv(("a",), (*((text,) for text in texts), (-1.5,), (["=1"],))).splitlines()
    assert lines == ["a", "'=1+1", "'+1", "'-x", "'@SUM(A1)", "a=b", '""', "'=1", "-1.5", '"[""=1""]"']


def test_ops_of_a_backend_for_the_host_are_right_there(tmp_path: Path) -> None:
    """As the rule of `night_places` has it; an op that falls back from a device is not."""
    url = fresh(tmp_path / "db.sqlite")
    on_host = Op(uses={"m": 3}, more={"ran_on": "host"})
    for number, (backend, ops) in enumerate(
        {
            "xla": {"add": on_host, "sort": Op("compile_failed", {"m": 1})},
            "mine": {"add": Op("passed", {"m": 3}), "sort": Op("compile_failed", {"m": 1})},
            "reference": {"add": on_host, "sort": Op(uses={"m": 1}, more={"ran_on": "simulator"})},
        }.items(),
        1,
    ):
        publish(night(tmp_path, number, ops, backend=backend), url)
    answer = ask(url, "model_coverage")
    share = {row["backend"]: (row["right_ops"], row["share"], row["share_of_uses"]) for row in answer.records()}
    assert share == {"xla": (1, 0.5, 0.75), "mine": (1, 0.5, 0.75), "reference": (1, 0.5, 0.25)}
    assert [row["backend"] for row in ask(url, "ran_on_host").records()] == ["reference"]
    counted = "SELECT backend, SUM(right_ops) FROM dashboard_counts WHERE model = 'm' GROUP BY backend"
    assert dict(ask(url, counted).rows) == {name: each[0] for name, each in share.items()}


def test_the_platform_of_a_compiler_without_board_has_no_gap(tmp_path: Path) -> None:
    url = fresh(tmp_path / "db.sqlite")
    origin = {"options": {"dtype": "float32", "seed": 0, "data_format": "Bfp8_b"}}
    for number, (backend, card) in enumerate({"mine": "host", "reference": "sim-n150"}.items(), 1):
        folder = night(
            tmp_path, number, {"add": Op(uses={"m": 1})}, backend=backend, card_type=card, origin=dict(origin)
        )
        publish(folder, url)
    platforms = [row[0] for row in ask(url, "SELECT platform FROM night_dates ORDER BY 1").rows]
    assert platforms == ["mine Bfp8_b", "reference n150 Bfp8_b"]
