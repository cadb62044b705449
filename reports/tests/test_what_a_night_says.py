"""What a night says is true, and the same through every door: terminal, JSON, SQL, assistants, the rows of /night/."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from opscope.base.night_grid.commit_pages import page_of_range
from opscope.base.night_grid.due import due, overdue
from opscope.base.night_grid.grid import read
from opscope.harness.cli.commands import show
from opscope.harness.record.selection import DESELECTED
from opscope.reports.agents.tools import Results
from opscope.reports.commands.compare import diff, readiness, unblock
from opscope.reports.commands.note import note
from opscope.reports.database.ask import ask
from opscope.reports.nightly.night import deliver
from opscope.reports.publish.publish import publish
from opscope.reports.tests.night_runs import fresh, publish_night, record, shard_run
from opscope.reports.tests.nightly.nights_here import config_of, night_of
from opscope.reports.tests.nights import Op, night, op_id

RIGHT, BAD = Op(uses={"a": 1, "b": 1}), Op("compile_failed", {"a": 1, "b": 1}, error="no room for its tiles")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return fresh(tmp_path / "db.sqlite")


def call(command: Any, *words: str) -> Any:
    done = CliRunner().invoke(command, [*words, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def stored(url: str) -> str:
    """The three lines of the newest night, as published."""
    (row,) = ask(url, "SELECT sentence, about, chips FROM dashboard_verdict WHERE one_series = 0").rows
    return "\n".join(filter(None, map(str, row)))


def says(url: str) -> str:
    """The same, through each door."""
    first = stored(url)
    assert call(diff, "--db", url)["sentence"] == Results(url).what_changed()["answer"]["sentence"] == first
    assert len(first.splitlines()[0]) <= 90
    return first


def grid_of(url: str, now: datetime) -> Any:
    def answers(query: str, values: Mapping[str, Any]) -> Any:
        for name, value in values.items():
            query = query.replace(f":{name}", f"'{value}'")
        return ask(url, query).rows

    return read(answers, now, page_of_range)


def test_after_a_partial_night_since_names_the_commit_that_broke_it(url: str, tmp_path: Path) -> None:
    """Right in 1; 2 is partial and did not try the op; it fails in 3: since the commit of 1, wherever one looks."""
    only_b = {"add": Op(uses={"b": 1})}
    publish_night(url, tmp_path, 1, {"add": Op(uses={"b": 1}), "exp": Op(uses={"a": 1})})
    publish_night(url, tmp_path, 2, only_b)
    publish_night(url, tmp_path, 3, {**only_b, "exp": Op("crashed", {"a": 1}, error="signal 11")})
    said, since = says(url), f"{'01' * 4}..{'03' * 4}"
    assert said.startswith("1 new failure, 1 cause: start with exp (1 model)")
    assert f"since {since}" in said
    (series,) = call(diff, "--db", url)["series"]
    assert series["since"]["range"] == since
    (row,) = [row for row in series["rows"] if row["op_name"] == "stablehlo.exp"]
    assert (row["label"], row["note"], row["status_a"]) == ("NEW", "", "success"), "not its first attempt"
    all_ops, in_both = series["rates"]
    assert (all_ops["right_ops_a"], all_ops["attempted_ops_a"]) == (1, 1), "what that night tried itself"
    assert (in_both["right_ops_a"], in_both["attempted_ops_a"], in_both["right_ops_b"]) == (2, 2, 1)
    (cause,) = grid_of(url, datetime(2026, 11, 4, 9, tzinfo=UTC)).causes
    assert since in cause.since[0].text
    assert ask(url, "SELECT label, status_before FROM night_diff WHERE label = 'NEW'").rows == (("NEW", "success"),)


def test_what_only_a_new_model_has_is_no_alarm(url: str, tmp_path: Path) -> None:
    publish_night(url, tmp_path, 1, {"add": RIGHT})
    grown = {
        "add": RIGHT,
        "fft": Op("compile_failed", {"c": 1}, error="no FFT"),
        "abs": Op("crashed", {"c": 1, "a": 1}),
    }
    publish_night(url, tmp_path, 2, grown, models=("a", "b", "c"))
    said = says(url)
    assert said.startswith("1 new failure, 1 cause: start with abs (2 models)"), "which others have too"
    assert "1 failing in a new model: c" in said
    (series,) = call(diff, "--db", url)["series"]
    assert {row["op_name"]: (row["label"], row["news"]) for row in series["rows"] if row["status_b"] != "success"} == {
        "stablehlo.fft": ("FIRST", False),
        "stablehlo.abs": ("NEW", True),
    }
    publish_night(url, tmp_path, 3, grown, models=("a", "b", "c"))
    assert says(url).startswith("2 still failing, 2 causes"), "known from the next night on"


def test_acknowledged_failures_are_counted_by_name_every_night(url: str, tmp_path: Path) -> None:
    publish_night(url, tmp_path, 1, {"add": RIGHT, "exp": RIGHT})
    publish_night(url, tmp_path, 2, {"add": RIGHT, "exp": BAD})
    ((cause,),) = ask(url, "SELECT cluster FROM night_diff WHERE label = 'NEW'").rows
    until = str(date.today() + timedelta(days=400))
    done = CliRunner().invoke(note, [str(cause), "we know", "--until", until, "--by", "ann", "--db", url])
    assert done.exit_code == 0, done.output
    for number in (3, 4):
        publish_night(url, tmp_path, number, {"add": RIGHT, "exp": BAD})
        assert (stored if number == 3 else says)(url).splitlines()[0] == "1 acknowledged: exp"


def test_a_flaky_op_is_neither_new_nor_fixed(url: str, tmp_path: Path) -> None:
    flaky = Op("run_failed", {"a": 1}, more={"flaky": True})
    for number, op in enumerate((RIGHT, flaky, Op(uses={"a": 1}, more={"flaky": True})), 1):
        publish_night(url, tmp_path, number, {"add": RIGHT, "exp": op})
        said = (says if number == 3 else stored)(url)
        assert "fixed" not in said
        assert "new failure" not in said
    assert ask(url, "SELECT label, change, news FROM night_diff WHERE label = 'FIXED'").rows == (
        ("FIXED", "known or flaky", 0),
    )
    assert ask(url, "SELECT fixed_ops FROM dashboard_verdict").rows == ((0,), (0,))


def test_a_cause_that_comes_and_goes_is_not_fixed(url: str, tmp_path: Path) -> None:
    for number in range(1, 6):
        publish_night(url, tmp_path, number, {"add": RIGHT, "exp": BAD if number % 2 else RIGHT})
    (cause,) = grid_of(url, datetime(2026, 11, 6, 9, tzinfo=UTC)).causes
    assert (cause.times, cause.comes_and_goes) == (3, True)


def test_what_is_flaky_is_the_last_thing_to_fix(url: str, tmp_path: Path) -> None:
    flaky = Op("run_failed", {"a": 9, "b": 9}, error="lost the connection", more={"flaky": True})
    publish_night(url, tmp_path, 1, {"add": RIGHT, "exp": flaky, "log": Op("crashed", {"a": 1})})
    for fixes in (call(unblock, "--db", url)["fixes"], Results(url).what_to_fix()["answer"]["fixes"]):
        assert [(fix["op_names"], fix["flaky"]) for fix in fixes] == [
            (["stablehlo.log"], False),
            (["stablehlo.exp"], True),
        ]


def test_a_backend_that_fails_every_op_fails_the_first_night_and_is_no_baseline(tmp_path: Path) -> None:
    config = config_of(tmp_path)

    def delivered(number: int, ops: dict[str, Op]) -> Any:
        night = night_of(config, number, tmp_path)
        run = shard_run(tmp_path / ".opscope" / "runs", night, number, ops)
        return deliver(config, night, [run], str(config.database), tmp_path, (), environment={}, reports=False)

    names = ("add", "exp", "abs", "log")
    first = delivered(1, {name: Op("compile_failed", {"a": 1, "b": 1}, error="no licence") for name in names})
    assert first.said.headline == "backend may not work: all 4 ops fail on reference n150 with one text"
    assert first.verdict.fails
    assert "no data: the backend may not work" in first.summary
    mended = dict.fromkeys(names, RIGHT) | {"log": Op("run_failed", {"a": 1}, error="overflow")}
    second = delivered(2, mended)
    assert not second.verdict.fails
    assert second.said.headline == "1 failing, 1 cause: start with log (1 model)"
    assert "first night" in second.said.chips
    statuses = ask(str(config.database), "SELECT status, previous_night FROM night_series ORDER BY started").rows
    assert statuses == (("broken", ""), ("complete", ""))


def test_a_series_has_stopped_once_it_is_late_by_its_own_rhythm(url: str, tmp_path: Path) -> None:
    """The first night of a new date stops nobody else: each is awaited until its `by:`, or for 36 hours."""
    for number, arch in ((1, "n150"), (1, "p150"), (2, "n150")):
        started = record(number).started + timedelta(hours=arch == "p150")
        arrives(url, tmp_path, number, arch, {"add": RIGHT}, started=started)
    said = says(url)
    assert said.startswith("nothing fails: 2 of 2 results right\n")
    assert "1 of 2 series awaited: reference p150" in said
    speaks = "SELECT platform, verdict FROM dashboard_verdict WHERE one_series = 1 ORDER BY 1"
    assert ask(url, speaks).rows == (("reference n150", "as before"), ("reference p150", "awaited"))
    arrives(url, tmp_path, 3, "n150", {"add": RIGHT})
    assert says(url).startswith("1 of 2 series stopped: reference p150\n")
    assert ask(url, speaks).rows == (("reference n150", "as before"), ("reference p150", "stopped"))


def arrives(url: str, folder: Path, number: int, arch: str, ops: Mapping[str, Op], **more: Any) -> None:
    """A night of that board, of a name of its own."""
    expected = record(number, archs=(arch,), name=arch, **more)
    publish(shard_run(folder, expected, 10 * number + (arch == "p150"), ops, arch=arch), url)


def test_a_night_that_arrives_late_is_heard(url: str, tmp_path: Path) -> None:
    """Its series was said to have stopped when a later night of another one arrived first."""
    for number, arch in ((1, "p150"), (2, "n150"), (4, "n150")):
        arrives(url, tmp_path, number, arch, {"add": RIGHT})
    assert stored(url).startswith("1 of 2 series stopped: reference p150\n")
    arrives(url, tmp_path, 3, "p150", {"add": BAD})
    headline, _, chips = says(url).splitlines()
    assert headline == "1 still failing, 1 cause: start with add (2 models)"
    assert chips == "1 of 2 series awaited: reference p150"


def test_tonight_is_the_latest_date_of_nights_in_several_zones(url: str, tmp_path: Path) -> None:
    """At 20:00 UTC it is the next day in Tokyo: a night that began there then is that of the newest date."""
    for number, ops in enumerate(({"add": RIGHT}, {"add": BAD}), 1):
        started = datetime(2026, 11, number, 20, tzinfo=UTC)
        for arch, zone in (("n150", "Asia/Tokyo"), ("p150", "UTC")):
            arrives(url, tmp_path, number, arch, ops, zone=zone, started=started)
    headline = says(url).splitlines()[0]
    assert headline == "1 new failure, 1 cause: start with add (2 models)"
    grid = grid_of(url, datetime(2026, 11, 2, 21, tzinfo=UTC))
    assert (grid.dates[-1], grid.newest.date, grid.sentence) == ("2026-11-03", "2026-11-03", headline)


@pytest.mark.parametrize("by", ["", "07:00", "Mon-Fri 07:00", "Sun 23:30"])
def test_overdue_is_when_due_calls_a_night_late(by: str) -> None:
    for hours in range(0, 24 * 8, 5):
        started = datetime(2026, 11, 20, 2, tzinfo=UTC) + timedelta(hours=hours)
        moment = overdue(started, "Europe/Berlin", {"by": by})
        assert not due(started, "Europe/Berlin", {"by": by}, moment - timedelta(seconds=1)).late
        assert due(started, "Europe/Berlin", {"by": by}, moment + timedelta(seconds=1)).late


def test_a_first_night_says_what_still_fails_in_the_series_that_are_awaited(url: str, tmp_path: Path) -> None:
    """Above red rows nothing says that nothing fails."""
    for number, arch, op in ((1, "n150", BAD), (2, "p150", RIGHT)):
        expected = record(number, archs=(arch,), name=arch)
        publish(shard_run(tmp_path, expected, number, {"add": RIGHT, "exp": op}, arch=arch), url)
    assert says(url).startswith("1 still failing, 1 cause: start with exp (2 models)\n")
    assert len(grid_of(url, datetime(2026, 11, 3, 9, tzinfo=UTC)).causes) == 1


def test_the_first_night_of_a_series_is_no_error(url: str, tmp_path: Path) -> None:
    publish_night(url, tmp_path, 1, {"add": RIGHT, "exp": BAD})
    said = says(url)
    assert said.startswith("1 failing, 1 cause: start with exp (2 models)")
    assert "first night" in said
    done = CliRunner().invoke(diff, ["--db", url])
    assert (done.exit_code, done.output.splitlines()[0]) == (0, said.splitlines()[0])


def test_what_to_fix_is_asked_of_every_series_of_tonight(url: str, tmp_path: Path) -> None:
    both = record(1, archs=("n150", "p150"), models=("a",))
    for number, (arch, op) in enumerate((("n150", Op("crashed", {"a": 1})), ("p150", Op(uses={"a": 1})))):
        publish(shard_run(tmp_path, both, 10 + number, {"add": Op(uses={"a": 1}), "exp": op}, arch=arch), url)
    ranked = [call(unblock, "--db", url)["series"], Results(url).what_to_fix()["answer"]["series"]]
    for series in ranked:
        assert [(plan["runs"][0]["name"], len(plan["fixes"])) for plan in series] == [
            ("reference n150", 1),
            ("reference p150", 0),
        ]
    of_model = [call(readiness, "a", "--db", url)["series"], Results(url).model("a")["answer"]["series"]]
    assert [[len(each["missing"]) for each in series] for series in of_model] == [[1, 0]] * 2
    printed = CliRunner().invoke(unblock, ["--db", url]).output
    assert "reference n150" in printed
    assert "reference p150" in printed


def test_series_that_differ_in_an_option_alone_are_two_in_every_door(url: str, tmp_path: Path) -> None:
    """A compile-only night after a full one hides nothing that fails, is no other series' history, and has a name."""
    publish_night(url, tmp_path, 1, {"add": RIGHT, "exp": BAD})
    lowered = {"options": {"dtype": "float32", "seed": 0, "until": "stablehlo-to-ttir"}}
    publish(shard_run(tmp_path, record(2), 2, {"add": RIGHT, "exp": RIGHT}, origin=lowered), url)
    names = ["reference n150", "reference n150 until=stablehlo-to-ttir"]
    said = says(url)
    assert said.startswith("1 still failing")
    assert f"of 2 series awaited: {names[0]}" in said
    for plans in (call(unblock, "--db", url)["series"], Results(url).what_to_fix()["answer"]["series"]):
        assert [(plan["runs"][0]["name"], len(plan["fixes"])) for plan in plans] == [(names[0], 1), (names[1], 0)]
    for table in ("dashboard_verdict WHERE one_series = 1", "dashboard_nights"):
        assert ask(url, f"SELECT DISTINCT platform FROM {table} ORDER BY 1").rows == tuple((name,) for name in names)
    history = Results(url).look_up(op_id("exp"))["answer"]
    assert [(night["on"], night["status"]) for night in history["history"]] == [
        (names[1], "success"),
        (names[0], "compile_failed"),
    ]
    assert [since["on"] for since in history["since"]] == [names[0]]
    assert [night["on"] for night in Results(url).look_up("a")["answer"]["trend"]] == names[::-1]


