"""The page of the night against the journals: its cells worked out from run folders alone, and its layout measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from opscope.dashboards.tests.whole_words import cut_words
from opscope.harness.record.causes import cause_of_test
from opscope.harness.record.records import OpTest
from opscope.harness.record.stages import FAILED
from opscope.harness.record.store import load_run
from opscope.reports.records.night_record import membership

DAYS, MOST = 14, 20
Cells = dict[tuple[str, str], list[str]]
"""(cause, series) -> what its cells show, the oldest date first."""

WORDS = "h1, .when, .ng td, .ng th, .ng p, .ng li, .ng-facts span, .ng button, .ng a, .ng summary"
"""Where words have to be whole."""

LOOK = """() => [...document.querySelectorAll(".ng-cause")].flatMap(cause =>
  [...cause.querySelectorAll("tbody tr")].map(row => [cause.dataset.cause, row.querySelector("th").textContent.trim(),
    [...row.querySelectorAll("td")].map(cell => [...cell.classList].map(name => name.slice(3)).sort().join(" ")
      + " " + cell.textContent.trim())]))"""
MEASURE = """() => {
  const seen = element => element.getClientRects().length > 0;
  const box = element => element.getBoundingClientRect();
  const all = what => [...document.querySelectorAll(what)].filter(seen);
  return {
    wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    tall: document.documentElement.scrollHeight - window.innerHeight,
    causes: all(".ng-cause").map(each => box(each).bottom),
    cells: all(".ng-cause td").map(each => [box(each).width, box(each).height]),
    buttons: all(".ng-do button, .ng-do a, .ng-do summary").map(each => [box(each).width, box(each).height]),
    unnamed: all(".ng-cause td").filter(each => !each.getAttribute("aria-label")).length,
    across: all(".ng-cause").flatMap(cause => [...cause.querySelectorAll(".ng-what, table")].filter(each =>
      box(each).right > box(cause).right + 1 || box(each).bottom > box(cause).bottom + 1).map(each => each.className)),
  };
}"""


@dataclass(frozen=True)
class Run:
    """The run of one night in one series."""

    night: str
    date: str
    series: tuple[str, str]
    started: Any
    partial: bool
    tests: Mapping[str, OpTest]


def shown(page: Any) -> Cells:
    """What the page shows."""
    return {(cause, series): cells for cause, series, cells in page.evaluate(LOOK)}


def from_journals(runs: Path, today: date) -> Cells:
    """What the page has to show, of nights that have one run in each series."""
    by_series: dict[tuple[str, str], list[Run]] = {}
    for run in sorted(_read(runs), key=lambda run: run.started):
        by_series.setdefault(run.series, []).append(run)
    days = [(today - timedelta(days=ago)).isoformat() for ago in reversed(range(DAYS))]
    failing = {
        (series, run.date): _failing(run, earlier.tests if earlier else None)
        for series, of in by_series.items()
        for earlier, run in zip([None, *of], of, strict=False)
    }
    causes = {cause for (_, day), ops in failing.items() if day in days for cause in ops}
    backends = [backend for backend, _ in by_series]
    cells: Cells = {}
    for series, of in by_series.items():
        name = series[0] if backends.count(series[0]) == 1 and len(backends) > 1 else series[1]
        by_date = {run.date: run for run in of}
        for cause in causes:
            if not any(cause in failing.get((series, day), {}) for day in days):
                continue  # the row only names the series
            cells[cause, name] = [
                _cell(by_date.get(day), failing.get((series, day), {}).get(cause), day < of[0].date) for day in days
            ]
    return cells


def _cell(run: Run | None, ops: tuple[int, int, int] | None, before: bool) -> str:
    if run is None:
        return "empty " if before else "no-night "
    if ops is None:
        return "partial unknown ?" if run.partial else "right ✓"
    count, anew, known = ops
    state, text = ("known", f"({count})") if known == count else ("new" if anew else "failing", str(count))
    return f"{state}{' partial' if run.partial else ''} {text}"


def _failing(run: Run, before: Mapping[str, OpTest] | None) -> dict[str, tuple[int, int, int]]:
    """Cause -> how many ops fail for it, how many of them did not fail that way in the night before, and how many
    limitations name."""
    counts: dict[str, tuple[int, int, int]] = {}
    for op_id, test in run.tests.items():
        if test.status not in FAILED:
            continue
        old = before.get(op_id) if before is not None else None
        same = old is not None and _reason(old) == _reason(test)
        anew = before is not None and not same and not test.expected and not test.flaky
        ops, new, known = counts.get(cause_of_test(test), (0, 0, 0))
        counts[cause_of_test(test)] = ops + 1, new + anew, known + bool(test.expected)
    return counts


def _reason(test: OpTest) -> tuple[object, ...]:
    return test.status, test.failed_stage, test.error_signature, test.crash_kind


def _read(runs: Path) -> Iterator[Run]:
    for folder in sorted(path.parent for path in runs.glob("*/run.json")):
        member = membership(folder)
        if member is None:
            continue  # a single run, which is no night
        run, night = load_run(folder), member.night
        yield Run(
            night.night_id,
            night.label[:10],
            (run.record.backend, run.record.arch),
            night.started,
            not {*night.models} <= {*run.header.models} or run.record.outcome != "complete",
            {test.op_id: test for test in run.tests},
        )


def layout(page: Any, width: int) -> list[str]:
    """What is wrong with the page in a window of that width, by its size; of a desk, a screen and a telephone."""
    found = page.evaluate(MEASURE)
    wrong = [f"expected nothing beside the window, got {found['wide']} pixels"] if found["wide"] > 0 else []
    wrong += cut_words(page.locator("body"), WORDS)
    wrong += [f"expected all of a cause within its row, got {part} beyond it" for part in found["across"]]
    if found["unnamed"]:
        wrong.append(f"expected every cell to say what it is, got {found['unnamed']} that do not")
    if width == 1280 and len(found["causes"]) >= 4 and found["causes"][3] > 800:
        wrong.append(f"expected four causes above 800 pixels, got the fourth down to {found['causes'][3]:.0f}")
    if width < 700:
        wrong += [f"expected buttons of 44 pixels, got {size}" for size in found["buttons"] if min(size) < 44]
        wrong += [f"expected cells of 22 pixels, got {size}" for size in found["cells"] if min(size) < 22]
    return sorted(set(wrong))


def cells(page: Any, runs: Path, today: date) -> list[str]:
    """Cells that are not what the journals say."""
    expected, got = from_journals(runs, today), shown(page)
    causes = {cause for cause, _ in got}
    wrong = [] if len(causes) <= MOST else [f"expected {MOST} causes at most, got {len(causes)}"]
    if len({cause for cause, _ in expected}) <= MOST:
        wrong += [f"expected cause {cause} of {series}, got no row" for cause, series in expected.keys() - got.keys()]
    for (cause, series), row in got.items():
        if row != expected.get((cause, series)):
            wrong.append(f"cause {cause} of {series}: expected {expected.get((cause, series))}, got {row}")
    return wrong


def states(rows: Sequence[Sequence[str]]) -> set[str]:
    """The states that occur in rows of cells, without their numbers."""
    return {cell.rpartition(" ")[0] for row in rows for cell in row}
