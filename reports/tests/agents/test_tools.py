"""What an assistant gets: the answers that SQL gives, as data, and no way to write."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from opscope.harness.record.errors import InputError
from opscope.reports.agents.short_answers import MOST, short, text_of
from opscope.reports.agents.tools import DATA, TOOLS, Results
from opscope.reports.database.ask import ask
from opscope.reports.database.database import views
from opscope.reports.records.demo_data import SAID

Json = Any

QUESTIONS: dict[str, tuple[str, dict[str, Any], Callable[[Json], Any], str]] = {
    "how many nights are there?": (
        "nights",
        {"rows": 1000},
        lambda answer: len(answer["rows"]),
        "SELECT COUNT(*) FROM night_series",
    ),
    "which night is the newest?": (
        "nights",
        {},
        lambda answer: answer["rows"][0]["night"],
        "SELECT MAX(night) FROM night_status",
    ),
    "how many ops are new failures on n150?": (
        "what_changed",
        {"after": "NIGHT"},
        lambda answer: answer["series"][0]["counts"]["NEW"],
        "SELECT COUNT(*) FROM night_diff WHERE night_id = 'NIGHT' AND label = 'NEW'",
    ),
    "and since a date?": (
        "what_changed",
        {"since": "2026-11-20"},
        lambda answer: answer["series"][0]["counts"]["NEW"],
        "SELECT COUNT(*) FROM night_diff WHERE night_id = 'NIGHT' AND label = 'NEW'",
    ),
    "how many of them fail a gate?": (
        "what_changed",
        {"after": "NIGHT"},
        lambda answer: answer["series"][0]["news"],
        "SELECT SUM(news) FROM night_diff WHERE night_id = 'NIGHT'",
    ),
    "how many became slower?": (
        "what_changed",
        {"after": "NIGHT"},
        lambda answer: answer["series"][0]["counts"]["SLOWER"],
        "SELECT COUNT(*) FROM night_diff WHERE night_id = 'NIGHT' AND label = 'SLOWER'",
    ),
    "up to which commit?": (
        "what_changed",
        {"after": "NIGHT"},
        lambda answer: answer["series"][0]["since"]["to"][:12],
        "SELECT revision FROM night_series WHERE night_id = 'NIGHT'",
    ),
    "since which commit?": (
        "what_changed",
        {"after": "NIGHT"},
        lambda answer: answer["series"][0]["since"]["from"][:12],
        "SELECT p.revision FROM night_series s JOIN night_series p ON p.night_id = s.previous_night "
        "AND p.series = s.series WHERE s.night_id = 'NIGHT'",
    ),
    "what should be fixed first?": (
        "what_to_fix",
        {"run": "NIGHT"},
        lambda answer: answer["series"][0]["fixes"][0]["cluster"],
        "SELECT cluster FROM night_clusters WHERE night_id = 'NIGHT' AND position = 1",
    ),
    "how many models does that hold back?": (
        "what_to_fix",
        {"run": "NIGHT"},
        lambda answer: counted(answer["series"][0]["fixes"][0], "models"),
        "SELECT model_count FROM night_clusters WHERE night_id = 'NIGHT' AND position = 1",
    ),
    "who owns it?": (
        "what_to_fix",
        {"run": "NIGHT"},
        lambda answer: answer["series"][0]["fixes"][0]["owner"],
        "SELECT owner FROM night_clusters WHERE night_id = 'NIGHT' AND position = 1",
    ),
    "what does the compiler say?": (
        "what_to_fix",
        {"run": "NIGHT"},
        lambda answer: answer["series"][0]["fixes"][0]["error"],
        "SELECT error_message FROM night_clusters WHERE night_id = 'NIGHT' AND position = 1",
    ),
    "how many models are whole after it is fixed?": (
        "what_to_fix",
        {"run": "NIGHT"},
        lambda answer: answer["series"][0]["curve"][1]["whole"],
        "SELECT whole FROM night_unlock WHERE night_id = 'NIGHT' AND fixes = 1",
    ),
    "how many ops does resnet50 still lack?": (
        "model",
        {"name": "resnet50", "rows": 1000},
        lambda answer: next(len(own["missing"]) for own in answer["series"] if "reference-n150" in own["run_id"]),
        "SELECT COUNT(*) FROM model_blockers WHERE night_id = 'NIGHT' AND model = 'resnet50'",
    ),
    "how many were right in its newest night?": (
        "look_up",
        {"what": "resnet50"},
        lambda answer: next(own for own in answer["lanes"] if "n150" in own["series"] and "reference" in own["series"])[
            "newest"
        ]["right_ops"],
        "SELECT right_ops FROM model_readiness WHERE night_id = 'NIGHT' AND model = 'resnet50'",
    ),
    "what is this op?": (
        "look_up",
        {"what": "OP"},
        lambda answer: answer["op_name"],
        "SELECT MIN(op_name) FROM ops WHERE op_id = 'OP'",
    ),
    "in how many models is it?": (
        "look_up",
        {"what": "OP", "rows": 1000},
        lambda answer: len(answer["models"]),
        "SELECT COUNT(DISTINCT m.model) FROM models m JOIN module_ops u ON u.module_id = m.module_id "
        "WHERE u.op_id = 'OP'",
    ),
    "how do I run it again?": (
        "look_up",
        {"what": "OP"},
        lambda answer: answer["repro"],
        "SELECT repro FROM op_tests WHERE op_id = 'OP' AND superseded_by = '' "
        "ORDER BY test_start_ts DESC, run_id DESC LIMIT 1",
    ),
    "in how many nights was it tried?": (
        "look_up",
        {"what": "OP", "rows": 1000},
        lambda answer: len(answer["history"]),
        "SELECT COUNT(*) FROM op_tests WHERE op_id = 'OP' AND superseded_by = ''",
    ),
    "which op gives the worst numbers?": (
        "ask",
        {"query": "wrong_numbers"},
        lambda answer: answer["rows"][0]["op_name"],
        "wrong_numbers",
    ),
    "how many op tests are there?": (
        "ask",
        {"query": "SELECT COUNT(*) AS tests FROM op_tests"},
        lambda answer: answer["rows"][0]["tests"],
        "SELECT COUNT(*) FROM op_tests",
    ),
}
"""Twenty questions: the tool, its words, what of the answer is asked for, and the SQL that knows it."""


TOKENS = 3_000
"""Characters divided by four: of an answer, unless more is asked for, and of all tools together."""


def counted(holder: Json, name: str) -> int:
    """The length of a list before it was cut."""
    return len(holder[name]) + holder.get(f"{name}_left_out", 0)


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database with four demo nights."""
    from click.testing import CliRunner

    from opscope.reports.demo.cli import demo

    folder = tmp_path_factory.mktemp("nights")
    url = f"sqlite:///{folder}/db.sqlite"
    words = ["--nights", "4", "--until", "2026-11-20", "--to", url, "--runs", str(folder / "runs")]
    CliRunner().invoke(demo, words, catch_exceptions=False)
    return url


