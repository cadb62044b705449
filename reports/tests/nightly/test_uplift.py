"""`opscope gate --old A --new B`: what a new build of a compiler changes, as data, as a comment, in a pull request."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import fields, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from opscope.base.places import HOME
from opscope.base.yaml_text import read_yaml
from opscope.harness.cache import package_index
from opscope.harness.cli.main import root as opscope
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import WHOLE_MODEL, ResultCheck
from opscope.harness.record.store import RUN_FILE, load_run
from opscope.harness.tests.own_backend import own_backend
from opscope.harness.triage.reading import read_measure
from opscope.reports.compare.diff import Row
from opscope.reports.compare.lowered_differently import Group, Place
from opscope.reports.nightly import pull_request, uplift_comment
from opscope.reports.nightly.builds import Source, between
from opscope.reports.nightly.uplift import WRONG_IN_BOTH, Asked, Build, Model, Uplift, numbers_of
from opscope.reports.nightly.uplift_leads import Lead, leads_of, measure_of
from opscope.reports.tests.nights import Op, night

MODEL = """func.func @main(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = stablehlo.multiply %a, %b : tensor<4x4xf32>
  %1 = stablehlo.add %0, %b : tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}
"""
CLIMB = """
import numpy as np
if stage is Stage.COMPILE:
    whole = b"add" in job.module and b"multiply" in job.module
    if job.ir_dir is not None:
        (job.ir_dir / "my.mlir").write_text(FUSED if whole and FUSES else APART if whole else ALONE)
    job.state["whole"] = whole
    return
a, b = job.inputs
together = (a * b) + b if job.state["whole"] else a * b if b"multiply" in job.module else a + b
job.outputs, job.ran_on = [together.astype(np.float32) + np.float32(SHIFT)], "simulator"
job.cycles = 1000 if FUSES else 1500
"""
TOP = """
FUSES, SHIFT = {fuses}, {shift}
HEAD = "func.func @main(%a: f32, %b: f32) -> f32 {{\\n"
FUSED = HEAD + '%0 = "my.fma"(%a, %b) : (f32, f32) -> f32\\nreturn %0 : f32\\n}}'
MUL, ADD = '%0 = "my.mul"(%a, %b) : (f32, f32) -> f32\\n', '%1 = "my.add"(%0, %b) : (f32, f32) -> f32\\n'
APART = HEAD + MUL + ADD + "return %1 : f32\\n}}"
ALONE = HEAD + '%0 = "my.op"(%a, %b) : (f32, f32) -> f32\\nreturn %0 : f32\\n}}'
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model and builds of a compiler: one that fuses, one that does not, one with other digits."""
    (tmp_path / "m.mlir").write_text(MODEL, encoding="utf-8")
    for name, fuses, shift in (("fusing", True, 0), ("apart", False, 0), ("digits", True, 1e-7), ("wrong", True, 9)):
        source = own_backend(name, CLIMB, at="host", top=TOP.format(fuses=fuses, shift=shift))
        (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def gate(*words: str, code: int) -> str:
    done = CliRunner().invoke(opscope, ["gate", "--model", "m.mlir", *words])
    assert (done.exit_code, isinstance(done.exception, SystemExit | None)) == (code, True), repr(done.exception)
    return done.stdout


@pytest.mark.slow
def test_a_lost_fusion_is_named_with_its_counts_and_its_price(place: Path) -> None:
    answer = json.loads(gate("--old", "fusing.py", "--new", "apart.py", "--json", code=1))
    assert answer["verdict"] == "worse"
    assert answer["worse"] == ["m: cycles 1,000 -> 1,500 (+50.00 %)"]
    [change] = answer["changes"]
    assert change["what"] == "my.add +1, my.fma -1, my.mul +1"
    [where] = change["places"]
    assert where["name"] == "m"
    assert where["counts"] == {"my.add": [0, 1], "my.fma": [1, 0], "my.mul": [0, 1]}
    assert (where["cycles"], where["priced_by"]) == ([1000, 1500], "run")
    [model] = answer["models"]
    assert (model["numbers"], model["equal"], model["launches"]) == ("equal bits", False, [1, 2])
    (place / "ci").mkdir()
    (place / "ci" / "owners.yaml").write_text("owners: [{team: fusion, op: my.*}]\n", encoding="utf-8")
    text = gate("--old", "apart.py", "--new", "fusing.py", "--no-smallest", "--commits", "abc12..def34", code=0)
    assert "| fusion |" in text
    assert "commits abc12..def34" in text
    assert text.startswith(uplift_comment.MARK)
    assert "1 faster" in text
    assert "my.mul 1→0" in text
    assert gate("--old", "fusing.py", "--new", "apart.py", "--slower", "60", "--no-smallest", code=0)


COUNTED = """

    def structure(self, job):
        return {counts}
