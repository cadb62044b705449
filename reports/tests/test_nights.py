"""Nights as rows: what was expected, what came, in which order it may come, and what counts."""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from click.testing import CliRunner, Result

from opscope.base.tests.resealed import reseal
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import ModelFailure
from opscope.harness.record.stages import ModelStatus
from opscope.reports.commands.compare import diff
from opscope.reports.compare import history
from opscope.reports.compare.night_diff import newest_night
from opscope.reports.compare.night_views import night_of, night_view, nights_named
from opscope.reports.compare.readiness import newest_views
from opscope.reports.compare.run_selection import open_runs
from opscope.reports.compare.unblock import plan
from opscope.reports.database.database import open_database, views
from opscope.reports.database.schema_nights import LEDGER
from opscope.reports.publish.publish import publish
from opscope.reports.records.night_record import NightRecord, join
from opscope.reports.tests.night_runs import fresh, publish_night, record, rows, shard_run
from opscope.reports.tests.nights import START, Op, night, op_id

SERIES = "reference n150 float32 0"
OPS = {"add": Op(uses={"a": 2, "b": 1}), "exp": Op("wrong_result", uses={"b": 1})}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return fresh(tmp_path / "db.sqlite")


def dump(url: str) -> list[str]:
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        lines = sorted(connection.iterdump())
    connection.close()
    return lines


def test_a_night_is_a_row_with_its_counts(url: str, tmp_path: Path) -> None:
    night_id = publish_night(url, tmp_path, 1, OPS, zone="Europe/Berlin")
    assert night_id == "nightly-20261102-020000"
    assert rows(url, "SELECT kind, label, zone, config_hash FROM nights") == [
        ("night", "2026-11-02 03:00", "Europe/Berlin", record(1).config_hash)
    ]
    assert rows(url, "SELECT series, status, missing, asked, ran FROM night_series") == [(SERIES, "complete", "", 2, 2)]
    models = "SELECT model, ops, right_ops, bad_ops, uses, right_uses, bad_uses FROM night_models ORDER BY model"
    assert rows(url, models) == [("a", 1, 1, 0, 2, 2, 0), ("b", 2, 1, 1, 2, 1, 1)]
    counts = "SELECT op_name, status, ops, uses FROM night_counts WHERE model = '' ORDER BY op_name"
    assert rows(url, counts) == [("stablehlo.add", "success", 1, 3), ("stablehlo.exp", "wrong_result", 1, 1)]


def test_the_ledger_of_models_adds_up(url: str, tmp_path: Path) -> None:
    failed = tuple(
        ModelFailure(model=model, framework="torch", status=status, error="it broke")
        for model, status in (
            ("b", ModelStatus.BUILD_FAILED),
            ("c", ModelStatus.FRAMEWORK_MISSING),
            *((f"e{number}", ModelStatus.EXPORT_FAILED) for number in range(2)),
            *((f"p{number}", ModelStatus.PREPARE_FAILED) for number in range(3)),
            *((f"n{number}", ModelStatus.NOT_RUN) for number in range(4)),
        )
    )
    night_record = record(1, models=("a", "b", "c", "d"))
    publish(shard_run(tmp_path, night_record, 1, {"add": Op(uses={"a": 1})}, failed=failed), url)
    for view in ("night_series", "night_status", "dashboard_nights"):
        assert rows(url, f"SELECT {', '.join(LEDGER)} FROM {view}") == [(13, 1, 1, 2, 3, 1, 4, 1)], view
    outcomes = "SELECT model, outcome, reason FROM night_models WHERE model < 'e' ORDER BY model"
    assert rows(url, outcomes) == [
        ("a", "ran", ""),
        ("b", "build_failed", "it broke"),
        ("c", "framework_missing", "it broke"),
        ("d", "missing", ""),
    ]
    assert rows(url, "SELECT missing FROM night_series") == [("model d",)]