def test_a_pasted_line_is_an_answer_of_its_own_in_the_history_of_its_op(url: str, tmp_path: Path) -> None:
    publish_night(url, tmp_path, 1, {"add": RIGHT, "exp": BAD})
    left_out = Op("skipped", RIGHT.uses, more={"error_message": DESELECTED})
    publish(night(tmp_path, 2, {"add": left_out, "exp": RIGHT}), url)
    history = Results(url).look_up(op_id("exp"))["answer"]
    assert [(night["on"], night["arch"], night["status"]) for night in history["history"]] == [
        ("reference n150 (selected ops)", "n150", "success"),
        ("reference n150", "n150", "compile_failed"),
    ]
    assert [since["on"] for since in history["since"]] == ["reference n150"]


def test_a_model_is_whole_since_before_a_partial_night(url: str, tmp_path: Path) -> None:
    ops = {"add": Op(uses={"a": 1}), "exp": Op(uses={"a": 1})}
    publish_night(url, tmp_path, 1, ops)
    part = {"add": ops["add"], "exp": Op("not_run", {"a": 1})}
    publish(shard_run(tmp_path, record(2, shards=2), 2, part, shard=1), url)
    publish_night(url, tmp_path, 3, ops)
    first = "2026-11-02"
    assert call(readiness, "a", "--db", url)["since"]["night"].startswith(first)
    assert Results(url).look_up("a")["answer"]["lanes"][0]["since"]["night"].startswith(first)


