"""docs/ci_systems.md: each system's own variables name the share of a job."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from opscope.base.tests.captured import captured

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "ci_systems.md").read_text(encoding="utf-8")
JOBS = {
    "GitLab": {"CI_NODE_INDEX": "2", "CI_NODE_TOTAL": "4"},
    "Jenkins": {"SHARD": "2"},
    "Buildkite": {"BUILDKITE_PARALLEL_JOB": "1", "BUILDKITE_PARALLEL_JOB_COUNT": "4"},
    "SLURM": {"SLURM_ARRAY_TASK_ID": "2", "SLURM_ARRAY_TASK_COUNT": "4"},
    "Kubernetes": {"JOB_COMPLETION_INDEX": "1"},
}
"""System -> the variables of its second job of four."""


@pytest.mark.parametrize("system", JOBS)
def test_the_second_of_four_jobs_runs_the_second_share(system: str, tmp_path: Path) -> None:
    section = PAGE.partition(f"\n## {system}\n")[2].partition("\n## ")[0]
    found = re.search(r"--shard (?P<share>(?:\$\(\([^)]*\)\)|\S)+)", section)
    assert found is not None, system
    done = captured(["sh", "-c", f"printf %s {found['share']}"], env=os.environ | JOBS[system], cwd=tmp_path)
    assert done.stdout == "2/4"
