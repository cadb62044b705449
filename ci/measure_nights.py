"""The numbers of a year of nights: `make measure ARGS=nights`.

Measures 1,000,000 op tests of 37 nights in SQLite, and 10,000,000 op tests of 365 nights in PostgreSQL on the server
that OPSCOPE_MEASURE_POSTGRES names: the query of every chart of every dashboard, with the filters that the dashboard
opens with, and the comparison of the two newest nights.
"""

from __future__ import annotations

import resource
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import nights_at_scale
import scratch_postgres
from figures import Figure
from measure_dashboards import BIN, Dashboard, p95

OF_A_NIGHT = 27_400


def figures(scratch: Path) -> Iterator[Figure]:
    """Every figure in order; those of PostgreSQL only if a server is named."""
    yield from _of(scratch, f"sqlite:///{scratch}/year.sqlite", 37, 2.0)
    with scratch_postgres.database() as url:
        if url:
            yield from _of(scratch, url, 365, 1.0)


def _of(scratch: Path, url: str, nights: int, limit: float) -> Iterator[Figure]:
    count = nights_at_scale.fill(url, nights, OF_A_NIGHT)
    nights_name = f"{count:,} op tests of {nights} nights in {'SQLite' if url.startswith('sqlite') else 'PostgreSQL'}"
    dashboard = Dashboard(scratch)
    try:
        dashboard.timed("dashboard", "up", "--port", "0", "--artifact-port", "0", "--db", url)
        spent = dashboard.charts()
    finally:
        dashboard.timed("dashboard", "down")
    value = f"p95 {p95(spent):.2f} s, most {max(spent):.2f} s of {len(spent)}"
    yield Figure(f"{nights_name}: queries of all charts", value, f"p95 <= {limit:.0f} s", p95(spent) <= limit)
    seconds, cpu = diff_seconds(url)
    value = f"{seconds:.1f} s, {cpu:.1f} s of CPU"
    yield Figure(f"{nights_name}: opscope diff of the two newest nights", value, "<= 3 s", seconds <= 3)


def diff_seconds(url: str) -> tuple[float, float]:
    """Seconds of `opscope diff`, and the processor time of the command itself."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run([BIN / "opscope", "diff", "--db", url], check=True, stdout=subprocess.DEVNULL)
    seconds, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
