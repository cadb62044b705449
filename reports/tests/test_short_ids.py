"""The short id of a cause: printed where the cause stands, taken by `show`, `diff` and `sql`."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from opscope.harness.cli.main import root as opscope
from opscope.harness.record.causes import cause_named, cause_of, short
from opscope.harness.record.errors import InputError
from opscope.reports.publish.publish import publish
from opscope.reports.tests.night_runs import fresh, record, shard_run
from opscope.reports.tests.nights import START, Op

NAMES = ("fft", "abs", "tanh", "sine", "log")
RIGHT = {name: Op(uses={"a": 1, "b": 1}) for name in NAMES}
REFUSED = RIGHT | {
    name: Op("compile_failed", {"a": 1, "b": 1}, error=f"failed to find room for 'stablehlo.{name}'") for name in NAMES
}
CAUSE = cause_of("compile_failed", "stablehlo-to-ttir", "stablehlo.fft", "f32", REFUSED["fft"].error)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two dates, each with a night for each of two boards; what is right on the first is refused on the second."""
    folder = tmp_path_factory.mktemp("nights")
    database = fresh(folder / "db.sqlite")
    for number, ops in enumerate((RIGHT, REFUSED), 1):
        for minutes, board in enumerate(("n150", "p150")):
            started = START + timedelta(days=number, minutes=minutes)
            night = record(number, name=f"on {board}", archs=(board,), started=started)
            publish(shard_run(folder / board, night, 2 * number + minutes, ops, arch=board, started=started), database)
    return database


def printed(url: str, *words: str) -> str:
    done = CliRunner().invoke(opscope, [*words, "--db", url])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_date_is_all_nights_of_that_day(url: str) -> None:
    for words in (("diff",), ("diff", "2026-11-03"), ("diff", "2026-11-02", "2026-11-03")):
        text = printed(url, *words)
        assert text.startswith("5 new failures, 1 cause: start with "), text
        assert "\n2026-11-03, reference n150, reference p150, since " in text
        assert text.count("NEW (5)") == 2


def test_each_verb_that_takes_a_date_shows_all_series_of_that_day(url: str, tmp_path: Path) -> None:
    boards = ("n150", "p150")
    for words in (("unblock", "2026-11-03"), ("readiness", "a", "--run", "2026-11-03")):
        assert len(json.loads(printed(url, *words, "--json"))["series"]) == 2, words
    text = printed(url, "readiness", "a", "--run", "2026-11-02")
    assert [text.count(f"a on reference {board}, night on_{board}-") for board in boards] == [1, 1], text
    assert text.count("5 unique ops = 5 right") == 2, "of that day, not of the newest"
    plans = json.loads(printed(url, "unblock", "2026-11-03", "--json"))["series"]
    assert sorted(run["board"] for plan in plans for run in plan["runs"]) == list(boards)
    for words in (("2026-11-03",), ()):
        page = tmp_path / "page.html"
        printed(url, "report", *words, "-o", str(page))
        text = page.read_text()
        assert "<title>2026-11-03 on n150, p150 " in text
        assert "5 new failures, 1 cause: start with " in text
        assert all(f"on_{board}-20261103" in text for board in boards)
    printed(url, "report", "2026-11-03 02:00", "-o", str(page))
    assert "on_p150-" not in page.read_text(), "a time names one night"


def test_a_cause_is_one_line_with_its_first_ops(url: str) -> None:
    text = printed(url, "diff", "2026-11-03")
    assert (
        text.count(f"cause {short(CAUSE)}, 5 ops, 10 uses: success -> compile_failed at stablehlo-to-ttir: failed") == 2
    )
    assert text.count("in a, b\n") == 2 + 2 * 3, "once for the cause and for each of the three ops that are named"
    assert text.count(f"and 2 more: --cause {short(CAUSE)}") == 2
    whole = printed(url, "diff", "2026-11-03", "--cause", short(CAUSE))
    assert len(re.findall(r"stablehlo\.\w+ \[\w{16}\]", whole)) == 10
    assert "more: --cause" not in whole


@pytest.mark.parametrize(
    "words",
    [("unblock",), ("readiness", "a"), ("show", "a"), ("sql", "top_errors"), ("diff",)],
    ids=lambda words: words[0],
)
def test_it_stands_where_the_cause_does(url: str, words: tuple[str, ...]) -> None:
    assert short(CAUSE) in printed(url, *words)


def test_it_is_taken(url: str) -> None:
    for beginning in (short(CAUSE), CAUSE, CAUSE[:4].upper()):
        text = printed(url, "show", beginning)
        assert text.startswith(f"cause {CAUSE}: failed to find room for"), text
        assert text.count("5 ops in a, b; first seen 2026-11-03") == 2
        assert "\nreference p150, 2026-11-03 02:01 UTC\n" in text
    details = json.loads(printed(url, "show", short(CAUSE), "--json"))
    assert [(lane["series"].split()[1], len(lane["failing"])) for lane in details["lanes"]] == [
        ("p150", 5),
        ("n150", 5),
    ]
    rows = json.loads(printed(url, "sql", "failing_ops", "--cause", short(CAUSE), "--json"))
    assert (len(rows), {row["cause"] for row in rows}) == (10, {CAUSE})
    [narrowed] = json.loads(printed(url, "diff", "2026-11-03", "--cause", CAUSE[:6], "--json"))["series"][:1]
    assert {row["cluster"] for row in narrowed["rows"]} == {CAUSE}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("show", "0000"),
            "WHAT: expected a run, the id of an op (16 hex digits) or of a cause (8), or a model",
        ),
        (("diff", "--cause", "0000"), "--cause: expected the id of a cause, or its beginning, got `0000`; try "),
        (
            ("sql", "SELECT 1 AS x", "--cause", "0"),
            "--cause: expected an answer with a column `cause` or `cluster`",
        ),
    ],
)
def test_what_names_no_cause_is_one_line(url: str, words: tuple[str, ...], message: str) -> None:
    done = CliRunner().invoke(opscope, [*words, "--db", url])
    assert message in str(done.exception)


def test_a_beginning_of_several_is_refused_with_them() -> None:
    known = ["12345678aaaa", "12345678bbbb", "99999999cccc"]
    assert cause_named("9", known, "ID") == known[2]
    with pytest.raises(InputError) as caught:
        cause_named("1234", known, "ID")
    expected = "ID: expected one cause, got 2 that begin with `1234`; try 12345678aaaa, 12345678bbbb"
    assert str(caught.value) == expected
