"""The database's numbers: `python ci/measure_database.py`; `make measure` prints them too.

Publishing 100,000 op tests of 60 models into an empty SQLite database, the same a night later, one of them again, and
the page of a night of 60 models. Seconds are of the whole command, as a user waits for it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import big_run
from figures import Figure, tell

BIN = Path(sys.executable).parent
NIGHTS = ("2026-11-20", "2026-11-21")


def timed(*words: str | Path) -> float:
    """Seconds of one command."""
    started = time.monotonic()
    subprocess.run([BIN / "opscope", *words], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - started


def figures(scratch: Path, op_tests: int = 100_000, page_tests: int = 10_000) -> Iterator[Figure]:
    """Every figure in order."""
    url = f"sqlite:///{scratch}/published.sqlite"
    for night in NIGHTS:
        big_run.make(scratch / night, op_tests, 60, night)
    first, second = (scratch / night for night in NIGHTS)
    for what, run in (("into an empty database", first), ("a night later", second), ("again, unchanged", second)):
        seconds = timed("publish", run, "--to", url)
        yield Figure(
            f"publishing {op_tests:,} op tests into SQLite, {what}", f"{seconds:.1f} s", "<= 20 s", seconds <= 20
        )
    url, page = f"sqlite:///{scratch}/page.sqlite", scratch / "night.html"
    for night in NIGHTS:
        big_run.make(scratch / f"page-{night}", page_tests, 60, night)
        timed("publish", scratch / f"page-{night}", "--to", url)
    seconds = timed("report", "--db", url, "-o", page)
    size = page.stat().st_size / 1e6
    what = f"opscope report of a night of 60 models, {page_tests:,} op tests"
    yield Figure(what, f"{seconds:.1f} s", "<= 10 s", seconds <= 10)
    yield Figure(f"{what}: its page", f"{size:.1f} MB", "<= 5 MB", size <= 5)


def main() -> int:
    """Measures and prints; exit code 1 where a number is not met."""
    with tempfile.TemporaryDirectory() as scratch:
        return tell(figures(Path(scratch)))


if __name__ == "__main__":
    sys.exit(main())
