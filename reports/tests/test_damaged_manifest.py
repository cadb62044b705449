"""A manifest with a line twice: its ledger would not add up, so no command that reads it ends with exit code 0."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from opscope.harness.record.store import MANIFEST_FILE
from opscope.reports.database.ask import ask
from opscope.reports.tests.sample_run import make_run


@pytest.mark.parametrize(
    "words",
    [
        ("publish", "RUN", "--to", "URL"),
        pytest.param(("show", "RUN"), marks=pytest.mark.slow),
        pytest.param(("report", "RUN"), marks=pytest.mark.slow),
    ],
)
def test_a_line_that_stands_twice_is_said_and_the_exit_code_is_not_0(tmp_path: Path, words: tuple[str, ...]) -> None:
    run, url = make_run(tmp_path / "run"), f"sqlite:///{tmp_path}/db.sqlite"
    manifest = run / MANIFEST_FILE
    text = manifest.read_text(encoding="utf-8").splitlines(keepends=True)
    manifest.write_text("".join([*text, text[-1]]), encoding="utf-8")
    command = [
        sys.executable,
        "-P",
        "-m",
        "opscope.harness.cli.main",
        *(word.replace("RUN", str(run)).replace("URL", url) for word in words),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"{MANIFEST_FILE}: damaged (a second row of " in done.stderr
    assert "Traceback" not in done.stderr
    if words[0] == "publish":
        ((tests, ops),) = ask(url, "SELECT COUNT(*), COUNT(DISTINCT op_id) FROM op_tests").rows
        assert tests == ops > 0
