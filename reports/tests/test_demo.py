"""The demo's nights: replayed from real runs, the same for the same seed, marked, and never mixed with real ones."""

from __future__ import annotations

import itertools
import json
import os
import shlex
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from opscope.harness.cli.main import main
from opscope.harness.record.ledger import ledger
from opscope.harness.record.stages import Stage, Status
from opscope.harness.record.store import load_run
from opscope.models.registry import names
from opscope.reports.commands import demo_mark
from opscope.reports.database.owners import owner
from opscope.reports.demo import recorded, replay, story
from opscope.reports.publish.publish import publish
from opscope.reports.tests.night_runs import fresh
from opscope.reports.tests.sample_run import make_run

LAST = datetime(2026, 11, 20, 2, tzinfo=UTC)


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folders of the last night."""
    folder = tmp_path_factory.mktemp("demo")
    (last,) = replay.nights(LAST, 0, 1)
    assert len(list(replay.write_night(folder, last))) == len(recorded.recorded_runs())
    return folder


def test_recorded_runs_are_small_and_right() -> None:
    assert recorded.FILE.stat().st_size < 1_000_000
    runs = recorded.recorded_runs()
    assert {run.record.backend for run in runs} == {"reference", "xla", "tt"}
    assert [run.name for run in runs if run.data_format] == ["reference-p150-Float16_b"]
    for run in runs:
        assert run.ops
        wrong = [row.op_name for row, kept in run.ops if kept["status"] != "success"]
        assert wrong == (["stablehlo.while"] if run.data_format else []), "what else fails is the story's"
        assert "/" not in json.dumps(run.record.origin.options)


@pytest.mark.slow
def test_the_runs_of_a_night_are_whole(night: Path) -> None:
    for source in recorded.recorded_runs():
        run = load_run(night / f"demo-20261120-{source.name}")
        assert ledger(run.header, run.rows, run.tests).adds_up
        assert len(run.tests) == len(run.rows) == len(source.ops)
        assert run.record.origin.ci_job == replay.MARK
        assert {test.config["note"] for test in run.tests} == {replay.MARK}


def test_numbers_have_their_z_and_wrong_ones_are_beyond_its_limit(night: Path) -> None:
    folders = [folder for folder in sorted(night.iterdir()) if "Float16_b" not in folder.name]
    tests = [test for folder in folders for test in load_run(folder).tests]
    measured = [test for test in tests if test.results and test.results[0].z_limit is not None]
    assert len(measured) > len(tests) / 3, "exact ops have none"
    for test in measured:
        check = test.results[0]
        assert (check.z_max > check.z_limit, check.question) == (not check.passed, "" if check.passed else "largest")
        largest = max(each.z_max for each in test.results if each.z_max is not None)
        assert (test.z_max, test.question) == (largest if check.passed else check.z_max, check.question)
    assert {test.status for test in measured} == {Status.SUCCESS, Status.WRONG_RESULT}


def test_the_line_that_runs_an_op_again_needs_no_run_folder(night: Path) -> None:
    """It names a model of the catalogue, which the demo's own folders do not have."""
    catalogue = set(names())
    for folder in sorted(night.iterdir()):
        run = load_run(folder)
        for test in run.tests:
            words = shlex.split(test.repro)
            assert words[words.index("--model") + 1] in catalogue
            assert words[words.index("--ops") + 1] == test.op_id
            assert words[words.index("--arch") + 1] == run.record.arch
            assert ("--backend" in words) == (run.record.backend != "reference")
            assert ("--data-format" in words) == bool(run.record.origin.options["data_format"])


def test_a_failed_op_has_a_log(night: Path) -> None:
    run_dir = night / "demo-20261120-reference-n150"
    failed = [test for test in load_run(run_dir).tests if test.error_message]
    assert failed
    for test in failed:
        text = (run_dir / str(test.artifact)).read_text()
        assert text.startswith(replay.MARK)
        assert str(test.error_message) in text
        assert test.failed_stage not in {stage.stage for stage in test.stages}


@pytest.mark.slow
def test_the_same_seed_tells_the_same_story(night: Path, tmp_path: Path) -> None:
    for seed, same in ((0, True), (1, False)):
        (last,) = replay.nights(LAST, seed, 1)
        next(iter(replay.write_night(tmp_path / str(seed), last)))
        name = "demo-20261120-reference-n150"
        ours, theirs = (load_run(folder / name).tests for folder in (night, tmp_path / str(seed)))
        assert (ours == theirs) is same


def test_every_episode_happens() -> None:
    """An episode that takes no op would be a line that nobody sees."""
    awaited = {episode.name for episode in story.EPISODES}
    for run, number in itertools.product(recorded.recorded_runs(), range(story.NIGHTS)):
        for row, _ in run.ops if awaited else ():
            episode = story.episode(row.op_name, row.op_id, number, run.record.backend, run.record.arch, 0)
            awaited -= {episode.name} if episode else set()
    assert not awaited


def test_models_arrive_and_are_missed() -> None:
    (run, *_) = recorded.recorded_runs()
    assert len(replay.present(0, run)) < len(replay.present(29, run)) == len(story.ARRIVALS)
    for (number, backend, arch), absent in story.ABSENT.items():
        (recorded_run,) = (
            run for run in recorded.recorded_runs() if (run.record.backend, run.record.arch) == (backend, arch)
        )
        assert set(absent) <= set(replay.present(number, recorded_run))


