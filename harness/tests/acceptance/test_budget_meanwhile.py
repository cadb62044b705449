"""A budget that is over while goldens are made: what had its golden has a verdict, and `--resume` gets the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscope.harness.record import history, store
from opscope.harness.record.records import VOLATILE
from opscope.harness.record.stages import ModelStatus
from opscope.harness.run.api import split
from opscope.harness.tests.acceptance.conftest import Place
from opscope.harness.tests.acceptance.test_goldens_meanwhile import LOOP, SHARES

pytestmark = pytest.mark.slow

QUICK = """
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = stablehlo.subtract %x, %x : tensor<4x4xf32>
  %1 = stablehlo.cosine %0 : tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}"""
MODELS = ("quick", "loop", "shares")


def words(*more: str) -> tuple[str, ...]:
    models = [word for name in MODELS for word in ("--model", f"{name}.mlir")]
    return ("pytest", *models, "--op-by-op", "--backend", "xla", "--no-report", "--no-cache", *more)


def statuses(run: Path) -> dict[str, tuple[str, str | None]]:
    tests = store.load_run(run).tests
    return {test.op_name.removeprefix("stablehlo."): (test.status.value, test.error_message) for test in tests}


def records(run: Path) -> dict[str, object]:
    """What counts of a run, without what may differ between equal runs, and without the time that an op took."""
    return {test.op_id: test.model_dump(exclude={*VOLATILE, "attempt"}) for test in store.load_run(run).tests}


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "workers"])
def test_a_budget_that_is_over_while_goldens_are_made(place: Place, workers: tuple[str, ...]) -> None:
    """The loop of one model does not end. An op behind it has another model's golden in the end, but not meanwhile: a
    longer budget might have brought its own model's."""
    for name, text in zip(MODELS, (QUICK, LOOP, SHARES), strict=True):
        (place.folder / f"{name}.mlir").write_text(text)
    run, whole = place.folder / "run", place.folder / "whole"
    place = Place(place.folder, place.environment | {"OPSCOPE_CACHE_DIR": str(place.folder / "cache")})
    done = place.run(*words("--budget", "20s", "--run-dir", str(run), *workers))
    assert done.code == 0, done.out + done.err
    passed, late = ("success", None), ("not_run", "budget")
    assert statuses(run) == {
        "subtract": passed,
        "cosine": passed,
        "add": passed,
        "tanh": passed,
        "while": late,
        "negate": late,
        "multiply": late,
    }
    stored = store.load_run(run)
    assert stored.record.outcome == "out_of_budget"
    assert stored.header.models == MODELS
    assert "loop" in stored.header.unfinished
    assert {failure.status for failure in stored.header.failed} == {ModelStatus.NOT_RUN}
    assert "7 unique ops = 4 success + 3 not_run" in done.out
    assert "budget: it was at golden when the time of --budget was over" in " ".join(done.out.split())
    ids = {test.op_name.removeprefix("stablehlo."): test.op_id for test in stored.tests}

    of_complete, of_cut_off = (
        place.run("pytest", "--op-by-op", "--run-dir", str(run), "--op", ids[name], "--no-report")
        for name in ("cosine", "tanh")
    )
    assert of_complete.code == 0, of_complete.out + of_complete.err
    assert (of_cut_off.code, of_cut_off.out) == (2, "")
    (line,) = of_cut_off.err.splitlines()
    assert "got loop, whose goldens were not all made" in line
    assert line.endswith(f"try pytest --op-by-op --resume {run}")

    over = place.run("pytest", "--op-by-op", "--resume", str(run), "--no-report", "--budget", "0.1s")
    assert over.code == 0, over.out + over.err
    assert "loop" in store.load_run(run).header.unfinished, "it goes on once more"
    limit = ("--prepare-timeout", "12")
    rest = place.run("pytest", "--op-by-op", "--resume", str(run), "--no-report", *limit, *workers)
    undisturbed = place.run(*words("--run-dir", str(whole), *limit, *workers))
    assert (rest.code, undisturbed.code) == (1, 1), rest.out + rest.err  # the loop
    assert records(run) == records(whole)
    for part in (0, 1):
        assert store.read_manifest(run)[part] == store.read_manifest(whole)[part]
    assert store.read_run(run).outcome == "complete"
    assert statuses(run)["multiply"] == passed


def test_the_first_op_of_the_budget_holds_up_nothing_while_its_golden_is_made(place: Place) -> None:
    """One lane: the loop failed last time, so that it comes first, and never has a golden."""
    for name, text in zip(MODELS, (QUICK, LOOP, SHARES), strict=True):
        (place.folder / f"{name}.mlir").write_text(text)
    (loop,) = (op.op_id for op in split(LOOP) if op.op_name == "stablehlo.while")
    (place.folder / "past.json").write_text(history.text({loop: history.Past(failed=True, seconds=1.0)}))
    run = place.folder / "run"
    done = place.run(
        *words("--budget", "15s", "--budget-history", "past.json", "--run-dir", str(run)),
        OPSCOPE_CACHE_DIR=str(place.folder / "cache"),
    )
    assert done.code == 0, done.out + done.err
    assert "7 unique ops = 4 success + 3 not_run" in done.out
    assert statuses(run)["while"] == ("not_run", "budget")


def test_models_that_a_budget_did_not_reach_are_in_the_rest_of_the_run(place: Place) -> None:
    for name, text in (("quick", QUICK), ("shares", SHARES)):
        (place.folder / f"{name}.mlir").write_text(text)
    place = Place(place.folder, place.environment | {"OPSCOPE_CACHE_DIR": str(place.folder / "cache")})
    models = ("--model", "quick.mlir", "--model", "shares.mlir")
    run, whole = place.folder / "run", place.folder / "whole"
    common = ("pytest", *models, "--op-by-op", "--backend", "xla", "--no-report", "--no-cache", "--run-dir")
    over = place.run(*common, str(run), "--budget", "0.1s")
    assert "2 models asked for = 0 ran + 2 not_run" in over.out, over.out + over.err
    rest = place.run("pytest", "--op-by-op", "--resume", str(run), "--no-report")
    assert rest.code == 0, rest.out + rest.err
    assert place.run(*common, str(whole)).code == 0
    assert statuses(run) == dict.fromkeys(("subtract", "cosine", "multiply"), ("success", None))
    assert records(run) == records(whole)
    assert store.read_manifest(run) == store.read_manifest(whole)
    assert store.read_run(run).models == store.read_run(whole).models == ("quick", "shares")


@pytest.mark.parametrize("workflow", ["full", "layers", "patterns", "compile-split"])
def test_so_are_those_of_other_workflows(place: Place, workflow: str) -> None:
    """Also the check of an import, which is one of the model's own export whatever the workflow makes of it."""
    place = Place(place.folder, place.environment | {"OPSCOPE_CACHE_DIR": str(place.folder / "cache")})
    run, whole = place.folder / "run", place.folder / "whole"
    common = (
        "pytest",
        "--model",
        "mnist_mlp",
        "--op-by-op",
        "--workflow",
        workflow,
        "--no-report",
        "--no-cache",
        "--run-dir",
    )
    over = place.run(*common, str(run), "--budget", "0.1s")
    assert over.code == 5, over.out + over.err
    assert "1 model asked for = 0 ran + 1 not_run" in over.out
    rest = place.run("pytest", "--op-by-op", "--resume", str(run), "--no-report")
    assert rest.code == 0, rest.out + rest.err
    assert "1 import = 1 agrees" in rest.out
    assert place.run(*common, str(whole)).code == 0
    assert records(run) == records(whole) != {}
    assert store.read_manifest(run) == store.read_manifest(whole)
