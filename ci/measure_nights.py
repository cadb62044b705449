"""The numbers of a year of nights: `python ci/measure_nights.py [POSTGRESQL_URL]`; `make measure` prints them too.

1,000,000 op tests of 37 nights in SQLite, and, where OPSCOPE_MEASURE_POSTGRES (or the argument) names an empty
database, 10,000,000 op tests of 365 nights in PostgreSQL: every chart's query of every dashboard with the filters that
it has when it is opened, and the comparison of the two newest nights.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import nights_at_scale
from figures import Figure, tell
from measure_dashboards import BIN, Dashboard, p95

OF_A_NIGHT = 27_400


def figures(scratch: Path, postgres: str = "") -> Iterator[Figure]:
    """Every figure in order. `postgres`: the URL of an empty database; without one, SQLite alone."""
    yield from _of(scratch, f"sqlite:///{scratch}/year.sqlite", 37, 2.0)
    if postgres:
        yield from _of(scratch, postgres, 365, 1.0)


def _of(scratch: Path, url: str, nights: int, limit: float) -> Iterator[Figure]:
    count = nights_at_scale.fill(url, nights, OF_A_NIGHT)
    what = f"{count:,} op tests of {nights} nights in {'SQLite' if url.startswith('sqlite') else 'PostgreSQL'}"
    one = Dashboard(scratch)
    try:
        one.timed("dashboard", "up", "--port", "0", "--artifact-port", "0", "--db", url)
        spent = one.charts()
    finally:
        one.timed("dashboard", "down")
    value = f"p95 {p95(spent):.2f} s, most {max(spent):.2f} s of {len(spent)}"
    yield Figure(f"{what}: queries of all charts", value, f"p95 <= {limit:.0f} s", p95(spent) <= limit)
    seconds = diff_seconds(url)
    yield Figure(f"{what}: opscope diff, CPU time of the command", f"{seconds:.1f} s", "<= 3 s", seconds <= 3)


def diff_seconds(url: str) -> float:
    """CPU seconds of `opscope diff` of the two newest nights."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([BIN / "opscope", "diff", "--db", url], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def from_environment(scratch: Path) -> Iterator[Figure]:
    """`figures`, with the PostgreSQL database that OPSCOPE_MEASURE_POSTGRES names."""
    return figures(scratch, os.environ.get("OPSCOPE_MEASURE_POSTGRES", ""))


def main() -> int:
    """Measures and prints; exit code 1 where a number is not met."""
    if len(sys.argv) > 1:
        os.environ["OPSCOPE_MEASURE_POSTGRES"] = sys.argv[1]
    with tempfile.TemporaryDirectory() as scratch:
        return tell(from_environment(Path(scratch)))


if __name__ == "__main__":
    sys.exit(main())