def test_a_night_in_which_nothing_ran_says_nothing_of_the_board(url: str, tmp_path: Path) -> None:
    """Its series has the board of its other nights; one that never ran has the one that was asked for."""
    for number, card in ((1, "none"), (2, "host"), (3, "none")):
        night_record = record(number, backends=("xla", "tt"))
        more = {"backend": "xla", "card_type": card}
        publish(shard_run(tmp_path, night_record, number, {"add": Op(uses={"a": 1})}, **more), url)
    boards = "SELECT backend, arch, board, COUNT(*) FROM night_series GROUP BY 1, 2, 3 ORDER BY 1, 3"
    assert rows(url, boards) == [("tt", "n150", None, 3), ("xla", "n150", None, 2), ("xla", "n150", "", 1)]
    assert rows(url, "SELECT DISTINCT platform FROM night_dates ORDER BY 1") == [("tt n150",), ("xla",)]


def test_two_nights_on_one_date_are_two(url: str, tmp_path: Path) -> None:
    for number, hours in ((1, 0), (2, 3)):
        night_record = record(1, started=START + timedelta(hours=hours))
        publish(shard_run(tmp_path, night_record, number, OPS), url)
    assert rows(url, "SELECT label FROM nights ORDER BY started") == [("2026-11-01 02:00",), ("2026-11-01 05:00",)]
    assert rows(url, "SELECT previous_night FROM night_series ORDER BY started")[1] == ("nightly-20261101-020000",)
    with open_database(url) as connection:
        assert nights_named(connection, "2026-11-01 02:00") == ["nightly-20261101-020000"]
        assert nights_named(connection, "2026-11-01")[0] == "nightly-20261101-050000"
        with pytest.raises(InputError, match="expected a night, got `nightly-20261101`"):
            nights_named(connection, "nightly-20261101")


def test_of_nights_that_started_together_the_one_of_most_models_is_looked_at(url: str, tmp_path: Path) -> None:
    for number, (name, models) in enumerate((("x", ("a",)), ("m", ("a", "b")), ("z", ("a",))), 1):
        night_record = record(1, name=name, models=models)
        ops = {"add": Op(uses=dict.fromkeys(models, 1))}
        publish(shard_run(tmp_path / name, night_record, number, ops, started=night_record.started), url)
    with open_runs(url) as runs:
        assert runs.connection is not None
        assert newest_night(runs.connection) == nights_named(runs.connection, "2026-11-02")[0] == "m-20261102-020000"
        assert runs.newest().run_id == "night02"
        assert {view.run_id for view in newest_views(runs, ["a"])[0].values()} == {"night02"}


def test_a_late_shard_joins_and_the_night_is_whole(url: str, tmp_path: Path) -> None:
    night_record = record(1, shards=2)
    first = shard_run(tmp_path, night_record, 1, {"add": Op(uses={"a": 1})}, shard=1)
    late = shard_run(tmp_path, night_record, 2, {"exp": Op(uses={"b": 1})}, shard=2)
    publish(first, url)
    status = "SELECT status, missing, ran, models_missing FROM night_series"
    assert rows(url, status) == [("partial", "model b, shard 2", 1, 1)]
    assert rows(url, "SELECT model, outcome FROM night_models ORDER BY model") == [("a", "ran"), ("b", "missing")]
    publish(late, url)
    assert rows(url, status) == [("complete", "", 2, 0)]
    assert rows(url, "SELECT SUM(ops) FROM night_counts WHERE model = ''") == [(2,)]


def test_a_run_again_supersedes_and_both_are_kept(url: str, tmp_path: Path) -> None:
    night_record = record(1)
    bad = {**OPS, "exp": Op("crashed", uses={"b": 1})}
    publish(shard_run(tmp_path, night_record, 1, bad), url)
    good = {"add": Op("not_run", uses={"a": 2, "b": 1}), "exp": Op(uses={"b": 1})}
    publish(shard_run(tmp_path, night_record, 2, good), url)
    kept = "SELECT run_id, status, superseded_by FROM op_tests WHERE op_id = '{}' ORDER BY run_id"
    assert rows(url, kept.format(op_id("exp"))) == [("night01", "crashed", "night02"), ("night02", "success", "")]
    # An op that was not tried again keeps the verdict that it had.
    assert rows(url, kept.format(op_id("add"))) == [("night01", "success", ""), ("night02", "not_run", "night01")]
    assert rows(url, "SELECT status, ops FROM night_counts WHERE model = ''") == [("success", 1), ("success", 1)]
    with open_database(url) as connection:
        view = night_view(connection, night_record.night_id, SERIES)
    assert {op.op_name: op.status for op in view.ops.values()} == {
        "stablehlo.add": "success",
        "stablehlo.exp": "success",
    }


