"""What to fix first: a ranking counted by hand, and a curve that no other order of fixes starts better."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from itertools import combinations
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from opscope.base.tests.unhurried import UNHURRIED
from opscope.harness.record.stages import Stage
from opscope.reports.commands.compare import readiness, unblock
from opscope.reports.compare.outcomes import from_folder
from opscope.reports.compare.readiness import history, views_of
from opscope.reports.compare.run_selection import open_runs
from opscope.reports.compare.unblock import curve, missing, plan
from opscope.reports.database.ask import ask, questions
from opscope.reports.database.notes import note_of
from opscope.reports.publish.publish import publish
from opscope.reports.tests.night_runs import fresh, record, run_whole, shard_run
from opscope.reports.tests.nights import Op, night


def fail(text: str, **uses: int) -> Op:
    return Op("compile_failed", uses=uses, error=text)


OPS = {
    "exp": fail("no exp", a=1, b=4),
    "exp2": fail("no exp", b=2),
    "sort": fail("no sort", b=1, c=1),
    "fft": Op("compile_failed", uses={"d": 1}, error="no fft", more={"expected": "never: no fft on this device"}),
    "lost": Op("unsplittable", uses={"d": 3}, error="no body"),
    "add": Op(uses={"a": 9, "b": 9, "c": 9, "d": 9, "e": 9}),
    "later": Op("not_run", uses={"e": 1}),
}


def test_the_ranking_counts_models_uses_and_ops(tmp_path: Path) -> None:
    fix_plan = plan(views_of(from_folder(night(tmp_path, 1, OPS))))
    fixes = {fix.error: (fix.models, fix.alone, fix.uses, fix.ops, fix.known) for fix in fix_plan.fixes}
    assert fixes == {
        "no exp": (("a", "b"), 1, 7, 2, 0),
        "no sort": (("b", "c"), 1, 2, 1, 0),
        "no body": (("d",), 0, 3, 1, 0),
    }
    assert [fix.error for fix in fix_plan.fixes] == ["no exp", "no sort", "no body"]
    assert fix_plan.never == {"d": 1}, "what a limitation calls for good is no fix to offer, and its model never whole"
    assert fix_plan.whole == ()  # one op of `e` was not attempted
    assert fix_plan.unknown == {"e": 1}
    names = {fix.fix: fix.error for fix in fix_plan.fixes}
    assert [(step.fixes, names.get(step.fix), step.whole) for step in fix_plan.curve] == [
        (0, None, 0),
        (1, "no exp", 1),
        (2, "no sort", 3),
        (3, "no body", 3),
    ]
    by_op = plan(views_of(from_folder(tmp_path / "night01")), "op")
    assert {fix.fix for fix in by_op.fixes} == {f"stablehlo.{name}" for name in ("exp", "exp2", "sort", "lost")}


def test_a_ranking_by_op_has_one_row_for_a_name_whatever_its_shapes_and_causes(tmp_path: Path) -> None:
    """Of two ops `sort` that fail for two reasons one is acknowledged: a fix of the name is not."""
    failing = {"sort": Op("crashed", {"a": 2}, error="no room"), "sort2": Op("run_failed", {"b": 1}, error="hangs")}
    folder = night(tmp_path, 1, failing | {"exp": Op("compile_failed", {"a": 1}, error="no exp")})
    view = from_folder(folder)
    ops = {op: replace(each, op_name=each.op_name.replace("sort2", "sort")) for op, each in view.ops.items()}
    known = next(each.cause for each in ops.values() if each.error == "no room")
    view = replace(view, ops=ops, notes={known: note_of(known, "we know", "ann", date(2999, 1, 1))})
    ranked = plan(views_of(view), "op").fixes
    assert [(fix.fix, fix.ops, fix.models, fix.uses, fix.acknowledged) for fix in ranked] == [
        ("stablehlo.sort", 2, ("a", "b"), 3, False),
        ("stablehlo.exp", 1, ("a",), 1, False),
    ]
    assert [fix.acknowledged for fix in plan(views_of(view)).fixes] == [False, False, True]


needs = st.dictionaries(st.sampled_from("mnopqr"), st.frozensets(st.sampled_from("abcde"), max_size=4), min_size=1)


@settings(UNHURRIED, max_examples=30)
@given(needs)
def test_the_curve_is_honest_and_never_beats_the_optimum(result: dict[str, frozenset[str]]) -> None:
    steps = curve(result)
    done: set[str] = set()
    for step in steps:
        done |= {step.fix} - {""}
        assert step.fixes == len(done)
        assert step.whole == sum(need <= done for need in result.values())  # counted again, not trusted
    assert done == set().union(*result.values())

    def best(count: int) -> int:
        return max(sum(need <= set(some) for need in result.values()) for some in combinations(sorted(done), count))

    whole = [step.whole for step in steps]
    assert all(whole[count] <= best(count) for count in range(len(steps)))
    assert whole[0] == best(0)
    assert whole[-1] == best(len(done)) == len(result)


def test_where_models_need_several_fixes_the_pair_that_frees_most_comes_first() -> None:
    needs = {"p": {"a", "b"}, "q": {"a", "b"}, "r": {"a", "b"}, "s": {"c"}, "t": {"d", "e", "f"}}
    steps = curve(needs)
    assert [(step.fix, step.whole) for step in steps] == [
        ("", 0),
        ("a", 0),
        ("b", 3),
        ("c", 4),
        ("d", 4),
        ("e", 4),
        ("f", 5),
    ]
    # One fix that frees a model goes before three that free two.
    assert [step.fix for step in curve({"p": {"x", "y", "z"}, "q": {"x", "y", "z"}, "r": {"w"}})][1] == "w"
    # Inside a bundle the model that lacks least comes first.
    inner = curve({"p": {"x", "y", "z"}, "q": {"y", "z"}})
    assert [(step.fix, step.whole) for step in inner] == [("", 0), ("y", 0), ("z", 1), ("x", 2)]


def test_ops_that_were_not_attempted_count_as_such_everywhere(tmp_path: Path) -> None:
    """A selection, a budget that ended or a full disk leave ops without a verdict: nothing calls their model whole."""
    ops = {"add": Op(uses={"m": 9}), "sort": Op("not_run", uses={"m": 3}), "exp": Op("skipped", uses={"m": 1})}
    folder, url = night(tmp_path, 1, ops), fresh(tmp_path / "db.sqlite")
    publish(folder, url)
    page = CliRunner().invoke(unblock, [str(folder)]).output
    assert "1 model, 0 whole, in its newest run" in page
    assert "Nothing to fix is known: no attempted op fails, and others were not attempted." in page
    assert json.loads(CliRunner().invoke(unblock, [str(folder), "--json"]).output)["curve"][-1]["whole"] == 0
    text = CliRunner().invoke(readiness, ["m", "--run", str(folder), "--db", url]).output
    assert "3 unique ops = 1 right + 0 missing + 2 not attempted" in text
    (share,) = ask(url, questions()["model_coverage"].sql).rows
    assert share[-5:] == (0, 2, 1, pytest.approx(1 / 3), pytest.approx(9 / 13))
    sums = "SUM(ops), SUM(attempted_ops), SUM(right_ops), MAX(pass_rate * ops - right_ops)"
    of_view = ask(url, f"SELECT {sums} FROM coverage").rows
    assert of_view == ((3, 1, 1, pytest.approx(0)),)
    assert ask(url, "SELECT whole FROM model_readiness").rows == ((0,),)
    assert ask(url, questions()["one_fix_away"].sql).rows == ()


def test_a_model_is_whole_if_it_is_right_as_one_program_and_not_if_it_is_wrong(tmp_path: Path) -> None:
    """`--op-by-op-on-fail`: the ops of `spared` were left out; those of `together` are right alone."""
    ops = {
        "add": Op("skipped", uses={"spared": 2}),
        "exp": Op(uses={"together": 1, "unknown": 1}),
        "sort": Op("wrong_result", uses={"apart": 1}, failed=Stage.COMPARE),
    }
    wrong = Op("wrong_result", failed=Stage.COMPARE, error="wrong by 3")
    whole = {"spared": Op(), "together": wrong, "apart": wrong, "unknown": Op("not_run")}
    url = fresh(tmp_path / "db.sqlite")
    folder = shard_run(tmp_path, record(1, models=tuple(whole)), 1, ops)
    run_whole(folder, whole)
    publish(folder, url)
    of_night = ("--db", url)
    of_run, of_folder = ("night01", *of_night), (str(folder),)
    answers = []
    for words in (of_night, of_run, of_folder):
        answer = json.loads(CliRunner().invoke(unblock, [*words, "--json"], catch_exceptions=False).output)
        answers.append([answer.get("series", [answer])[0][name] for name in ("whole", "unknown", "fixes", "curve")])
    assert answers[0] == answers[1] == answers[2]
    known, unknown, fixes, curve = answers[0]
    assert (known, unknown) == (["spared", "unknown"], {})
    assert {tuple(fix["op_names"]): (fix["models"], fix["error"]) for fix in fixes} == {
        ("model",): (["together"], "wrong by 3"),
        ("stablehlo.sort",): (["apart"], "it broke"),
    }
    assert [step["whole"] for step in curve] == [2, 3, 4]
    for view in ("model_readiness", "dashboard_models"):
        assert dict(ask(url, f"SELECT model, whole FROM {view}").rows) == {
            "apart": 0,
            "spared": 1,
            "together": 0,
            "unknown": 1,
        }
    pages = {model: CliRunner().invoke(readiness, [model, *of_night], catch_exceptions=False).output for model in whole}
    assert "whole since" in pages["spared"]
    assert "as one program: success" in pages["spared"]
    assert "not whole since" in pages["together"]
    assert "as one program: wrong_result" in pages["together"]
    assert "wrong by 3" in pages["together"]
    assert "wrong by 3" not in pages["apart"]
    assert "it broke" in pages["apart"]
    assert json.loads(CliRunner().invoke(readiness, ["spared", *of_night, "--json"]).output)["missing"] == []


def test_readiness_lists_what_is_missing(tmp_path: Path) -> None:
    view = from_folder(night(tmp_path, 1, OPS))
    rows = missing(view, "b")
    assert [(row.op_name, row.uses, row.stage, row.depth) for row in rows] == [
        ("stablehlo.exp", 4, "split", 1),
        ("stablehlo.exp2", 2, "split", 1),
        ("stablehlo.sort", 1, "split", 1),
    ]
    assert [row.status for row in missing(view, "d")] == ["unsplittable", "compile_failed"]
    assert [row.status for row in missing(view, "e")] == ["not_run"]


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = fresh(tmp_path / "db.sqlite")
    publish(night(tmp_path, 1, OPS), url)
    publish(night(tmp_path, 2, {**OPS, "exp2": Op(uses={"b": 2})}), url)
    publish(night(tmp_path, 3, {"sort": Op(uses={"c": 1})}), url)  # another night has one model only
    publish(night(tmp_path, 4, OPS, arch="p150"), url)
    return url


def test_history_by_sql_counts_what_the_records_say(url: str, tmp_path: Path) -> None:
    with open_runs(url) as runs:
        view = runs.view("night02")
        for model in "abcde":
            rows = history(runs, view, model)
            for row, folder in zip(rows, ("night01", "night02"), strict=True):
                ops = [op for op in from_folder(tmp_path / folder).ops.values() if model in op.uses_of]
                bad, idle = sum(op.bad for op in ops), sum(not op.attempted for op in ops)
                assert (row.run_id, row.ops, row.missing, row.not_attempted) == (
                    folder,
                    len(ops),
                    bad,
                    idle,
                )


def test_commands(url: str, tmp_path: Path) -> None:
    publish(night(tmp_path, 5, {"sort": Op(uses={"c": 1})}), url)
    done = CliRunner().invoke(unblock, ["--db", url, "--json"])
    answer = json.loads(done.output)
    assert answer["models"] == ["a", "b", "c", "d", "e"]  # c by its newest run, the others by theirs
    assert answer["whole"] == ["c"]
    assert {run["run_id"] for run in answer["runs"]} == {"night02", "night05"}
    page = CliRunner().invoke(unblock, [str(tmp_path / "night01")]).output
    assert "5 models, 0 of them whole" in page
    one = json.loads(CliRunner().invoke(readiness, ["b", "--run", "night02", "--db", url, "--json"]).output)
    assert [row["op_name"] for row in one["missing"]] == ["stablehlo.exp", "stablehlo.sort"]
    assert [(row["run_id"], row["missing"]) for row in one["history"]] == [("night01", 3), ("night02", 2)]
    text = CliRunner().invoke(readiness, ["b", "--run", "night02", "--db", url]).output
    assert "3 unique ops" not in text
    assert "4 unique ops = 2 right + 2 missing + 0 not attempted" in text
    wrong = CliRunner().invoke(readiness, ["bb", "--db", url]).exception
    assert str(wrong).startswith("MODEL: expected a model that a run has, got `bb`; try b")