def test_statuses_are_possible() -> None:
    for episode in story.EPISODES:
        assert (episode.failed is Stage.COMPARE) == (episode.status is Status.WRONG_RESULT)
        assert bool(episode.error) == (episode.status is not None)


def test_demo_data_do_not_mix_with_real_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = fresh(tmp_path / "real.sqlite")
    publish(make_run(tmp_path / "run"), url)
    with pytest.raises(SystemExit) as end:
        main(["demo", "--to", url, "--runs", str(tmp_path / "runs"), "--nights", "1"])
    assert end.value.code == 2
    line = "opscope demo: --to: expected a database without real runs, got 1 night of yours in"
    assert capsys.readouterr().err.startswith(line)
    assert not (tmp_path / "runs").exists()


def test_every_team_has_failures_and_every_failure_a_team() -> None:
    ops = [f"stablehlo.{episode.op}" for episode in story.EPISODES if episode.status]
    stages = [str(episode.failed) for episode in story.EPISODES if episode.status]
    teams = [owner(story.OWNERS, [op], stage, "", ["resnet50"]) for op, stage in zip(ops, stages, strict=True)]
    assert {*teams, "triage"} == {rule.team for rule in story.OWNERS}


@pytest.mark.slow
def test_the_demo_names_owners(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path / 'opscope.sqlite'}"

    def says(*words: str) -> str:
        with pytest.raises(SystemExit) as end:
            main(list(words))
        expected = "".join(capsys.readouterr())
        assert not end.value.code, expected
        return expected

    hints = (
        says("demo", "--until", "2026-11-20", "--nights", "2", "--to", url)
        .partition("to look at them:\n")[2]
        .splitlines()
    )
    with closing(sqlite3.connect(tmp_path / "opscope.sqlite")) as problems:
        teams = dict(problems.execute("SELECT owner, COUNT(*) FROM night_failures GROUP BY owner").fetchall())
    assert set(teams) == {"convolutions", "lowering", "binary", "kernels", "numerics"}
    expected = {line.split()[1]: says(*line.split()[1:]) for line in hints if "dashboard" not in line}
    assert set(expected) == {"diff", "unblock", "report", "sql"}
    assert "9 models, 0 of them whole" in expected["unblock"]
    assert {"kernels", "lowering"} & set(expected["unblock"].split()) == {"kernels"}, "the last of them is one team's"
    [page] = tmp_path.glob("report-*.html")
    assert "owner binary" in page.read_text()


@pytest.mark.slow
def test_thirty_nights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(["demo", "--until", "2026-11-20"])
    assert not end.value.code
    assert "opscope dashboard up --db sqlite:///" in capsys.readouterr().out
    with closing(sqlite3.connect(tmp_path / ".opscope" / "demo" / "opscope.sqlite")) as problems:
        assert problems.execute("SELECT COUNT(DISTINCT started) FROM night_series").fetchone() == (30,)
        assert problems.execute("SELECT COUNT(*) FROM nights WHERE NOT demo").fetchone() == (0,)
        assert problems.execute("SELECT COUNT(*) FROM night_series WHERE status = 'partial'").fetchone() == (2,)
        labels = {row[0] for row in problems.execute("SELECT DISTINCT label FROM night_changes")}
        assert labels >= {"NEW", "FIXED", "PERSISTING", "REASON-CHANGED", "PCC-DROP", "SLOWER"}
        tests = problems.execute("SELECT COUNT(*) FROM op_tests").fetchone()
    with pytest.raises(SystemExit) as end:
        main(["demo", "--until", "2026-11-20", "--nights", "1"])  # again: the same rows
    assert not end.value.code
    with closing(sqlite3.connect(tmp_path / ".opscope" / "demo" / "opscope.sqlite")) as problems:
        assert problems.execute("SELECT COUNT(*) FROM op_tests").fetchone() == tests


def test_the_nights_of_tt_are_those_of_the_real_compiler(night: Path) -> None:
    """Nothing is made up about its ops: they are as the plugin compiled them when they were recorded."""
    (source,) = (run for run in recorded.recorded_runs() if run.record.backend == "tt")
    run = load_run(night / "demo-20261120-tt-n150")
    assert "tt: jax-tt-plugin 0.1.3, libtt.so sha256 " in run.record.origin.options["fingerprint"]
    assert run.record.origin.options["versions"]["tt"]["jax-tt-plugin"] == "0.1.3"
    kept = {row.op_id: fields for row, fields in source.ops}
    for test in run.tests:
        assert test.compiled_by.startswith("jax-tt-plugin 0.1.3, libtt.so sha256 ")
        assert (test.status, test.ran_on, test.pcc) == (
            kept[test.op_id]["status"],
            "simulator",
            kept[test.op_id].get("pcc"),
        )
    assert {words for test in run.tests for words in test.narrowed} == {"f32 -> bf16 at ttnn.max_pool2d"}


def test_a_database_whose_name_is_no_text_is_no_demo(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.sqlite")
    path.touch()
    assert not demo_mark.is_demo(f"sqlite:///{path}")
