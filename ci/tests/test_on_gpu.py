"""The script for a machine with a GPU, as far as it goes without one: its steps, its refusal, and the figures."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ci.gpu_figures import figures

SCRIPT = Path(__file__).parent.parent / "on_gpu.sh"


def called(*words: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | ({"PATH": f"{path}:{os.environ['PATH']}"} if path else {})
    return subprocess.run(["bash", str(SCRIPT), *words], capture_output=True, text=True, env=environment, timeout=60)


def test_a_dry_run_says_what_it_would_do_and_leaves_nothing(tmp_path: Path) -> None:
    done = called("--dry-run", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("+ ")]
    assert any("jax[cuda13]==" in line for line in lines)
    [run] = [line for line in lines if "--op-by-op" in line]
    assert run.count("--model") == 6
    assert "--backend xla,pjrt:cuda" in run
    assert str(tmp_path / "out" / "venv") in run, "the environment that was installed"
    assert not (tmp_path / "out").exists()


def test_without_a_gpu_it_ends_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\nexit 9\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    refused = called(str(tmp_path / "out"), path=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == (
        "ci/on_gpu.sh: expected a machine with an NVIDIA GPU, got none that nvidia-smi finds; try --dry-run\n"
    )


def record(backend: str, name: str, **more: object) -> dict[str, object]:
    values: dict[str, object] = {
        "backend": backend,
        "op_name": name,
        "op_id": "1",
        "card_type": "host",
        "status": "success",
        "run_ns": None,
        "z_max": None,
        "error_message": None,
    }
    return values | more


def test_figures_count_verdicts_and_take_the_worst_error_of_each_op() -> None:
    lines = list(
        figures(
            [
                record("gpu", "add", run_ns=3000.0, z_max=-0.5),
                record("gpu", "add", run_ns=1000.0, z_max=0.25),
                record("gpu", "dot", run_ns=2000.0, z_max=7.0, status="wrong_result", error_message="far\n off | here"),
                record("xla", "add", z_max=0.125),
            ]
        )
    )
    assert "| gpu | host | 3 | 2 success, 1 wrong_result | 2 us | 3 us | 0.00 s |" in lines
    assert "| xla | host | 1 | 1 success |  |  |  |" in lines
    assert lines.index("| dot | 7 | exact |") < lines.index("| add | 0.5 | 0.125 |")
    assert "| gpu | dot | 1 | wrong_result | far off / here |" in lines


@pytest.mark.parametrize("word", ["set -euo pipefail", "--reruns", "timeout 400"])
def test_the_script_stops_at_an_error_and_in_time(word: str) -> None:
    assert word in SCRIPT.read_text()
