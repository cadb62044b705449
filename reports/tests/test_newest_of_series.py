"""Stored questions about the current state: the newest complete night of each series, each with its date."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscope.reports.database.ask import ask, questions
from opscope.reports.publish.publish import publish
from opscope.reports.tests.night_runs import fresh, record, rows, shard_run
from opscope.reports.tests.nights import Op, night

FULL = "reference n150 float32 0"
COMPILED = f"{FULL} until=ttnn-to-flatbuffer"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A full night with wrong numbers; a partial one of the next date; one of the same backend that only compiles."""
    folder = tmp_path_factory.mktemp("newest")
    url = fresh(folder / "db.sqlite")

    def publish_one(number: int, ops: dict[str, Op], models: tuple[str, ...], until: str | None = None) -> None:
        options = {"dtype": "float32", "seed": 0} | ({"until": until} if until else {})
        expected = record(number, name=f"of-{until}", models=models)
        publish(shard_run(folder, expected, number, ops, origin={"options": options}), url)

    wrong, right = Op("wrong_result", {"a": 1, "b": 1}, error="wrong by 3"), Op(uses={"a": 2})
    publish_one(1, {"add": right, "old": Op("run_failed", {"gone": 1}, error="no room")}, ("a", "gone"))
    publish_one(2, {"add": right, "sub": wrong, "log": Op("compile_failed", {"b": 1}, error="no lowering")}, ("a", "b"))
    publish_one(3, {"add": right}, ("a", "b"))  # b is missing
    publish_one(
        4, {"add": Op("passed", {"a": 2}), "sub": Op("passed", {"a": 1, "b": 1})}, ("a", "b"), "ttnn-to-flatbuffer"
    )
    return url


def test_no_series_hides_what_another_one_says(url: str) -> None:
    for name, column, expected in (
        ("failing_ops", "op_name", {"stablehlo.sub", "stablehlo.log"}),
        ("wrong_numbers", "op_name", {"stablehlo.sub"}),
        ("not_compiling", "op_name", {"stablehlo.log"}),
        ("top_errors", "error_message", {"wrong by 3", "no lowering"}),
    ):
        answer = ask(url, name)
        found = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
        assert {row[column] for row in found} == expected, name
        assert {(row["series"], row["day"], row["standing"]) for row in found} == {(FULL, "2026-11-03", "older")}, name


def test_the_newest_night_is_the_newest_complete_one_of_its_series(url: str) -> None:
    asked = "SELECT DISTINCT series, day, standing, model FROM newest_ops ORDER BY 1, 4"
    assert rows(url, asked) == [
        (FULL, "2026-11-03", "older", "a"),
        (FULL, "2026-11-03", "older", "b"),
        (COMPILED, "2026-11-05", "newest", "a"),
        (COMPILED, "2026-11-05", "newest", "b"),
    ]


def test_a_model_that_is_gone_is_named_once_and_in_no_share(url: str) -> None:
    answer = ask(url, "model_coverage")
    found = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
    (gone,) = [row for row in found if row["model"] == "gone"]
    assert (gone["series"], gone["day"], gone["standing"], gone["ops"]) == (FULL, "2026-11-02", "gone", None)
    shares = {(row["series"], row["model"]): row["share"] for row in found if row["model"] != "gone"}
    assert shares[FULL, "b"] == 0.0
    assert shares[COMPILED, "b"] == 1.0


@pytest.mark.parametrize("name", sorted(questions()))
def test_every_question_says_of_which_series_and_date(url: str, name: str) -> None:
    columns = ask(url, name).columns
    assert {"series", "day", "standing"} <= set(columns)


def test_a_question_about_all_runs_says_which_of_them_is_the_newest(url: str) -> None:
    answer = ask(url, "pass_rate_by_run")
    found = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
    assert [(row["series"], row["day"], row["standing"]) for row in found] == [
        (FULL, "2026-11-02", "older"),
        (FULL, "2026-11-03", "older"),
        (FULL, "2026-11-04", "partial"),
        (COMPILED, "2026-11-05", "newest"),
    ]


def test_runs_without_a_night_have_each_models_newest(tmp_path: Path) -> None:
    url = fresh(tmp_path / "db.sqlite")
    for number, model in ((1, "a"), (2, "b")):
        publish(night(tmp_path, number, {"add": Op(uses={model: 1})}), url)
    found = rows(url, "SELECT model, day, standing FROM newest_ops ORDER BY 1")
    assert found == [("a", "2026-11-03", "newest"), ("b", "2026-11-03", "newest")]
