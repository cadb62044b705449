"""The pytest plugin of the reports room: at the end of an op-by-op run, report.html and the database.

harness/run/hooks.py registers it for the runs it starts.

It reads what harness/run/hooks.py left on the config: `opscope_run_dir` (the run, on the controller alone),
`opscope_records` (what its folder holds, as harness/record/store.py reads it; None: not known), `opscope_doing` (which
shows what is being done) and `opscope_places` (what the summary shows), to which it adds `report` and `database`.
Whatever goes wrong here is one line: the run is on disk already, and its records do not change. A run whose database is
away waits in .opscope/spool, from where the next publish delivers it: nothing is lost, so nothing fails. The exit code
of a test run tells of the ops; that nothing arrives is for `opscope status --max-age` to tell. Only a run that is
neither in the database nor in the spool ends with 1 where it would end with 0.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from opscope.base.visible_text import visible
from opscope.reports import end_of_run
from opscope.reports.end_of_run import Delivered, Targets
from opscope.reports.fork_ahead import FORK

if TYPE_CHECKING:
    from opscope.harness.run.request import Request
    from opscope.reports.end_of_run import Records

USAGE = 2
"""Exit code for bad input."""

DOING = {"report": "writing report.html", "database": "publishing"}

IMPORTING = pytest.StashKey[threading.Thread]()
"""Does so in this process, where it cannot be forked."""

PROBLEMS = pytest.StashKey[list[str]]()
"""One line for each thing that could not be delivered."""


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Refuses a `--publish` that is no database URL, or has no driver, before an op has run.

    The request was read by harness/run/hooks.py.
    """
    from opscope.harness.record.errors import PYTEST, InputError, refusal
    from opscope.harness.run.request import KEY

    request = config.stash.get(KEY, None)
    if request is None or request.settings["no_report"]:
        return None
    if request.settings["publish"]:
        from opscope.reports.database.database import usable_url

        try:
            usable_url(request.settings["publish"], "--publish")
        except InputError as error:
            sys.stderr.write(f"{refusal(PYTEST, error)}\n")
            return USAGE
    return None


def _targets(request: Request) -> Targets:
    return Targets(request.settings["publish"], request.folder, request.settings["publish_timeout"])


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Where there is no fork, imports what the end of the run needs while its ops run, as this process mostly waits."""
    from opscope.harness.run.request import KEY

    config = session.config
    request = config.stash.get(KEY, None)
    if request is None or request.settings["no_report"] or FORK in config.stash or config.option.collectonly:
        return
    config.stash[IMPORTING] = thread = threading.Thread(target=end_of_run.import_ahead, name="opscope-imports")
    thread.start()


# Inside the terminal's own wrapper, which prints the summary, and around everything that closes the books.
@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    """Writes the report and publishes, once the run's records are complete, whatever another plugin has raised."""
    try:
        return (yield)
    finally:
        _finish(session)


def _finish(session: pytest.Session) -> None:
    config = session.config
    if (importing := config.stash.get(IMPORTING, None)) is not None:
        importing.join()
    run_dir: Path | None = getattr(config, "opscope_run_dir", None)
    if run_dir is not None:
        done = deliver(config, run_dir)
        config.stash[PROBLEMS] = done.problems
        if done.lost and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if config.option.no_summary or config.pluginmanager.getplugin("terminalreporter") is None:
            for line in config.stash[PROBLEMS]:
                sys.stderr.write(f"{visible(line)}\n")


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Says below the run's page what could not be delivered."""
    for line in config.stash.get(PROBLEMS, []):
        terminalreporter.write_line(line, yellow=True)


def deliver(config: pytest.Config, run_dir: Path) -> Delivered:
    """Writes the report of `run_dir` and publishes it; what became of them."""
    from opscope.harness.record.selection import none_selected
    from opscope.harness.run.request import KEY

    request = config.stash.get(KEY, None)
    if request is None or request.settings["no_report"]:
        return Delivered({}, [])
    records: Records | None = config.opscope_records  # type: ignore[attr-defined]
    if records is not None and none_selected(records[0].tests):
        return Delivered({}, ["report, database: expected ops that were selected, got none; nothing is written"])

    def doing(target: str) -> None:
        config.opscope_doing(DOING[target])  # type: ignore[attr-defined]

    fork, done = config.stash.get(FORK, None), None
    if fork is not None and (records is None or len(records[1]) <= end_of_run.MOST_RECORDS):
        done = fork.deliver(run_dir, _targets(request), doing)
    if done is None:
        done = end_of_run.deliver(run_dir, _targets(request), records, doing)
    config.opscope_places.update(done.places)  # type: ignore[attr-defined]
    return done