def first(url: str, sql: str) -> Any:
    """The first value of an answer."""
    answer = ask(url, sql)
    return answer.rows[0][answer.columns.index("op_name") if "op_name" in answer.columns and " " not in sql else 0]


def asked(url: str, question: str) -> tuple[str, dict[str, Any], Callable[[Json], Any], Any]:
    """A question about the newest night of the reference on n150 and an op that fails there; and what SQL says."""
    night = first(url, "SELECT MAX(night_id) FROM night_series WHERE backend = 'reference' AND arch = 'n150'")
    op = first(url, f"SELECT MIN(op_id) FROM night_failures WHERE night_id = '{night}'")
    tool, words, wanted, sql = QUESTIONS[question]

    def fill(text: str) -> str:
        return op if text == "OP" else text.replace("NIGHT", night).replace("OP'", f"{op}'")

    named = {name: fill(word) if isinstance(word, str) else word for name, word in words.items()}
    return tool, named, wanted, first(url, fill(sql))


@pytest.mark.slow
def test_twenty_questions_asked_over_the_protocol_have_the_answers_of_sql(nights: str, tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="the extra opscope[mcp] is not installed")
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    command = [sys.executable, "-P", "-m", "opscope.harness.cli.main", "mcp", "--db", nights]
    parameters = StdioServerParameters(command=command[0], args=command[1:], cwd=tmp_path)

    async def talk() -> dict[str, tuple[Any, Any]]:
        answers = {}
        async with Client(stdio_client(parameters)) as client:
            listed = (await client.list_tools()).tools
            assert [tool.name for tool in listed] == list(TOOLS)
            assert all(tool.annotations and tool.annotations.read_only_hint for tool in listed)
            described = [tool.model_dump_json(by_alias=True, exclude_none=True) for tool in listed]
            assert sum(map(len, described)) / 4 <= TOKENS
            for question in QUESTIONS:
                tool, words, wanted, expected = asked(nights, question)
                got = await client.call_tool(tool, words)
                assert not got.is_error, (question, got.content)
                (content,) = got.content
                assert "rows" in words or len(content.text) / 4 <= TOKENS, question
                answer = json.loads(content.text)
                assert answer["note"] == f"{DATA} {SAID}"
                answers[question] = (wanted(answer["answer"]), expected)
            other = await client.call_tool("what_changed", {"night": "2026-11-19"})
            assert other.is_error
            assert "what_changed: expected before, after, since, cause, rows, more, got `night`" in str(other.content)
            refused = await client.call_tool("ask", {"query": "DELETE FROM runs"})
            assert refused.is_error
            assert "expected one statement that reads" in str(refused.content)
        return answers

    answers = asyncio.run(talk())
    assert {question: got for question, (got, _) in answers.items()} == {
        question: expected for question, (_, expected) in answers.items()
    }
    assert list(tmp_path.iterdir()) == [], "nothing is written"


