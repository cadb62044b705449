"""An op-by-op run inside pytest, which collects the ops and shows them; the engine runs them (`harness/engine`)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from opscope.base import damage, gc_pause, passes, terminal
from opscope.base.xla import xla_releases
from opscope.harness.cache import upkeep
from opscope.harness.cache.claims import Claims
from opscope.harness.climb.keeping import Apart
from opscope.harness.engine.engine import Begun, Engine, OpJob
from opscope.harness.lanes import scratch
from opscope.harness.page.failure_text import FailureText
from opscope.harness.record import isolation, store
from opscope.harness.record.errors import PYTEST, InputError, interrupted, refusal, resuming
from opscope.harness.record.selection import kills, none_ran, unmatched_globs
from opscope.harness.record.stages import ModelStatus
from opscope.harness.run import (
    collecting,
    conftests,
    finish_run,
    junit_properties,
    late_models,
    plan,
    progress,
    protocol,
    request,
    resume,
    start_run,
)
from opscope.harness.run.items import OpItem
from opscope.harness.run.op_engine import engine_of
from opscope.harness.run.starting import Start, Started
from opscope.harness.scale.shard import ELSEWHERE
from opscope.harness.triage import after_run

if TYPE_CHECKING:
    from opscope.harness.page.summary import Run

PYTESTS_REPORTCHARS = "fE"
"""pytest's default of `-r`."""

PAGE_MODULES = ("rich.console", "rich.table", "opscope.harness.page.summary")
"""What the page at the end of a run takes."""

LONG = 1.0
"""Seconds of waiting for goldens that are worth a line."""


def nothing_ran(run: Run) -> bool:
    """Whether none of the ops of a run, or of its share, was attempted, nor a model as one program; or no model was, in
    time; or the system killed what some needed."""
    if kills([*run.tests, *run.whole], run.header.failed):
        return True
    if tests := [test for test in (*run.tests, *run.whole) if test.error_message != ELSEWHERE]:
        return none_ran(tests)
    return any(failure.status is ModelStatus.NOT_RUN for failure in run.header.failed)


def _write(reporter: Any, text: str, **style: bool) -> None:
    """Writes a sentence to pytest's terminal, broken between words."""
    for line in terminal.for_reader(text):
        reporter.write_line(line, **style)


