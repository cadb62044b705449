"""Pieces of several ops by the command line: runs, resumes, kept verdicts, repro folders, label `interaction`."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from opscope.harness.cache import export_folder
from opscope.harness.record import isolation
from opscope.harness.tests.acceptance.conftest import Place
from opscope.harness.tests.faulty_backends import hidden

pytestmark = pytest.mark.slow

NET = """func.func @main(%x: tensor<8x16xf32>, %y: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = stablehlo.exponential %x : tensor<8x16xf32>
  %1 = stablehlo.add %0, %y : tensor<8x16xf32>
  %2 = stablehlo.tanh %1 : tensor<8x16xf32>
  return %2 : tensor<8x16xf32>
}"""


@pytest.fixture
def net(place: Place) -> Place:
    """A folder with a model of three ops."""
    (place.folder / "net.mlir").write_text(NET)
    return place


def words(workflow: str, *more: str) -> tuple[str, ...]:
    return ("--model", "net.mlir", "--workflow", workflow, "--no-report", *more)


def test_a_piece_that_fails_while_its_ops_are_right_is_an_interaction(net: Place, tmp_path: Path) -> None:
    rule = '"exponential" in str(op.module) and "add" in str(op.module)'
    backend = hidden.write(tmp_path, "joined", rule, hidden.WRONG)
    runs = {name: str(net.folder / name) for name in ("split", "windows")}
    for workflow, name, code in (("split", "split", 0), ("windows:2", "windows", 1)):
        done = net.run("pytest", *words(workflow, "--backend", backend, "--run-dir", runs[name]))
        assert done.code == code, done.out + done.err
    records = {record["op_name"]: record for record in net.records(Path(runs["windows"]))}
    assert {name: record["status"] for name, record in records.items()} == {
        "window:add": "wrong_result",
        "window:tanh": "success",
    }
    assert [op["op_name"] for op in records["window:add"]["holds"]] == ["stablehlo.exponential", "stablehlo.add"]
    shown = json.loads(net.run("opscope", "show", runs["windows"], "--alone", runs["split"], "--json").out)
    (found,) = shown["isolation"]
    assert (found["label"], found["op_name"], found["path"]) == (isolation.INTERACTION, "window:add", "main/1")
    assert found["alone"] == "each of its 2 ops right"
    for pair in (("windows", "split"), ("split", "windows")):
        diff = net.run("opscope", "diff", *(runs[name] for name in pair))
        assert f"{isolation.INTERACTION} window:add" in " ".join(diff.out.split()), diff.out + diff.err
    op_id = records["window:add"]["op_id"]
    again = net.run("opscope", "repro", op_id, "--run", runs["windows"], "--out", "folder")
    assert again.code == 0, again.out + again.err
    row = json.loads((net.folder / "folder" / "repro.json").read_text())["row"]
    assert [op["path"] for op in row["holds"]] == ["main/0", "main/1"]
    shows = net.run("opscope", "replay", "folder")
    assert shows.code == 1, shows.out + shows.err  # it fails as recorded


FAULT = """
from opscope.compiler.passes.{module} import {name}
from opscope.harness.backends.reference import Reference

rightly = {name}.apply


def wrongly(self, ctx, module):
    rightly(self, ctx, module)
    for op in module.walk():
        if op.name == "{dialect}.add":
            for number, value in enumerate(op.operands):
                if getattr(value.owner, "name", "") == "{dialect}.exp":
                    op.operands[number] = value.owner.operands[0]


{name}.apply = wrongly


class Seeded(Reference):
    name = "seeded"
    forkable = False
