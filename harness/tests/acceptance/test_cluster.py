"""A sweep on a real cluster of several processes, one of which is killed while it works."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from opscope.harness.record import store
from opscope.harness.tests.acceptance.conftest import Place
from opscope.harness.tests.acceptance.test_kept_results import CLASS
from opscope.harness.tests.acceptance.test_resume import steady, words
from opscope.harness.tests.acceptance.test_whole import PRODUCT, SUM, whole
from opscope.harness.tests.run_folder import lasting
from opscope.harness.triage import from_run

Client = pytest.importorskip("distributed", reason="pip install -e '.[cluster]'").Client

pytestmark = pytest.mark.slow
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

    def _start(
        self, kind: str, *arguments: str, before: Sequence[str] = (), environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        log = (self._folder / f"{kind}-{len(self._processes)}.log").open("wb")
        self._processes.append(
            subprocess.Popen(
                [*before, sys.executable, "-P", "-m", f"distributed.cli.dask_{kind}", *arguments, "--no-dashboard"],
                cwd=self._folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=environment,
            )
        )
        log.close()
        return self._processes[-1]

    def worker(
        self, devices: int = 1, before: Sequence[str] = (), environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """A worker; `before` is the command that runs it, if any."""
        resources = ("--resources", f"device={devices}") if devices else ()
        threads = ("--nthreads", str(max(devices, 1)), "--no-nanny", "--local-directory", str(self._folder))
        words = (self.address, "--host", "127.0.0.1", *threads, *resources)
        return self._start("worker", *words, before=before, environment=environment)

    def kill_scheduler(self) -> None:
        """Kills the scheduler."""
        os.killpg(self._processes[0].pid, signal.SIGKILL)
        self._processes[0].wait()

    def sent(self) -> int:
        """How many files of ops workers were sent."""
        return len(list(self._folder.glob("**/opscope/blobs/*")))

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


def lines(run: Path) -> int:
    return sum(path.read_text().count("\n") for path in run.glob("journal/*.jsonl"))


def test_a_worker_that_is_killed_costs_nothing_but_time(steady: Place, cluster: Cluster) -> None:
    first, _, _ = cluster.worker(), cluster.worker(), cluster.worker(devices=2)
    run, whole = steady.folder / "cluster", steady.folder / "whole"
    client = Client(cluster.address, set_as_default=False)
    client.get_task_stream()  # from now on
    child = steady.start("pytest", *words("--cluster", cluster.address, "--run-dir", str(run)))
    while lines(run) < 4:
        assert child.poll() is None
        time.sleep(0.01)
    os.killpg(first.pid, signal.SIGKILL)
    at_kill = lines(run)
    out, _ = child.communicate(timeout=300)
    used = {task["worker"] for task in client.get_task_stream(count=10_000) if task["key"].startswith("opscope-")}
    client.close()
    assert child.returncode == 1, out  # the products that this backend refuses
    assert at_kill < 24, "some ops came after it"
    assert len(used) >= 2
    assert steady.run("pytest", *words("--run-dir", str(whole))).code == 1
    assert lasting(run) == lasting(whole)
    refused = next(test for test in store.load_run(run).tests if test.artifact)
    assert (run / str(refused.artifact)).read_text() == "no room for a dot\n\nthe whole story\n"
    assert f"--run-dir {refused.run_id}" in refused.repro


def test_a_verdict_of_a_worker_is_kept_with_what_it_was_made_from(place: Place, cluster: Cluster) -> None:
    toycc = place.folder / "src/toycc"
    toycc.mkdir(parents=True)
    (toycc / "__init__.py").touch()
    (toycc / "lower.py").write_text("FACTOR = 1.0\n")
    (place.folder / "mine.py").write_text(CLASS)
    environment = {"PYTHONPATH": str(place.folder / "src"), "OPSCOPE_CACHE_DIR": str(place.folder / "cache")}
    cluster.worker(devices=2, environment=place.environment | environment)
    line = f"pytest --model mnist_mlp --op-by-op --backend mine.py --no-report --cluster {cluster.address}"

    def ended() -> tuple[int, str]:
        done = place.run(line, **environment)
        return done.code, done.out + done.err

    code, first = ended()
    assert (code, "not kept" in first) == (0, False), first
    code, again = ended()
    assert (code, "24 kept" in again) == (0, True), again
    (toycc / "lower.py").write_text("FACTOR = 2.0\n")
    code, changed = ended()
    assert (code, "24 failed" in changed, "none kept: src/toycc/lower.py changed" in changed) == (1, True, True), (
        changed
    )


def test_a_verdict_is_not_kept_where_its_worker_has_other_files(place: Place, cluster: Cluster) -> None:
    for name, factor in (("src", "1.0"), ("there", "1.00")):
        toycc = place.folder / name / "toycc"
        toycc.mkdir(parents=True)
        (toycc / "__init__.py").touch()
        (toycc / "lower.py").write_text(f"FACTOR = {factor}\n")
    (place.folder / "mine.py").write_text(CLASS)
    path = {"PYTHONPATH": str(place.folder / "src"), "OPSCOPE_CACHE_DIR": str(place.folder / "cache")}
    (place.folder / "nothing").mkdir()
    hidden = blind(place.folder / "nothing")
    there = (*hidden, "sh", "-c", 'mount --bind "$0" "$1" && shift && exec "$@"')
    there = (*there, str(place.folder / "there"), str(place.folder / "src"))
    cluster.worker(devices=2, before=there, environment=place.environment | path)
    line = f"pytest --model mnist_mlp --op-by-op --backend mine.py --no-report --cluster {cluster.address}"
    done = place.run(line, **path)
    assert done.code == 0, done.out + done.err
    assert "a verdict is not kept: its worker has another src/toycc/lower.py" in " ".join(done.out.split()), done.out


def test_each_backend_of_a_run_has_lanes_of_its_own_there(steady: Place, cluster: Cluster) -> None:
    cluster.worker(devices=2)
    runs = [steady.folder / "cluster", steady.folder / "here"]
    for run, more in zip(runs, (("--cluster", cluster.address), ()), strict=True):
        several = [word.replace("steady.py", "xla,steady.py") for word in words("--run-dir", str(run), *more)]
        done = steady.run("pytest", *several)
        assert done.code == 1, done.out
    tests = store.load_run(runs[0]).tests
    assert {test.backend: test.right for test in tests if "dot" in test.op_name} == {"xla": True, "steady": False}
    assert lasting(runs[0]) == lasting(runs[1])


def test_whole_models_run_on_workers_before_the_ops_of_those_that_fail(steady: Place, cluster: Cluster) -> None:
    cluster.worker(devices=2)
    (steady.folder / "sum.mlir").write_text(SUM)
    (steady.folder / "product.mlir").write_text(PRODUCT)
    runs = {"cluster": ("--cluster", cluster.address), "here": ()}
    client = Client(cluster.address, set_as_default=False)
    client.get_task_stream()  # from now on
    for run, more in runs.items():
        models = ("--model", "sum.mlir", "--model", "product.mlir", "--backend", "steady.py")
        options = ("--op-by-op-on-fail", "--no-cache", "--no-report", "--run-dir", run, *more)
        done = steady.run("pytest", *models, *options)
        assert done.code == 1, done.out + done.err
        assert whole(steady.folder / run) == {"sum": "stopped", "product": "compile_failed"}
    ran = [task["key"] for task in client.get_task_stream(count=10_000) if task["key"].startswith("opscope-")]
    client.close()
    assert len(ran) >= 2, "both models, and the ops of one"
    assert lasting(steady.folder / "cluster") == lasting(steady.folder / "here")


def blind(folder: Path) -> tuple[str, ...]:
    """What runs a command that sees nothing in a folder, as on another machine."""
    command = ("unshare", *(() if os.geteuid() == 0 else ("--user", "--map-root-user")), "--mount")
    hidden = (*command, "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(folder))
    if subprocess.run([*hidden, "true"], capture_output=True).returncode:
        pytest.skip("this machine hides no folder from a process")
    return hidden


@pytest.mark.parametrize("seen", [True, False])
def test_real_values_are_seen_or_travel_and_the_verdicts_are_the_same(
    place: Place, cluster: Cluster, cache: Path, seen: bool
) -> None:
    cache.mkdir(exist_ok=True)
    cluster.worker(devices=2, before=() if seen else blind(cache))
    runs = [place.folder / "cluster", place.folder / "here"]
    for run, more in zip(runs, (("--cluster", cluster.address), ()), strict=True):
        options = ("--no-cache", "--no-report", "--run-dir", str(run), *more)
        done = place.run("pytest", "--model", "mnist_mlp", "--op-by-op", *options)
        assert done.code == 0, done.out + done.err
        assert (cluster.sent() == 0) == seen
    assert lasting(runs[0]) == lasting(runs[1])
    assert {test.status.value for test in store.load_run(runs[0]).tests} == {"success"}


@pytest.mark.parametrize("seen", [True, False])
def test_a_damaged_file_is_made_again_as_without_a_cluster(
    place: Place, cluster: Cluster, cache: Path, seen: bool
) -> None:
    cache.mkdir(parents=True, exist_ok=True)
    cluster.worker(devices=2, before=() if seen else blind(cache))
    options = ("--no-cache", "--no-report", "--inputs", "random", "--cluster", cluster.address)
    said = []
    for number in range(2):
        run = place.folder / f"run{number}"
        done = place.run("pytest", "--model", "mnist_mlp", "--op-by-op", *options, "--run-dir", str(run))
        assert done.code == 0, done.out + done.err
        assert {test.status.value for test in store.load_run(run).tests} == {"success"}
        printed = " ".join((done.out + done.err).split())  # wherever its lines are broken
        said.append(printed.count(": damaged (another content); exports/"))
        (folder,) = from_run.load(run).header.export_dirs
        for path in sorted(Path(folder).glob("ops/*"))[: 1 - number]:
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 1
            path.write_bytes(data)
    assert said == [0, 1]


def test_a_cluster_that_cannot_be_used_is_one_line(place: Place, cluster: Cluster) -> None:
    for options, line in (
        (
            ("--cluster", "tcp://127.0.0.1:9"),
            "--cluster tcp://127.0.0.1:9: expected a Dask scheduler at that address, got",
        ),
        (("--cluster", "here"), "--cluster: expected the address of a Dask scheduler, got 'here'; try tcp://"),
        (("--cluster", cluster.address, "-n", "2"), "--cluster: expected --cluster without -n"),
        (("--cluster", cluster.address), "expected workers with a resource `device`, got no worker; try dask worker"),
    ):
        done = place.pytest("--no-cache", *options)
        errors = [text for text in (done.err + done.out).splitlines() if ": expected " in text]
        assert done.code == 2, done.out + done.err
        assert line in errors[0]
        assert "Traceback" not in done.out + done.err
