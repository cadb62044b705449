"""Whole models first: ops are climbed only where a model failed, and everything still adds up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opscope.harness.record import store
from opscope.harness.tests.acceptance.conftest import Place
from opscope.harness.tests.acceptance.test_resume import steady

pytestmark = pytest.mark.slow

assert steady, "a fixture, used by name"

SUM = """func.func @main(%x: tensor<8x16xf32>, %y: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = stablehlo.add %x, %y : tensor<8x16xf32>
  %1 = stablehlo.exponential %0 : tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}"""
PRODUCT = """func.func @main(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
    : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = stablehlo.tanh %0 : tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}"""


def whole(run: Path) -> dict[str, str]:
    lines = (run / "whole.jsonl").read_text().splitlines()
    return {(test := json.loads(line))["model_name"]: test["status"] for line in lines}


@pytest.mark.parametrize("more", [(), ("-n", "2")])
def test_ops_are_run_where_the_whole_model_failed(steady: Place, more: tuple[str, ...]) -> None:
    (steady.folder / "sum.mlir").write_text(SUM)
    (steady.folder / "product.mlir").write_text(PRODUCT)
    run = steady.folder / "run"
    models = ("--model", "sum.mlir", "--model", "product.mlir", "--backend", "steady.py")
    options = ("--op-by-op-on-fail", "--no-cache", "--no-report", "--run-dir", str(run), *more)
    done = steady.run("pytest", *models, *options)
    assert done.code == 1, done.out + done.err
    assert whole(run) == {"sum": "stopped", "product": "compile_failed"}
    endings = {test.op_name: (test.status.value, test.error_message) for test in store.load_run(run).tests}
    assert endings["stablehlo.add"] == endings["stablehlo.exponential"] == ("skipped", "its models ran whole")
    assert endings["stablehlo.dot_general"] == ("compile_failed", "no room for a dot")
    assert endings["stablehlo.tanh"][0] == "stopped"
    assert "4 unique ops = 1 compile_failed + 1 stopped + 2 skipped" in done.out
    assert "product on steady: compile_failed at compile: no room for a dot" in " ".join(done.out.split())
    assert "FAILED product::whole[steady]" in steady.run("pytest", "--op-by-op", "--resume", str(run), "-rf").out
    assert len((run / "whole.jsonl").read_text().splitlines()) == 2, "neither model ran again"


@pytest.mark.parametrize(
    "how", ["--op-by-op-on-fail", "--workflow full", "--op-by-op --shard 1/2", "--workflow layers", "--op-by-op -n 2"]
)
def test_a_budget_in_which_nothing_begins_is_no_success(place: Place, how: str) -> None:
    (place.folder / "sum.mlir").write_text(SUM)
    model = ("--model", "sum.mlir", "--backend", "null", "--no-report", "--run-dir", "run")
    done = place.run(f"pytest {how} --no-cache --budget 0.001s", *model)
    assert done.code == 5, done.out + done.err
    assert not (place.folder / "run" / "whole.jsonl").exists()
    assert {test.status.value for test in store.load_run(place.folder / "run").tests} <= {"not_run", "skipped"}
    if "workflow" not in how:  # which have no models that the budget did not reach
        done = place.run("pytest", "--op-by-op", "--resume", "run", "--no-report")
        assert done.code == 0, done.out + done.err


def test_a_right_whole_model_spares_its_ops(place: Place) -> None:
    run = place.folder / "run"
    options = ("--op-by-op-on-fail", "--no-report", "--run-dir", str(run))
    done = place.run("pytest", "--model", "mnist_mlp", *options)
    assert done.code == 0, done.out + done.err
    assert "1 passed, 24 deselected" in done.out
    assert whole(run) == {"mnist_mlp": "success"}
    (test,) = json.loads(place.run("opscope", "show", str(run), "--json").out)["whole_models"]
    assert test["results"][0]["tolerance"] == "Float32 matrix HiFi4, whole model"
    assert 0 < test["results"][0]["relative_l2"] < 4e-3


def test_a_model_as_one_program_has_every_value_compared(place: Place) -> None:
    run = place.folder / "run"
    done = place.run("pytest", "--model", "mnist_mlp", "--workflow", "full", "--run-dir", str(run), "-n", "2")
    assert done.code == 0, done.out + done.err
    assert "27 values inside the model compared, and in none does the error jump" in " ".join(done.out.split())
    (test,) = json.loads(place.run("opscope", "show", str(run), "--json").out)["whole_models"]
    assert (test["workflow"], test["intermediates"], test["jump"], test["ran_on"]) == ("full", 27, None, "simulator")
    lines = (run / test["artifact"]).read_text().splitlines()
    assert [json.loads(line)["verdict"] for line in lines] == ["right"] * 27
    assert "Models as one program" in (run / "report.html").read_text()
    kept = place.folder / "kept"
    place.run("pytest", "--model", "mnist_mlp", "--workflow", "full", "--no-report", "--run-dir", str(kept))
    (test,) = store.load_run(kept).tests
    assert test.cached_from
    assert test.artifact is not None
    assert (kept / test.artifact).read_text().splitlines() == lines
    row = place.run("opscope", "sql", "--csv", "SELECT model, intermediates, status FROM whole_models")
    assert "mnist_mlp,27,success" in row.out


RESIDUAL = """
import torch