"""
"""The reference compiler with a fault in a pass: it drops an exponential that is added."""


@pytest.mark.parametrize(
    ("level", "module", "name", "dialect"),
    [(1, "ttir_fusing", "TtirFusing", "ttir"), (2, "ttnn_optimizer", "TtnnOptimizer", "ttnn")],
)
def test_an_interaction_names_the_level_where_it_begins(
    net: Place, level: int, module: str, name: str, dialect: str
) -> None:
    (net.folder / "seeded.py").write_text(FAULT.format(module=module, name=name, dialect=dialect))
    asked = ("--backend", "seeded.py", "--optimization-level", "2", "--workflow")
    split = net.run("pytest", "--model", "net.mlir", "--no-report", *asked, "split")
    assert split.code == 0, split.out + split.err
    run = net.folder / "windows"
    done = net.run("pytest", "--model", "net.mlir", *asked, "windows:2", "--run-dir", str(run))
    assert done.code == 1, done.out + done.err
    assert "interaction window:add [" in " ".join(done.out.split()), done.out
    assert f", from level {level} on" in " ".join(done.out.split()), done.out
    (found,) = json.loads(net.run("opscope", "show", str(run), "--json").out)["isolation"]
    assert (found["label"], found["op_name"], found["level"]) == (isolation.INTERACTION, "window:add", level)
    report = (run / "report.html").read_text()
    assert f", from level {level} on" in report
    records = {record["op_name"]: record for record in net.records(run)}
    explained = run / "artifacts" / records["window:add"]["op_id"]
    assert records["window:add"]["optimization_level"] == 2
    assert explained.is_dir(), "what explains the failure stays"


def test_backends_share_the_pieces_and_verdicts_are_kept(net: Place, cache: Path) -> None:
    both = ("--backend", "xla", "--backend", "reference", "--optimization-level", "2")
    before = set((cache / "exports").glob("*"))
    first = net.run("pytest", *words("windows", *both))
    assert first.code == 0, first.out + first.err
    made = set((cache / "exports").glob("*")) - before
    derived = [folder for folder in made if export_folder.base_of(folder) != folder]
    assert len(derived) == 1
    assert export_folder.complete(export_folder.base_of(derived[0]))
    records = net.records()
    assert {record["workflow"] for record in records} == {"windows:4"}
    assert [len(record["holds"]) for record in records] == [3, 3], "the window of two ops lies in that of three"
    again = net.run("pytest", *words("windows:4", *both))
    assert again.code == 0
    assert all(record["cached_from"] for record in net.records())
    assert {record["op_id"] for record in net.records()} == {record["op_id"] for record in records}


SLOW = """
    def climb(self, stage, job):
        import time

        time.sleep(1)
        super().climb(stage, job)
"""


def test_a_run_of_pieces_goes_on_where_it_was_killed(net: Place, tmp_path: Path) -> None:
    run = net.folder / "cut"
    backend = hidden.write(tmp_path, "slow", "False", SLOW)
    child = net.start("pytest", *words("windows:2", "--backend", backend, "--run-dir", str(run)))
    deadline = time.monotonic() + 90
    while not any(path.read_text() for path in run.glob("journal/*.jsonl")):
        assert time.monotonic() < deadline
        assert child.poll() is None
        time.sleep(0.02)
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate(timeout=60)
    assert len(net.records(run)) == 1
    resumed = net.run("pytest", "--op-by-op", "--resume", str(run), "--no-report")
    assert resumed.code == 0, resumed.out + resumed.err
    assert sorted(record["op_name"] for record in net.records(run)) == ["window:add", "window:tanh"]
    assert {record["workflow"] for record in net.records(run)} == {"windows:2"}


def test_patterns_are_run_by_name(net: Place) -> None:
    done = net.run("pytest", *words("patterns", "--backend", "xla"))
    assert done.code == 0, done.out + done.err
    (record,) = net.records()
    assert (record["op_name"], record["workflow"]) == ("pattern:elementwise", "patterns")
    assert [op["op_name"] for op in record["holds"]] == ["stablehlo.exponential", "stablehlo.add", "stablehlo.tanh"]


def test_a_model_without_layers_is_not_prepared_and_says_why(net: Place) -> None:
    done = net.run("pytest", *words("layers", "--backend", "xla"))
    assert done.code not in (0, None)
    text = " ".join((done.out + done.err).split())
    assert "--workflow layers: net: expected ops in numbered scopes, such as `layer3`" in text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("windows:1",), "expected windows:N with N from 2 to 64, got 'windows:1'; try windows:4"),
        (("windows:few",), "expected windows:N with N from 2 to 64, got 'windows:few'"),
        (
            ("split:3",),
            "expected one of split, compile-split, split-compile-split, full, windows:N, patterns, layers, "
            "got 'split:3'",
        ),
        (("windows", "--inputs", "random"), "--workflow windows:4: expected --inputs captured or a file"),
        (("windows", "--mesh", "1x2"), "--mesh: expected --workflow split with --mesh, got --workflow windows:4"),
    ],
)
def test_what_no_run_of_pieces_can_be_is_refused_in_a_line(net: Place, asked: tuple[str, ...], said: str) -> None:
    done = net.run("pytest", *words(*asked))
    assert done.code != 0
    assert said in " ".join((done.out + done.err).split())
    assert "Traceback" not in done.out + done.err
