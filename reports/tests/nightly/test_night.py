"""What a night comes to: its verdict by policy, its summary, and what becomes of it when the database is away."""

from __future__ import annotations

import fcntl
import json
import sqlite3
from datetime import datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from opscope.harness.record.causes import cause_of, short
from opscope.harness.record.errors import InputError
from opscope.harness.record.run_folders import runs_root
from opscope.harness.record.stages import ImportStatus
from opscope.harness.tests.import_check import test_import_check
from opscope.reports.compare.diff import compare
from opscope.reports.compare.outcomes import from_database, from_folder
from opscope.reports.database.ask import ask
from opscope.reports.database.owners import Rule
from opscope.reports.database.reading import read_database
from opscope.reports.nightly.cli import nightly
from opscope.reports.nightly.config import read_config
from opscope.reports.nightly.gate import SweepComparison, _gate_of
from opscope.reports.nightly.night import add_to_page_of_job, deliver
from opscope.reports.nightly.night_folder import begin, folder_of
from opscope.reports.nightly.sweeps import Sweep
from opscope.reports.tests.night_runs import fresh, shard_run
from opscope.reports.tests.nightly.nights_here import config_of, delivered, night_of
from opscope.reports.tests.nights import Op

RIGHT = {"add": Op(uses={"a": 2}), "tanh": Op(uses={"b": 1}), "fft": Op("compile_failed", {"b": 1})}
KNOWN = {"fft": Op("compile_failed", {"b": 1}, more={"expected": "notyet: no FFT"})}

FFT = short(cause_of("compile_failed", "stablehlo-to-ttir", "stablehlo.fft", "f32", "it broke"))
TANH = short(cause_of("wrong_result", "compare", "stablehlo.tanh", "f32"))


def kinds(result: object) -> dict[str, bool]:
    return {problem.kind: problem.fails for problem in result.verdict.problems}  # type: ignore[attr-defined]


