"""SIGKILL of everything at seeded moments: what is resumed ends as if nothing had happened, however it is run.

`OPSCOPE_KILLS=20` is the full size (`make measure`); the default is a sample of the same moments.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from opscope.harness.record import store
from opscope.harness.tests.acceptance.conftest import Place
from opscope.harness.tests.acceptance.test_cluster import Cluster, cluster
from opscope.harness.tests.acceptance.test_resume import records, resume, steady, words

pytestmark = pytest.mark.slow

assert cluster, "fixtures, used by name"
assert steady

SEED = 17
COUNT = int(os.environ.get("OPSCOPE_KILLS", "2"))


def moments(kind: str) -> list[float]:
    """Shares of the time that an undisturbed run takes."""
    draw = random.Random(f"{SEED}-{kind}")
    return [draw.uniform(0.05, 1.0) for _ in range(20)][:COUNT]


def killed(place: Place, run: Path, seconds: float, *more: str) -> None:
    """Starts a run and kills its whole process group after some seconds; one that was faster is left as it ended."""
    child = place.start("pytest", *words("--run-dir", str(run), *more), output=subprocess.DEVNULL)
    time.sleep(seconds)
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def ended(place: Place, run: Path, *more: str) -> None:
    """Goes on with a run until it is complete; one that was killed before it had a manifest begins anew."""
    words_anew = words("--run-dir", str(run), *more)
    there = (run / store.RUN_FILE).is_file()
    cluster = [word for word in more if word.startswith("tcp://")]
    rest = ("-n", "2") if "-n" in more else ("--cluster", *cluster) if cluster else ()
    done = resume(place, run, *rest) if there else place.run("pytest", *words_anew)
    assert done.code == 1, done.out + done.err  # the products that this backend refuses
    assert store.read_run(run).outcome == "complete"


@pytest.fixture
def whole(steady: Place) -> tuple[Path, float]:
    """An undisturbed run, and the seconds that it took once everything was cached."""
    steady.run("pytest", *words("--run-dir", str(steady.folder / "warm")))
    started = time.monotonic()
    assert steady.run("pytest", *words("--run-dir", str(steady.folder / "whole"))).code == 1
    return steady.folder / "whole", time.monotonic() - started


@pytest.mark.parametrize("kind", ["alone", "workers"])
def test_runs_that_are_killed_end_as_undisturbed_ones(steady: Place, whole: tuple[Path, float], kind: str) -> None:
    more = ("-n", "2") if kind == "workers" else ()
    for number, moment in enumerate(moments(kind)):
        run = steady.folder / f"cut{number}"
        killed(steady, run, moment * whole[1], *more)
        ended(steady, run, *more)
        assert records(run) == records(whole[0]), f"moment {number}, after {moment:.3f} of the run"


def test_shares_that_are_killed_join_to_the_undisturbed_run(steady: Place, whole: tuple[Path, float]) -> None:
    for number, moment in enumerate(moments("shares")):
        shares = [steady.folder / f"cut{number}-{index}" for index in (1, 2)]
        for index, run in enumerate(shares, 1):
            killed(steady, run, moment * whole[1], "--shard", f"{index}/2")
            ended(steady, run, "--shard", f"{index}/2")
        joined = steady.folder / f"joined{number}"
        done = steady.run("opscope", "merge", *map(str, shares), "--into", str(joined))
        assert done.code == 1, done.out + done.err
        assert records(joined) == records(whole[0]), f"moment {number}, after {moment:.3f} of the run"


def test_runs_on_a_cluster_that_are_killed_go_on_there(
    steady: Place, whole: tuple[Path, float], cluster: Cluster
) -> None:
    cluster.worker(devices=2)
    for number, moment in enumerate(moments("cluster")):
        run = steady.folder / f"cut{number}"
        killed(steady, run, moment * 2 * whole[1], "--cluster", cluster.address)
        ended(steady, run, "--cluster", cluster.address)
        assert records(run) == records(whole[0]), f"moment {number}, after {moment:.3f} of the run"