@pytest.fixture
def empty(tmp_path: Path) -> Results:
    from opscope.reports.database.database import open_database

    url = f"sqlite:///{tmp_path}/db.sqlite"
    with open_database(url):
        pass
    return Results(url)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda results: results.ask("INSERT INTO runs VALUES (1)"), "one statement that reads"),
        (lambda results: results.ask("--help"), ""),
        (lambda results: results.what_changed(after="--check"), "--check"),
        (lambda results: results.what_changed("--db=sqlite:////elsewhere", "--check"), "--db=sqlite:////elsewhere"),
        (lambda results: results.what_changed(before="2026-11-20"), "expected `after` with it"),
        (lambda results: results.what_to_fix("--by=op"), "--by=op"),
        (lambda results: results.what_to_fix(by="everything"), "expected what the tool takes"),
        (lambda results: results.model("--db=sqlite:////elsewhere"), ""),
        (lambda results: results.look_up("nonsense"), "expected a run, the id of an op"),
    ],
    ids=[
        "insert",
        "option as query",
        "option as night",
        "options as nights",
        "the earlier night alone",
        "option as run",
        "choice",
        "option as model",
        "name",
    ],
)
def test_what_an_assistant_may_not_ask_is_refused(empty: Results, call: Callable[[Results], Any], problem: str) -> None:
    with pytest.raises(InputError) as refused:
        call(empty)
    assert problem in str(refused.value)


def test_long_lists_say_what_was_left_out(empty: Results) -> None:
    answer = empty.ask("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9) SELECT i FROM n", 2)
    assert answer["answer"] == {"rows": [{"i": 1}, {"i": 2}], "rows_left_out": 7}
    assert answer["note"] == DATA


def test_a_long_text_is_cut_and_says_so(empty: Results) -> None:
    (row,) = empty.ask("SELECT printf('%30000d', 1) AS long")["answer"]["rows"]
    assert row["long"].endswith("... (29500 characters left out)")
    (row,) = empty.ask("SELECT printf('%30000d', 1) AS long", more=True)["answer"]["rows"]
    assert row["long"].endswith("... (10000 characters left out)")
    with pytest.raises(InputError, match="too big"):
        empty.ask("SELECT hex(randomblob(100000000))")


def test_tables_explain_every_column(empty: Results) -> None:
    assert "night_diff" in empty.tables()["answer"]
    with closing(sqlite3.connect(empty.url.removeprefix("sqlite:///"))) as connection:
        columns = {view: connection.execute(f"SELECT * FROM {view} LIMIT 0").description for view in views()}
    for view, of_view in columns.items():
        answer = empty.tables(view)["answer"]
        assert list(answer["columns"]) == [name for name, *_ in of_view]
        assert len(text_of(answer)) / 4 <= TOKENS, view
    assert empty.tables("dashboard_two_nights")["answer"]["columns"]["pcc_now"].endswith("in the later night")
    assert "newest" not in empty.status()["answer"], "what has no value"
    assert len(empty.questions()["answer"]) > 10


def test_an_answer_is_short_and_counts_what_it_leaves_out() -> None:
    """However a value is long: by rows, by names in each, by a map, by texts."""
    models = {f"model_{number}": number for number in range(500)}
    rows = [{"models": list(models), "uses": models, "error": "x" * 5000, "none": None} for _ in range(300)]
    answer = short({"many": rows, "few": rows[:2], "empty": []}, 20)
    assert len(text_of(answer)) <= MOST
    assert answer["empty"] == []
    for name, rows_before in (("many", 300), ("few", 2)):
        assert counted(answer, name) == rows_before
        row = answer[name][0]
        assert "none" not in row
        assert counted(row, "models") == counted(row, "uses") == 500


@pytest.mark.slow
@pytest.mark.parametrize("more", [False, True])
def test_the_ops_of_one_cause_are_asked_for_by_its_id(nights: str, more: bool) -> None:
    results = Results(nights)
    changed = results.what_changed()["answer"]
    cause = next(each for each in changed["causes"] if each["label"] == "NEW" and each["ops"] > 1)
    of_cause = results.what_changed(cause=cause["cause"][:8], more=more)["answer"]["series"]
    assert {row["cluster"] for each in of_cause for row in each["rows"]} == {cause["cause"]}
    assert max(counted(each, "rows") for each in of_cause) >= cause["ops"]
