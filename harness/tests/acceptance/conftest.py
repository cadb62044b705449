"""Drives real command lines in folders of their own; one cache of exports serves all tests of a session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from opscope.base.tests.captured import captured
from opscope.harness.cache import export_folder
from opscope.harness.tests.one_process import the_process
from opscope.harness.tests.without_plugins import WITHOUT_PLUGINS

MODEL = "mnist_mlp"
ROOMS = ("harness", "models", "reports", "compiler", "simulator")


@dataclass(frozen=True)
class Done:
    """A command line that ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


@dataclass(frozen=True)
class Place:
    """A user's folder, with the environment of a shell in it."""

    folder: Path
    environment: dict[str, str]

    def run(self, line: str, *words: str, timeout: float = 120, **environment: str) -> Done:
        """Runs a command line, and words that may hold spaces; the folder is not on the path, as in a shell."""
        done = captured(
            self.command(line, *words), cwd=self.folder, env=self.environment | environment, timeout=timeout
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def one_after_another(self, *commands: Sequence[str], **environment: str) -> list[Done]:
        """Runs `pytest WORDS` and `opscope WORDS` in the process that the session keeps for it.

        `environment` is that of the last command alone.
        """
        asked = [(command, self.environment | (environment if command is commands[-1] else {})) for command in commands]
        return [Done(*each) for each in the_process().run(self.folder, asked)]

    def start(self, line: str, *words: str, output: Any = subprocess.PIPE, **environment: str) -> subprocess.Popen[str]:
        """As `run`, but does not wait: a process in a group of its own, so that all of it can be killed."""
        return subprocess.Popen(
            self.command(line, *words),
            cwd=self.folder,
            env=self.environment | environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def command(self, line: str, *words: str) -> list[str]:
        """The console script of this interpreter that `line` begins with, its other words, and `words`."""
        script, *first = line.split()
        return [str(Path(sys.executable).with_name(script)), *first, *words]

    def pytest(self, *words: str, backend: str = "null", report: bool = False, **environment: str) -> Done:
        """`pytest --model mnist_mlp --op-by-op WORDS`, by default on the backend that costs nothing."""
        return self.run(*self.sweep(*words, backend=backend, report=report), **environment)

    def sweep(self, *words: str, backend: str = "null", report: bool = False) -> tuple[str, ...]:
        """The command of `pytest`, above."""
        words = ("pytest", "--model", MODEL, "--op-by-op", "--backend", backend, *words)
        return (*words, *(() if report else ("--no-report",)))

    def runs(self) -> list[Path]:
        """The run folders, oldest first: their names begin with the time."""
        return sorted((self.folder / ".opscope" / "runs").glob("*"))

    def records(self, run: Path | None = None) -> list[dict[str, Any]]:
        """Every line of the journal of a run (default: the newest)."""
        segments = sorted(((run or self.runs()[-1]) / "journal").glob("*.jsonl"))
        return [json.loads(line) for segment in segments for line in segment.read_text().splitlines()]


@pytest.fixture(scope="session")
def cache() -> Path:
    """The cache of exports, in the home folder that all tests share, so that the model is exported once."""
    return export_folder.cache_dir()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """An empty folder."""
    keep = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    ours = {"COLUMNS": "120", "PYTEST_ADDOPTS": " ".join(WITHOUT_PLUGINS)}
    return Place(tmp_path, keep | ours)


@pytest.fixture
def hostile(place: Place) -> Place:
    """A folder with namesakes of our rooms, a conftest, tests, and settings of its own, all of which fail."""
    for room in ROOMS:
        (place.folder / room).mkdir()
        (place.folder / room / "__init__.py").write_text(f"raise RuntimeError('their {room}')\n")
    (place.folder / "conftest.py").write_text("raise RuntimeError('their conftest')\n")
    (place.folder / "test_theirs.py").write_text("def test_theirs():\n    raise AssertionError('their test')\n")
    (place.folder / "tests").mkdir()
    (place.folder / "tests" / "conftest.py").write_text("raise RuntimeError('their other conftest')\n")
    (place.folder / "tests" / "test_more.py").write_text("def test_more():\n    raise AssertionError('their test')\n")
    (place.folder / "pytest.ini").write_text(
        "[pytest]\ntestpaths = tests .\naddopts = --strict-markers -ra\nfilterwarnings = error\npython_files = *.py\n"
    )
    return place


@pytest.fixture
def results() -> Callable[[str], dict[str, int]]:
    """The counts of pytest's last line."""

    def counts(text: str) -> dict[str, int]:
        words = text.strip().splitlines()[-1].strip("= ").split(" in ")[0].replace(",", "").split()
        return {kind: int(number) for number, kind in zip(words[::2], words[1::2], strict=False)}

    return counts
