"""The dashboards' numbers: `python ci/measure_dashboards.py [DATABASE_URL]`; `make measure` prints them too.

Measures the time from nothing to a served dashboard over the demo's thirty nights, the same a second time, and how long
the queries of charts take, also on another database if a URL is given. Then Chromium crawls every dashboard.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from figures import Figure, print_figures

BIN = Path(sys.executable).parent


class Dashboard:
    """Runs `opscope` with its own caches, home and working folder."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.environment = {
            **os.environ,
            "OPSCOPE_CACHE_DIR": str(scratch / "cache"),
            "OPSCOPE_DASHBOARD_HOME": str(scratch / "home"),
        }

    def timed(self, *arguments: str) -> tuple[float, str]:
        """Runs one command; returns its seconds and stdout."""
        started = time.monotonic()
        done = subprocess.run(
            [BIN / "opscope", *arguments],
            cwd=self.scratch,
            env=self.environment,
            text=True,
            stdout=subprocess.PIPE,
            check=True,
        )
        return time.monotonic() - started, done.stdout

    def charts(self) -> list[float]:
        """Seconds of every chart's query. Raises CalledProcessError if one fails."""
        rows = json.loads(self.timed("dashboard", "check", "--json")[1])
        return [row["seconds"] for row in rows if "chart" in row]  # the others are links

    def crawl(self) -> dict:
        """Opens every dashboard in Chromium, as a visitor and as admin, and follows its links."""
        command = [sys.executable, "-m", "opscope.dashboards.tests.crawl", str(self.scratch / "home")]
        done = subprocess.run(command, env=self.environment, text=True, stdout=subprocess.PIPE)
        return json.loads(done.stdout.splitlines()[-1])


def p95(seconds: list[float]) -> float:
    """The time that 95 % of the queries stay below."""
    return statistics.quantiles(seconds, n=20)[-1]


def figures(scratch: Path, url: str | None = None) -> Iterator[Figure]:
    """Every figure in order; the server is stopped at the end."""
    dashboard = Dashboard(scratch)
    seconds, _ = dashboard.timed("demo")
    yield Figure("opscope demo: 30 nights", f"{seconds:.1f} s", "<= 120 s", seconds <= 120)
    up = ("dashboard", "up", "--port", "0", "--artifact-port", "0", "--db")
    demo = f"sqlite:///{scratch}/.opscope/demo/opscope.sqlite"
    try:
        for what, limit in (("from nothing, Superset's installation included", 240), ("again, running", 40)):
            seconds, _ = dashboard.timed(*up, demo)
            yield Figure(f"opscope dashboard up, {what}", f"{seconds:.1f} s", f"<= {limit} s", seconds <= limit)
        dashboard.timed("dashboard", "down")
        seconds, _ = dashboard.timed(*up, demo)
        yield Figure("opscope dashboard up, again, stopped", f"{seconds:.1f} s", "<= 40 s", seconds <= 40)
        for what, database in (("the demo", demo), ("the database given", url)):
            if database:
                dashboard.timed(*up, database)
                spent = dashboard.charts()
                value = f"p95 {1000 * p95(spent):.0f} ms, most {1000 * max(spent):.0f} ms of {len(spent)}"
                yield Figure(f"queries of all charts over {what}", value, "p95 <= 1000 ms", p95(spent) <= 1)
        dashboard.timed(*up, demo, "--anonymous")
        yield from crawled(dashboard.crawl())
    finally:
        dashboard.timed("dashboard", "down")


FIRST_SCREEN = 5.0
"""Seconds that the charts in sight may take with warm caches."""


def crawled(report: dict) -> Iterator[Figure]:
    """What the crawl reports: what went wrong, and how long first screens took."""
    print(*report["wrong"], sep="\n")
    value = f"{len(report['wrong'])} wrong in {report['opened']} pages, {report['followed']} links of tables followed"
    yield Figure(
        "dashboards in Chromium, anonymous and admin, at 390, 1280, 1920 px and on two telephones",
        value,
        "0 wrong",
        not report["wrong"],
    )
    slowest = max(report["screens"], key=lambda screen: screen["seconds"])
    cpu = max(screen["server_cpu"] + screen["browser_cpu"] for screen in report["screens"])
    queries = max(screen["requests"] for screen in report["screens"])
    whole = max(screen["whole_seconds"] for screen in report["screens"])
    value = (
        f"{slowest['seconds']:.1f} s ({slowest['place']}), filters too {whole:.1f} s; most processor time "
        f"{cpu:.1f} s, most queries {queries}"
    )
    met = slowest["seconds"] <= FIRST_SCREEN
    yield Figure("slowest first screen, its charts, caches warm", value, f"<= {FIRST_SCREEN:.0f} s", met)


def main() -> int:
    """Measures and prints the figures; returns 1 if one misses its target."""
    with tempfile.TemporaryDirectory() as scratch:
        return print_figures(figures(Path(scratch), *sys.argv[1:2]))


if __name__ == "__main__":
    sys.exit(main())
