"""The database's numbers: `make measure ARGS=database`.

Measures publishing 100,000 op tests of 60 models to an empty database, the same a night later, one of them again, and
the page of a night of 60 models. The databases are SQLite, and PostgreSQL if OPSCOPE_MEASURE_POSTGRES names a server.
The seconds are those of the whole command, as a user waits for it.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import big_run
import scratch_postgres
from figures import Figure

BIN = Path(sys.executable).parent
NIGHTS = ("2026-11-20", "2026-11-21")


def timed(*arguments: str | Path) -> float:
    """Runs one command and returns its seconds."""
    started = time.monotonic()
    subprocess.run([BIN / "opscope", *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - started


def publishing(what: str, scratch: Path, url: str) -> Iterator[Figure]:
    """Publishes two nights one after the other, and the second again; yields nothing without a URL."""
    first, second = (scratch / night for night in NIGHTS)
    for when, run in (("an empty database", first), ("a night later", second), ("again, unchanged", second)):
        if url:
            seconds = timed("publish", run, "--to", url)
            yield Figure(f"{what}, {when}", f"{seconds:.1f} s", "<= 20 s", seconds <= 20)


def figures(scratch: Path, op_tests: int = 100_000, page_tests: int = 10_000) -> Iterator[Figure]:
    """Every figure in order."""
    for night in NIGHTS:
        big_run.make(scratch / night, op_tests, 60, night)
    with scratch_postgres.database() as postgres:
        for kind, url in (("SQLite", f"sqlite:///{scratch}/published.sqlite"), ("PostgreSQL", postgres)):
            yield from publishing(f"publishing {op_tests:,} op tests into {kind}", scratch, url)
    url, page = f"sqlite:///{scratch}/page.sqlite", scratch / "night.html"
    for night in NIGHTS:
        big_run.make(scratch / f"page-{night}", page_tests, 60, night)
        timed("publish", scratch / f"page-{night}", "--to", url)
    seconds = timed("report", "--db", url, "-o", page)
    size = page.stat().st_size / 1e6
    name = f"opscope report of a night of 60 models, {page_tests:,} op tests"
    yield Figure(name, f"{seconds:.1f} s", "<= 10 s", seconds <= 10)
    yield Figure(f"{name}: its page", f"{size:.1f} MB", "<= 5 MB", size <= 5)