@pytest.mark.slow
def test_the_order_of_arrival_changes_nothing(tmp_path: Path) -> None:
    nights = [record(number, shards=2) for number in (1, 2)]
    runs = []
    for number, night_record in enumerate(nights):
        for shard in (1, 2):
            ops = {"add": Op(uses={"a": 1}), "exp": Op(("run_failed", "success")[(number + shard) % 2], uses={"b": 1})}
            runs.append(shard_run(tmp_path, night_record, 2 * number + shard, ops, shard))
    dumps = []
    for which, order in enumerate((runs, runs[::-1], runs[2:] + runs[:2])):
        url = fresh(tmp_path / f"{which}.sqlite")
        for run_dir in order:
            publish(run_dir, url)
        dumps.append(dump(url))
        publish(order[0], url)
        assert dump(url) == dumps[-1]
    assert dumps[0] == dumps[1] == dumps[2]


def test_like_for_like_stands_beside_the_overall_rate(url: str, tmp_path: Path) -> None:
    publish_night(url, tmp_path, 1, {"add": Op(uses={"a": 1}), "exp": Op("crashed", uses={"a": 1})})
    grown = {name: Op("compile_failed", uses={"b": 1}) for name in ("fft", "sort", "sine")}
    same = {"add": Op(uses={"a": 3}), "exp": Op(uses={"a": 1})}
    publish_night(url, tmp_path, 2, {**same, **grown})
    pairs = (
        "SELECT model, both_ops, right_before, right_now, both_uses, right_uses_before, right_uses_now FROM night_pairs"
    )
    assert sorted(rows(url, pairs)) == [("", 2, 1, 2, 4, 3, 4), ("a", 2, 1, 2, 4, 3, 4)]
    marks = "SELECT compiler_changed, jaxlib_changed, models_changed FROM night_series ORDER BY started"
    assert rows(url, marks) == [(0, 0, 0), (1, 0, 1)]
    changes = "SELECT label, COUNT(*) FROM night_changes WHERE label <> 'FIRST' GROUP BY label ORDER BY label"
    assert rows(url, changes) == [("FIXED", 1), ("NEW", 3)], "a model that was missing is no new one"


def test_what_is_absent_is_not_gone(url: str, tmp_path: Path) -> None:
    publish_night(url, tmp_path, 1, {"add": Op(uses={"a": 1}), "exp": Op(uses={"b": 1})})
    publish_night(url, tmp_path, 2, {"add": Op(uses={"a": 1})})
    gone = ("NEVER-RUN", "its models are missing from the later night")
    assert rows(url, "SELECT label, note FROM night_changes") == [gone]
    # Of a shard that is missing the module is known: its ops count as not run.
    night_record = record(3, shards=2)
    run = shard_run(tmp_path, night_record, 3, {"add": Op(uses={"a": 1}), "exp": Op(uses={"b": 1})}, 1)
    journal = run / "journal" / "main.jsonl"
    journal.write_text("\n".join(line for line in journal.read_text().splitlines() if op_id("exp") not in line) + "\n")
    publish(run, url)
    after = f"SELECT label, note FROM night_changes WHERE night_id = '{night_record.night_id}'"
    assert rows(url, after) == [("NEVER-RUN", "not run (shard 2 missing)")]