"""
DECLINES = """
from opscope.harness.backends.base import Declined
if stage is Stage.COMPILE{only}:
    raise Declined("one op at a time")
"""


@pytest.mark.slow
def test_a_backend_that_counts_its_ops_needs_no_ir(place: Path) -> None:
    climb = CLIMB.replace("if job.ir_dir is not None:", "if False:")
    for name, fuses, counts in (("one", True, {"fma": 1}), ("two", False, {"add": 1, "mul": 1})):
        text = own_backend(name, climb, at="host", top=TOP.format(fuses=fuses, shift=0))
        (place / f"{name}.py").write_text(text + COUNTED.format(counts=counts), encoding="utf-8")
    answer = json.loads(gate("--old", "one.py", "--new", "two.py", "--no-smallest", "--json", code=1))
    [change] = answer["changes"]
    assert change["what"] == "add +1, fma -1, mul +1"
    [where] = change["places"]
    assert (where["counts"], where["cycles"]) == ({"add": [0, 1], "fma": [1, 0], "mul": [0, 1]}, [1000, 1500])
    answer = json.loads(gate("--old", "one.py", "--new", "one.py", "--no-smallest", "--json", code=0))
    assert (answer["compared"], answer["changes"], answer["models"][0]["equal"]) == (1, [], True)


@pytest.mark.slow
def test_a_model_that_is_not_taken_whole_is_compared_op_by_op_or_not_at_all(place: Path) -> None:
    sides = (("split_a", 0, DECLINES.format(only=" and b'multiply' in job.module and b'add' in job.module")),)
    sides += (("split_b", 9, sides[0][2]), ("never", 0, DECLINES.format(only="")))
    for name, shift, declines in sides:
        text = own_backend(name, declines + CLIMB, at="host", top=TOP.format(fuses=True, shift=shift))
        (place / f"{name}.py").write_text(text, encoding="utf-8")
    answer = json.loads(gate("--old", "split_a.py", "--new", "split_a.py", "--no-smallest", "--json", code=0))
    assert (answer["compared"], answer["models"][0]["equal"]) == (2, None)
    assert answer["skipped"] == ["m as one program: split_a: one op at a time"]
    answer = json.loads(gate("--old", "split_a.py", "--new", "split_b.py", "--no-smallest", "--json", code=1))
    assert {row["label"] for row in answer["news"]} == {"NEW"}
    done = CliRunner().invoke(opscope, ["gate", "--model", "m.mlir", "--old", "never.py", "--new", "never.py"])
    assert isinstance(done.exception, InputError)
    assert "a program that both builds made" in str(done.exception)


@pytest.mark.parametrize(
    ("name", "asked", "words"),
    [
        ("m", ("m.mlir", "bert_base"), ["m.mlir"]),
        ("bert_base", ("m.mlir", "bert_*"), ["bert_base"]),
        ("bert_base", ("all",), ["bert_base"]),
        ("m.net", ("m.py:net", "bert_base"), ["m.py:net"]),
        ("own", ("bert_base", "own=m.mlir"), ["own=m.mlir"]),
    ],
)
def test_a_changed_model_is_asked_for_as_before(
    place: Path, name: str, asked: tuple[str, ...], words: list[str]
) -> None:
    side = Source("a", "a")
    gate_of = Asked(side, side, asked, "n150", 1, {}, slower=1.0, smallest=True, reduce=0.0, root=place)
    assert gate_of.words_for(name) == words


@pytest.fixture
def commits(place: Path) -> tuple[str, ...]:
    """Words for a repository of which a command makes, at two commits, the compiler that fuses, and then the other."""
    repo = place / "compiler"
    repo.mkdir()
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(repo)]
    subprocess.run([*git, "init", "-q"], check=True)
    source = own_backend("own", CLIMB, at="host", top="from mylib import ALONE, APART, FUSED, FUSES, SHIFT")
    for name, fuses in (("fusing", True), ("a comment", True), ("apart", False)):
        (repo / "own.in").write_text(f"{source}# {name}\n", encoding="utf-8")
        (repo / "mylib.py").write_text(TOP.format(fuses=fuses, shift=0), encoding="utf-8")
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-qm", name], check=True)
    return "--repo", str(repo), "--old", "HEAD~2", "--new", "HEAD", "--backend", "out/own.py"


@pytest.mark.slow
def test_two_commits_of_ones_own_compiler_are_built_and_compared(place: Path, commits: tuple[str, ...]) -> None:
    build = ("--build", "mkdir out && cp own.in out/own.py")
    answer = json.loads(gate(*commits, *build, "--no-smallest", "--json", code=1))
    assert answer["worse"] == ["m: cycles 1,000 -> 1,500 (+50.00 %)"]
    assert [answer[side]["name"] for side in ("old", "new")] == ["own@HEAD~2", "own@HEAD"]
    log = subprocess.run(["git", "log", "--format=%H"], cwd=place / "compiler", capture_output=True, check=True)
    new, _, old = (commit[:12].decode() for commit in log.stdout.split())
    assert answer["commits"] == f"{old}..{new}", "HEAD is another tomorrow"
    assert [change["what"] for change in answer["changes"]] == ["my.add +1, my.fma -1, my.mul +1"]
    listed = subprocess.run(["git", "worktree", "list"], cwd=place / "compiler", capture_output=True, check=True)
    assert listed.stdout.count(b"\n") == 1, "the worktrees are gone"


def test_the_commits_of_a_build_in_a_checkout_are_those_since_the_histories_part(
    place: Path, commits: tuple[str, ...]
) -> None:
    repo = place / "compiler"
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(repo)]
    subprocess.run([*git, "checkout", "-q", "-b", "side", "HEAD~1"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "side"], check=True)
    subprocess.run([*git, "tag", "last", "HEAD~1"], check=True)
    (repo / "own.py").write_text("", encoding="utf-8")

    def found(backend: str, both: str) -> tuple[list[str], tuple[str, str] | None] | None:
        at = between(repo, "", "make", both, Source("own", backend))
        return at and (at.words, at.ends)

    words = ["--repo", str(repo), "--backend", "own.py", "--build", "make"]
    assert found(str(repo / "own.py"), "last..side") == (words, ("last", "side"))
    base = subprocess.run([*git, "rev-parse", "last"], capture_output=True, text=True, check=True).stdout[:12]
    assert found(str(repo / "own.py"), "side@{0}..side") == (words, None), "one commit"
    [other] = (
        subprocess.run([*git, "branch", "--format=%(refname:short)"], capture_output=True, text=True, check=True)
        .stdout.replace("side", "")
        .split()
    )
    assert found(str(repo / "own.py"), f"{other}..side") == (words, (base, "side"))
    assert found(str(repo / "own.py"), "side..last") == (words, None), "backwards there is nothing"
    assert found(str(repo / "own.py"), "nobody..knows") == (words, None)
    assert found(str(place / "apart.py"), "last..side") is None
    assert found("tt@0.1.3", "last..side") is None


@pytest.mark.parametrize(
    ("old", "new", "between", "line"),
    [
        (
            "tt@0.1.0",
            "tt@0.1.3",
            ("0.1.1", "0.1.2"),
            "--backend tt@0.1.0..0.1.3 --model net --arch p150 --workflow full",
        ),
        ("tt@0.1.2", "tt@0.1.3", (), ""),
        ("tt@0.1.3", "tt@0.1.0", None, ""),
        ("tt@0.1.0", "xla@0.1.3", None, ""),
        ("tt@a-0.1.0-py3-none-any.whl", "tt@0.1.3", None, ""),
        ("apart.py", "wrong.py", None, ""),
    ],
)
def test_of_releases_the_release_is_looked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, old: str, new: str, between: tuple[str, ...] | None, line: str
) -> None:
    monkeypatch.setattr(package_index, "known_releases", lambda *_: ["0.1.0", "0.1.1", "0.1.2", "0.1.3", "0.1.4"])
    ops = {
        "1" * 16: SimpleNamespace(op_name=WHOLE_MODEL, uses_of={"net": 1}),
        "2" * 16: SimpleNamespace(op_name="stablehlo.add", uses_of={"suite:ops": 1}),
    }
    view, folder = SimpleNamespace(ops=ops), tmp_path / "runs" / "new"
    tests = {"2" * 16: SimpleNamespace(status="compile_failed", failed_stage="compile")}
    pair: Any = SimpleNamespace(views=(view, view), tests=({}, tests), folders=(folder, folder))
    sides = Source(old, old), Source(new, new)
    asked = Asked(*sides, ("net", "suite:ops"), "p150", 1, {}, slower=1, smallest=True, reduce=0, root=tmp_path)
    place = Place("net", "1" * 16, 1, {"my.add": (6, 9)}, {}, None, "")
    group = Group("my.add +3", ("1" * 16,), "", "", "ops", (place,), "1", "1" * 16)
    [failing] = uplift(0, 0, 1).news
    failing = replace(failing, op_id="2" * 16)
    found = replace(uplift(0, 0, 0), changes=(group,), news=(failing,), models=(), commits="")
    leads, releases = leads_of(asked, tmp_path, found, (pair, None), print)
    history = f"opscope history {line}" if line else ""
    assert (leads["my.add +3"].bisect, releases) == (history, between)
    failed = history.replace("net", "suite:ops").replace("--workflow full", "--bisect")
    assert leads["2" * 16].bisect == failed, "of what fails the releases are halved"
    text = uplift_comment.text(replace(found, leads=leads, between=releases))
    assert [text.count(f"`{each}`") for each in (history, failed) if each] == [1, 1][: 2 * bool(between)], "not in rows"
    assert "; neither build names its commit (`--commits OLD..NEW` does)" in text
    number = {None: "", (): "no release between;"}.get(between, "2 releases between (`opscope history")
    assert f", {number}" in text
    assert "names its commit" not in uplift_comment.text(replace(found, leads=leads, commits="1..2"))


def pasted(line: str, code: int = 0) -> str:
    """What a line prints that a comment has."""
    command = [sys.executable, "-P", "-m", "opscope.harness.cli.main", *shlex.split(line)[1:]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_change_is_followed_to_its_module_and_its_commit(place: Path, commits: tuple[str, ...]) -> None:
    build = ("--build", "mkdir -p out && cp own.in out/own.py")
    text = gate(*commits, *build, code=1)
    new = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=place / "compiler", capture_output=True, text=True, check=True
    )
    assert "`window:add f32[4,4], f32[4,4]: 48 of 48 elements`" in text
    assert "%1 = stablehlo.add %0, %arg1" in text
    [found] = re.findall("`(opscope bisect .*?)`", text)
    assert "--on 'count(my.add) > 0'" in found
    assert f"the first bad commit:\n{new.stdout[:7]}" in pasted(found)
    [longer] = re.findall("`(opscope gate .*?)`", text)
    assert longer.endswith("--model m.mlir --reduce 10m")
    assert "HEAD" not in longer, "it is another tomorrow"
    again = pasted(longer, code=1)
    assert "`window:add f32[4,4], f32[4,4]: 48 of 48 elements`" in again
    assert found in again


@pytest.mark.slow
def test_a_change_of_builds_that_stay_is_made_smaller_by_the_line_of_the_comment(place: Path) -> None:
    answer = json.loads(gate("--old", "fusing.py", "--new", "apart.py", "--json", code=1))
    [lead] = answer["leads"].values()
    assert (lead["after"], lead["elements"], lead["complete"]) == ("window:add f32[4,4], f32[4,4]", [48, 48], True)
    assert (Path(lead["folder"]) / "module.mlir").read_text(encoding="utf-8") == lead["module"]
    assert lead["module"] in pasted(lead["reduce"])
    assert not lead["bisect"], "of no commits"
    better = json.loads(gate("--old", "apart.py", "--new", "fusing.py", "--json", code=0))
    assert [lead["elements"] for lead in better["leads"].values()] == [[48, 48]]
    answer = json.loads(gate("--old", "apart.py", "--new", "wrong.py", "--json", "--reduce", "0", code=1))
    assert not any(lead["module"] or lead["why"] for lead in answer["leads"].values())
    failed = next(lead for lead in answer["leads"].values() if "--against" not in lead["reduce"])
    assert "stablehlo." in pasted(failed["reduce"])


@pytest.mark.parametrize(
    ("counts", "layouts", "cycles", "measure"),
    [
        ({"ahead my.full": (1, 2), "my.add": (6, 0)}, {}, None, "count(my.add) < 6"),
        ({"my.add": (0, 6)}, {}, (5, 9), "count(my.add) > 0"),
        ({"fused my.dot relu": (4, 0)}, {}, (5, 9), "cycles > 5"),
        ({}, {"my.norm l1 width_sharded": (8, 7)}, (5, 9), "count(my.norm, l1 width_sharded) < 8"),
        ({}, {}, (9, 5), "cycles < 9"),
        ({}, {}, (5, 5), "structure"),
    ],
)
def test_the_measure_tells_the_builds_apart(counts: Any, layouts: Any, cycles: Any, measure: str) -> None:
    assert measure_of(Place("net", "0" * 16, 1, counts, layouts, cycles, "run")) == measure
    assert read_measure(measure).text == measure
    alone = measure_of(Place("add", "0" * 16, 1, counts, layouts, cycles, "run"), alone=True)
    assert alone == (measure if measure.startswith("cycles") else "cycles > 5" if cycles == (5, 9) else None)


@pytest.mark.parametrize(
    ("build", "said"),
    [
        ("echo no compiler; false", "--old HEAD~2: expected a revision that can be built, got no compiler; try echo"),
        ("true", "--old HEAD~2: expected --backend out/own.py in it, got none; try --build"),
    ],
)
def test_a_commit_that_cannot_be_built_is_named(place: Path, commits: tuple[str, ...], build: str, said: str) -> None:
    done = CliRunner().invoke(opscope, ["gate", "--model", "m.mlir", *commits, "--build", build])
    assert isinstance(done.exception, InputError)
    assert str(done.exception).startswith(said)
    assert not list(place.glob(".opscope/runs/*"))


@pytest.mark.slow
def test_a_build_against_itself_differs_in_nothing_and_digits_are_seen(place: Path) -> None:
    answer = json.loads(gate("--old", "fusing.py", "--new", "fusing.py", "--json", code=0))
    assert (answer["changes"], answer["worse"], answer["op_changes"]) == ([], [], [])
    assert answer["compared"] == 1
    answer = json.loads(gate("--old", "fusing.py", "--new", "digits.py", "--json", code=0))
    [model] = answer["models"]
    assert model["numbers"] in ("within", "worse")
    assert "relative L2" in model["reason"]
    answer = json.loads(gate("--old", "fusing.py", "--new", "wrong.py", "--json", code=1))
    assert [row["label"] for row in answer["news"]] == ["NEW"]
    assert answer["models"][0]["numbers"] == "wrong"


@pytest.mark.slow
def test_a_build_that_a_gate_has_run_is_kept_but_for_itself(place: Path) -> None:
    words = ("--old", "fusing.py", "--new", "apart.py", "--no-smallest", "--json")
    first, second = (json.loads(gate(*words, code=1)) for _ in range(2))
    assert (first["changes"], first["models"]) == (second["changes"], second["models"]), "the IR is kept too"
    gate("--old", "fusing.py", "--new", "fusing.py", "--no-smallest", code=0)
    runs = sorted((place / ".opscope" / "runs").glob("*-gate-*"), key=lambda run: (run / RUN_FILE).stat().st_mtime_ns)
    kept = [all(test.cached_from for test in load_run(run).tests) for run in runs]
    assert kept == [False, False, True, True, True, False]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--old", "fusing.py"), "--new: expected --old, --new and --model, got no --new"),
        (("--old", "not_there", "--new", "fusing.py"), "not_there"),
        (("--optimization-level", "1"), "--optimization-level: expected --old and --new, got neither"),
        (("--old", "fusing.py", "--new", "apart.py", *("--system-desc", "a") * 3), "--system-desc: expected one file"),
        (
            ("--old", "fusing.py", "--new", "apart.py", "--build", "make"),
            "--build: expected --backend PATH or --commits with it",
        ),
        (("--old", "fusing.py", "--new", "apart.py", "--comment"), "a CI job of a pull or merge request"),
    ],
)
def test_what_cannot_be_compared_is_one_line(
    place: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    for name in ("CI_API_V4_URL", "GITHUB_API_URL", "GITHUB_REPOSITORY", "GITHUB_EVENT_PATH"):
        monkeypatch.delenv(name, raising=False)
    done = CliRunner().invoke(opscope, ["gate", "--model", "m.mlir", *words])
    assert isinstance(done.exception, InputError)
    assert said in f"{done.exception} {done.output}"


@pytest.mark.slow
@pytest.mark.parametrize("sides", [("fusing", "gone"), ("gone", "fusing")])
def test_a_build_that_cannot_be_loaded_is_no_worse_one(place: Path, sides: tuple[str, str]) -> None:
    source = own_backend("gone", 'raise StageError("gone cannot be loaded: no such symbol")', at="host")
    (place / "gone.py").write_text(source, encoding="utf-8")
    words = [word for flag, name in zip(("--old", "--new"), sides, strict=True) for word in (flag, f"{name}.py")]
    done = CliRunner().invoke(opscope, ["gate", "--model", "m.mlir", *words])
    said = "opscope gate: gone.py: expected a build that can be loaded, got gone cannot be loaded: no such symbol; try"
    assert isinstance(done.exception, InputError), done.output
    assert str(done.exception).startswith(said)


WITHOUT_BIAS = """
from opscope.harness.backends.reference import Reference


