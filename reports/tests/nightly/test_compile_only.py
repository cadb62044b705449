"""Nights of compilers that end before `run`: what passes their last stage is right, for every verb and the database."""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path

import pytest

from opscope.base import stored
from opscope.base.statuses import EFFECTS, RIGHT, ending
from opscope.base.tests.captured import captured
from opscope.harness.record.run_folders import runs_root
from opscope.harness.record.store import load_run
from opscope.reports.compare import unblock
from opscope.reports.compare.diff import compare
from opscope.reports.compare.outcomes import from_folder
from opscope.reports.compare.readiness import history, newest_views
from opscope.reports.compare.run_selection import open_runs
from opscope.reports.database.ask import ask
from opscope.reports.database.database import open_database
from opscope.reports.database.rows import series_text
from opscope.reports.nightly.gate import SweepComparison, _gate_of
from opscope.reports.nightly.sweeps import Sweep
from opscope.reports.publish.publish import publish
from opscope.reports.records import quick_records
from opscope.reports.tests import stored_head
from opscope.reports.tests.night_runs import fresh
from opscope.reports.tests.nightly.nights_here import config_of, delivered
from opscope.reports.tests.nights import Op, night

NAMES = [f"op{number}" for number in range(24)]
GOOD = {name: Op("passed", {"a": 1, "b": 2}) for name in NAMES}
BROKEN = GOOD | {name: Op("compile_failed", {"a": 1, "b": 2}, error=f"no room for {name}") for name in NAMES[:6]}