def test_what_regressed_since_a_date(url: str, tmp_path: Path) -> None:
    """Each series: its newest night with the last complete one before the date, whatever happened in between."""
    right, wrong = Op(uses={"a": 1, "b": 1}), Op("crashed", uses={"a": 1, "b": 1})
    publish_night(url, tmp_path, 1, {"add": right, "exp": wrong})
    publish_night(url, tmp_path, 2, {"add": right, "exp": right})
    publish_night(url, tmp_path, 3, {"add": wrong, "exp": wrong}, models=("a", "b", "c"))  # partial
    publish_night(url, tmp_path, 4, {"add": wrong, "exp": wrong})
    last = record(5, backends=("reference", "xla"))
    publish(shard_run(tmp_path, last, 5, {"add": wrong, "exp": wrong}), url)
    publish(shard_run(tmp_path, last, 6, {"add": right}, backend="xla"), url)

    def since(*words: str) -> Result:
        return CliRunner().invoke(diff, ["--since", *words, "--db", url, "--json"])

    for date, before, labels in (
        ("2026-11-05", "20261103", {"NEW": 2}),  # the night of the fourth is partial
        ("2026-11-04", "20261103", {"NEW": 2}),
        ("2026-11-03", "20261102", {"NEW": 1, "PERSISTING": 1}),
    ):
        answer = json.loads(since(date).output)
        (series,) = answer["series"]
        nights = (series["a"]["run_id"], series["b"]["run_id"])
        assert (nights, series["counts"]) == ((f"nightly-{before}-020000", "nightly-20261106-020000"), labels), date
        assert "\nnightly 2026-11-06 02:00 UTC, reference n150, xla n150, since " in answer["sentence"]
    assert json.loads(since("2026-11-06").output)["series"][0]["counts"] == {"PERSISTING": 2}
    for words, problem in (
        (
            ["2026-11-07"],
            "--since: expected a date with a night on it or later, got 2026-11-07, and the newest night is of",
        ),
        (
            ["2026-11-02"],
            "--since: expected a complete night before 2026-11-02 in a series that has one since, got none; try "
            "--since 2026-11-03",
        ),
        (["2026-11-05", "2026-11-03"], "opscope diff: expected --since alone, got `2026-11-03` too"),
    ):
        assert str(since(*words).exception).startswith(problem)


def test_history_goes_on_under_a_new_id(url: str, tmp_path: Path) -> None:
    publish_night(url, tmp_path, 1, {"old": Op("crashed", uses={"a": 1})})
    with open_database(url) as connection:
        connection.execute(
            sa.text("INSERT INTO op_alias (old_id, new_id, reason) VALUES (:old, :new, 'ids of version 2')"),
            {"old": op_id("old"), "new": op_id("new")},
        )
    publish_night(url, tmp_path, 2, {"new": Op(uses={"a": 1})})
    assert rows(url, "SELECT op_id, label FROM night_changes WHERE label <> 'FIRST'") == [(op_id("new"), "FIXED")]
    assert rows(url, "SELECT both_ops, right_before, right_now FROM night_pairs WHERE model = ''") == [(1, 0, 1)]


def test_a_run_by_itself_is_a_night_of_its_own(url: str, tmp_path: Path) -> None:
    publish(night(tmp_path, 1, OPS), url)
    publish_night(url, tmp_path, 2, OPS)
    assert rows(url, "SELECT night_id, kind FROM nights ORDER BY started") == [
        ("night01", "run"),
        ("nightly-20261103-020000", "night"),
    ]
    assert rows(url, "SELECT previous_night FROM night_series") == [("",), ("",)]
    join(tmp_path / "night01", record(0))
    publish(tmp_path / "night01", url)
    assert rows(url, "SELECT night_id FROM nights ORDER BY started")[0] == ("nightly-20261101-020000",)
    assert rows(url, "SELECT previous_night FROM night_series ORDER BY started")[1] == ("nightly-20261101-020000",)


def test_backends_of_one_run_are_series_of_their_own(url: str, tmp_path: Path) -> None:
    night_record = record(1, backends=("reference", "xla"))
    run = shard_run(tmp_path, night_record, 1, OPS, backend="reference,xla")
    journal = run / "journal" / "main.jsonl"
    on_xla = ('"backend":"reference"', '"backend":"xla"')
    reseal(journal, lambda line: line.replace(*on_xla).replace("wrong_result", "success"), journal.parent / "xla.jsonl")
    publish(run, url)
    assert rows(url, "SELECT series, status FROM night_series ORDER BY series") == [
        (SERIES, "complete"),
        (SERIES.replace("reference", "xla"), "complete"),
    ]
    assert rows(url, "SELECT COUNT(*) FROM op_tests WHERE superseded_by = ''") == [(4,)]
    right = "SELECT backend, SUM(right_ops) FROM night_rates WHERE scope = 'all' GROUP BY backend ORDER BY backend"
    assert rows(url, right) == [("reference", 1), ("xla", 2)]
    assert rows(url, "SELECT backend, SUM(bad) FROM newest_ops GROUP BY backend ORDER BY backend") == [
        ("reference", 1),
        ("xla", 0),
    ]


