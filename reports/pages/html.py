"""Writes report.html: one run on one page, in one file that opens without a network.

Charts are specifications of Vega-Lite (vega_lite.py); Jinja2 renders the page and escapes every text of a record, also
characters that hide or reorder what one reads.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from opscope.base.statuses import STATUSES
from opscope.base.visible_text import visible_values
from opscope.harness.record.optest import board_of
from opscope.harness.record.option_types import without_folder
from opscope.harness.record.origin import SOURCE, source_of
from opscope.harness.record.records import RunRecord
from opscope.harness.record.result_options import OPTIONS
from opscope.harness.record.stages import ImportStatus
from opscope.harness.record.store import StoredRun, write_whole
from opscope.reports.compare.owned import EVERYBODY, Owned
from opscope.reports.pages import charts, explanations, op_ir, page_rows, page_tables, vega_lite
from opscope.reports.pages.night_causes import ROWS, STYLE
from opscope.reports.pages.sections import sections, unlock_chart
from opscope.reports.records import quick_records
from opscope.reports.records.demo_data import SAID
from opscope.reports.records.night_record import membership

PAGE = Path(__file__).parent / "assets"
REPORT_FILE = "report.html"
MOST_OPEN = 5
"""How many errors the page shows unfolded; the others are folded."""
MOST_WHOLE = 20_000
"""Ops of a page that has all that is known of each; on a larger one right ops have no stage times and no places."""
LARGE = 500_000
"""Number of characters of data above which the page stores them compressed."""


def write_report(
    run_dir: Path,
    url: str | None = None,
    run: StoredRun | None = None,
    owned: Owned = EVERYBODY,
    out: Path | None = None,
) -> Path:
    """Writes the page of a run from its records, whole or not at all; returns its path, `out` or RUN/report.html.

    `url`: the database with earlier runs to compare with, if any; `run`: the run in the folder, if it was already read;
    `owned`: whose failures the page lists.

    Raises InputError if the folder has no run or the file cannot be written.
    """
    text = render(run or quick_records.stored(run_dir, MOST_WHOLE), url, run_dir, owned)
    return write_whole(out or run_dir / REPORT_FILE, text, "--no-report" if out is None else "-o FILE")


def render(run: StoredRun, url: str | None = None, run_dir: Path | None = None, owned: Owned = EVERYBODY) -> str:
    """Renders the page of a run as HTML; `run_dir` may contain more about its models than the records do."""
    return filled(context(run, url, run_dir, owned))


def filled(context: dict[str, Any]) -> str:
    """Renders the template with `context`."""
    from opscope.reports.pages.compiled_templates import environment

    return environment(PAGE, ROWS).get_template("report.html.j2").render(context)


def context(
    run: StoredRun, url: str | None = None, run_dir: Path | None = None, owned: Owned = EVERYBODY
) -> dict[str, Any]:
    """Collects the values that the template fills in."""
    from opscope.harness.record.ledger import by_backend, line

    rows = page_rows.op_rows(run.tests, owned)
    why, ir = explanations.of_tests(run_dir, run.tests), op_ir.of_tests(run_dir, run.tests)
    for row, test in zip(rows, run.tests, strict=True):
        place = (test.op_id, test.backend)
        row["ir"] = ir.get(place, [])
        row["why"] = [each._asdict() | {"picture": ""} for each in why.get(place, ())]
    books = by_backend(run.header, run.rows, run.tests, run.record.backend.split(","))
    outcome = run.record.outcome
    warnings = [] if outcome == "complete" else [f"This run is {outcome}; ops without a result count as not run."]
    imports = [check for check in run.header.imports if check.status is not ImportStatus.AGREES or check.fails_run]
    warnings += [f"{check.model}: {check.text}" + f" ({check.expected})" * bool(check.expected) for check in imports]
    member = membership(run_dir) if run_dir is not None else None
    warnings += [SAID] if member is not None and member.night.demo else []
    beyond = sections(run, url, owned)
    return {
        **frame(rows, beyond, owned),
        "why": why,
        "title": ", ".join(run.record.models),
        "on": run.record.backend,
        "warnings": warnings,
        "since": "Since the last comparable run",
        "chips": chips(run),
        "tiles": page_rows.tiles(run.tests, run.record.models, rows, beyond["quiet"]),
        "ledger_line": line(books),
        "adds_up": all(counts.adds_up for counts in books.values()),
        "splits": page_tables.splits(run.tests) if len(books) > 1 else None,
        "whole": page_tables.whole_of_run(run, run_dir, owned),
        "unsplittable": page_tables.unsplittable_of(run.rows, owned),
        "origin": origin(run.record),
    }


def frame(rows: list[dict[str, Any]], beyond: dict[str, Any], owned: Owned) -> dict[str, Any]:
    """The part of the context that follows from the ops of a run or a night. `beyond`: the sections of sections.py.

    Stages, rates and charts count all ops; lists have only the ops whose owner `owned` selects.
    """
    listed = [row for row in rows if owned.lists(row["owner"])]
    specifications = charts.charts(rows)
    for place, fixes in enumerate(beyond["fixes"]):
        if curve := unlock_chart(fixes["plan"]):
            specifications[f"chart-unlock-{place}"] = curve
    stages = page_rows.ladder(rows)["stages"]
    large = len(listed) > MOST_WHOLE
    data = {
        "charts": visible_values(specifications),
        "stages": stages,
        "statuses": {
            status: {"colour": word.colour, "text": word.text, "meaning": word.meaning}
            for status, word in STATUSES.items()
        },
    }
    rest = script_safe(data).removeprefix("{")
    ops = (("," if place else "") + script_safe(visible_values(_shown(row, large))) for place, row in enumerate(listed))
    packed, zipped = packed_data(chain(['{"ops":['], ops, ["],", rest]))  # one at a time: they may be many
    return {
        **beyond,
        "why": {},
        "ladders": page_rows.ladders(rows),
        "colours": charts.stage_colours(stages),
        "rows": listed,
        "team": owned.team,
        "has_owners": bool(owned.rules),
        "failing": page_rows.failing(listed),
        "tables": list(page_tables.of_ops(listed)),
        "charts": specifications,
        "most": charts.MOST,
        "most_open": MOST_OPEN,
        "most_shown": page_tables.MOST,
        "css": "\n".join(path.read_text(encoding="utf-8") for path in (PAGE / "report.css", ROWS / STYLE)),
        "script": (PAGE / "report.js").read_text(encoding="utf-8"),
        "vega": vega_lite.packed_javascript() if specifications else "",
        "data": packed,
        "gzip": zipped,
        "large": f"{MOST_WHOLE:,}" if large else "",
    }


def _shown(row: dict[str, Any], large: bool) -> dict[str, Any]:
    """What the table of ops has of a row."""
    return {**row, "stages": [], "locations": [], "layouts": []} if large and row["tone"] == "good" else row


def script_safe(data: Any) -> str:
    """Renders `data` as JSON that cannot close the `<script>` element around it."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def packed_data(pieces: Iterable[str]) -> tuple[str, bool]:
    """The pieces as one text, and whether it is compressed with gzip, in base64, for the page to unpack: rows of ops
    are alike, so a tenth remains."""
    start, length = [], 0
    pieces = iter(pieces)
    for piece in pieces:
        start.append(piece)
        length += len(piece)
        if length >= LARGE:
            break
    else:
        return "".join(start), False
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=6, mtime=0) as file:
        for piece in chain(start, pieces):
            file.write(piece.encode())
    return base64.b64encode(buffer.getvalue()).decode(), True