class Own(Reference):
    name = "without_bias"

    def climb(self, stage, job):
        from opscope.compiler.passes.ttir_fusing.matching import RULES

        for name, rules in RULES.items():
            RULES[name] = [rule for rule in rules if rule.__name__ != "bias"]
        super().climb(stage, job)
"""


@pytest.mark.slow
def test_a_rule_taken_out_of_the_compiler_is_named_in_a_whole_model(place: Path) -> None:
    (place / "without_bias.py").write_text(WITHOUT_BIAS, encoding="utf-8")
    builds = ("--old", "reference", "--new", "without_bias.py", "--optimization-level", "1")
    done = CliRunner().invoke(opscope, ["gate", "--model", "mnist_mlp", *builds, "--json", "--no-smallest"])
    answer = json.loads(done.stdout)
    [model] = answer["models"]
    assert model["cycles"][1] > model["cycles"][0]
    counts = {name: tuple(both) for each in answer["changes"] for name, both in each["places"][0]["counts"].items()}
    assert counts["ttnn.linear"][1] == 0 < counts["ttnn.linear"][0]
    assert counts["ttnn.matmul"] == counts["ttnn.linear"][::-1]
    assert done.exit_code == int(model["cycles"][1] > model["cycles"][0] * 1.01)


# --- numbers


def check(**more: Any) -> ResultCheck:
    values = {"passed": True, "pcc": 1.0, "relative_l2": 1e-3, "max_abs": 0.1, "tolerance": "bf16", "digest": "a"}
    return ResultCheck(**{**values, **more})


@pytest.mark.parametrize(
    ("before", "now", "status", "what"),
    [
        (check(), check(), "success", "equal bits"),
        (check(), check(digest="b"), "success", "within"),
        (check(), check(digest="b", relative_l2=2e-3), "success", "worse"),
        (check(), check(digest="b", relative_l2=5e-4), "success", "better"),
        (check(digest=""), check(digest=""), "success", ""),
        (check(), check(digest="b", passed=False), "wrong_result", "wrong"),
    ],
)
def test_numbers_that_changed(tmp_path: Path, before: ResultCheck, now: ResultCheck, status: str, what: str) -> None:
    tests = []
    for number, (result, own) in enumerate(((before, "success"), (now, status))):
        run = night(tmp_path, number, {"add": Op(own, more={"results": (result,)})})
        tests += load_run(run).tests
    assert numbers_of(tests[0], tests[1])[0] == what


# --- the comment

EVIL = "<b>@team</b> | `x` [a](http://b) \n # head\n/close"


def uplift(models: int, changes: int, others: int) -> Uplift:
    """An uplift of so many of everything, whose texts try to be markup."""
    whole = tuple(
        Model(
            f"{EVIL} {n}",
            f"{n:016x}",
            ("success",) * 2,
            False,
            (100, 90 + n),
            9.2,
            (3, 4),
            (1, 2),
            {EVIL: (1, 2), "peak of DRAM bytes": (1, 2)},
            (1.0, None),
            "worse",
            EVIL,
        )
        for n in range(models)
    )
    groups = tuple(
        Group(
            EVIL,
            ("0" * 16,),
            EVIL,
            "opscope reduce",
            "ops",
            tuple(Place(EVIL, "0" * 16, 1, {EVIL: (6, 0)}, {EVIL: (0, 6)}, (100, 50), "run") for _ in range(n + 1)),
            str(n),
            "0" * 16,
        )
        for n in range(changes)
    )
    lines = tuple(f"{EVIL} {n}" for n in range(others))
    evil: dict[str, Any] = {each.name: EVIL for each in fields(Row)}
    failing = Row(**evil | {"models": (EVIL,)})
    build = Build(f"tt@{EVIL}", EVIL)
    return Uplift(
        build,
        build,
        "n150",
        {"shape": EVIL},
        lines,
        whole,
        groups,
        whole[:others],
        tuple(replace(group, alike=f"alone {group.alike}") for group in groups),
        (failing,) * others,
        (failing,) * others,
        9,
        1,
        lines,
        lines,
        {"a": 1.0},
        EVIL,
        {},
        {
            str(n): Lead(EVIL, EVIL, EVIL, EVIL, (9, 1), f"{EVIL}\n```\n@team\n" * (n % 4), EVIL, why=EVIL)
            for n in range(changes)
        },
    )


@pytest.mark.parametrize(("models", "changes", "others"), [(0, 0, 0), (1, 1, 1), (9, 9, 9), (80, 80, 80)])
def test_a_comment_has_sixty_lines_at_most_and_no_text_of_others_acts(models: int, changes: int, others: int) -> None:
    text = uplift_comment.text(uplift(models, changes, others))
    assert len(text.splitlines()) <= uplift_comment.MOST_LINES
    text = re.sub(r"^(`{3,})mlir$.*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)  # what is code acts as nothing
    text = re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", text)
    assert "<b>" not in text
    assert "@team" not in text
    assert not re.search(r"(?<!\\)\]\(", text)
    assert not [line for line in text.splitlines() if line.startswith(("# ", "/"))]
    assert text.startswith(f"{uplift_comment.MARK}\n### ")


def test_the_title_can_be_pasted() -> None:
    plain = replace(uplift(0, 0, 0), old=Build("tt@0.1.2", ""), new=Build("tt@0.1.3", ""))
    assert uplift_comment.title(plain) == "🟢 `tt@0.1.2` → `tt@0.1.3`: nothing fails anew, numbers unchanged"


def test_how_much_was_compared_and_what_became_of_the_numbers() -> None:
    [slower] = uplift(1, 0, 0).models
    within, better = (replace(slower, equal=False, numbers=word) for word in ("within", "better"))
    same = replace(slower, equal=True, numbers="equal bits", cycles=None)
    some = replace(uplift(0, 0, 0), models=(within, same), ops=(within, better, same), compared=9)
    text = uplift_comment.text(some)
    assert "numbers changed: 2 within the error model, 1 better" in text
    assert "1 of 2 models lower differently · 2 of 7 single ops lower differently" in text
    assert "0 of 9 single ops" in uplift_comment.text(replace(some, models=(), ops=()))


def test_a_price_that_is_not_known_is_not_none() -> None:
    base = uplift(1, 0, 0)
    place = Place("net", "0" * 16, 1, {"my.add": (1, 2)}, {}, None, "")
    group = Group("my.add +1", ("0" * 16,), "", "", "ops", (place,), "1", "")
    both = place, replace(place, cycles=(5, 5), priced_by="run")
    comments = [uplift_comment.text(replace(base, changes=(replace(group, places=(each,)),))) for each in both]
    assert ["| not known |" in text for text in comments] == [True, False]
    assert ["| 0 |" in text for text in comments] == [False, True]
    net = replace(base.models[0], name="net", cycles=(100, 160))
    priced = replace(group, what="my.mul -1", places=(replace(place, cycles=(9, 5), priced_by="kernels"),))
    some = replace(base, models=(*base.models, net), changes=(group, replace(group, what="my.div +1"), priced))
    assert uplift_comment.text(some).count("| +64 with 1 other |") == 2, "60 in all, 4 less by the one that is known"
    assert "| 🔴 my.add +1 |" in uplift_comment.text(some)
    assert "| +64 |" in uplift_comment.text(replace(some, changes=(group, priced)))
    none = replace(base, models=tuple(replace(each, cycles=None) for each in base.models))
    assert "not known" not in uplift_comment.text(replace(none, changes=(group,)))


def test_what_is_worse_stands_first() -> None:
    base = uplift(1, 2, 1)
    better, dearer = base.changes
    dearer = replace(dearer, what="my.add +1", places=(replace(dearer.places[0], cycles=(5, 9)),))
    some = replace(base, changes=(*(better,) * 20, dearer), worse=("add: NEW", "net: cycles 5 -> 9 (+80.00 %)"))
    text = uplift_comment.text(some)
    assert text.index("my.add +1") < text.index("🟢")
    assert "**🔴 costs more (1)**\n- net: cycles 5 -&gt; 9 (+80.00 %)\n" in text
    assert "add: NEW" not in text


def test_what_is_wrong_in_both_is_said_and_is_no_change() -> None:
    [model] = uplift(1, 0, 0).models
    wrong = replace(model, name="net", numbers=WRONG_IN_BOTH, reason="by 128 ulp")
    text = uplift_comment.text(replace(uplift(0, 0, 0), models=(wrong,)))
    assert "**still wrong (1)**\n- net: by 128 ulp\n" in text
    assert "numbers unchanged" in text


class Server(BaseHTTPRequestHandler):
    """Comments as GitHub and GitLab keep them: 100 a page."""

    comments: dict[int, str]
    calls: list[str]
    refuses: bool
    wbufsize = -1  # an answer in one packet: for a second one the first is acknowledged late

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self, value: object, code: int = 200) -> None:
        content = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self) -> None:
        page = int(self.path.rpartition("page=")[2])
        found = [{"id": number, "body": body} for number, body in self.comments.items()]
        self._answer(found[(page - 1) * 100 : page * 100])

    def _take(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"]
        assert self.headers.get("Authorization") == "Bearer secret" or self.headers.get("PRIVATE-TOKEN") == "secret"
        self.calls.append(f"{self.command} {self.path}")
        if self.refuses:
            self._answer({}, 403)
            return
        number = len(self.comments) + 1 if self.command == "POST" else int(self.path.rpartition("/")[2])
        self.comments[number] = body
        self._answer({"id": number})

    do_POST = do_PATCH = do_PUT = _take  # noqa: N815


@pytest.fixture
def server() -> Iterator[tuple[str, type[Server]]]:
    """A server on this machine with 150 comments of others."""
    kind = type("OfTest", (Server,), {"comments": dict.fromkeys(range(1, 151), "hello"), "calls": [], "refuses": False})
    running = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{running.server_address[1]}", kind
    running.shutdown()
    running.server_close()


def environment(name: str, url: str, folder: Path) -> dict[str, str]:
    if name == "gitlab":
        return {"CI_API_V4_URL": url, "CI_PROJECT_ID": "7", "CI_MERGE_REQUEST_IID": "9", "GITLAB_TOKEN": "secret"}
    event = folder / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 9}}), encoding="utf-8")
    more = {"GITHUB_REPOSITORY": "a/b", "GITHUB_EVENT_PATH": str(event), "GITHUB_TOKEN": "secret"}
    return {"GITHUB_API_URL": url, **more}


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        ("github", ["POST /repos/a/b/issues/9/comments", "PATCH /repos/a/b/issues/comments/151"]),
        ("gitlab", ["POST /projects/7/merge_requests/9/notes", "PUT /projects/7/merge_requests/9/notes/151"]),
    ],
)
def test_a_comment_is_changed_in_place(
    name: str, calls: list[str], server: tuple[str, type[Server]], tmp_path: Path
) -> None:
    url, kind = server
    where = pull_request.place(environment(name, url, tmp_path))
    for text in ("one", "two"):
        pull_request.write(where, f"{uplift_comment.MARK}\n{text}")
    assert kind.calls == calls
    assert kind.comments[151] == f"{uplift_comment.MARK}\ntwo"
    assert len(kind.comments) == 151
    kind.refuses = True
    with pytest.raises(InputError, match="HTTP 403"):
        pull_request.write(where, uplift_comment.MARK)


@pytest.mark.parametrize("name", ["github", "gitlab"])
def test_without_a_request_or_a_token_there_is_one_line(name: str, tmp_path: Path) -> None:
    whole = environment(name, "http://127.0.0.1:1", tmp_path)
    token = next(key for key in whole if key.endswith("TOKEN"))
    with pytest.raises(InputError, match=f"a token in .{token}"):
        pull_request.place({**whole, token: ""})
    lacks = "GITHUB_EVENT_PATH" if name == "github" else "CI_MERGE_REQUEST_IID"
    with pytest.raises(InputError, match="a CI job of a pull or merge request"):
        pull_request.place({**whole, lacks: ""})
    with pytest.raises(InputError, match="the server of the CI to answer"):
        pull_request.write(pull_request.place(whole), "text")


# --- the step of a job

CI = HOME / "ci" / "gate"


def steps() -> dict[str, tuple[str, dict[str, str]]]:
    """CI -> the script of its step, and the variables that it is given, with what it takes from its inputs."""
    action, job = read_yaml(CI / "action.yml"), read_yaml(CI / "gitlab-ci.yml")[".opscope-gate"]
    [step] = action["runs"]["steps"]
    inputs = {name: str(of.get("default", "")) for name, of in action["inputs"].items()}
    taken = {name: inputs[value.split(".")[1].strip(" }")] for name, value in step["env"].items()}
    return {"github": (step["run"], taken), "gitlab": (job["script"][0], job["variables"])}


@pytest.mark.parametrize("name", ["github", "gitlab"])
def test_a_step_has_no_text_of_others_in_its_script(name: str) -> None:
    script, _ = steps()[name]
    assert "${{" not in script
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0


@pytest.mark.parametrize(("schema", "name"), [("github-actions", "action.yml"), ("gitlab-ci", "gitlab-ci.yml")])
def test_the_systems_take_the_step(schema: str, name: str, tmp_path: Path) -> None:
    checker = pytest.importorskip("check_jsonschema", reason="pip install check-jsonschema")
    text, file = (CI / name).read_text().replace("\n.opscope-gate:", "\nopscope-gate:"), tmp_path / name
    for content, code in ((text, 0), (re.sub("runs:|script:", "scripts:", text), 1)):
        file.write_text(content)  # of a job whose name begins with a dot GitLab reads nothing by itself
        done = CliRunner().invoke(checker.main, ["--builtin-schema", f"vendor.{schema}", str(file)])
        assert done.exit_code == code, done.output


@pytest.mark.slow
@pytest.mark.parametrize("name", ["github", "gitlab"])
def test_the_step_of_a_job_comments_and_is_red(
    name: str, server: tuple[str, type[Server]], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, kind = server
    script, variables = steps()[name]
    given = {"OLD": "fusing.py", "NEW": "apart.py", "MODELS": "m.mlir", "OPTIONS": "--no-smallest --slower 2"}
    given |= {"COMMITS": "abc12..def34", "BUILD": "make 'a b'"}
    own = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", **variables, **given}
    for number in (151, 151):
        done = subprocess.run(
            ["bash", "-e", "-c", script],
            cwd=place,
            env={**os.environ, **own, **environment(name, url, place)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1, done.stdout + done.stderr
        assert "my.fma 1→0" in kind.comments[number]
        assert "commits abc12..def34" in kind.comments[number]
    assert [each.partition(" ")[0] for each in kind.calls] == ["POST", "PATCH" if name == "github" else "PUT"]
