"""`opscope show` of what is no folder: an op, a model, a published run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from opscope.harness.cli.commands import show
from opscope.harness.record.errors import InputError
from opscope.harness.triage import issue
from opscope.reports.publish.publish import publish
from opscope.reports.tests.night_runs import copy_of, fresh, publish_night, record, shard_run
from opscope.reports.tests.nights import Op, op_id

OWNERS = "owners: [{team: lowering, op: stablehlo.add}, {team: models}]\n"


@pytest.fixture(scope="module")
def two_nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of two runs, and of the database that both were published to."""
    folder = tmp_path_factory.mktemp("two-nights")
    url = fresh(folder / "db.sqlite")
    ops = {"add": Op(uses={"a": 2, "b": 1}, pcc=0.9999, cycles=40), "exp": Op("crashed", uses={"b": 1})}
    publish_night(url, folder / "1", 1, ops)
    publish_night(url, folder / "2", 2, {**ops, "add": Op("compile_failed", uses={"a": 2, "b": 1})})
    return folder


@pytest.fixture
def url(two_nights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci" / "owners.yaml").write_text(OWNERS)
    return copy_of(f"sqlite:///{two_nights}/db.sqlite", tmp_path / "db.sqlite")


def shown(url: str, name: str, *words: str) -> Any:
    done = CliRunner().invoke(show, [name, "--db", url, "--json", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def test_an_op_night_by_night(url: str) -> None:
    op = shown(url, op_id("add"))
    assert op["models"] == {"a": 2, "b": 1}
    assert [(row["label"], row["status"], row["pcc"], row["cycles"], row["owner"]) for row in op["history"]] == [
        ("2026-11-03 02:00", "compile_failed", None, None, "lowering"),
        ("2026-11-02 02:00", "success", 0.9999, 40, ""),
    ]
    assert op["repro"].startswith("pytest --op-by-op --op")
    assert len(shown(url, op_id("add"), "--owner", "lowering")["history"]) == 1
    assert shown(url, op_id("add"), "--owner", "models")["history"] == []


@pytest.mark.slow
def test_an_op_goes_wrong_since_the_commits_after_its_last_right_night(tmp_path: Path) -> None:
    url = fresh(tmp_path / "db.sqlite")
    add = [Op("compile_failed"), Op(), Op("compile_failed"), Op("not_run"), Op("compile_failed")]
    for number, op in enumerate(add, 1):
        options = {"dtype": "float32", "seed": 0, "source": {"url": "https://github.com/ada/x"}}
        origin = {"revision": f"{number}" * 40, "options": options}
        ops = {"add": op, "exp": Op("crashed")}
        publish(shard_run(tmp_path / f"{number}", record(number), number, ops, origin=origin), url)
    [since] = shown(url, op_id("add"))["since"]
    assert since == {
        "on": "reference n150",
        "night": "2026-11-04 02:00 UTC",
        "range": "22222222..33333333",
        "url": f"https://github.com/ada/x/compare/{'2' * 40}...{'3' * 40}",
    }
    printed = CliRunner().invoke(show, [op_id("add"), "--db", url], catch_exceptions=False).output
    assert "wrong on reference n150 since 2026-11-04 02:00 UTC, commits 22222222..33333333" in printed
    assert shown(url, op_id("exp"))["since"][0]["range"] == "up to 11111111"


def test_the_line_runs_it_where_it_goes_wrong(tmp_path: Path) -> None:
    """Not where it is right, however new that night is; nor where it went wrong once."""
    url = fresh(tmp_path / "db.sqlite")
    for number, arch, op in ((1, "p150", Op("crashed")), (2, "n150", Op("crashed")), (3, "p150", Op())):
        night = record(number, archs=(arch,))
        publish(shard_run(tmp_path / f"{number}", night, number, {"add": op, "exp": Op()}, arch=arch), url)
    repros = {night["arch"]: night["repro"] for night in reversed(shown(url, op_id("add"))["history"])}
    assert repros["n150"] != repros["p150"]
    assert shown(url, op_id("add"))["repro"] == repros["n150"]
    assert "p150" in shown(url, op_id("exp"))["repro"]


def test_the_compiler_of_the_program_and_what_it_narrowed_are_shown(tmp_path: Path) -> None:
    url = fresh(tmp_path / "db.sqlite")
    build, narrowed = "jax-tt-plugin 0.1.3", "f32 -> bf16 at ttnn.max_pool2d"
    pooled = Op(more={"compiled_by": build, "narrowed": (narrowed,)})
    publish_night(url, tmp_path / "1", 1, {"pool": pooled, "add": Op()})
    [night] = shown(url, op_id("pool"))["history"]
    assert (night["compiled_by"], night["narrowed"]) == (build, [narrowed])
    printed = CliRunner().invoke(show, [op_id("pool"), "--db", url], catch_exceptions=False).output
    assert f"compiled by {build}" in printed
    assert f"narrowed: {narrowed}" in printed
    taken = Op(more={"cached_from": "tt@0.1.2 in run 7"})
    publish_night(url, tmp_path / "2", 2, {"sub": taken, "add": Op(more={"cached_from": "run 7"})})
    assert [shown(url, op_id(name))["history"][0]["verdict_of"] for name in ("sub", "add")] == ["tt@0.1.2", ""]
    printed = CliRunner().invoke(show, [op_id("sub"), "--db", url], catch_exceptions=False).output
    assert "its program equals that of tt@0.1.2, whose verdict it takes" in printed.replace("\n", " ")
    assert "compiled by" not in CliRunner().invoke(show, [op_id("add"), "--db", url], catch_exceptions=False).output


def test_a_model_with_its_ladder_its_blockers_and_its_trend(url: str) -> None:
    model = shown(url, "b")
    [lane] = model["lanes"]
    assert [row["ops"] for row in lane["ladder"]] == [2]
    assert {(row["op_name"], row["label"], row["owner"]) for row in lane["blockers"]} == {
        ("stablehlo.add", "NEW", "lowering"),
        ("stablehlo.exp", "PERSISTING", "models"),
    }
    assert [(row["right_ops"], row["bad_ops"]) for row in model["trend"]] == [(0, 2), (1, 1)]
    [lane] = shown(url, "b", "--owner", "models")["lanes"]
    assert [row["op_name"] for row in lane["blockers"]] == ["stablehlo.exp"]


def test_a_run_that_only_the_database_has(url: str, two_nights: Path) -> None:
    run = shown(url, "night02")
    assert run["statuses"] == {"compile_failed": 1, "crashed": 1}
    assert [row["owner"] for row in shown(url, "night02", "--owner", "models")["failing"]] == ["models"]
    # Of a folder, too, only the rows of the team are shown.
    folder = shown(url, str(two_nights / "2" / "night02"), "--owner", "lowering")
    assert [row["op_name"] for row in folder["failing"]] == ["stablehlo.add"]


@pytest.mark.parametrize("name", ["add", "stablehlo.add", op_id("add")[:6]])
def test_an_op_by_another_name_is_offered_by_its_id(url: str, name: str) -> None:
    with pytest.raises(InputError, match=rf"got `{name}`; try {op_id('add')}$"):
        CliRunner().invoke(show, [name, "--db", url], catch_exceptions=False)


@pytest.mark.parametrize("name", ["b", "night02", op_id("exp")])
def test_the_terminal_has_the_line_that_runs_it_again(url: str, name: str) -> None:
    done = CliRunner().invoke(show, [name, "--db", url], catch_exceptions=False)
    assert f"pytest --op-by-op --op {op_id('exp')}" in " ".join(done.output.split())


def test_a_name_of_nothing_is_one_line(url: str) -> None:
    done = CliRunner().invoke(show, ["bb", "--db", url])
    assert str(done.exception) == (
        "WHAT: expected a run, the id of an op (16 hex digits) or of a cause (8), or a model of the database, got "
        "`bb`; try b"
    )


def test_an_issue_learns_since_when_by_whom_and_whose_it_is(tmp_path: Path) -> None:
    url = fresh(tmp_path / "db.sqlite")
    for number, op in enumerate((Op(), Op("compile_failed")), 1):
        source = {"url": "https://github.com/ada/x", "author": "Ada L"}
        origin = {"revision": f"{number}" * 40, "options": {"dtype": "float32", "seed": 0, "source": source}}
        publish(shard_run(tmp_path / f"{number}", record(number), number, {"add": op}, origin=origin), url)
    (line, _) = issue.since(op_id("add"), url)
    compared = f"https://github.com/ada/x/compare/{'1' * 40}...{'2' * 40}"
    when = "2026-11-03 02:00 UTC on reference n150"
    assert line == f"- since {when}, commits 11111111..22222222 by Ada L: {compared}"
    assert list(issue.since("0" * 16, url)) == [""]