def test_a_stopped_series_is_named_where_it_is_left_out(url: str, tmp_path: Path) -> None:
    for number, arch, op in ((1, "p150", BAD), (4, "n150", RIGHT)):
        expected = record(number, archs=(arch,), name=arch)
        publish(shard_run(tmp_path, expected, number, {"add": RIGHT, "exp": op}, arch=arch), url)
    for answer in (call(unblock, "--db", url), call(readiness, "a", "--db", url)):
        assert answer["stopped"] == ["reference p150 (no night since 2026-11-02)"]
    for words in ([], ["a"]):
        printed = CliRunner().invoke(readiness if words else unblock, [*words, "--db", url]).output
        assert printed.count("left out: reference p150 (no night since 2026-11-02)") == 1


def test_a_series_of_which_no_run_arrived_is_named_where_it_is_left_out(url: str, tmp_path: Path) -> None:
    expected = record(4, archs=("n150", "p150"), models=("a",))
    publish(shard_run(tmp_path, expected, 4, {"exp": Op("crashed", {"a": 1})}), url)
    answers = [call(unblock, "--db", url), call(readiness, "a", "--db", url), Results(url).what_to_fix()["answer"]]
    for answer in answers:
        assert answer["stopped"] == ["reference p150 (no run in the night of 2026-11-05)"]
    assert [len(answers[0]["fixes"]), len(answers[1]["missing"])] == [1, 1], "of the one that arrived"