def test_a_series_without_a_run_has_the_board_that_its_backend_last_had(url: str, tmp_path: Path) -> None:
    """The night says what was asked for: `n150`, which a backend for the host does not have."""
    for number in (1, 2):
        night_record = record(number, backends=("reference", "xla"))
        publish(shard_run(tmp_path, night_record, 10 * number, OPS), url)
        if number == 1:
            on_host = {"add": Op(uses={"a": 1, "b": 1}, more={"ran_on": "host"})}
            publish(shard_run(tmp_path, night_record, 11, on_host, backend="xla", card_type="cpu"), url)
    assert rows(url, "SELECT board FROM night_series WHERE backend = 'xla' ORDER BY started") == [("",), (None,)]
    sentence = json.loads(CliRunner().invoke(diff, ["2026-11-03", "--db", url, "--json"]).output)["sentence"]
    assert "reference n150, xla" in sentence
    assert "xla n150" not in sentence


@pytest.mark.parametrize("board", ["n150", "p150"])
def test_a_run_after_the_night_does_not_speak_for_it(url: str, tmp_path: Path, board: str) -> None:
    """Neither in the sentence nor in a card, a curve or a list of ops; the list of nights has it."""
    publish_night(url, tmp_path, 1, {"add": Op(uses={"a": 1, "b": 1})})
    publish_night(url, tmp_path, 2, {"add": Op("crashed", uses={"a": 1, "b": 1})})
    later = START + timedelta(days=2, hours=1)
    publish(night(tmp_path, 9, {"exp": Op(uses={"c": 1})}, started=later, arch=board), url)
    joined = "dashboard_verdict v JOIN nights n ON n.started = v.started"
    spoken = f"SELECT night_id, verdict, new_failures, stopped FROM {joined} WHERE one_series = 0"
    assert rows(url, spoken) == [("nightly-20261103-020000", "worse", 1, 0)]
    for view in ("dashboard_ops", "dashboard_counts", "dashboard_changes", "dashboard_models"):
        nights = rows(url, f"SELECT DISTINCT night_id FROM {view} WHERE tonight = 1")
        assert nights == [("nightly-20261103-020000",)], view
    own = [] if board == "n150" else [(1, "no night")]
    run = rows(url, f"SELECT newest, speaks FROM dashboard_nights WHERE kind = 'run' AND arch = '{board}'")
    assert run == (own or [(0, "")])
    of_dates = rows(url, "SELECT COUNT(*), COUNT(DISTINCT night_id) FROM night_dates WHERE of_date = 1")
    assert of_dates == [(2, 2)], "curves by night are of nights"
    assert rows(url, "SELECT DISTINCT model FROM dashboard_ops WHERE tonight = 0") == ([("c",)] if own else [])


