"""README.md tells the truth: its example runs, and its commands and options exist."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from opscope.harness.settings.settings import SETTINGS

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_python_example_runs(tmp_path: Path):
    (example,) = blocks("python")
    (tmp_path / "example.py").write_text(example)
    done = subprocess.run([sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    ops, *records = done.stdout.splitlines()
    assert ops == "['stablehlo.dot_general', 'stablehlo.tanh']"
    assert [line.split()[1:4] for line in records] == [
        ["stablehlo.dot_general", "success", "compare"],
        ["stablehlo.tanh", "success", "compare"],
    ]
    assert all(float(line.split()[4]) > 0.9999 for line in records)


def test_every_verb_and_option_exists():
    commands = "\n".join(blocks("sh"))
    verbs = set(re.findall(r"^opscope (\w+)", commands, re.MULTILINE))
    assert verbs <= {point.name for point in entry_points(group="opscope.commands")}
    asked = {
        word for line in commands.splitlines() if line.startswith("pytest") for word in re.findall(r"--[a-z-]+", line)
    }
    known = {s.flag for s in SETTINGS} | {"--model", "--op-by-op", "--op", "--ops", "--resume", "--run-dir"}
    assert asked <= known


@pytest.mark.parametrize("page", ["architecture", "measurements", "dependencies"])
def test_every_page_that_it_names_exists(page: str):
    path = Path(__file__).resolve().parents[2] / "docs" / f"{page}.md"
    assert f"docs/{page}.md" in README
    assert path.read_text().startswith("# ")
