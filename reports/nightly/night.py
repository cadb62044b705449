"""Turns the runs of a night into its summary: publishes, joins, compares, decides, and notifies."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from opscope.base.visible_text import cut
from opscope.harness.record.commits.ci_variables import ci_job
from opscope.harness.record.errors import InputError
from opscope.harness.record.run_folders import runs_root
from opscope.harness.record.store import write_whole
from opscope.reports.compare.first_sentence import Said, first_sentence, head
from opscope.reports.compare.owned import Owned
from opscope.reports.database.owners import Rule
from opscope.reports.database.reading import read_database
from opscope.reports.nightly import delivery, markdown
from opscope.reports.nightly.config import Config
from opscope.reports.nightly.delivery import Delivered
from opscope.reports.nightly.findings import SeriesResult, from_database, from_folders
from opscope.reports.nightly.night_folder import REPORT, SUMMARY, end, folder_of
from opscope.reports.nightly.notifying import Message, notify
from opscope.reports.nightly.running import SweepResult
from opscope.reports.nightly.verdict import Verdict, verdict_of
from opscope.reports.pages.html import write_report
from opscope.reports.pages.night_page import render_night
from opscope.reports.records.night_record import NightRecord


@dataclass(frozen=True)
class NightResult:
    """The result of a night."""

    night: NightRecord
    results: Sequence[SeriesResult]
    delivered: Delivered
    verdict: Verdict
    said: Said
    summary: str
    """Markdown."""
    path: Path
    """File that holds the summary."""


def deliver(
    config: Config,
    night: NightRecord,
    runs: Sequence[Path],
    url: str,
    root: Path,
    rules: Sequence[Rule],
    sweep_results: Sequence[SweepResult] = (),
    say: Callable[[str], None] = lambda line: None,
    environment: Mapping[str, str] = os.environ,
    reports: bool = True,
) -> NightResult:
    """Publishes the runs, joins their shards, compares, writes summary and reports, and sends the notices.

    `reports`: whether to write report.html. Whatever fails becomes a line of the summary. Raises InputError if the
    folder cannot be written.
    """
    say(f"publishing {len(runs)} {'run' if len(runs) == 1 else 'runs'}")
    delivered = delivery.publish(runs, url, root)
    merged, notes = delivery.merge(runs, night, root)
    notes += delivered.others
    if rules and delivered.published:
        notes += delivery.name_owners(rules, url)
    notes += [
        f"{sweep_result.sweep.label}: {sweep_result.outcome}: {sweep_result.line}"
        for sweep_result in sweep_results
        if sweep_result.line
    ]
    say("comparing with the previous night")
    results, more = _series_results(night, delivered, url, merged, root, rules)
    notes += more
    links, more = (
        _pages(night, merged, url, root, Owned(rules), whole=bool(results) and not more) if reports else ([], [])
    )
    notes += more
    verdict = verdict_of(results, delivered, config.policy)
    said = first_sentence(head([(night.name, night.label, night.zone)]), [result.facts for result in results], rules)
    job = ci_job(environment).url
    links += [("job", job)] if job else []
    page = markdown.Page(said, results, verdict, delivered, notes, links)
    summary = markdown.text(page)
    path = write_whole(folder_of(root, night) / SUMMARY, summary, "a writable folder")
    result = NightResult(night, results, delivered, verdict, said, summary, path)
    unsent = notify(config.notices, _message(result, job), verdict.changed, environment)
    for line in unsent:
        say(line)
    end(
        root,
        night,
        {
            "title": said.headline,
            "about": said.about,
            "fails": verdict.fails,
            "problems": list(map(asdict, verdict.problems)),
            "published": delivered.published,
            "spooled": delivered.spooled,
            "unsent": unsent,
        },
    )
    return result


SHORT = 1500
"""Most characters of a short message; the strictest of the usual chat systems takes 2,000."""


def _message(result: NightResult, job: str) -> Message:
    """What receivers get of a night; `job` is the address of its CI job."""
    night, said, verdict = result.night, result.said, result.verdict
    return Message(
        title=said.headline,
        summary=result.summary,
        short=_short(said, verdict, job),
        name=night.name,
        night=night.night_id,
        date=night.label,
        status="failed" if verdict.fails else "passed",
        url=job,
    )


def _short(said: Said, verdict: Verdict, job: str) -> str:
    """What the night comes to, problems and the job's page, in plain text of bounded length."""
    lines = [str(said), *(f"{problem.kind.replace('_', ' ')}: {problem.text}" for problem in verdict.problems)]
    text = cut("\n".join(lines), SHORT)
    return f"{text}\n{job}" if job else text


def _series_results(
    night: NightRecord, delivered: Delivered, url: str, merged: Mapping[str, Path], root: Path, rules: Sequence[Rule]
) -> tuple[list[SeriesResult], list[str]]:
    """Results and problems: from the database if it has the whole night, else from the run folders."""
    notes: list[str] = []
    if delivered.published and not (delivered.spooled or delivered.refused or delivered.lost):
        try:
            return from_database(url, night.night_id, rules), notes
        except InputError as error:
            notes.append(str(error))
    if merged:
        notes.append("compared by run folders, because the database does not have the whole night")
    return from_folders(merged, night, root, rules), notes


def _pages(
    night: NightRecord, merged: Mapping[str, Path], url: str, root: Path, owned: Owned, whole: bool
) -> tuple[list[tuple[str, str]], list[str]]:
    """The night's page if the database has it `whole`, else a page per cell; and a line for each that failed."""
    target = folder_of(root, night) / REPORT

    def of_night() -> Path:
        with read_database(url, "--database") as connection:
            text = render_night(connection, [night.night_id], runs_root(root), target, owned)
        return write_whole(target, text, "a writable folder")

    of_cells = [partial(write_report, run_dir, url, owned=owned) for run_dir in merged.values()]
    problems: list[str] = []
    for steps in ([of_night], of_cells) if whole else (of_cells,):
        links = []
        for step in steps:
            try:
                links.append(("report", str(_relative_to(step(), root))))
            except Exception as error:  # noqa: BLE001 - a page is never worth a night
                reason = " ".join(str(error).split()) or type(error).__name__
                problems.append(
                    reason if ": expected " in reason else f"report: expected a page, got {reason}; try opscope report"
                )
        if links:
            return links, problems
    return [], problems


def _relative_to(path: Path, root: Path) -> Path:
    """The path relative to `root`, if it lies below it."""
    return path.relative_to(root) if path.is_relative_to(root) else path


def add_to_page_of_job(summary: str, file: Path | None, environment: Mapping[str, str] = os.environ) -> str:
    """Appends the summary to `file`, else to the page of the GitHub job; returns the problem if that fails."""
    target = file or Path(environment.get("GITHUB_STEP_SUMMARY") or os.devnull)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("a", encoding="utf-8") as page:
            page.write(summary)
    except OSError as error:
        return f"--summary: expected a file that can be written, got {error.strerror or error}; try another one"
    return ""
