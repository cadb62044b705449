"""Messages about failures and unknown names: outcomes, owners, ids, lists of three, and stored values."""

from __future__ import annotations

import math
import sqlite3
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from opscope.base.document.nodes import Outcome
from opscope.harness.record.causes import cause_of
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import WHOLE_MODEL
from opscope.harness.record.stages import Stage
from opscope.reports.compare import history, op_history, outcomes, readiness
from opscope.reports.compare.outcomes import from_database, from_folder
from opscope.reports.compare.owned import EVERYBODY, Owned, own_diff, own_missing, own_plan
from opscope.reports.compare.run_selection import open_runs
from opscope.reports.compare.unblock import curve, missing, plan
from opscope.reports.database.database import DamagedValueError, open_database
from opscope.reports.database.owners import Rule
from opscope.reports.pages import page_tables
from opscope.reports.publish import bulk
from opscope.reports.publish.publish import publish
from opscope.reports.tests.night_runs import fresh
from opscope.reports.tests.nights import Op, night, op_id
from opscope.reports.tests.test_diff_rows import compare, op, run

MANY = {
    "add": Op(uses={"a": 12}),
    "x.add": Op(uses={"b": 1}),
    "y.add": Op("crashed", uses={"c": 1}),
    "z.add": Op("crashed", uses={"d": 1}, error="", more={"crash_kind": "SIGSEGV", "expected": "notyet: soon"}),
    "w.sub": Op(uses={"a": 1}, more={"expected": "never: unneeded"}),
    "lost": Op("unsplittable", uses={"a": 3}),
    "idle": Op("not_run", uses={"a": 1}),
    "slow": Op("timeout", uses={"b": 1}, error=""),
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five runs of the same ops."""
    folder = tmp_path_factory.mktemp("runs")
    url = fresh(folder / "db.sqlite")
    for number in range(1, 6):
        publish(night(folder, number, MANY), url)
    return folder


@pytest.fixture
def connection(built: Path) -> Any:
    with open_database(f"sqlite:///{built}/db.sqlite") as connection:
        yield connection


def test_untested_ops_have_no_measurements(built: Path, connection: sa.Connection) -> None:
    for view in (from_folder(built / "night01"), from_database(connection, "night01")):
        lost, idle = view.ops[op_id("lost")], view.ops[op_id("idle")]
        nothing = (None, None, None, 0.0, "none", "", False, "")
        for each in (lost, idle):
            assert (
                each.pcc,
                each.cycles,
                each.l1_peak_bytes,
                each.compile_seconds,
                each.ran_on,
                each.expected,
                each.flaky,
                each.artifact,
            ) == nothing
        assert (lost.failed_stage, lost.error, lost.stage, lost.bad, lost.attempted) == (
            "split",
            "it broke",
            "split",
            True,
            True,
        )
        assert (idle.failed_stage, idle.error, idle.bad, idle.attempted) == ("", "", False, False)
        assert lost.cause == cause_of("unsplittable", "split", "stablehlo.lost", "")
        fell = view.ops[op_id("z.add")]
        assert (fell.error, fell.crash, fell.expected) == ("SIGSEGV", "SIGSEGV", "notyet: soon")
        assert fell.reason == ("crashed", "stablehlo-to-ttir", fell.signature, "SIGSEGV")
        assert (view.workflow, view.models, view.missing, view.imports) == ("split", ("a", "b", "c", "d"), (), {})


def test_an_unknown_name_is_answered_with_three_known_ones(connection: sa.Connection) -> None:
    newest = "night05, night04, night03"
    with pytest.raises(InputError) as caught:
        from_database(connection, "???", "RUN_B")
    message = f"RUN_B: expected a run folder or the id of a published run, got `???`; try {newest}"
    assert str(caught.value) == message
    with pytest.raises(InputError) as caught:
        op_history.find(connection, "???", (), None)
    assert str(caught.value).endswith("got `???`; try d, c, b")
    url = str(connection.engine.url)
    with open_runs(url) as runs, pytest.raises(InputError) as caught:
        readiness.newest_views(runs, ["???", "a"])
    assert str(caught.value) == "MODEL: expected a model that a run has, got `???, a`; try d, c, b"


def test_a_name_of_an_op_is_answered_with_its_ids(connection: sa.Connection) -> None:
    adds = sorted(op_id(name) for name in ("add", "x.add", "y.add", "z.add"))
    assert op_history._similar_ids(connection, "add") == f"{', '.join(adds[:3])} ... (4 ops)"
    assert op_history._similar_ids(connection, "x.add") == op_id("x.add")
    assert op_history._similar_ids(connection, "stablehlo.lost") == op_id("lost")
    assert op_history._similar_ids(connection, op_id("idle")[:8]) == op_id("idle")
    assert op_history._similar_ids(connection, "dd") == ""
    connection.execute(sa.text("UPDATE ops SET op_name = 'chlo.x' WHERE op_name = 'stablehlo.add'"))
    assert op_history._similar_ids(connection, "add") == ", ".join(sorted(op_id(f"{word}.add") for word in "xyz"))
    connection.rollback()


def found(*asked: Any) -> dict[str, Any]:
    """What is known of a name, as it is printed."""
    return op_history.find(*asked).model_dump(mode="json")


def test_an_op_is_shown_with_its_models_and_owners(connection: sa.Connection) -> None:
    result = found(connection, op_id("z.add"), [Rule("c", cluster="crashed*"), Rule("rest")], None)
    assert (result["what"], result["op_name"], result["once"], result["models"]) == (
        "op",
        "stablehlo.z.add",
        [],
        {"d": 1},
    )
    for name in ("z.add", "slow"):  # with an error and without one
        history = found(connection, op_id(name), [Rule("rest")], None)["history"]
        assert {row["owner"] for row in history} == {"rest"}
    assert op_history.op(connection, "0" * 16, (), None) is None
    failing = found(connection, "night01", [Rule("d", model="d"), Rule("rest")], None)["failing"]
    assert [(row["op_name"], row["owner"], row["known"], row["uses"]) for row in failing] == [
        ("stablehlo.lost", "rest", "", 3),
        *sorted(
            (
                ("stablehlo.y.add", "rest", "", 1),
                ("stablehlo.z.add", "d", "notyet: soon", 1),
                ("stablehlo.slow", "rest", "", 1),
            ),
            key=lambda row: op_id(row[0].partition(".")[2]),
        ),
    ]
    message = found(connection, "night01", (), None)
    assert message["statuses"] == {"crashed": 2, "not_run": 1, "success": 3, "timeout": 1, "unsplittable": 1}


def test_at_most_ten_places_of_an_op_are_listed(connection: sa.Connection) -> None:
    connection.execute(sa.text("UPDATE uses SET location = path WHERE path NOT LIKE '%.add.0'"))
    places = [found(connection, op_id(name), (), None)["places"] for name in ("add", "lost", "x.add")]
    connection.rollback()
    assert (len(places[0]), places[0]) == (10, sorted({f"main/add.{number}" for number in range(12)} & set(places[0])))
    assert places[1:] == [["main/lost.0", "main/lost.1", "main/lost.2"], []]


def test_every_history_is_as_long_as_the_others() -> None:
    assert (op_history.HISTORY_NIGHTS, readiness.HISTORY, history.RUNS) == (30, 30, 30)


def test_names_are_asked_for_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [str(number) for number in range(1001)]
    assert [len(piece) for piece in outcomes.pieces_of(names)] == [500, 500, 1]
    assert [name for piece in outcomes.pieces_of(names) for name in piece] == names
    assert list(outcomes.pieces_of([])) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("status = 'odd'", "expected one of a record, got 'odd'"),
        ("cycles = 'many'", "expected a number, got 'many'"),
        ("pcc = 'x'", "expected a number, got 'x'"),
        ("compile_seconds = 'x'", "expected a number, got 'x'"),
    ],
)
def test_a_damaged_value_is_refused(connection: sa.Connection, change: str, message: str) -> None:
    connection.execute(sa.text(f"UPDATE op_tests SET {change} WHERE op_id = '{op_id('add')}'"))
    with pytest.raises(DamagedValueError, match=message):
        from_database(connection, "night01")
    connection.rollback()


# --- owners

RULES = [
    Rule("crashes", cluster=cause_of("crashed", "run", "stablehlo.add", "", "", "SIGSEGV")),
    Rule("exp", op="*.exp"),
    Rule("split", stage="split"),
    Rule("zoo", model="zoo*"),
]


def test_each_kind_of_failure_has_its_owner() -> None:
    owned = Owned(RULES)

    def of(**more: Any) -> str:
        test = {
            "failed_stage": None,
            "stage_reached": Stage.RUN,
            "error_message": None,
            "crash_kind": None,
            "hypothesis": "",
            "inputs": (),
            "outputs": (),
            "status": "crashed",
            "op_name": "stablehlo.add",
            "models": ("a",),
        }
        return owned.owner_of(SimpleNamespace(**test | more))  # type: ignore[arg-type]

    assert of(crash_kind="SIGSEGV") == "crashes"
    assert of(crash_kind="SIGSEGV", error_message="LLVM ERROR: no") == ""
    assert of(crash_kind="SIGSEGV", failed_stage=Stage.SPLIT) == "split"
    assert of(models=("a", "zoo_b")) == "zoo"
    assert owned.owner_of_unsplittable("stablehlo.add", ["a"]) == "split"
    unsplittable = Rule("u", cluster=cause_of("unsplittable", "split", "x", ""))
    assert [Owned([unsplittable]).owner_of_unsplittable(name, ["a"]) for name in "xy"] == ["u", ""]
    row = {"failed_stage": None, "stage_reached": "run", "error_message": None, "status": "crashed", "model": "m"}
    whole = Owned([Rule("whole", cluster=cause_of("crashed", "run", WHOLE_MODEL, "")), Rule("late", stage="compare")])
    assert whole.owner_of_model(row) == "whole"
    assert whole.owner_of_model({**row, "failed_stage": "compare"}) == "late"
    assert whole.owner_of_model({**row, "error_message": "LLVM ERROR: no"}) == ""
    assert [Owned((), team).lists("a") for team in (None, "a", "b")] == [True, True, False]


def test_a_team_sees_its_rows_causes_and_counts() -> None:
    a = run(op("exp"), op("add"), op("sub", "crashed"))
    b = run(
        op("exp", "crashed", signature="s1"),
        op("add", "crashed", cause=RULES[0].cluster, failed_stage="run"),
        op("sub"),
    )
    diff = compare(a, b)
    everybody = own_diff(diff, RULES)
    assert {row.op_id: row.owner for row in everybody.rows} == {"exp": "exp", "add": "crashes", "sub": ""}
    own = own_diff(diff, RULES, "exp")
    assert ([row.op_id for row in own.rows], dict(own.counts)) == (["exp"], {"NEW": 1})
    assert [cluster.cluster for cluster in own.clusters] == ["s1"]
    fixes = plan({"m": b})
    assert [fix.owner for fix in own_plan(fixes, RULES).fixes] == ["crashes", "exp"]
    assert [fix.fix for fix in own_plan(fixes, RULES, "exp").fixes] == ["s1"]
    rows = missing(b, "m")
    assert [row.owner for row in own_missing(rows, "m", RULES)] == ["crashes", "exp"]
    assert [row.op_id for row in own_missing(rows, "m", RULES, "crashes")] == ["add"]
    quiet = compare(a, a)
    assert {row.owner for row in own_diff(quiet, [Rule("all")]).rows} == {"", "all"}, "what is right has no owner"


def test_a_fix_lists_its_ops_models_and_uses() -> None:
    bad = {"signature": "s", "error": "", "failed_stage": ""}
    x = op("x", "crashed", uses_of={"m": 2, "n": 1}, repro="x", **bad)
    y = op("y", "crashed", uses_of={"m": 9}, repro="y", expected="notyet: y", **bad)
    fine = op("w", uses_of={"o": 1})
    view = run(x, y, op("z", "timeout"), fine, models=("m", "n", "o", "of which no op was attempted"))
    fixes = plan(dict.fromkeys(view.models, view))
    first, second = fixes.fixes
    assert (
        first.fix,
        first.op_names,
        first.stage,
        first.error,
        first.ops,
        first.uses,
        first.models,
        first.alone,
        first.known,
        first.repro,
    ) == (
        "s",
        ("stablehlo.x", "stablehlo.y"),
        "compare",
        "crashed",
        2,
        12,
        ("m", "n"),
        1,
        1,
        "y",
    )
    assert (second.alone, second.models, second.uses) == (0, ("m",), 1)
    assert (fixes.whole, fixes.unknown, fixes.by) == (("o",), {}, "cluster")
    rows = missing(view, "m")
    assert [(row.op_id, row.uses, row.depth, row.cluster) for row in rows] == [
        ("y", 9, 2, "s"),
        ("x", 2, 2, "s"),
        ("z", 1, 2, "timeout compare stablehlo.z"),
    ]
    deep = run(op("a", "timeout", stage="split"), op("b", "timeout", stage="run"), op("c", "not_run", stage="odd"))
    assert [(row.op_id, row.depth, row.cluster) for row in missing(deep, "m")] == [
        ("a", 1, "timeout split stablehlo.a"),
        ("b", 2, "timeout run stablehlo.b"),
        ("c", 3, ""),
    ]


def test_of_equally_good_bundles_the_smaller_and_then_the_more_used_one_goes_first() -> None:
    def order(needs: dict[str, set[str]], **weight: int) -> list[str]:
        return [step.fix for step in curve(needs, weight)][1:]

    assert order({"p": {"a", "b"}, "q": {"a", "b"}, "r": {"c"}}) == ["c", "a", "b"]
    assert order({"p": {"a"}, "q": {"b"}}) == ["a", "b"]
    assert order({"p": {"a"}, "q": {"b"}}, a=1, b=2) == ["b", "a"]
    assert order({"p": {"a", "b"}}, b=1) == ["b", "a"]
    assert order({"p": {"a", "b"}, "q": {"a", "c"}, "r": {"a", "b", "c"}}, c=1) == ["c", "a", "b"]


# --- models as one program


def test_a_model_as_one_program_is_shown_in_words() -> None:
    row: dict[str, Any] = {
        "model": "m",
        "backend": "xla",
        "status": "success",
        "failed_stage": "compare",
        "stage_reached": "run",
        "error_message": None,
        "pcc": None,
        "relative_l2": None,
        "ran_on": "host",
        "intermediates": None,
        "jump_op_id": None,
        "jump_op_name": "stablehlo.add",
        "jump_path": "main/3",
        "jump_location": "net.py:7",
        "jump_pcc": None,
        "jump_pcc_before": 0.5,
    }
    assert page_tables._whole([row], EVERYBODY).rows == [(["m", "xla"], [Outcome("success")], "", "", "host", "", "")]
    row |= {
        "error_message": "low",
        "pcc": 0.98765432,
        "relative_l2": 0.01234,
        "intermediates": 12345,
        "jump_op_id": "0a",
    }
    lowering = Owned([Rule("lowering")], "lowering")
    [shown] = page_tables._whole([row | {"status": "wrong_result"}], lowering).rows
    said = [Outcome("wrong_result", text="low; owner lowering")]
    assert shown == (["m", "xla"], said, "0.9876543", "0.012", "host", "12,345", "stablehlo.add [0a] main/3 net.py:7")
    assert page_tables._whole([row], lowering).rows == []
    row["jump_pcc"] = 0.25
    assert page_tables._whole([row], EVERYBODY).rows[0][-1].endswith(": PCC 0.500000 before, 0.250000 after")


# --- values on their way to the database


def test_values_are_converted_once_per_column() -> None:
    assert bulk._real(1.5) == 1.5
    assert [bulk._real(value) for value in (math.nan, math.inf, -math.inf)] == [None] * 3
    with pytest.raises(DamagedValueError, match="expected a number, got 'x'"):
        bulk._real("x")  # type: ignore[arg-type]
    assert bulk._text("a\0b") == "a\\0b"
    assert bulk.json_text({"a": math.nan, "b": [1, "x\0"]}) in ('{"a":null,"b":[1,"x\\\\0"]}',)
    east = datetime(2026, 11, 1, 3, 30, 0, 250, tzinfo=timezone(timedelta(hours=1)))
    utc = datetime(2026, 11, 1, 2, 30, 0, 250, tzinfo=UTC)
    for value in (east, utc, utc.replace(tzinfo=None)):
        assert (bulk._utc(value), bulk._utc(value).tzinfo) == (utc, UTC)
        assert bulk._utc_text(value) == "2026-11-01 02:30:00.000250"


def test_only_an_error_of_the_driver_is_wrapped(connection: sa.Connection) -> None:
    driver_error, other = sqlite3.OperationalError("driver"), ValueError("ours")
    assert bulk._wrapped(connection, other) is other
    assert isinstance(bulk._wrapped(connection, driver_error), sa.exc.DBAPIError)
    without: Any = SimpleNamespace(dialect=SimpleNamespace(dbapi=None))
    assert bulk._wrapped(without, driver_error) is driver_error


def test_errors_and_limitations_are_stored_with_the_times_of_their_runs(connection: sa.Connection) -> None:
    errors = connection.execute(sa.text("SELECT message, stage FROM errors ORDER BY message")).all()
    assert [tuple(row) for row in errors] == [("SIGSEGV", "stablehlo-to-ttir"), ("it broke", "stablehlo-to-ttir")]
    limitations = connection.execute(sa.text("SELECT limitation, kind, first_seen, last_seen FROM limitations")).all()
    assert [tuple(map(str, row)) for row in limitations] == [
        ("notyet: soon", "notyet", "2026-11-02 02:00:00.000000", "2026-11-06 02:00:00.000000")
    ]


def test_insert_returns_the_number_of_rows(connection: sa.Connection) -> None:
    table = sa.Table("some", sa.MetaData(), sa.Column("a", sa.Double()), sa.Column("b", sa.Text()))
    table.create(connection)
    assert bulk.insert(connection, table, [(math.nan, "x\0"), (2.0, None), (None, "y")]) == 3
    assert bulk.insert(connection, table, [(1.0, "z")], clean=True) == 1
    assert bulk.insert(connection, table, []) == 0
    rows = [tuple(row) for row in connection.execute(sa.text("SELECT a, b FROM some"))]
    assert rows == [(None, "x\\0"), (2.0, None), (None, "y"), (1.0, "z")]
    connection.rollback()