def test_what_comes_and_goes_is_marked_wherever_it_is_listed(url: str, tmp_path: Path) -> None:
    flaky = Op("run_failed", {"a": 1}, error="lost the connection", more={"flaky": True})
    publish_night(url, tmp_path, 1, {"add": RIGHT, "exp": Op(uses={"a": 1})})
    publish_night(url, tmp_path, 2, {"add": RIGHT, "exp": flaky})
    assert "after split; flaky: lost" in CliRunner().invoke(readiness, ["a", "--db", url]).output
    for what in ("a", ask(url, "SELECT cluster FROM night_diff WHERE label = 'NEW'").rows[0][0]):
        done = CliRunner().invoke(show, [str(what), "--db", url])
        assert "; flaky: lost the connection" in done.output, done.output


def test_runs_without_a_night_are_asked_as_ever(url: str, tmp_path: Path) -> None:
    publish(night(tmp_path, 1, {"add": BAD}), url)
    assert [fix["ops"] for fix in call(unblock, "--db", url)["fixes"]] == [1]


def test_a_run_without_a_selected_op_is_no_night(url: str, tmp_path: Path) -> None:
    publish_night(url, tmp_path, 1, {"add": RIGHT})
    said = stored(url)
    left_out = Op("skipped", RIGHT.uses, more={"error_message": DESELECTED})
    publish(shard_run(tmp_path, record(2), 2, {"add": left_out}), url)
    assert says(url) == said
    assert ask(url, "SELECT kind FROM nights ORDER BY started").rows == (("night",), ("selection",))
