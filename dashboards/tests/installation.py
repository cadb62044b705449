"""One dashboard server of the tests, and the database behind it."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from opscope.reports.records.night_record import NightRecord

NASTY = "<b onclick=alert(1)>model</b>'; DROP TABLE runs; --"
"""What a file of a model may be called and nobody may execute."""


def demo_night(started: datetime, board: str, model: str) -> NightRecord:
    """A night of one model on one board, beside those of the demo."""
    return NightRecord(started=started, models=(model,), backends=("reference",), archs=(board,), demo=True)


@dataclass(frozen=True)
class Installation:
    """A server with a home folder of its own."""

    folder: Path
    database: Path

    def run(self, *words: str, code: int | None = 0, stdin: str = "") -> str:
        """The stdout of `opscope dashboard ...`, which ends with `code`; None: with any."""
        command = [
            sys.executable,
            "-m",
            "opscope.harness.cli.main",
            "dashboard",
            *words,
            "--home",
            str(self.folder / "home"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, input=stdin)
        assert code in (None, done.returncode), done.stdout + done.stderr
        return done.stdout

    def refused(self, *words: str) -> str:
        """The stderr of `opscope dashboard ...`, which ends with exit code 2, but for its lines of a long minute."""
        command = [
            sys.executable,
            "-m",
            "opscope.harness.cli.main",
            "dashboard",
            *words,
            "--home",
            str(self.folder / "home"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder)
        assert (done.returncode, done.stdout) == (2, "")
        lines = done.stderr.splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith("opscope dashboard · "))

    def up(self, *words: str) -> str:
        """Brings the server up, as a user does; its address."""
        where = ("--db", f"sqlite:///{self.database}", "--port", "0", "--artifact-port", "0")
        self.run("up", *where, "--runs", "runs", *words)  # relative, as people type it
        return str(self.status["url"])

    @property
    def status(self) -> dict[str, Any]:
        """What `status --json` says of a server that runs."""
        return json.loads(self.run("status", "--json"))

    @property
    def password(self) -> str:
        """The password of `admin`."""
        return (self.folder / "home" / "admin_password").read_text()

    @contextmanager
    def taken_back(self) -> Iterator[None]:
        """Takes back what is written to the database meanwhile, and new runs: tests come in any order."""
        runs = {*(self.folder / "runs").iterdir()}
        with closing(sqlite3.connect(":memory:")) as kept:
            with closing(sqlite3.connect(self.database)) as now:
                now.backup(kept)
            try:
                yield
            finally:
                with closing(sqlite3.connect(self.database)) as now:
                    kept.backup(now)
                for run in {*(self.folder / "runs").iterdir()} - runs:
                    shutil.rmtree(run)

    def ask(self, query: str) -> Any:
        """The first value that SQL has, asked past Superset."""
        with closing(sqlite3.connect(self.database)) as connection:
            return connection.execute(query).fetchone()[0]
