"""The pytest plugin of the reports room: at the end of an op-by-op run, report.html and the database.

harness/run/plugin.py registers it for the runs it starts.

It reads what harness/run/plugin.py left on the config: `opscope_run_dir` (the run, on the controller alone),
`opscope_records` (what its folder holds, as harness/record/store.py reads it; None: not known), `opscope_doing` (which
shows what is being done) and `opscope_places` (what the summary shows), to which it adds `report` and `database`.
Whatever goes wrong here is one line: the run is on disk already, and neither its records nor its exit code change. A
run whose database is away waits in .opscope/spool, from where the next publish delivers it: nothing is lost, so nothing
fails. The exit code of a test run tells of the ops; that nothing arrives is for `opscope status --max-age` to tell.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
import warnings
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from opscope.base.visible_text import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opscope.harness.record.records import OpTest
    from opscope.harness.record.store import StoredRun

    Records = tuple[StoredRun, Sequence[OpTest]]

USAGE = 2
"""Exit code for bad input."""

DOING = {"report": "writing report.html", "database": "publishing"}

AHEAD = (
    "opscope.reports.compare.owned", "opscope.reports.database.owners", "opscope.reports.pages.html",
    "opscope.reports.pages.compiled_templates", "opscope.reports.publish.spool",
)  # fmt: skip
"""The modules that a report and a publish import, with all that these import."""

IMPORTING = pytest.StashKey[threading.Thread]()
"""Imports them."""

PROBLEMS = pytest.StashKey[list[str]]()
"""One line for each thing that could not be delivered."""


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Refuses a `--publish` that is no database URL, or has no driver, before an op has run.

    The request was read by harness/run/plugin.py.
    """
    from opscope.harness.record.errors import InputError
    from opscope.harness.run.request import KEY

    request = config.stash.get(KEY, None)
    if request is None or request.settings["no_report"] or not request.settings["publish"]:
        return None
    from opscope.reports.database.database import usable_url

    try:
        usable_url(request.settings["publish"], "--publish")
    except InputError as error:
        sys.stderr.write(f"{visible(str(error))}\n")
        return USAGE
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Imports what the end of the run needs while its ops run: this process mostly waits for a lane or for workers."""
    from opscope.harness.run.request import KEY

    config = session.config
    request = config.stash.get(KEY, None)
    if request is None or request.settings["no_report"] or hasattr(config, "workerinput") or config.option.collectonly:
        return
    config.stash[IMPORTING] = thread = threading.Thread(target=_import_ahead, name="opscope-imports")
    thread.start()


def _import_ahead() -> None:
    """Whatever cannot be imported is said where the report is written, which imports it again."""
    with contextlib.suppress(Exception):
        for name in AHEAD:
            importlib.import_module(name)


# Inside the terminal's own wrapper, which prints the summary, and around everything that closes the books.
@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    """Writes the report and publishes, once the run's records are complete."""
    result = yield
    config = session.config
    if (importing := config.stash.get(IMPORTING, None)) is not None:
        importing.join()
    run_dir: Path | None = getattr(config, "opscope_run_dir", None)
    if run_dir is not None and not hasattr(config, "workerinput"):
        config.stash[PROBLEMS] = deliver(config, run_dir)
        if config.option.no_summary or config.pluginmanager.getplugin("terminalreporter") is None:
            for line in config.stash[PROBLEMS]:
                sys.stderr.write(f"{visible(line)}\n")
    return result


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Says below the run's page what could not be delivered."""
    for line in config.stash.get(PROBLEMS, []):
        terminalreporter.write_line(line, yellow=True)


def deliver(config: pytest.Config, run_dir: Path) -> list[str]:
    """Writes the report of `run_dir` and publishes it; one line for each of the two that failed."""
    from opscope.harness.run.request import KEY

    request = config.stash.get(KEY, None)
    if request is None or request.settings["no_report"]:
        return []
    records: Records | None = config.opscope_records  # type: ignore[attr-defined]
    places: dict[str, str] = config.opscope_places  # type: ignore[attr-defined]
    problems = []
    for target, step in (("report", _report), ("database", _publish)):
        config.opscope_doing(DOING[target])  # type: ignore[attr-defined]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a project that makes warnings errors means those of its own tests
                seconds = request.settings["publish_timeout"]
                places[target] = step(run_dir, request.settings["publish"], request.folder, records, seconds)
        except Exception as error:  # noqa: BLE001 - a report is never worth a run
            reason = " ".join(str(error).split()) or type(error).__name__
            hint = f"opscope publish {run_dir}" if target == "database" else f"whether {run_dir} can be written"
            problems.append(
                reason if ": expected " in reason else f"{target}: expected to write it, got {reason}; try {hint}"
            )
    return problems


def _report(run_dir: Path, url: str | None, folder: Path, records: Records | None, seconds: float) -> str:
    from opscope.base.time_limit import time_limit
    from opscope.reports.compare.owned import Owned
    from opscope.reports.database.database import default_url
    from opscope.reports.database.owners import rules_here
    from opscope.reports.pages.html import write_report

    owned = Owned(rules_here(None, root=folder))
    with time_limit(seconds):
        return str(write_report(run_dir, url or default_url(folder), records and records[0], owned))


def _publish(run_dir: Path, url: str | None, folder: Path, records: Records | None, seconds: float) -> str:
    from opscope.reports.database.database import default_url, parse_url, shown
    from opscope.reports.publish.spool import deliver as publish_or_keep

    target = url or default_url(folder)
    publish_or_keep(run_dir, target, folder, "--publish", records, seconds)
    return shown(parse_url(target))
