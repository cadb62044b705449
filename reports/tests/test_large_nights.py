"""A night of 50,000 ops fits a small machine: what is written of it is read as a stream."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from opscope.reports.tests.nights import Op, night

pytestmark = pytest.mark.slow

OPSCOPE = Path(sys.executable).parent / "opscope"
OPS, MODELS = 50_000, 200


RUN = "import json, resource, subprocess as s, sys; code = s.run(sys.argv[1:], stdout=2).returncode"
RUN += "; print(json.dumps([code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss]))"
"""A small process that starts the command: what one has when it starts another counts as that of the other."""


def peak(folder: Path, *words: str) -> int:
    """The most memory in MB that a command, or a child of it, took at once."""
    done = subprocess.run([sys.executable, "-c", RUN, OPSCOPE, *words], cwd=folder, capture_output=True, check=True)
    code, kilobytes = json.loads(done.stdout)
    assert code == 0, done.stderr.decode()
    return kilobytes // 1000


def test_what_is_written_of_50_000_ops_takes_little_memory(tmp_path: Path) -> None:
    models = [f"model_{number}" for number in range(MODELS)]
    ops = {}
    for number in range(OPS):
        uses = {models[number % MODELS]: 1, models[number * 7 % MODELS]: 2}
        status = "success" if number % 50 else "compile_failed"
        ops[f"op_{number}"] = Op(status, uses, error=f"no kernel {number % 12}", cycles=9)
    run = str(night(tmp_path, 1, ops))
    url = f"sqlite:///{tmp_path}/db.sqlite"
    took = {
        "export": peak(tmp_path, "export", run, "--format", "csv", "-o", str(tmp_path / "exported")),
        "publish": peak(tmp_path, "publish", run, "--to", url),
        "report": peak(tmp_path, "report", run, "-o", "page.html"),
        "report of the database": peak(tmp_path, "report", "night01", "--db", url, "-o", "stored.html"),
    }
    limits = {"export": 400, "publish": 400, "report": 600, "report of the database": 600}
    assert {what: mb for what, mb in took.items() if mb > limits[what]} == {}
    for page in ("page.html", "stored.html"):
        assert (tmp_path / page).stat().st_size <= 5_000_000
        assert "of those that are right, stage times" in (tmp_path / page).read_text(encoding="utf-8")