class OpByOp:
    """The hooks of one run; registered only when there is one."""

    def __init__(self, config: pytest.Config, at_once: int) -> None:
        """`at_once` is how many ops are under way at once."""
        self.config, self._at_once = config, at_once
        self.plan: plan.RunPlan | None = None
        self.closed: finish_run.Closed | None = None
        self.interrupted = False
        self.selected: set[str] | None = None
        self._refused = False
        self._given_up = ""
        self._claims = Claims()
        self._lanes: list[plan.AnyLane] = []
        self._engine: Engine | None = None
        self._written: list[store.Journal | Apart] = []
        self.waited = 0.0
        """Seconds that lanes have waited for goldens."""
        self.display = progress.Quiet()
        self._output: terminal.LastingStream | None = None
        """Where pytest writes to, if it does."""
        reporter: Any = config.pluginmanager.getplugin("terminalreporter")
        damage.forget()
        if reporter is not None:
            self._output = terminal.guard_pytest(reporter._tw)
            damage.show_by(lambda line: _write(reporter, f"opscope: {line}"))
            self.display = progress.display(
                terminal=reporter.isatty(),
                verbosity=config.get_verbosity(),
                file=sys.stdout,
                write_line=lambda line: _write(reporter, line),
            )
            if config.option.reportchars == PYTESTS_REPORTCHARS:
                reporter.reportchars = ""  # the page lists failures, with full reasons and commands that repeat them
            if self.display.replaces_letters:
                reporter.showfspath = False
                reporter._show_progress_info = False

    # --- before the ops

    def _prepare(self) -> plan.RunPlan:
        """Returns the plan, made at the first call. Bad input ends the session with one line and exit code 2."""
        if self.plan is None:
            dry = self.config.option.collectonly
            self.plan, self._lanes = self._made()
            self.display.doing("collecting the ops")
            if self.plan.preparing is None:
                self.warn_of_cache()
            if not dry:
                self.config.opscope_run_dir = self.plan.run_dir  # type: ignore[attr-defined]
                self.config.opscope_doing = self._delivering  # type: ignore[attr-defined]
        return self.plan

    def _made(self) -> Started:
        """The plan and its lanes. Bad input ends the session with one line and exit code 2."""
        self.display.doing("preparing")
        start = Start(
            self.config.stash[request.KEY],
            self._prepared,
            command_line=("pytest", *map(str, self.config.invocation_params.args)),
            dry=self.config.option.collectonly,
            claims=self._claims,
            at_once=self._at_once,
        )
        try:
            return start_run.make(start)
        except KeyboardInterrupt:
            self._refuse(interrupted(None))
        except InputError as error:
            self._refuse(refusal(PYTEST, error))

    def _prepared(self, event: progress.Event) -> None:
        """Shows what the preparation does. Raises InputError if nobody reads it any more."""
        self._refuse_unread()
        self.display.prepared(event)

    def _refuse_unread(self) -> None:
        """Raises InputError if what is written to stdout goes nowhere: nobody waits for the end of such a run."""
        if self._output is not None and self._output.lost:
            hint = "again" if self.plan is None else resuming(self.plan.run_dir)
            raise InputError("stdout", "one that can be written", self._output.lost, hint)

    def _refuse(self, line: str) -> NoReturn:
        """Ends pytest with a line on stderr and exit code 2, before a test runs."""
        self.display.close()
        self._refused = True
        sys.stderr.write(f"{line}\n")
        raise KeyboardInterrupt  # pytest prints an exit of its own behind the word `Exit`

    def _delivering(self, step: str) -> None:
        """Shows a step of the delivery. It is mostly another process's, so this one imports meanwhile what the page at
        the end takes."""
        self.display.doing(step)
        for module in PAGE_MODULES:
            importlib.import_module(module)

    def warn_of_cache(self) -> None:
        """Says if the exports of the run alone take more than all caches may."""
        assert self.plan is not None
        tight = upkeep.beyond(self.plan.header.export_dirs, self._max_cache())
        reporter: Any = self.config.pluginmanager.getplugin("terminalreporter")
        if tight and reporter is not None:
            _write(reporter, f"opscope: {tight}")

    def _beside_conftests(self) -> None:
        """Undoes what conftest files did to this process, and says what was left out of them."""
        conftests.put_back(self.config)
        reporter: Any = self.config.pluginmanager.getplugin("terminalreporter")
        for line in conftests.notes(self.config):
            if reporter is not None:
                _write(reporter, f"opscope: {line}")

    def pytest_report_header(self) -> Sequence[str]:
        """Says which hooks of conftest files are not called, whether passes in C are left unused, and what is
        wrong with the release of JAX."""
        slower = [f"passes over arrays: {passes.state}"] if passes.left_unused else []
        author = self.config.stash[request.KEY].settings["goldens_by"] or ""
        release = "" if author.endswith(".whl") else author.partition("@")[2]
        return [*conftests.header(self.config), *slower, *xla_releases.notes(author=release)]

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionstart(self) -> Generator[None, None, None]:
        """Prepares the run after pytest's header."""
        gc_pause.resume()
        yield
        self._beside_conftests()
        self._prepare()

    @pytest.hookimpl
    def pytest_collection(self, session: pytest.Session) -> bool:
        """Collects the ops, and nothing else."""
        run_plan = self._prepare()
        items = collecting.collect(session, run_plan)
        session.testscollected = len(items)
        self.selected = {item.nodeid for item in items}
        if not self.config.option.collectonly:
            self._remember_selection(run_plan)
            self._engine, self._written = engine_of(
                run_plan, self._lanes, self._at_once, bool(self.config.option.maxfail)
            )
            self._engine.start(_jobs(items))
        return True

    def _remember_selection(self, run_plan: plan.RunPlan) -> None:
        """Stores which ops are selected, in case the run is interrupted."""
        assert self.selected is not None
        ids = [
            row.op_id
            for row in run_plan.rows
            if row.module is not None and any(plan.nodeid(row, tag) in self.selected for tag in self.tags)
        ]
        resume.select(run_plan.run_dir, run_plan.rows, ids)

    # --- the ops

    @property
    def tags(self) -> list[str]:
        """Names of the run's backends; one empty name where there is only one."""
        assert self.plan is not None
        return [side.tag for side in self.plan.sides()]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Reports ops as the engine has their records, then what became of models meanwhile."""
        if self._engine is None or session.testsfailed:
            return None  # pytest says why
        reports = protocol.Reports(session)
        ops = {(item.row.op_id, item.tag): item for item in session.items if isinstance(item, OpItem)}
        try:
            for item in session.items:
                if not isinstance(item, OpItem):
                    reports.test(item)
            for event in self._engine.records(_jobs(session.items)):
                item = ops[event.job.row.op_id, event.job.tag]
                if isinstance(event, Begun):
                    self._show(item.nodeid)
                else:
                    item.done = event
                    reports.test(item)
                self._refuse_unread()
            self._complete(session)
        except InputError as error:
            # The backend is no longer usable or the disk is full, so every later op would fail too.
            self._given_up = str(error)
            raise pytest.exit.Exception("no further op runs", returncode=2) from None
        return True

    def _complete(self, session: pytest.Session) -> None:
        """Waits for the preparation after the ops: whoever runs one again needs its export. What a failure has ended
        (`-x`) waits for nothing, and `--resume` prepares again. Raises InputError."""
        if self.plan is None or self.plan.preparing is None:
            return
        self.display.doing("preparing")
        known = {failure.model for failure in self.plan.header.failed}
        self.plan = start_run.completed(self.plan, self._prepared)
        self.warn_of_cache()
        late_models.test(session, self.plan.header, known)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: Any) -> Generator[None, Any, Any]:
        """Gives the report of an op the time that it took in the engine."""
        report = yield
        if isinstance(item, OpItem) and item.done is not None and call.when == "call":
            report.start, report.duration = item.done.began, item.done.seconds
            report.stop = report.start + report.duration
        return report

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Shows a test that is none of an op."""
        self._show(nodeid)

    def _show(self, nodeid: str) -> None:
        """Shows what is under way; opens the display when the first does."""
        if self.selected is not None and not self._shown:
            self._shown = True
            self.display.begin(sorted(self.selected))
        self.display.started(nodeid)

    _shown = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Counts an op that ended, and has its failure as wide as the terminal."""
        if report.when == "call":
            outcome = junit_properties.outcome(report.user_properties)
            if outcome is not None:
                self.display.ended(report.nodeid, *outcome)
                if isinstance(report.longrepr, str):
                    report.longrepr = FailureText(report.longrepr)

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(self, report: Any) -> Generator[None, Any, Any]:
        """Removes pytest's letters if the live display replaces them; words and counts stay."""
        status = yield
        if status is None or not self.display.replaces_letters or getattr(report, "when", None) == "collect":
            return status
        return (status[0], "", status[2])

    def pytest_enter_pdb(self) -> None:
        """Leaves the terminal to the debugger; the next op opens the display again."""
        self.display.close()

    @pytest.hookimpl(trylast=True)
    def pytest_keyboard_interrupt(self) -> None:
        """Remembers that the run was interrupted."""
        self.interrupted = True
        if self._refused:
            # The line stands on stderr; pytest would write of an interrupt between exclamation marks.
            reporter: Any = self.config.pluginmanager.getplugin("terminalreporter")
            if reporter is not None:
                reporter._keyboardinterrupt_memo = None

    # --- after the ops

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Ends the engine, gives every op a record and checks the ledger, before another plugin may raise."""
        if self.plan is not None and self.plan.preparing is not None:
            self.plan.preparing.stop()
        self.display.doing("ending the run")
        self._close()
        if self.plan is None or self.config.option.collectonly:
            self.display.close()
            return
        self._drop_silent_reports()
        cut = bool(self.interrupted or session.shouldstop or session.shouldfail)
        # Paused until the session is over: records are read, counted and shown, and none of them is in a cycle.
        gc_pause.pause()
        try:
            self.closed = finish_run.close(self.plan, self.selected, interrupted=cut)
        except InputError as error:
            self.closed = finish_run.Closed(None, str(error))
        if not cut:
            if self.closed.stored is not None and after_run.failures(self.closed.stored):
                self.display.doing("writing a repro folder for each failure")
            problem = after_run.leave(self.plan.run_dir, self._repro_size(self.closed.stored), self.closed.stored)
            self.closed = replace(self.closed, problem=self.closed.problem or problem)
            self._place_interactions()
        if self.closed.stored is not None:
            self.config.opscope_records = (self.closed.stored, self.closed.attempts)  # type: ignore[attr-defined]
        upkeep.trim(self.plan.orders.caches, self._max_cache(), every=upkeep.EVERY_SECONDS)
        if session.exitstatus == pytest.ExitCode.OK:
            if self.closed.problem or damage.losses():
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
            elif self.closed.run is not None and nothing_ran(self.closed.run):
                session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED  # as of pytest's own tests
            elif unmatched_globs(self.plan.rows, self.plan.orders.globs):
                session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED  # some of what was asked for is not there

    def _place_interactions(self) -> None:
        """Finds the optimization level where each interaction begins."""
        run = self.closed.run if self.closed is not None else None
        if self.plan is None or self.closed is None or run is None or not run.isolation:
            return
        self.display.doing("running interactions at lower levels")
        from opscope.harness.run import interaction_levels

        try:
            placed, left_out = interaction_levels.located(self.plan, run.tests, run.isolation)
            isolation.write(self.plan.run_dir, placed)
        except InputError as error:
            self.closed = replace(self.closed, problem=self.closed.problem or str(error))
            return
        more = (f"the level where {left_out} interactions begin is not known: it was not tried",) if left_out else ()
        self.closed = replace(self.closed, run=replace(run, isolation=placed, notes=(*run.notes, *more)))

    def _drop_silent_reports(self) -> None:
        """Drops the reports of set-ups and tear-downs that wrote nothing.

        For each failure that it shows, pytest looks through all of them for what a tear-down wrote: of 4,000 ops of
        which 3,000 failed, this took four fifths of the run.
        """
        reporter: Any = self.config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None and "" in reporter.stats:
            reporter.stats[""] = [report for report in reporter.stats[""] if getattr(report, "sections", True)]

    def _repro_size(self, run: store.StoredRun | None) -> int:
        """Bytes that the values of repro folders may take: as given, else as the run began."""
        settings = self.config.stash[request.KEY].settings
        own = None if run is None else run.record.origin.options.get("repro_size")
        return settings["repro_size"] if own is None or settings.is_set("repro_size") else own

    def _max_cache(self) -> int:
        """Bytes that all caches may take together."""
        return self.config.stash[request.KEY].settings["max_cache"]

    @pytest.hookimpl(wrapper=True, tryfirst=True, specname="pytest_sessionfinish")
    def pytest_end_of_session(self, session: pytest.Session) -> Generator[None, None, None]:
        """Says in one line what has kept the end of a run from its reader: Ctrl-C after the last op, or a stdout that
        takes nothing. The records are there, and `--resume` does the rest."""
        try:
            yield
        except KeyboardInterrupt:
            self._end_badly(session, interrupted(self.plan.run_dir if self.plan else None))
        if self._output is not None:
            self._output.flush()
            try:
                self._refuse_unread()
            except InputError as error:
                self._end_badly(session, f"{PYTEST}: {error}")

    def _end_badly(self, session: pytest.Session, line: str) -> None:
        session.exitstatus = pytest.ExitCode.INTERRUPTED
        self.display.close()
        if self.plan is not None and not self._refused:
            sys.stderr.write(f"{line}\n")

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Prints the page of the run."""
        self.display.close()
        if self.closed is None or self.plan is None or self.config.option.no_summary:
            return
        if self.closed.run is None:
            _write(terminalreporter, self.closed.problem, red=True)
            return
        from opscope.harness.page import summary

        places = {"run": str(self.plan.run_dir), **getattr(self.config, "opscope_places", {})}
        writer = terminalreporter._tw
        console = terminal.console(
            file=writer._file,
            force_terminal=bool(writer.hasmarkup),
            no_color=not writer.hasmarkup,
            width=max(writer.fullwidth, 80),
        )
        terminalreporter.write_sep("=", "op by op")
        waited = self.waited >= LONG and self.config.get_verbosity() >= 0
        waits = [f"lanes waited {self.waited:.1f} s for goldens"] if waited else []
        page = replace(
            self.closed.run,
            places=places,
            notes=[*self.closed.run.notes, *waits],
            folder=self.config.invocation_params.dir,
            listed_above=self._listed_above(terminalreporter),
        )
        summary.show(page, console)
        problem = self._given_up or self.closed.problem
        if problem:
            _write(terminalreporter, problem, red=True)

    def _listed_above(self, terminalreporter: Any) -> frozenset[str]:
        """Ids of the ops that pytest lists below FAILURES, which is printed before the page."""
        if self.config.option.tbstyle == "no":
            return frozenset()
        failed = {report.nodeid for report in terminalreporter.getreports("failed")}
        run = self.closed.run if self.closed is not None else None
        return frozenset(
            row.op_id for row in (run.rows if run else ()) if self.plan and plan.nodeid(row, self.plan.tag) in failed
        )

    def pytest_unconfigure(self) -> None:
        """Leaves no garbage to pytest, which collects it ten times at its end."""
        self.display.close()
        gc_pause.set_aside()

    def end(self) -> None:
        """Ends all children and gives up the run, however the session ended: Ctrl-C may have cut the hooks short."""
        self.display.close()
        self._close()
        scratch.close()
        self._claims.close()

    def _close(self) -> None:
        """Ends the engine and its lanes, and closes what they have written to."""
        engine, self._engine = self._engine, None
        try:
            if engine is not None:
                engine.close()
                self.waited += engine.waited
        finally:
            for open_ in (*self._lanes, *self._written):
                open_.close()
            self._lanes, self._written = [], []


def _jobs(items: Sequence[pytest.Item]) -> list[OpJob]:
    """The ops among some tests, in their order."""
    return [OpJob(item.row, item.tag) for item in items if isinstance(item, OpItem)]