def test_good_broken_repaired(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    results = [delivered(config, tmp_path, number, ops) for number, ops in enumerate((GOOD, BROKEN, GOOD))]
    assert [result.verdict.fails for result in results] == [False, True, False]
    assert [(result.said.headline, *result.said.chips) for result in results] == [
        ("nothing fails: 24 of 24 ops right", "first night"),
        ("6 new failures, 1 cause: start with op0, op1 and 4 more (2 models)",),
        ("nothing fails: 24 of 24 ops right", "6 fixed"),
    ]
    counts = [dict(series.diff.counts) for result in results for series in result.results if series.diff is not None]
    assert counts == [{"NEW": 6, "SAME": 18}, {"FIXED": 6, "SAME": 18}]
    assert not any(row.note for result in results[1:] for each in result.results if each.diff for row in each.diff.rows)
    rates = (
        "SELECT right_ops, attempted_ops, right_before FROM night_rates JOIN dashboard_pairs USING (night_id) WHERE "
    )
    rates += "scope = 'like for like' AND model = '' ORDER BY night_rates.night_id"
    assert ask(str(config.database), rates).rows == ((18, 24, 24), (24, 24, 18))


def test_the_gate_of_a_repair_passes_and_that_of_a_fault_does_not(tmp_path: Path) -> None:
    folders = [night(tmp_path, number, ops) for number, ops in enumerate((BROKEN, GOOD, BROKEN))]
    broken, good, again = map(from_folder, folders)
    for before, now, fails, words in ((broken, good, False, "nothing worse, 6 fixed"), (good, again, True, "6 worse")):
        sweep = SweepComparison(
            Sweep("mine.yaml", "n150", "", 0, 1), folders[0], before, compare(before, now), True, "24 ops ran"
        )
        gate = _gate_of([sweep], "night00", tmp_path, tmp_path)
        assert (gate.verdict.fails, gate.title) == (fails, f"gate against night00: {words}")


def test_everybody_agrees_on_which_models_are_whole(tmp_path: Path) -> None:
    ops = {status: Op(status, {status: 1, "all": 1}, error="so") for status in EFFECTS}
    ops |= {f"{status}.right": Op("success", {status: 1}) for status in EFFECTS}
    folder, url = night(tmp_path, 1, ops), f"sqlite:///{tmp_path}/db.sqlite"
    publish(folder, url)
    whole = set(RIGHT)
    assert whole == {"success", "passed"}
    view = from_folder(folder)
    assert {model for model in view.models if view.whole(model)} == whole
    plan = unblock.plan(dict.fromkeys(view.models, view))
    assert (set(plan.whole), set(plan.curve[0].unlocked)) == (whole, whole)
    assert {model for model in view.models if not unblock.missing(view, model)} == whole
    with open_runs(url) as runs:
        (stored,) = newest_views(runs)
        assert {model for model, view in stored.items() if view.whole(model)} == whole
        for model, of_model in stored.items():
            (row,) = history(runs, of_model, model)
            assert (row.right == row.ops) == (model in whole), model
    for query in (
        "SELECT model FROM model_readiness WHERE whole = 1",
        "SELECT model FROM dashboard_models WHERE whole = 1",
        "SELECT model FROM newest_ops GROUP BY model HAVING SUM(bad) = 0 AND SUM(1 - attempted) = 0",
    ):
        assert {model for (model,) in ask(url, query).rows} == whole, query
    ((first,),) = ask(url, "SELECT unlocked FROM night_unlock WHERE fixes = 0").rows
    assert set(str(first).split(", ")) == whole


def test_a_run_that_asked_for_less_is_compared_with_none_that_asked_for_more() -> None:
    whole, part, other = (series_text("tt", "n150", {"until": stage}) for stage in (None, "compile", "run"))
    assert (whole, len({whole, part, other})) == ("tt n150", 3)


def test_every_reader_of_a_record_says_how_its_op_ended(tmp_path: Path) -> None:
    """Also of a record that is older than this status: as an object, for the database, and in an older database."""
    folder = night(tmp_path, 1, {"add": Op("passed")})
    (journal,) = (folder / "journal").glob("*.jsonl")
    (line,) = journal.read_bytes().splitlines()
    assert b'"status":"passed"' in line
    older = stored.unsealed(line).replace(b'"passed"', b'"stopped"').replace(b'"success":true', b'"success":false')
    journal.write_bytes(stored.sealed(older) + b"\n")
    for test in (*load_run(folder).tests, *quick_records.journal(folder)):
        assert (test.status, test.success) == ("passed", True)
    url = fresh(tmp_path / "db.sqlite")
    publish(folder, url)
    asked = "SELECT status, success FROM op_tests"
    assert ask(url, asked).rows == (("passed", 1),)
    stored_head.extract("0035", tmp_path)
    url = f"sqlite:///{tmp_path}/{stored_head.SQLITE}"
    with sqlite3.connect(tmp_path / stored_head.SQLITE) as connection:
        connection.execute("DELETE FROM op_tests WHERE failed_stage IS NOT NULL")
        connection.execute("UPDATE op_tests SET status = 'stopped', success = 0")
    asked = "SELECT DISTINCT status, success FROM op_tests"
    with open_database(url):
        pass
    assert ask(url, asked).rows == (("passed", 1),)
    assert ending("stopped", "run", "none") == "stopped"
    assert ending("stopped", "run", "host") == ending("stopped", "link", "none") == "passed"


# --- two compilers, by the commands

MODEL = "func.func @main(%0: tensor<8x8xf32>) -> tensor<8x8xf32> {\n"
OPS = ("exponential", "log", "tanh", "sine", "cosine", "sqrt", "rsqrt", "negate", "abs", "floor", "ceil", "sign")
for place, word in enumerate(OPS):
    MODEL += f"  %{place + 1} = stablehlo.{word} %{place} : tensor<8x8xf32>\n"
MODEL += f"  return %{len(OPS)} : tensor<8x8xf32>\n}}\n"
SIX = "exponential log tanh sine cosine negate"

FILE = """
module: text
requires: ["{python}"]
fingerprint: [tool.py, broken]
stages:
  - {name: lower, command: ["{python}", -S, "{here}/tool.py", "{input}", "{output}"]}
  - {name: link, command: ["{python}", -S, "{here}/tool.py", "{input}", "{output}"]}
"""
TOOL = """
import pathlib, sys
here, text = pathlib.Path(__file__).parent, pathlib.Path(sys.argv[1]).read_text()
for word in (here / "broken").read_text().split():
    if f"stablehlo.{word} " in text:
        sys.exit(f"error: cannot lower {word}")
pathlib.Path(sys.argv[2]).write_text("object code")
"""
CLASS = """
from pathlib import Path
from opscope import Backend, Stage, StageError, Target

BROKEN = Path(__file__).parent / "broken"


class Mine(Backend):
    name = "mine"
    stages = (Stage("lower"), Stage("link"))

    def target(self, options):
        return Target(card_type="host", float_format=None, math_fidelity="exact")

    def fingerprint(self, options):
        return f"mine-{BROKEN.read_text()}"

    def available(self):
        return None

    def climb(self, stage, job):
        for word in sorted(BROKEN.read_text().split(), key=len, reverse=True):
            if word.encode() in job.module:
                raise StageError(f"cannot lower {word}")
"""
FILES = {"mine.yaml": FILE, "mine.py": CLASS}


def opscope(folder: Path, verb: str, *words: str) -> tuple[int, str]:
    module = ("pytest",) if verb == "pytest" else ("opscope.harness.cli.main", verb)
    command = [sys.executable, "-P", "-m", *module, *words]
    environment = os.environ | {"GITHUB_STEP_SUMMARY": ""}
    done = captured(command, cwd=folder, env=environment, timeout=600)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("backend", FILES)
def test_three_nights_by_the_commands(backend: str, tmp_path: Path) -> None:
    (tmp_path / "net.mlir").write_text(MODEL)
    (tmp_path / "tool.py").write_text(TOOL)
    (tmp_path / backend).write_text(FILES[backend])
    url = f"sqlite:///{tmp_path}/results.sqlite"
    (tmp_path / "night.yaml").write_text(f"models: [net.mlir]\nbackends: [{backend}]\ndatabase: {url}\nname: mine\n")
    codes, gates, said = [], [], ""
    for broken in ("", SIX, ""):
        (tmp_path / "broken").write_text(broken)
        if codes:
            code, said = opscope(tmp_path, "gate", "--config", "night.yaml", "--baseline", "mine")
            gates.append((code, "6 worse" in said, "6 fixed" in said))
        code, said = opscope(tmp_path, "nightly", "night.yaml", "--new")
        codes.append(code)
    assert codes == [0, 1, 0], said
    assert gates == [(1, True, False), (0, False, True)]
    labels = "SELECT night_id, label, COUNT(*) FROM night_diff GROUP BY night_id, label ORDER BY night_id"
    assert [row[1:] for row in ask(url, labels).rows] == [("NEW", 6), ("FIXED", 6)]
    verdicts = "SELECT status, COUNT(*) FROM night_ops GROUP BY status ORDER BY status"
    assert ask(url, verdicts).rows == (("compile_failed", 6), ("passed", 30))
    code, page = opscope(tmp_path, "pytest", "--model", "net.mlir", "--op-by-op", "--backend", backend, "--no-report")
    assert code == 0, page
    assert "cache: 12 of 12 verdicts come from earlier runs" in page
    assert "12 unique ops = 12 passed" in page
    assert len(list(runs_root(tmp_path).iterdir())) == 6
