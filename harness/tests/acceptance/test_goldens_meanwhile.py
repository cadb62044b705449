"""Ops are climbed while goldens are made: what is known before a preparation fails, or is killed, stays."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from opscope.harness.record import store
from opscope.harness.record.stages import ModelStatus, Status
from opscope.harness.tests.acceptance.conftest import Place
from opscope.harness.tests.acceptance.test_cluster import Cluster, cluster
from opscope.harness.tests.acceptance.test_resume import records, resume, steady, words

pytestmark = pytest.mark.slow

assert cluster, "fixtures, used by name"
assert steady

LOOP = """
func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = stablehlo.add %x, %x : tensor<8x8xf32>
  %1 = stablehlo.tanh %0 : tensor<8x8xf32>
  %2 = stablehlo.while(%a = %1) : tensor<8x8xf32>
    cond {
      %t = stablehlo.constant dense<true> : tensor<i1>
      stablehlo.return %t : tensor<i1>
    } do {
      %n = stablehlo.negate %a : tensor<8x8xf32>
      stablehlo.return %n : tensor<8x8xf32>
    }
  %3 = stablehlo.multiply %2, %2 : tensor<8x8xf32>
  return %3 : tensor<8x8xf32>
}"""

SHARES = """
func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = stablehlo.multiply %x, %x : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}"""


@pytest.fixture
def workers(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """The words that say who runs the ops."""
    if request.param != "cluster":
        return request.param
    made: Cluster = request.getfixturevalue("cluster")
    made.worker()
    made.worker()
    return ("--cluster", made.address)


KINDS = pytest.mark.parametrize(
    "workers", [(), ("-n", "2"), "cluster"], ids=["alone", "workers", "cluster"], indirect=True
)


@KINDS
def test_verdicts_before_a_failed_preparation_stay(place: Place, workers: tuple[str, ...]) -> None:
    """A loop that does not end takes all of its model's time. Ops before it have verdicts; one behind it has another
    model's golden."""
    for name, text in (("loop", LOOP), ("shares", SHARES)):
        (place.folder / f"{name}.mlir").write_text(text)
    run = place.folder / "run"
    done = place.run(
        "pytest --model loop.mlir --model shares.mlir --op-by-op --backend null --no-report "
        f"--prepare-timeout 15 --run-dir {run}",
        *workers,
        OPSCOPE_CACHE_DIR=str(place.folder / "cache"),
    )
    assert done.code == 1, done.out + done.err
    assert "the counts do not add up" not in done.out
    assert "s for goldens" in done.out.partition("\nnext ")[0], "the last line is what one types next"
    stored = store.load_run(run)
    status = {test.op_name.removeprefix("stablehlo."): test for test in stored.tests}
    known, not_run = Status.STOPPED, Status.NOT_RUN  # the null backend stops after the split
    assert {name: test.status for name, test in status.items()} == {
        "add": known,
        "tanh": known,
        "while": not_run,
        "negate": not_run,
        "multiply": known,
    }
    assert status["while"].error_message.startswith("no goldens of loop: prepare_failed: timeout at golden of")
    assert status["multiply"].model_name == "shares", "its golden is that of the other model"
    (failure,) = stored.header.failed
    assert (failure.model, failure.status) == ("loop", ModelStatus.PREPARE_FAILED)
    assert stored.header.by_outcome() == {"ran": 1, "prepare_failed": 1}
    assert (stored.record.outcome, stored.header.unfinished) == ("complete", ())
    assert not (run / "preparing").exists()