def chips(run: StoredRun) -> list[tuple[str, str]]:
    """What ran on what, and when, as labels and values."""
    record = run.record
    took = "" if record.ended is None else f"{max(0.0, (record.ended - record.started).total_seconds()):.1f} s"
    pairs = [
        ("backend", record.backend),
        ("arch", board_of({test.card_type for test in run.tests}, record.arch)),
        ("card", ", ".join(sorted({test.card_type for test in run.tests}))),
        ("ran on", ", ".join(sorted({test.ran_on for test in run.tests} - {"none"}))),
        *_options(record.origin.options),
        ("started", f"{record.started:%Y-%m-%d %H:%M:%S} UTC"),
        ("took", took),
        ("run", record.run_id),
    ]
    return [(label, value) for label, value in pairs if value]


def _options(options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The types and inputs of a run, and the other options that differ from their default, as labels and values."""
    for name, option in OPTIONS.items():
        value = options.get(name)
        if name != "arch" and value is not None and (name in ("dtype", "inputs") or value != option.default):
            yield name.replace("_", " "), str(without_folder(value))


def origin(record: RunRecord) -> list[tuple[str, str]]:
    """Where a run came from, as labels and values without empty ones."""
    source = record.origin
    versions = ", ".join(f"{name} {number}" for name, number in sorted(source.versions.items()))
    options = ", ".join(
        f"{name}={value}"
        for name, value in sorted(source.options.items())
        if value is not None and name not in ("revision", "branch", SOURCE)
    )
    pairs = [
        ("revision", f"{source.revision}{' (changed since)' if source.revision and source.dirty else ''}"),
        ("branch", source.branch),
        ("repository", str(source_of(source.options).get("url", ""))),
        ("author", str(source_of(source.options).get("author", ""))),
        ("compiler revision", f"{source.backend_revision}{' (changed since)' if source.backend_dirty else ''}"),
        ("CI job", " ".join(filter(None, (source.ci_job, source.ci_url)))),
        ("host", source.host),
        ("CPU", source.cpu),
        ("Python", source.python),
        ("versions", versions),
        ("command line", shlex.join(source.command_line)),
        ("options", options),
    ]
    return [(label, value) for label, value in pairs if value]