def test_news_fail_a_night_and_old_failures_do_not(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    first = delivered(config, tmp_path, 1, RIGHT)
    assert (first.verdict.fails, first.said.chips) == (False, ("first night",))
    assert kinds(first) == {"failure": False}
    same = delivered(config, tmp_path, 2, RIGHT)
    assert (same.verdict.fails, same.verdict.changed, str(same.said)) == (
        False,
        False,
        "1 still failing, 1 cause: start with fft (1 model)\n"
        f"nightly 2026-11-03 02:00 UTC, reference n150, since {'01' * 4}..{'02' * 4}",
    )
    worse = RIGHT | {"tanh": Op("wrong_result", {"b": 1}, error="PCC 0.2"), "fft": Op(uses={"b": 1})}
    bad = delivered(config, tmp_path, 3, worse, rules=(Rule("numbers", op="stablehlo.tanh"),))
    assert kinds(bad) == {"regression": True, "failure": False}
    assert str(bad.said) == (
        "1 new failure, 1 cause: start with tanh (numbers, 1 model)\n"
        "nightly 2026-11-04 02:00 UTC, reference n150, since 02020202..03030303\n1 fixed"
    )
    for words in ("## NEW (1)", "`stablehlo.tanh`", "PCC 0.2", "numbers", "**FIXED (1)**: `stablehlo.fft`", "| 1 |"):
        assert words in bad.summary, words
    assert bad.path.read_text() == bad.summary
    owned = "SELECT owner FROM night_diff WHERE label = 'NEW' AND night_id LIKE '%1104%'"
    assert ask(str(config.database), owned).rows == (("numbers",),)
    assert json.loads((folder_of(tmp_path, bad.night) / "ended.json").read_text())["fails"] is True


def test_fixed_ops_of_one_name_are_told_once(tmp_path: Path) -> None:
    config, names = config_of(tmp_path), ("fft#1", "fft#2", "tanh")
    for number, status in enumerate(("compile_failed", "success"), 1):
        night = delivered(config, tmp_path, number, {name: Op(status, {"b": 1}) for name in names})
    assert "**FIXED (3)**: `stablehlo.fft` (b: 2 ops), `stablehlo.tanh` (b)\n" in night.summary


def test_an_op_that_fails_on_two_backends_is_one(tmp_path: Path) -> None:
    """The title, the verdict and the tables count by one rule, and say of how many results they speak."""
    backends = ("reference", "xla")
    config = config_of(tmp_path, backends=list(backends))
    broken = RIGHT | {name: Op("compile_failed", {"a": 1, "b": 1}) for name in ("add", "tanh")}
    for number, ops in enumerate((RIGHT, broken, RIGHT), 1):
        night = night_of(config, number, tmp_path)
        runs = [
            shard_run(runs_root(tmp_path), night, 2 * number + place, ops, backend=name)
            for place, name in enumerate(backends)
        ]
        result = deliver(config, night, runs, str(config.database), tmp_path, (), environment={}, reports=False)
        if ops is broken:
            assert "2 new failures, 1 cause" in str(result.said)
            words = {problem.kind: problem.text for problem in result.verdict.problems}
            assert words == {
                "regression": "2 ops are worse than in the previous night (4 results in 2 series)",
                "failure": "3 ops fail without a known reason (6 results in 2 series)",
            }
            assert "## NEW (2: 4 results in 2 series)" in result.summary
    assert "2 fixed" in str(result.said)
    assert "**FIXED (2: 4 results in 2 series)**" in result.summary
    assert result.summary.count("`stablehlo.add`") == 1
    sides = [[from_folder(runs_root(tmp_path) / f"night{2 * at + place:02}") for place in (0, 1)] for at in (1, 2)]
    comparisons = [
        SweepComparison(Sweep(old.backend, "n150", "", 0, 0), tmp_path, old, compare(old, new), ended=True, line="ran")
        for old, new in zip(*sides, strict=True)
    ]
    gate = _gate_of(comparisons, "nightly-1", tmp_path, tmp_path)
    assert gate.title == "gate against nightly-1: 2 worse"
    assert [problem.text for problem in gate.verdict.problems] == [
        "2 ops are worse than in nightly-1 (4 results in 2 series)"
    ]


DIFFERS = test_import_check.DIFFERS.model_copy(update={"model": "a", "node": ""})


def test_an_import_that_differs_fails_a_night_unless_a_limitation_names_it(tmp_path: Path) -> None:
    config, ops = config_of(tmp_path), {"add": Op(uses={"a": 1, "b": 1})}
    result = delivered(config, tmp_path, 1, ops, imports=(DIFFERS,))
    assert kinds(result) == {"import": True}
    line = "import: a: import\\_differs: torch-mlir 1 against reference 2, result 0: 4 of 6 values differ"
    assert line.replace("\\_", "_") in result.summary.replace("\\_", "_")
    known = DIFFERS.model_copy(update={"expected": "notyet: Mod"})
    assert kinds(delivered(config, tmp_path, 2, ops, imports=(known,))) == {}
    passing = known.model_copy(update={"status": ImportStatus.AGREES})
    assert kinds(delivered(config, tmp_path, 3, ops, imports=(passing,))) == {"import": True}
    folders = {f"night{number:02}": from_folder(runs_root(tmp_path) / f"night{number:02}") for number in (1, 2, 3)}
    with read_database(str(config.database), "--database") as connection:
        for run_id, of_folder in folders.items():
            assert from_database(connection, run_id).imports == of_folder.imports
    assert [set(view.imports) for view in folders.values()] == [{"a"}, set(), {"a"}]

    sweep, new, gates = Sweep("reference", "n150", "", 0, 0), folders["night01"], []
    for night in (folders["night02"], folders["night01"]):
        compared = SweepComparison(sweep, tmp_path, night, compare(night, new), ended=True, line="ran")
        gates.append(_gate_of([compared], "nightly-1", tmp_path, tmp_path))
    assert [gate.verdict.fails for gate in gates] == [True, False], "what the night has is no news"
    assert gates[0].title == "gate against nightly-1: nothing worse, 1 import differs"


def test_known_and_flaky_failures_fail_nothing(tmp_path: Path) -> None:
    config = config_of(tmp_path, policy={"failure": "fail"})
    delivered(config, tmp_path, 1, {"add": Op(uses={"a": 1}), "fft": Op(uses={"b": 1}), "tanh": Op(uses={"b": 1})})
    flaky = Op("run_failed", {"b": 1}, more={"flaky": True})
    result = delivered(config, tmp_path, 2, {"add": Op(uses={"a": 1}), "tanh": flaky} | KNOWN)
    assert (result.verdict.fails, result.verdict.changed) == (False, True)
    assert "2 more, known or flaky, do not fail the night" in result.summary


def test_what_is_worse_came_with_the_commits_since_the_night_before(tmp_path: Path) -> None:
    config, url = config_of(tmp_path), "https://gitlab.com/ada/x"
    origins = [
        {"revision": number * 40, "options": {"dtype": "float32", "seed": 0, "source": {"url": url}}} for number in "12"
    ]
    delivered(config, tmp_path, 1, {"add": Op()}, origin=origins[0])
    night = delivered(config, tmp_path, 2, {"add": Op("compile_failed")}, origin=origins[1])
    assert night.said.headline == "1 new failure, 1 cause: start with add (1 model)"
    assert night.said.about.endswith(", since 11111111..22222222")
    assert f"[11111111..22222222]({url}/-/compare/{'1' * 40}...{'2' * 40})" in night.summary.replace("\\", "")


def test_a_policy_decides(tmp_path: Path) -> None:
    config = config_of(tmp_path, policy={"regression": "pass", "failure": "fail", "partial": "fail"})
    assert kinds(delivered(config, tmp_path, 1, {"add": Op(uses={"a": 1})}, models=("a",))) == {"partial": True}
    assert kinds(delivered(config, tmp_path, 2, RIGHT)) == {"failure": True, "regression": False}


def test_a_night_without_data_fails(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    none = deliver(
        config, night_of(config, 1, tmp_path), [], str(config.database), tmp_path, (), environment={}, reports=False
    )
    assert kinds(none) == {"no_data": True, "partial": False}
    assert none.said.headline == "no data: no op was attempted"
    skipped = delivered(config, tmp_path, 2, {"add": Op("not_run", {"a": 1}), "tanh": Op("not_run", {"b": 1})})
    assert kinds(skipped) == {"no_data": True}
    two = config_of(tmp_path, architectures=["n150", "p150"])
    night = night_of(two, 3, tmp_path, archs=("n150", "p150"))
    run = shard_run(tmp_path / "runs", night, 3, RIGHT)
    result = deliver(two, night, [run], str(two.database), tmp_path, (), environment={}, reports=False)
    assert kinds(result) == {"no_data": True, "partial": False, "failure": False, "regression": True}
    assert "no op was attempted on reference p150" in result.summary


def test_a_missing_shard_is_named_and_a_late_one_joins(tmp_path: Path) -> None:
    config = config_of(tmp_path, shards=2)
    night = night_of(config, 1, tmp_path)
    parts = []
    for shard, (ran, did_not_run) in enumerate((("add", "tanh"), ("tanh", "add")), 1):
        ops = {ran: Op(uses={"a": 1, "b": 1}), did_not_run: Op("skipped", {"a": 1, "b": 1})}
        origin = {"options": {"dtype": "float32", "seed": 0, "shard": f"{shard}/2"}}
        parts.append(shard_run(tmp_path / "runs", night, shard, ops, shard, origin=origin))
    result = deliver(config, night, parts[:1], str(config.database), tmp_path, (), environment={}, reports=False)
    assert kinds(result) == {"partial": False}
    assert "**partial**" in result.summary
    assert result.said.headline.startswith("partial: ")
    assert "missing shard 2" in result.summary
    whole = deliver(config, night, parts, str(config.database), tmp_path, (), environment={})
    assert (kinds(whole), whole.results[0].attempted) == ({}, 2)
    assert "partial" not in whole.summary
    page = (whole.path.parent / "report.html").read_text()
    assert night.label in page
    assert "report: `.opscope/nights/nightly-20261102-020000/report.html`" in whole.summary


def test_a_sweep_that_one_shard_did_not_get_to_is_missing(tmp_path: Path) -> None:
    """Both shards ran on n150, the second was killed before p150."""
    config = config_of(tmp_path, shards=2, architectures=["n150", "p150"])
    night = night_of(config, 1, tmp_path, archs=("n150", "p150"))
    runs = []
    for number, (arch, shard) in enumerate((("n150", 1), ("n150", 2), ("p150", 1)), 1):
        origin = {"options": {"dtype": "float32", "seed": 0, "shard": f"{shard}/2"}}
        ops = {"add": Op(uses={"a": 1, "b": 1})}
        runs.append(shard_run(tmp_path / "runs", night, number, ops, shard, arch=arch, origin=origin))
    result = deliver(config, night, runs, str(config.database), tmp_path, (), environment={}, reports=False)
    assert {series.series.split()[1]: series.missing for series in result.results} == {"n150": "", "p150": "shard 2"}


def test_a_database_that_is_away_costs_no_night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    database = tmp_path / "results.sqlite"
    config = config_of(tmp_path)
    delivered(config, tmp_path, 1, RIGHT)
    kept = database.read_bytes()
    database.unlink()
    database.mkdir()  # what stands in the way
    result = delivered(config, tmp_path, 2, RIGHT | {"add": Op("crashed", {"a": 2})})
    # It is still compared, by the folders here, and a regression still fails it.
    assert kinds(result) == {"regression": True, "failure": False, "spooled": False}
    assert "1 run waits in the spool" in result.summary
    assert "## NEW (1)" in result.summary
    assert result.results[0].previous == "night01"
    database.rmdir()
    database.write_bytes(kept)
    again = delivered(config, tmp_path, 3, RIGHT)
    assert again.delivered.from_spool == ("night02",)
    rows = ask(str(config.database), "SELECT night_id FROM nights ORDER BY night_id").rows
    assert [row[0] for row in rows] == [f"nightly-2026110{day}-020000" for day in (2, 3, 4)]
    assert again.results[0].diff is not None
    assert again.results[0].diff.counts["FIXED"] == 1


def test_a_database_that_takes_it_not_fails_the_night_and_says_why(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    newer = fresh(tmp_path / "newer.sqlite").removeprefix("sqlite:///")
    with sqlite3.connect(newer) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    other = config_of(tmp_path, database=f"sqlite:///{newer}")
    result = delivered(other, tmp_path, 1, RIGHT)
    assert kinds(result) == {"refused": True, "failure": False}
    assert "got schema 9999; it is set aside in" in result.summary
    assert "try a newer opscope; then opscope publish" in result.summary
    assert config.policy["refused"] == "fail"


def test_a_full_disk_takes_no_summary_and_changes_nothing_else() -> None:
    assert add_to_page_of_job("text", Path("/dev/full"), {}).startswith(
        "--summary: expected a file that can be written"
    )
    assert add_to_page_of_job("text", None, {}) == ""


def test_one_night_is_run_by_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "n.yaml").write_text("models: [mnist_mlp]\n")
    at = "2026-11-20T02:00:00+00:00"
    night = begin(read_config(Path("n.yaml")), tmp_path, datetime.fromisoformat(at))
    with (folder_of(tmp_path, night) / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="expected a night that is not running, got one that another process runs"):
            CliRunner().invoke(nightly, ["n.yaml", "--started", at], catch_exceptions=False)
