"""Opens every dashboard in Chromium as visitors and as `admin`, at three widths and on two telephones, and follows
where it leads.

    python -m opscope.dashboards.tests.crawl HOME [--users anonymous admin] [--kinds 390 1280 "Pixel 7" ...]
                                             [--pictures DIR] [--runs DIR]
    python -m opscope.dashboards.tests.crawl HOME --first-screens 3 [--dashboards tonight start]

HOME is the folder of a server that runs (`opscope dashboard up --home HOME`). The page of the night has to fit its
window, and with `--runs`, the folder of the run folders, its cells have to be what the journals say. Every dashboard
has to draw all its charts, without an alert, a console error, a word that is cut, anything beside the window or a
request that fails or leaves this machine. Links
between dashboards, and one link of each other kind (an op, a log), are followed. The last line is JSON: what went
wrong, how long a first screen took, its requests and its processor time, since the clock measures whatever else the
machine does. The exit code is 1 if anything went wrong. `--first-screens N` opens each dashboard once, then measures
its first screen N times.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from opscope.dashboards import asset_files
from opscope.dashboards.layout import NIGHT, address
from opscope.dashboards.tests import night_cells
from opscope.dashboards.tests.browser import BUSY, BUSY_CHARTS, HOLDER, Browser, Window, chromium, window
from opscope.dashboards.tests.whole_words import cut_words

WIDTHS = {390: 844, 1280: 800, 1920: 1080}
"""Width of a window -> its height: a telephone, a laptop, a screen."""
PHONES = ("iPhone 13", "Pixel 7")
"""Telephones as Playwright knows them: they lay a page out as wide as it says, and without a word at 980 pixels."""
NARROW = 700
"""Below it a window has the layout of a telephone (inside/narrow.py)."""
KINDS = (*map(str, WIDTHS), *PHONES)
USERS = ("anonymous", "admin")
WORDS = ", ".join(
    [
        *(
            f"{HOLDER} {place}"
            for place in ("td", "th", ".header-title", ".header-line", ".subheader-line", ".subtitle-line")
        ),
        ".dashboard-markdown p",
        ".dashboard-markdown a",
    ]
)
"""Where words have to be whole."""
IN_SIGHT = f"""busy => {{
  const inSight = e => e.getBoundingClientRect().top < window.innerHeight;
  const seen = what => [...document.querySelectorAll(what)].filter(inSight);
  return seen({json.dumps(HOLDER)}).length > 0 && seen(busy).length === 0;
}}"""
"""Whether every chart in sight is drawn, and nothing else in sight is `busy`."""


@dataclass
class Crawl:
    """What one crawl found."""

    wrong: list[str] = field(default_factory=list)
    opened: int = 0
    followed: int = 0
    screens: list[Screen] = field(default_factory=list)


@dataclass(frozen=True)
class Screen:
    """The first screen of a dashboard, opened a second time."""

    place: str
    seconds: float
    """Until every chart in sight was drawn."""
    whole_seconds: float
    """Until the filters beside them had their values too."""
    requests: int
    """Queries of charts and filters until it was drawn."""
    server_cpu: float
    browser_cpu: float


def crawl(
    browser: Browser,
    base: str,
    password: str,
    server: Iterable[int] = (),
    users: Sequence[str] = USERS,
    kinds: Sequence[int | str] = KINDS,
    pictures: Path | None = None,
    names: Sequence[str] = (),
    runs: Path | None = None,
) -> Crawl:
    """Opens the page of the night and the dashboards in `names`, or all; the pids of the `server` say whose processor
    time counts, `runs` are the run folders that the night is compared with."""
    assets, findings, pids = asset_files.read(), Crawl(), list(server)
    for user in users:
        for kind in kinds:
            with window_of(browser, base, kind) as one:
                if user == "admin" and not one.sign_in("admin", password):
                    findings.wrong.append(f"{user}: could not sign in")
                    continue
                who = f"{user} at {kind}"
                findings.wrong += [f"{who}: night: {text}" for text in night(one, runs)]
                if pictures:
                    one.page.screenshot(path=pictures / f"night-{who.replace(' ', '-')}.png")
                _visit(one, assets, who, findings, pids, pictures, names or list(assets.dashboards))
    return findings


@contextmanager
def window_of(browser: Browser, base: str, kind: int | str) -> Iterator[Window]:
    """A window of that width, or of that telephone."""
    with window(browser, base, str(kind) if kind in PHONES else "") as one:
        if kind not in PHONES:
            one.page.set_viewport_size({"width": int(kind), "height": WIDTHS[int(kind)]})
        yield one


def night(one: Window, runs: Path | None = None) -> list[str]:
    """What is wrong with the page to which `/` leads."""
    one.go("/")
    one.page.wait_for_selector("[data-drawn]")
    path = urlsplit(one.page.url).path
    wrong = [] if path == NIGHT else [f"expected / to show {NIGHT}, got {path}"]
    wrong += [*one.failed, *one.outside, *one.errors, *night_cells.layout(one.page, one.page.viewport_size["width"])]
    if runs is not None:
        wrong += night_cells.cells(one.page, runs, datetime.now(UTC).date())
    log = one.page.locator(".ng-log").first
    if log.count() and (status := one.page.request.get(log.get_attribute("href")).status) != 200:
        wrong.append(f"expected a log, got {status}")
    return wrong


def _visit(
    one: Window, assets: Any, who: str, findings: Crawl, pids: list[int], pictures: Path | None, names: Sequence[str]
) -> None:
    """One user at one width: every dashboard, every link between them, one link of each other kind."""
    kinds: dict[str, str] = {}
    queries: list[str] = []
    person = one.of_a_person()
    person.on("request", lambda r: queries.append(r.url) if "/api/v1/chart/data" in r.url else None)
    for name in names:
        doc = assets.dashboards[name]
        place = f"{who}: {doc.title}"
        print(place, file=sys.stderr, flush=True)
        for noted in (one.failed, one.outside, one.errors):
            noted.clear()
        charts = one.open(doc.slug)
        findings.opened += 1
        narrow = one.page.viewport_size["width"] < NARROW
        if charts != (expected := sum(not (narrow and assets.charts[chart].wide) for chart in doc.charts)):
            findings.wrong.append(f"{place}: expected {expected} charts, got {charts}")
        findings.wrong += [f"{place}: {text}" for text in (*one.alerts(), *one.failed, *one.outside, *one.errors)]
        wide = one.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        if wide > 0:
            findings.wrong.append(f"{place}: expected nothing beside the window, got {wide} pixels")
        at = one.page.evaluate("window.innerWidth")
        if at != (expected := one.page.viewport_size["width"]):
            findings.wrong.append(f"{place}: expected a page of {expected} pixels, got {at}")
        findings.wrong += [f"{place}: {text}" for text in cut_words(one.page.locator("body"), WORDS)]
        links = one.page.locator(f"{HOLDER} a[href], .dashboard-markdown a[href]").evaluate_all(
            "all => all.map(a => a.getAttribute('href'))"
        )
        targets = {urlsplit(link).path for link in links if link.startswith("/superset/dashboard/") and "?" not in link}
        others = {address(slug) for slug in assets.slugs} - {address(doc.slug)}
        if targets != others:
            findings.wrong.append(f"{place}: expected links to all others, got {sorted(targets ^ others)} amiss")
        kinds |= {kind: link for link in links if (kind := _kind(link))}
        if pictures:
            one.page.screenshot(path=pictures / f"{name}-{who.replace(' ', '-')}.png")
        for text in (text for text in findings.wrong if text.startswith(f"{place}:")):
            print(text, file=sys.stderr, flush=True)
        findings.screens.append(_first_screen(person, f"{one.base}{address(doc.slug)}", place, queries, pids))
    for expected in ("op", "log"):
        if expected not in kinds:
            findings.wrong.append(f"{who}: expected a link of kind {expected}, got none on any dashboard")
    _follow(one, who, kinds, findings)


def _kind(link: str) -> str:
    """The kind of a link in a table; empty for others."""
    if "native_filters=" in link:
        return "op"
    return "log" if "/artifacts/" in link else ""


def _first_screen(page: Any, link: str, place: str, queries: list[str], pids: list[int]) -> Screen:
    """Opens a dashboard again, with warm caches, and measures until the charts in sight are drawn."""
    queries.clear()
    before, browser_before, started = cpu_seconds(pids), cpu_seconds([os.getpid()]), time.monotonic()
    page.goto(link, wait_until="commit")
    times = []
    for busy in (BUSY_CHARTS, BUSY):
        page.wait_for_function(IN_SIGHT, arg=busy, polling=200)  # each look costs the page time of its own
        times.append(round(time.monotonic() - started, 2))
    server, browser = cpu_seconds(pids) - before, cpu_seconds([os.getpid()]) - browser_before
    screen = Screen(place, *times, len(queries), round(server, 2), round(browser, 2))
    page.wait_for_timeout(1000)  # Superset still writes to the address, which would end the next navigation
    page.goto("about:blank")
    return screen


def first_screens(
    browser: Browser,
    base: str,
    password: str,
    server: Iterable[int],
    users: Sequence[str],
    kinds: Sequence[str],
    names: Sequence[str],
    times: int,
) -> list[Screen]:
    """Opens each dashboard in `names` once, so that all caches are warm, then `times` times, which it measures."""
    assets, pids, screens = asset_files.read(), list(server), []
    for user in users:
        for kind in kinds:
            with window_of(browser, base, kind) as one:
                if user == "admin" and not one.sign_in("admin", password):
                    raise AssertionError("admin could not sign in")
                person, queries = one.of_a_person(), []
                person.on("request", lambda r, to=queries: to.append(r.url) if "/api/v1/chart/data" in r.url else None)
                for name in names:
                    doc = assets.dashboards[name]
                    link = f"{base}{address(doc.slug)}"
                    for number in range(times + 1):
                        screen = _first_screen(person, link, f"{user} at {kind}: {doc.title}", queries, pids)
                        screens += [screen] if number else []
    return screens


def _follow(one: Window, who: str, kinds: dict[str, str], findings: Crawl) -> None:
    """Opens one link of each kind."""
    for kind, link in kinds.items():
        findings.followed += 1
        if kind == "op":
            one.go(link)
            one.page.wait_for_selector(HOLDER)
            one.settle()
            if not one.chart("The op").locator("tbody tr a, tbody tr td").count():
                findings.wrong.append(f"{who}: expected the op of {link}, got no row")
            continue
        answer = one.page.request.get(link)
        if answer.status != 200 or not answer.text().strip():
            findings.wrong.append(f"{who}: expected the log at {link}, got {answer.status}")


def cpu_seconds(roots: Iterable[int]) -> float:
    """Processor seconds of these processes and all of their descendants that live."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        pid = int(stat.parent.name)
        children.setdefault(int(fields[1]), []).append(pid)
        ticks[pid] = sum(map(int, fields[11:15]))
    waiting, total = list(roots), 0
    while waiting:
        pid = waiting.pop()
        total += ticks.get(pid, 0)
        waiting += children.get(pid, [])
    return total / os.sysconf("SC_CLK_TCK")