def test_runs_that_disagree_on_their_night_are_refused(url: str, tmp_path: Path) -> None:
    publish_night(url, tmp_path, 1, OPS)
    other = shard_run(tmp_path, record(1, config={"budget": "1h"}), 2, OPS)
    with pytest.raises(InputError, match="got the same night with other config, config_hash"):
        publish(other, url)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [({"zone": "Mars/Base"}, "Mars/Base"), ({"started": "tonight"}, "started"), ({"shards": "many"}, "shards")],
)
def test_a_night_that_cannot_be_is_one_line(tmp_path: Path, fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        NightRecord.model_validate({"started": datetime(2026, 11, 1, tzinfo=UTC), **fields})
    run = night(tmp_path, 1, OPS)
    (run / "night.json").write_text('{"night": {"name": "x"}}')
    with pytest.raises(InputError, match=r"night\.json: expected the record of a night"):
        publish(run, f"sqlite:///{tmp_path}/db.sqlite")
    with pytest.raises(InputError, match="--shard: expected a number up to 0, got 3"):
        join(run, record(1), 3)


def test_a_shard_does_not_speak_for_a_model(url: str, tmp_path: Path) -> None:
    """What the newest shard left out is not unknown: the other shards ran it."""
    night_record = record(1, shards=2)
    for shard, (ran, did_not_run) in enumerate((("add", "tanh"), ("tanh", "add")), 1):
        both = {"a": 1, "b": 1}
        ops = {ran: Op("run_failed" if ran == "add" else "success", both), did_not_run: Op("skipped", both)}
        publish(shard_run(tmp_path, night_record, shard, ops, shard), url)
    with open_runs(url) as runs:
        fix_plan = plan(newest_views(runs)[0])
    assert (fix_plan.unknown, [fix.op_names for fix in fix_plan.fixes]) == ({}, [("stablehlo.add",)])


@pytest.mark.slow
def test_four_shards_published_one_by_one_count_as_one_run(url: str, tmp_path: Path) -> None:
    """An op counts once, by the shard that ran it; what the other shards have of it is kept and counts nowhere."""
    uses = {"a": 2, "b": 1}
    ops = {
        "add": Op(uses=uses),
        "tanh": Op("compile_failed", uses),
        "exp": Op("wrong_result", uses),
        "sine": Op(uses=uses),
    }
    night_record = record(1, shards=4)
    same: dict[str, Any] = {"origin": {"revision": "1" * 40, "backend_revision": "1" * 40}}
    shards = []
    for shard, name_of_shard in enumerate(ops, 1):
        status = ("skipped", "not_run")[shard % 2]
        share = {name: op if name == name_of_shard else Op(status, uses) for name, op in ops.items()}
        shards.append(shard_run(tmp_path, night_record, shard, share, shard, **same))
    for shard in (3, 1, 4, 2):
        publish(shards[shard - 1], url)
    whole = fresh(tmp_path / "whole.sqlite")
    publish(shard_run(tmp_path / "whole", record(1), 1, ops, **same), whole)

    def counted(where: str, view: str) -> list[dict[str, Any]]:
        with open_database(where) as connection:
            stored_rows = connection.execute(sa.text(f"SELECT * FROM {view}")).mappings().all()
        own = {"run_id", "repro", "first_seen"}  # an op's run is its shard, which started when it did
        return sorted(({k: v for k, v in row.items() if k not in own} for row in stored_rows), key=str)

    for view in views():
        if view.startswith(("night_", "dashboard_", "newest_", "model_")):
            assert counted(url, view) == counted(whole, view), view
    query = "SELECT superseded_by = '', status IN ('skipped', 'not_run'), COUNT(*) FROM op_tests GROUP BY 1, 2"
    assert rows(url, query) == [(0, 1, 12), (1, 0, 4)]
    winners = rows(
        url, "SELECT DISTINCT t.op_name, t.superseded_by FROM op_tests t WHERE t.superseded_by <> '' ORDER BY 2"
    )
    assert winners == [(f"stablehlo.{name}", f"night{shard:02}") for shard, name in enumerate(ops, 1)]


def test_a_night_is_slower_by_the_rows_that_count(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was made anew superseded the fast one of the fourth night, so the fifth confirms the step."""
    monkeypatch.setattr(history, "RUNS", 5)  # as many nights as there are

    def ops(level: float) -> dict[str, Op]:
        return {"slow": Op(uses={"a": 1, "b": 1}, compile_ms=level), "same": Op(uses={"a": 1}, compile_ms=20.0)}

    for number in range(1, 5):
        publish_night(url, tmp_path, number, ops(20.0))
    publish(shard_run(tmp_path / "again", record(4), 4, ops(40.0), run_id="night04b"), url)
    publish_night(url, tmp_path, 5, ops(40.0))
    changes = "SELECT night_id, op_id, note FROM night_changes WHERE label = 'SLOWER'"
    assert rows(url, changes) == [
        ("nightly-20261106-020000", op_id("slow"), "compile time 20.0 -> 40.0 ms since nightly-20261105-020000")
    ]


def test_a_name_of_no_night_gets_the_closest(url: str, tmp_path: Path) -> None:
    with open_database(url) as connection, pytest.raises(InputError) as caught:
        nights_named(connection, "2026-11-05", "RUN_B")
    assert str(caught.value) == "RUN_B: expected a night, got `2026-11-05`; try pytest --model mnist_mlp --op-by-op"
    night_id = publish_night(url, tmp_path, 1, OPS)
    with open_database(url) as connection:
        with pytest.raises(InputError) as caught:
            nights_named(connection, "nightly-20261102-030000")
        assert str(caught.value).endswith(f"; try {night_id}")
        assert night_of(connection, "night01") == night_id
        with pytest.raises(InputError) as caught:
            night_of(connection, "night02")
    expected = "a night, a run folder or the id of a published run"
    assert str(caught.value) == f"NIGHT: expected {expected}, got `night02`; try night01"