def test_shares_of_a_sweep_are_joined_although_goldens_of_a_model_failed_meanwhile(place: Place) -> None:
    """Each job knows its share from the splits, and all have the same manifest in the end."""
    for name, text in (("loop", LOOP), ("shares", SHARES)):
        (place.folder / f"{name}.mlir").write_text(text)
    printed = ""
    for index in (1, 2):
        done = place.run(
            "pytest --model loop.mlir --model shares.mlir --op-by-op --backend null --no-report "
            f"--prepare-timeout 15 --shard {index}/2 --run-dir s{index}",
            *(("-n", "2") * (index == 2)),
            OPSCOPE_CACHE_DIR=str(place.folder / f"cache{index}"),
        )
        assert done.code == 1, done.out + done.err
        printed += done.out
    assert "s for goldens" in printed, "ops ran while goldens were made"
    done = place.run("opscope", "merge", "s1", "s2", "--into", "joined")
    assert done.code == 0, done.out + done.err
    stored = store.load_run(place.folder / "joined")
    assert sorted((test.op_name.removeprefix("stablehlo."), test.status.value) for test in stored.tests) == [
        ("add", "stopped"),
        ("multiply", "stopped"),
        ("negate", "not_run"),
        ("tanh", "stopped"),
        ("while", "not_run"),
    ]


@KINDS
def test_a_run_killed_while_goldens_are_made_goes_on(steady: Place, workers: tuple[str, ...]) -> None:
    """SIGKILL of everything, each time with no export in the cache, at moments from the first record to the last."""
    whole = steady.folder / "whole"
    assert steady.run("pytest", *words("--run-dir", str(whole))).code == 1
    for lines in (1, 12):
        run, cache = steady.folder / f"cut{lines}", str(steady.folder / f"cache{lines}")
        environment = steady.environment | {"OPSCOPE_CACHE_DIR": cache}
        child = steady.start(
            "pytest", *words("--run-dir", str(run), *workers), output=subprocess.DEVNULL, OPSCOPE_CACHE_DIR=cache
        )
        _wait_for_records(child, run, lines)
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        done = resume(Place(steady.folder, environment), run, *workers)
        assert done.code == 1, done.out + done.err  # the products that this backend refuses
        stored = store.load_run(run)
        assert (stored.record.outcome, stored.header.unfinished) == ("complete", ())
        assert [check.model for check in stored.header.imports] == ["mnist_mlp"]
        assert records(run) == records(whole)


def test_as_many_processes_are_busy_as_there_are_workers(place: Place) -> None:
    """Exporters, walks and lanes work in the same slots: never more than two at once, and all of them by turns."""
    run, cache = place.folder / "run", str(place.folder / "cache")
    types = [f"tensor<{size}xf32>" for size in range(1, 121)]
    arguments = ", ".join(f"%a{n}: {kind}" for n, kind in enumerate(types))
    lines = "\n".join(f"%{n} = stablehlo.tanh %a{n} : {kind}" for n, kind in enumerate(types))
    results, all_types = ", ".join(f"%{n}" for n in range(len(types))), ", ".join(types)
    (place.folder / "apart.mlir").write_text(
        f"func.func @main({arguments}) -> ({all_types}) {{ {lines}\n return {results} : {all_types} }}"
    )
    words = (
        "--model",
        "mnist_mlp",
        "--model",
        "apart.mlir",
        "--op-by-op",
        "--no-report",
        "-n",
        "2",
        "--run-dir",
        str(run),
    )
    (place.folder / "watch.py").write_text(WATCH)
    done = place.run("pytest", "-p", "watch", *words, OPSCOPE_CACHE_DIR=cache, PYTHONPATH=str(place.folder))
    assert done.code in (0, 1), done.out + done.err
    held = [line.split() for line in (place.folder / "held.txt").read_text().splitlines()]
    assert max(map(len, held)) == 2
    most = {asker for askers in held for asker in askers}
    assert len(most) >= 7, "an exporter, two splits or walks, a walk by two, a comparison and two lanes at least"


WATCH = """
from opscope.base import slots
grant, known = slots.SlotServer._grant, []

def watched(server):
    grant(server)
    known.extend(asker for asker in server._held if asker not in known)
    with open("held.txt", "a") as file:
        file.write(" ".join(str(known.index(asker)) for asker in server._held) + "\\n")

slots.SlotServer._grant = watched
"""
"""A plugin that notes who has a slot."""


def _wait_for_records(child: subprocess.Popen[str], run: Path, lines: int) -> None:
    deadline = time.monotonic() + 120
    while sum(path.read_text().count("\n") for path in run.glob("journal/*.jsonl")) < lines:
        assert time.monotonic() < deadline
        assert child.poll() is None
        time.sleep(0.005)
