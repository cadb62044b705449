"""A sweep on a real cluster of several processes, one of which is killed while it works."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import store
from harness.records import VOLATILE
from harness.tests.acceptance.conftest import Place
from harness.tests.acceptance.test_resume import steady, words

pytest.importorskip("distributed", reason="pip install -e '.[cluster]'")
assert steady, "a fixture, used by name"


class Cluster:
    """A scheduler and workers, each a process of its own."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._start("scheduler", "--host", "127.0.0.1", "--port", self.address.rpartition(":")[2])

    def _start(self, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
        log = (self._folder / f"{kind}-{len(self._processes)}.log").open("wb")
        self._processes.append(
            subprocess.Popen(
                [sys.executable, "-P", "-m", f"distributed.cli.dask_{kind}", *arguments, "--no-dashboard"],
                cwd=self._folder, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )
        )  # fmt: skip
        log.close()
        return self._processes[-1]

    def worker(self, devices: int = 1) -> subprocess.Popen[bytes]:
        resources = ("--resources", f"device={devices}") if devices else ()
        threads = ("--nthreads", str(max(devices, 1)), "--no-nanny", "--local-directory", str(self._folder))
        return self._start("worker", self.address, "--host", "127.0.0.1", *threads, *resources)

    def used(self) -> int:
        """How many workers were sent files of ops."""
        return len(list(self._folder.glob("**/opscope/blobs")))

    def close(self) -> None:
        for process in reversed(self._processes):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.close()


def records(run: Path) -> list[dict[str, object]]:
    return [test.model_dump(exclude=set(VOLATILE)) for test in store.load_run(run).tests]


def lines(run: Path) -> int:
    return sum(path.read_text().count("\n") for path in run.glob("journal/*.jsonl"))


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_nothing_but_time(steady: Place, cluster: Cluster) -> None:
    first, _, _ = cluster.worker(), cluster.worker(), cluster.worker(devices=2)
    run, whole = steady.folder / "cluster", steady.folder / "whole"
    child = subprocess.Popen(
        steady.command("pytest", *words("--cluster", cluster.address, "--run-dir", str(run))),
        cwd=steady.folder, env=steady.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    while lines(run) < 4:
        assert child.poll() is None
        time.sleep(0.01)
    os.killpg(first.pid, signal.SIGKILL)
    at_kill = lines(run)
    used = cluster.used()
    out, _ = child.communicate(timeout=300)
    assert child.returncode == 1, out  # the products that this backend refuses
    assert at_kill < 24, "some ops came after it"
    assert used == 3
    assert steady.run("pytest", *words("--run-dir", str(whole))).code == 1
    assert records(run) == records(whole)
    refused = next(test for test in store.load_run(run).tests if test.artifact)
    assert (run / str(refused.artifact)).read_text() == "no room for a dot\n\nthe whole story\n"
    assert str(run) in refused.repro


@pytest.mark.slow
def test_real_values_travel_and_the_verdicts_are_the_same(place: Place, cluster: Cluster) -> None:
    cluster.worker(devices=2)
    runs = [place.folder / "cluster", place.folder / "here"]
    for run, more in zip(runs, (("--cluster", cluster.address), ()), strict=True):
        options = ("--no-cache", "--no-report", "--run-dir", str(run), *more)
        done = place.run("pytest", "--model", "mnist_mlp", "--op-by-op", *options)
        assert done.code == 0, done.out + done.err
    assert records(runs[0]) == records(runs[1])
    assert {test.status.value for test in store.load_run(runs[0]).tests} == {"success"}


@pytest.mark.slow
def test_a_cluster_that_cannot_be_used_is_one_line(place: Place, cluster: Cluster) -> None:
    for options, line in (
        (("--cluster", "tcp://127.0.0.1:9"), "--cluster tcp://127.0.0.1:9: expected a Dask scheduler, got"),
        (("--cluster", "here"), "--cluster: expected the address of a Dask scheduler, got 'here'; try tcp://"),
        (("--cluster", cluster.address, "-n", "2"), "--cluster: expected no -n beside it"),
        (("--cluster", cluster.address), "expected workers with a resource `device`, got no worker; try dask worker"),
    ):
        done = place.pytest("--no-cache", *options)
        told = [text for text in (done.err + done.out).splitlines() if ": expected " in text]
        assert done.code == 2, done.out + done.err
        assert line in told[0]
        assert "Traceback" not in done.out + done.err