def main(arguments: Sequence[str] | None = None) -> int:
    """Crawls the server of a home folder and prints what it found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("home", type=Path)
    parser.add_argument("--users", nargs="+", choices=USERS, default=USERS)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="widths and telephones")
    parser.add_argument("--pictures", type=Path)
    parser.add_argument("--runs", type=Path, metavar="DIR", help="run folders to compare the page of the night with")
    parser.add_argument("--dashboards", nargs="+", choices=list(asset_files.read().dashboards), help="default: all")
    parser.add_argument("--first-screens", type=int, metavar="N", help="only measure first screens, N times each")
    options = parser.parse_args(arguments)
    served = json.loads((options.home / "served.json").read_text())
    processes = json.loads((options.home / "processes.json").read_text())
    if options.pictures:
        options.pictures.mkdir(parents=True, exist_ok=True)
    password = (options.home / "admin_password").read_text()
    server = [int(about["pid"]) for name, about in processes.items() if name == "superset"]
    base = f"http://127.0.0.1:{served['port']}"
    with chromium() as browser:
        names = options.dashboards or list(asset_files.read().dashboards)
        if options.first_screens:
            who = options.users, options.kinds, names
            findings = Crawl(screens=first_screens(browser, base, password, server, *who, options.first_screens))
        else:
            who = options.users, options.kinds
            findings = crawl(browser, base, password, server, *who, options.pictures, names, options.runs)
    for screen in findings.screens:
        print(
            f"{screen.place:<40} charts {screen.seconds:6.2f} s, filters {screen.whole_seconds:6.2f} s, "
            f"{screen.requests:3} queries, processor time: server {screen.server_cpu:5.2f} s, browser "
            f"{screen.browser_cpu:5.2f} s"
        )
    print(*findings.wrong, sep="\n")
    print(json.dumps(asdict(findings)))
    return 1 if findings.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
