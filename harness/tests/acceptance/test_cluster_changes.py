"""What changes on a real cluster while a sweep runs: a worker of another revision joins, the scheduler dies."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest

from opscope.base.places import HOME, PACKAGE
from opscope.harness.record import store
from opscope.harness.tests.acceptance.conftest import ROOMS, Place
from opscope.harness.tests.acceptance.test_cluster import Cluster, cluster, lines
from opscope.harness.tests.acceptance.test_resume import words
from opscope.harness.tests.own_backend import own_backend

pytestmark = pytest.mark.slow

assert cluster, "a fixture, used by name"
SECONDS = 300

BACKEND = own_backend(
    "steady",
    """
    if b"dot_general" in job.module:
        (FOLDER / "begun").touch()
        for _ in range(3000):
            if (FOLDER / "open").exists():
                break
            time.sleep(0.1)
    """,
    stages="Stage.COMPILE",
    top='import pathlib, time\nFOLDER = pathlib.Path(r"{folder}")',
)
"""Its products end once the test opens the gate."""

IMPATIENT = """
from opscope.harness.scale import cluster, walks

cluster.WORKERLESS_SECONDS = walks.WORKERLESS_SECONDS = 2.0
"""
"""A plugin of pytest: sweeps wait for workers for two seconds in place of sixty."""


@pytest.fixture
def gated(place: Place) -> Place:
    (place.folder / "steady.py").write_text(BACKEND.format(folder=place.folder))
    (place.folder / "impatient.py").write_text(IMPATIENT)
    return place


def other_revision(folder: Path) -> Path:
    """A copy of our packages of which one source is another; it is imported where it stands on PYTHONPATH."""
    for room in ROOMS:
        shutil.copytree(
            HOME / room,
            folder / room,
            copy_function=shutil.copy2,
            ignore=shutil.ignore_patterns("tests", "__pycache__"),
        )
    shutil.copytree(PACKAGE, folder / "opscope", symlinks=True, ignore=shutil.ignore_patterns("tests", "__pycache__"))
    with (folder / "harness" / "verdict" / "__init__.py").open("a", encoding="utf-8") as source:
        source.write("\nANOTHER_REVISION = True\n")
    return folder


def sweep(place: Place, cluster: Cluster, run: Path, *more: str, **environment: str) -> subprocess.Popen[str]:
    return place.start("pytest", *words("--cluster", cluster.address, "--run-dir", str(run), *more), **environment)


def wait_for(path: Path, child: subprocess.Popen[str]) -> None:
    until = time.monotonic() + SECONDS
    while not path.exists():
        assert child.poll() is None, child.communicate()[0]
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_joining_worker_of_another_revision_ends_no_sweep(
    gated: Place, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cluster.worker()
    run = gated.folder / "run"
    child = sweep(gated, cluster, run)
    wait_for(gated.folder / "begun", child)
    tree = other_revision(tmp_path_factory.mktemp("other"))
    cluster.worker(devices=2, before=("env", f"PYTHONPATH={tree}"))
    assert child.stdout is not None
    said = []
    while line := child.stdout.readline():
        said.append(line)
        if "on tcp://" in line:  # the end of what the terminal may break
            break
    (gated.folder / "open").touch()
    rest, _ = child.communicate(timeout=SECONDS)
    out = "".join(said) + rest
    assert child.returncode == 0, out
    assert out.count("is left out: ") == 1
    assert "expected the same opscope on every worker, got a different one on tcp://" in " ".join(out.split())
    assert {test.status.value for test in store.load_run(run).tests} == {"passed"}
    assert "Traceback" not in out


def test_a_scheduler_that_dies_ends_a_run_that_can_be_resumed(gated: Place, cluster: Cluster) -> None:
    cluster.worker()
    run = gated.folder / "run"
    child = sweep(gated, cluster, run, "-p", "impatient", PYTHONPATH=str(gated.folder))
    wait_for(gated.folder / "begun", child)
    until = time.monotonic() + SECONDS
    while not lines(run) and time.monotonic() < until:
        time.sleep(0.05)
    cluster.kill_scheduler()
    kept = lines(run)
    out, _ = child.communicate(timeout=SECONDS)

    assert "INTERNALERROR" not in out, out
    assert "Traceback" not in out
    assert child.returncode == 2, out
    assert kept
    statuses = [test.status.value for test in store.load_run(run).tests]
    assert statuses.count("passed") >= kept
    (gated.folder / "open").touch()
    done = gated.run("pytest", "--op-by-op", "--resume", str(run), "--no-report")
    assert done.code == 0, done.out + done.err
    assert {test.status.value for test in store.load_run(run).tests} == {"passed"}
