"""Models are walked on the workers of a cluster: with the same bits, whoever sees whose files, and whoever dies."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from opscope.base import stored
from opscope.harness.cache import export_folder
from opscope.harness.record import store
from opscope.harness.record.stages import Status
from opscope.harness.tests.acceptance.conftest import Place
from opscope.harness.tests.acceptance.test_cluster import Client, Cluster, blind, cluster
from opscope.harness.tests.run_folder import lasting

pytestmark = pytest.mark.slow

assert cluster, "fixtures, used by name"

SUMS = """
func.func @main(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = stablehlo.add %x, %y : tensor<64x64xf32>
  %1 = stablehlo.tanh %0 : tensor<64x64xf32>
  %2 = stablehlo.multiply %1, %y : tensor<64x64xf32>
  return %2 : tensor<64x64xf32>
}"""

SLOW = """
func.func @main(%x: tensor<200x200xf32>) -> tensor<200x200xf32> {
  %0 = stablehlo.tanh %x : tensor<200x200xf32>
  %c = stablehlo.constant dense<0> : tensor<i32>
  %1:2 = stablehlo.while(%a = %0, %i = %c) : tensor<200x200xf32>, tensor<i32>
    cond {
      %n = stablehlo.constant dense<ROUNDS> : tensor<i32>
      %t = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %t : tensor<i1>
    } do {
      %s = stablehlo.sine %a : tensor<200x200xf32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %s, %j : tensor<200x200xf32>, tensor<i32>
    }
  %2 = stablehlo.negate %1#0 : tensor<200x200xf32>
  return %2 : tensor<200x200xf32>
}"""
"""One op takes the time of many rounds."""


def apart(count: int) -> str:
    """A model whose ops share no value: several processes walk it where there are devices for them."""
    types = [f"tensor<{size}xf32>" for size in range(1, count + 1)]
    arguments = ", ".join(f"%a{n}: {kind}" for n, kind in enumerate(types))
    lines = "\n".join(f"%{n} = stablehlo.tanh %a{n} : {kind}" for n, kind in enumerate(types))
    results, all_types = ", ".join(f"%{n}" for n in range(len(types))), ", ".join(types)
    return f"func.func @main({arguments}) -> ({all_types}) {{ {lines}\n return {results} : {all_types} }}"


def digests(cache: Path) -> list[dict[str, object]]:
    """The files of each export with their digests, and the manifest without its place; in which order does not
    matter."""
    exports = []
    for folder in cache.glob("exports/*"):
        header, rows = export_folder.read_manifest(folder)
        manifest = header.model_copy(update={"export_dirs": ()}), rows
        exports.append({**(stored.marks(folder) or {}), export_folder.MANIFEST: manifest})
    return sorted(exports, key=repr)


class Walkers:
    """Which workers have walked models, as the scheduler has it."""

    def __init__(self, address: str) -> None:
        self._client = Client(address, set_as_default=False)
        self._client.get_task_stream()  # from now on

    def used(self, kind: str = "opscope-walk-") -> list[str]:
        """The worker of each walk that has ended, or of each task whose key begins so."""
        tasks = self._client.get_task_stream(count=10_000)
        return [task["worker"] for task in tasks if task["key"].startswith(kind)]

    def close(self) -> None:
        self._client.close()


@pytest.fixture
def walkers(cluster: Cluster) -> Iterator[Walkers]:
    made = Walkers(cluster.address)
    yield made
    made.close()


def words(run: Path, *more: str) -> tuple[str, ...]:
    models = [word for model in ("mnist_mlp", "sums.mlir", "apart.mlir") for word in ("--model", model)]
    return ("pytest", *models, "--op-by-op", "--no-cache", "--no-report", "--run-dir", str(run), *more)


@pytest.mark.parametrize("seen", [True, False], ids=["seen", "apart"])
def test_models_are_walked_by_workers_with_the_same_bits_and_verdicts(
    place: Place, cluster: Cluster, walkers: Walkers, seen: bool
) -> None:
    (place.folder / "sums.mlir").write_text(SUMS)
    (place.folder / "apart.mlir").write_text(apart(90))
    cache = place.folder / "cache"
    cache.mkdir()
    for _ in range(2):
        cluster.worker(devices=2, before=() if seen else blind(cache))

    def run(name: str, *more: str) -> int:
        """The number of tasks in which ops were sent to workers."""
        before = len(walkers.used("opscope-2"))
        done = place.run(*words(place.folder / name, *more), OPSCOPE_CACHE_DIR=str(cache))
        assert done.code == 0, done.out + done.err
        return len(walkers.used("opscope-2")) - before

    run("cluster", "--cluster", cluster.address)
    tasks = run("again", "--cluster", cluster.address)
    assert tasks < len(lasting(place.folder / "again")) / 2, "ops travel in batches once their goldens are there"
    cache.rename(place.folder / "cache-cluster")
    assert run("here") == 0
    cache.rename(place.folder / "cache-here")
    used = walkers.used()
    assert len(set(used)) == 2, "each model is a task, on a worker of its own"
    assert 3 <= len(used) <= (3 if seen else 7), "each device may say once that it does not see the cache"
    assert (cluster.sent() == 0) == seen
    runs = place.folder / "cluster", place.folder / "here"
    assert lasting(runs[0]) == lasting(runs[1])
    made = digests(place.folder / "cache-cluster")
    assert (len(made), made) == (3, digests(place.folder / "cache-here")), "and nothing unfinished is left"
    assert {test.status for test in store.load_run(runs[0]).tests} == {Status.SUCCESS}


@pytest.mark.parametrize("seen", [True, False], ids=["seen", "apart"])
def test_a_walk_whose_worker_dies_is_made_again_by_another(
    place: Place, cluster: Cluster, walkers: Walkers, seen: bool
) -> None:
    """What was announced before stays: an op of it has run already, or runs then."""
    (place.folder / "slow.mlir").write_text(SLOW.replace("ROUNDS", "40000"))
    cache, run = place.folder / "cache", place.folder / "run"
    cache.mkdir()
    workers = {}
    for _ in range(2):
        process = cluster.worker(before=() if seen else blind(cache))
        workers[process.pid] = process
    child = place.start(
        f"pytest --model slow.mlir --op-by-op --no-cache --no-report --cluster {cluster.address} "
        f"--backend null --run-dir {run}",
        OPSCOPE_CACHE_DIR=str(cache),
    )
    walker = _worker_at_a_walk(child, workers)
    os.killpg(walker, signal.SIGKILL)
    out, _ = child.communicate(timeout=300)
    assert child.returncode == 0, out
    assert len(walkers.used()) == (1 if seen else 3), "the other worker has walked it"
    stored_run = store.load_run(run)
    assert {test.status for test in stored_run.tests} == {Status.STOPPED}, "the null backend stops after the split"
    assert (stored_run.record.outcome, stored_run.header.failed) == ("complete", ())
    assert not list(cache.glob("exports/.*"))


def test_a_scheduler_that_dies_during_a_walk_ends_the_run_which_can_be_resumed(place: Place, cluster: Cluster) -> None:
    (place.folder / "slow.mlir").write_text(SLOW.replace("ROUNDS", "40000"))
    run = place.folder / "run"
    worker = cluster.worker()
    sweep = ("pytest", "--model", "slow.mlir", "--op-by-op", "--no-report", "--backend", "null", "--run-dir", str(run))
    child = subprocess.Popen(
        place.command(*sweep, "--cluster", cluster.address),
        cwd=place.folder,
        env=place.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    _worker_at_a_walk(child, {worker.pid: worker})
    cluster.kill_scheduler()
    out, _ = child.communicate(timeout=300)
    assert child.returncode == 2, out
    assert "INTERNALERROR" not in out
    assert "Traceback" not in out
    done = place.run("pytest", "--op-by-op", "--resume", str(run), "--no-report")
    assert done.code == 0, done.out + done.err
    assert {test.status for test in store.load_run(run).tests} == {Status.STOPPED}


def _worker_at_a_walk(child: subprocess.Popen[Any], workers: dict[int, subprocess.Popen[bytes]]) -> int:
    """The worker whose child has announced an op and evaluates the next."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert child.poll() is None, child.communicate()
        for pid in workers:
            for process in psutil.Process(pid).children(recursive=True):
                try:
                    times = process.cpu_times()
                    if times.user > 0.5 and any("evaluating" in file.path for file in process.open_files()):
                        return pid
                except psutil.Error:
                    continue
        time.sleep(0.05)
    raise AssertionError("no worker walks")


def test_a_walk_ends_with_the_controller_that_asked_for_it(place: Place, cluster: Cluster) -> None:
    (place.folder / "slow.mlir").write_text(SLOW.replace("ROUNDS", "10000000"))
    cache = place.folder / "cache"
    worker = cluster.worker()
    child = place.start(
        f"pytest --model slow.mlir --op-by-op --no-report --cluster {cluster.address} --backend null",
        output=subprocess.DEVNULL,
        OPSCOPE_CACHE_DIR=str(cache),
    )
    _worker_at_a_walk(child, {worker.pid: worker})
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    deadline = time.monotonic() + 15
    while any(
        "evaluating" in file.path
        for process in psutil.Process(worker.pid).children(recursive=True)
        for file in process.open_files()
    ):
        assert time.monotonic() < deadline, "the child is at work for nobody"
        time.sleep(0.1)
    assert worker.poll() is None
