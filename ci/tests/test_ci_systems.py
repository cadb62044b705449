"""docs/ci_systems.md: each system's own variables name the share of a job, and its lines run."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from opscope.base.tests.captured import captured
from opscope.harness.record.store import read_run

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "ci_systems.md").read_text(encoding="utf-8")
JOBS = {
    "GitHub Actions": {"SHARD": "2"},
    "GitLab": {"CI_NODE_INDEX": "2", "CI_NODE_TOTAL": "4"},
    "Jenkins": {"SHARD": "2"},
    "Buildkite": {"BUILDKITE_PARALLEL_JOB": "1", "BUILDKITE_PARALLEL_JOB_COUNT": "4"},
    "SLURM": {"SLURM_ARRAY_TASK_ID": "2", "SLURM_ARRAY_TASK_COUNT": "4"},
    "Kubernetes": {"JOB_COMPLETION_INDEX": "1"},
}
"""System -> the variables of its second job of four."""
NET = """
import jax.numpy as jnp

example_inputs = jnp.ones((4, 8)), jnp.ones((8, 2))

def net(x, w):
    return jnp.exp(jnp.tanh(x @ w)) + jnp.cos(x @ w)
"""


def line_of(system: str) -> str:
    """The line that the page's section of a system has a job run; what GitHub itself replaces is a variable."""
    section = PAGE.partition(f"\n## {system}\n")[2].partition("\n## ")[0]
    found = re.search(r"pytest --model [^'\"\n]*", section)
    assert found is not None, system
    return found[0].replace("${{ matrix.shard }}", "$SHARD")


@pytest.mark.parametrize("system", JOBS)
def test_the_second_of_four_jobs_runs_the_second_share(system: str, tmp_path: Path) -> None:
    found = re.search(r"--shard ((?:\$\(\([^)]*\)\)|\S)+)", line_of(system))
    assert found is not None, system
    done = captured(["sh", "-c", f"printf %s {found[1]}"], env=os.environ | JOBS[system], cwd=tmp_path)
    assert done.stdout == "2/4"


@pytest.mark.slow
def test_the_lines_run_and_the_shares_are_joined(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    environment["OPSCOPE_CACHE_DIR"] = str(tmp_path / "cache")

    def ran(line: str, folder: Path, **variables: str) -> str:
        folder.mkdir(exist_ok=True)
        line = line.replace("--model net.py", "--model ../net.py").replace("/shared/", "")
        done = captured(["sh", "-c", line], env=environment | variables, cwd=folder)
        assert done.returncode == 0, (line, done.stdout[-1000:], done.stderr[-1000:])
        return done.stdout

    for system, variables in JOBS.items():
        folder = tmp_path / system.replace(" ", "-")
        ran(line_of(system), folder, **variables)
        (share,) = folder.glob("share-*")
        assert read_run(share).origin.options["shard"] == "2/4", system
    for number in "134":
        ran(line_of("SLURM"), tmp_path / "SLURM", SLURM_ARRAY_TASK_ID=number, SLURM_ARRAY_TASK_COUNT="4")
    join = re.search(r"^opscope merge [^#\n]*", PAGE, re.MULTILINE)
    assert join is not None
    said = ran(join[0], tmp_path / "SLURM", DATABASE=f"sqlite:///{tmp_path / 'results.sqlite'}")
    assert "5 unique ops = 5 success" in said
