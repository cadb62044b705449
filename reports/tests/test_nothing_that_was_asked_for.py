"""A command that does nothing that was asked for does not exit with 0: every verb, with a name that nothing has."""

from __future__ import annotations

import shutil
from pathlib import Path

import click
import pytest

from opscope.base.tests.in_this_process import in_this_process
from opscope.harness.cli import read_file
from opscope.harness.cli.main import main, root
from opscope.harness.record.store import JOURNAL_DIR
from opscope.reports.tests.sample_run import make_run

NOT_THERE = "not_there"
NO_DATABASE = "sqlite:///not_there.sqlite"

CALLS: dict[str, tuple[str, ...]] = {
    "doctor": (f"doctor --backend {NOT_THERE}",),
    "ops": (
        f"ops {NOT_THERE}",
        f"ops add {NOT_THERE}",
        "ops softmax",
        "ops *softmax*",
        "ops add --kind never",
        "ops --family quant --kind device",
        f"ops --against {NOT_THERE}",
    ),
    "backend": (f"backend check {NOT_THERE}", f"backend check {NOT_THERE}.yaml", f"backend new {NOT_THERE}"),
    "compile": (f"compile {NOT_THERE}", f"compile MODEL --shape {NOT_THERE}=4"),
    "opt": (f"opt {NOT_THERE}", f"opt MODEL -p {NOT_THERE}"),
    "plan": (
        f"plan {NOT_THERE}",
        f"plan MODEL --op {NOT_THERE}",
        f"plan MODEL --epoch-break {NOT_THERE}",
        f"plan MODEL --op-size {NOT_THERE}=1x1",
        f"plan MODEL --set {NOT_THERE}=1",
    ),
    "netlist": (f"netlist {NOT_THERE}",),
    "simulate": (f"simulate {NOT_THERE}",),
    "device": (f"device show {NOT_THERE}", f"device system-desc {NOT_THERE} -o FILE"),
    "image": (f"image {NOT_THERE} -o FILE",),
    "run-image": (f"run-image {NOT_THERE}",),
    "benchmark": (f"benchmark -d tt -m {NOT_THERE}",),
    "ulp": (f"ulp {NOT_THERE}", "ulp tanh --dtype f17", f"ulp tanh --backend {NOT_THERE}", "ulp"),
    "judge": (f"judge {NOT_THERE}", f"judge {NOT_THERE}.npz --op tanh"),
    "score": (f"score suite:onnx --only {NOT_THERE}*", f"score {NOT_THERE}"),
    "decode": (f"decode {NOT_THERE}", "decode gpt2 --decode-steps 2 --keep-step 3 -o FILE"),
    "show": (f"show {NOT_THERE}", f"show RUN --alone {NOT_THERE}", f"show RUN --owner {NOT_THERE}"),
    "report": (f"report {NOT_THERE}", f"report RUN --owner {NOT_THERE}"),
    "diff": (f"diff RUN {NOT_THERE}", f"diff {NOT_THERE} RUN", "diff RUN OTHER_RUN --check"),
    "note": (f"note {NOT_THERE} text --by me --db DATABASE", f"note {NOT_THERE} text --by me --db {NO_DATABASE}"),
    "unblock": (f"unblock {NOT_THERE}", f"unblock RUN --owner {NOT_THERE}"),
    "readiness": (f"readiness {NOT_THERE}", f"readiness {NOT_THERE} --run RUN"),
    "sql": (f"sql {NOT_THERE}", f"sql model_coverage --db {NO_DATABASE}"),
    "export": (f"export {NOT_THERE} --format csv", f"export --format csv --db {NO_DATABASE}"),
    "repro": (f"repro {NOT_THERE}", f"repro {NOT_THERE} --run RUN"),
    "replay": (f"replay {NOT_THERE}",),
    "reduce": (f"reduce {NOT_THERE}", f"reduce {NOT_THERE} --run RUN"),
    "locate": (f"locate {NOT_THERE}", f"locate {NOT_THERE} --run RUN"),
    "probe": (f"probe {NOT_THERE}", f"probe {NOT_THERE} --run RUN"),
    "bisect": (f"bisect {NOT_THERE} --good a --bad b",),
    "diff-tensors": (f"diff-tensors {NOT_THERE} RUN", "diff-tensors RUN RUN"),
    "limitations": (f"limitations check {NOT_THERE}", f"limitations update {NOT_THERE}"),
    "nightly": (f"nightly {NOT_THERE}",),
    "history": (f"history --backend {NOT_THERE}@1 --model {NOT_THERE}",),
    "scoreboard": (f"scoreboard -o FILE --db {NO_DATABASE}",),
    "gate": (
        f"gate --config {NOT_THERE}",
        f"gate --old {NOT_THERE} --new xla --model MODEL",
        f"gate --old xla --new xla --model {NOT_THERE}",
        "gate --old xla --new xla",
    ),
    "status": (f"status --name {NOT_THERE} --db DATABASE", f"status --db {NO_DATABASE}"),
    "costs": (f"costs {NOT_THERE}",),
    "merge": (f"merge {NOT_THERE} --into FILE", "merge RUN --into FILE"),
    "publish": (f"publish {NOT_THERE}",),
    "db": (
        f"db prune --keep 1d --db {NO_DATABASE}",
        f"db stats --db {NO_DATABASE}",
        f"db dump there.sql --db {NO_DATABASE}",
        f"db alias a b --db {NO_DATABASE}",
        f"db owners {NOT_THERE}",
        "db alias a b --db DATABASE",
    ),
    "artifacts": (f"artifacts serve {NOT_THERE}",),
    "mcp": (f"mcp --db {NO_DATABASE}",),
    "dashboard": ("dashboard check", f"dashboard restore {NOT_THERE}"),
}
"""Verb -> calls of it that name something which is not there."""

NAMES_NOTHING = {"models", "config", "clean", "demo", "agents", "schema"}
"""Verbs that take no name of a thing."""

MODEL = """
func.func @main(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = stablehlo.add %a, %b : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
"""


@pytest.fixture(scope="module")
def things(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What there is: a model, a run, a run that shares no op with it, and a database."""
    folder = tmp_path_factory.mktemp("things")
    (folder / "m.mlir").write_text(MODEL, encoding="utf-8")
    run, other = make_run(folder / "run"), make_run(folder / "other", run_id="20261121-120000-other")
    shutil.rmtree(other / JOURNAL_DIR)
    database = f"sqlite:///{folder / 'results.sqlite'}"
    with pytest.raises(SystemExit) as ended:
        main(["publish", str(run), "--to", database])
    assert not ended.value.code
    return {
        "MODEL": str(folder / "m.mlir"),
        "RUN": str(run),
        "OTHER_RUN": str(other),
        "DATABASE": database,
        "FILE": str(folder / "written"),
    }


def test_every_verb_is_tried() -> None:
    with click.Context(root) as context:
        assert set(root.list_commands(context)) == CALLS.keys() | NAMES_NOTHING


@pytest.mark.parametrize("verb", sorted(CALLS))
def test_what_is_not_there_is_refused(
    verb: str,
    things: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for call in CALLS[verb]:
        with in_this_process(read_file), pytest.raises(SystemExit) as ended:
            main([things.get(word, word) for word in call.split()])
        said = capsys.readouterr()
        assert ended.value.code == 2, (call, said)
        assert "expected" in said.err or "Error: " in said.err, (call, said)
        assert "Traceback" not in said.err
    assert not Path("not_there.sqlite").exists()