class Residual(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = (torch.nn.Conv2d(32, 32, 3, padding=1, bias=False) for _ in range(2))
        self.one, self.two = torch.nn.BatchNorm2d(32), torch.nn.BatchNorm2d(32)

    def forward(self, x):
        return torch.relu(self.two(self.second(torch.relu(self.one(self.first(x))))) + x)


def model():
    return Residual().eval(), torch.randn(1, 32, 14, 14)
"""


def test_the_compiler_of_a_whole_model_knows_which_arguments_stay(place: Place) -> None:
    pytest.importorskip("torch", reason="try pip install -e '.[torch]'")
    (place.folder / "residual.py").write_text(RESIDUAL)
    run = place.folder / "run"
    done = place.run(f"pytest --model residual.py --workflow full --optimization-level 2 --keep-ir --run-dir {run}")
    assert done.code == 0, done.out + done.err
    assert "in none does the error jump" in " ".join(done.out.split())
    (test,) = store.load_run(run).tests
    assert "tt-populate-argument-types{argument_types=" in test.pipeline
    assert test.optimization_level == 2
    (ir,) = run.glob("artifacts/*/ir-reference/2-ttnn.mlir")
    main = ir.read_text().partition("func.func")[2].partition('"func.return"')[0]
    # The roots of both batch norms follow from parameters alone: they are computed once, and not per image.
    assert main.count('"ttnn.conv2d"') == 2
    assert '"ttnn.rsqrt"' not in main
    assert ir.read_text().count('"ttnn.rsqrt"') == 2


@pytest.mark.parametrize(("workflow", "ops"), [("compile-split", 26), ("split-compile-split", 27)])
def test_the_ops_of_the_compiled_program_are_tests(place: Place, workflow: str, ops: int) -> None:
    run = place.folder / "run"
    done = place.run("pytest", "--model", "mnist_mlp", "--workflow", workflow, "--run-dir", str(run), "--no-report")
    assert done.code == 0, done.out + done.err
    assert f"{ops} unique ops = {ops} success" in done.out
    tests = store.load_run(run).tests
    assert {test.workflow for test in tests} == {workflow}
    assert {test.op_name.partition(".")[0] for test in tests} == {"ttnn"}
    resumed = place.run("pytest", "--workflow", workflow, "--resume", str(run), "--no-report")
    assert resumed.code == 0, resumed.out + resumed.err
    one = place.run("pytest", "--op-by-op", "--op", tests[0].op_id, "--run-dir", str(run), "--no-report")
    assert "1 passed" in one.out, one.out
    refused = place.run("pytest", "--model", "mnist_mlp", "--workflow", workflow, "--backend", "xla")
    assert refused.code == 2
    assert refused.err.startswith(
        f"pytest --op-by-op: --workflow {workflow}: expected one backend that hands over its program"
    )


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--prepare-memory", "64M"), "memory at compile-split: "),
        (("--prepare-timeout", "0.01"), "timeout at compile-split: more than 0.01 s for all steps"),
    ],
)
def test_a_derived_program_has_its_model_s_limits(place: Place, option: tuple[str, str], message: str) -> None:
    (place.folder / "two.mlir").write_text(SUM)
    words = ("pytest", "--model", "two.mlir", "--no-report", "--reruns", "0")
    assert place.run(*words, "--op-by-op", "--run-dir", str(place.folder / "own")).code == 0  # its export is kept
    run = place.folder / "derived"
    done = place.run(*words, "--workflow", "compile-split", "--run-dir", str(run), *option)
    assert done.code == 1
    (failure,) = store.load_run(run).header.failed
    assert failure.status.value == "prepare_failed"
    assert failure.error.startswith(message)


KILLED = """
import os, pathlib, signal
from opscope import Backend, Stage, Target
class Killed(Backend):
    name = "killed"
    stages = (Stage.COMPILE,)
    def target(self, options): return Target(card_type="host", float_format=None, math_fidelity="exact")
    def fingerprint(self, options): return "killed-1"
    def available(self): return None
    def climb(self, stage, job):
        if job.options.workflow == "full" and not pathlib.Path("enough memory").exists():
            os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_whole_model_that_was_killed_is_no_answer_and_is_said(place: Place) -> None:
    (place.folder / "killed.py").write_text(KILLED)
    (place.folder / "sum.mlir").write_text(SUM)
    words = ("--model", "sum.mlir", "--backend", "killed.py", "--op-by-op-on-fail", "--no-cache", "--no-report")
    done = place.run("pytest", *words, "--run-dir", "my run")
    assert done.code == 5, done.out + done.err
    assert whole(place.folder / "my run") == {"sum": "not_run"}
    assert "run as one program in" not in done.out + done.err
    assert "no answer of any op; --resume runs again what did not run" in " ".join(done.out.split()), done.out
    assert "next      pytest --op-by-op --resume 'my run'" in done.out
    assert {test.status.value for test in store.load_run(place.folder / "my run").tests} == {"passed"}
    (place.folder / "enough memory").touch()
    done = place.run("pytest", "--op-by-op", "--resume", "my run", "--no-report", "--no-cache")
    assert done.code == 0, done.out + done.err
    assert whole(place.folder / "my run") == {"sum": "passed"}
