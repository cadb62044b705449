"""An op-by-op run inside pytest: prepares the models, collects the ops, climbs them, and finishes the run.

The controller (or a pytest without xdist) prepares the models and owns the run folder; an xdist worker gets its
path and collects from the same manifest. Every process holds at most one lane and writes its own journal segment.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from opscope.base import damage, gc_pause, passes, terminal
from opscope.base.xla import xla_releases
from opscope.harness.backends import registry
from opscope.harness.cache import upkeep
from opscope.harness.cache.claims import Claims
from opscope.harness.lanes import scratch
from opscope.harness.limitations.limitations import Verdict
from opscope.harness.page.failure_text import FailureText
from opscope.harness.record import store
from opscope.harness.record.errors import PYTEST, InputError, refusal
from opscope.harness.record.records import OpRow, OpTest
from opscope.harness.record.selection import none_ran, unmatched_globs
from opscope.harness.record.stages import ModelStatus
from opscope.harness.run import (
    awaited_orders,
    collecting,
    conftests,
    finish_run,
    junit_properties,
    plan,
    progress,
    protocol,
    request,
    resume,
    server_ahead,
    start_run,
)
from opscope.harness.run.awaited_orders import AwaitedOrders
from opscope.harness.run.items import OpItem
from opscope.harness.run.starting import Making, Start
from opscope.harness.triage import after_run

if TYPE_CHECKING:
    from opscope.harness.climb.climber import Climber
    from opscope.harness.page.summary import Run

WORKER_INPUT = "opscope"
"""Key for the orders that the controller sends to an xdist worker."""

PYTESTS_REPORTCHARS = "fE"
"""pytest's default of `-r`."""

AWAITED = "awaited"
"""Key in these orders for the place of those that are not known yet."""

REFUSAL = "opscope_refusal"
"""Key for the reason why a worker gave up, which it sends to the controller."""

PAGE_MODULES = ("rich.console", "rich.table", "opscope.harness.page.summary")
"""What the page at the end of a run takes."""

LONG = 1.0
"""Seconds of waiting for goldens that are worth a line."""

WAITED = "opscope_waited"
"""Key for the seconds that a worker has waited for goldens."""


def workers_of(config: pytest.Config) -> int:
    """How many xdist workers a run has; 1 where it has none."""
    if not config.pluginmanager.hasplugin("dsession"):
        return 1
    from xdist.workermanage import parse_tx_spec_config

    return len(parse_tx_spec_config(config))


def nothing_ran(run: Run) -> bool:
    """Whether none of a run's ops was attempted, nor a model as one program; or no model was, in time."""
    if tests := [*run.tests, *run.whole]:
        return none_ran(tests)
    return any(failure.status is ModelStatus.NOT_RUN for failure in run.header.failed)


CONTROLLER = os.getppid()
"""In a worker, the process that started it; its number changes once that has ended."""


def _write(reporter: Any, text: str, **style: bool) -> None:
    """Writes a sentence to pytest's terminal, broken between words."""
    for line in terminal.for_reader(text):
        reporter.write_line(line, **style)


class OpByOp:
    """The hooks of one run; registered only when there is one."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.worker: str | None = None
        self.plan: plan.RunPlan | None = None
        self.closed: finish_run.Closed | None = None
        self.interrupted = False
        self.selected: set[str] | None = None
        self._refused = False
        self._given_up = ""
        self._claims = Claims()
        self._lanes: list[plan.AnyLane] = []
        self._climbers: dict[str, Climber] = {}
        self._orders: AwaitedOrders | None = None
        """Where workers find their orders that have started while models are prepared."""
        self._started = 0
        """Workers that have their orders."""
        self._making: Making | None = None
        """Makes the plan, once it is begun."""
        self._place: dict[str, Any] | None = None
        """In such a worker, that place."""
        self.waited = 0.0
        """Seconds that lanes have waited for goldens."""
        words = getattr(config, "workerinput", {}).get(WORKER_INPUT)
        if words is not None:
            self.worker = config.workerinput["workerid"]  # type: ignore[attr-defined]
            orders = json.loads(words)
            self._place = orders.get(AWAITED)
            if self._place is None:
                self.plan = plan.RunPlan.from_json(orders)
        self.display = progress.Quiet()
        reporter: Any = config.pluginmanager.getplugin("terminalreporter")
        damage.forget()
        if self.worker is None and reporter is not None:
            terminal.guard_pytest(reporter._tw)
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
        if self.plan is None and self._place is not None:
            try:
                self.plan = plan.RunPlan.from_json(awaited_orders.wait_for(self._place))
            except awaited_orders.NoOrders:
                os._exit(2)  # without a word: the controller has said why, and nothing here is open yet
        if self.plan is None:
            dry = self.config.option.collectonly
            while (made := self._made()) is None:
                pass
            self.plan, lanes = made
            if self._orders is not None:
                if self.config.stash[request.KEY].settings["no_cache"]:
                    self._orders.making()  # every op will run
                self._orders.give(self.plan.as_json())
            workers = self.config.pluginmanager.hasplugin("dsession")
            self.display.doing("starting the workers" if workers else "collecting the ops")
            if self.plan.preparing is None:
                self.warn_of_cache()
            if self.plan.orders.order and getattr(self.config.option, "maxschedchunk", 1) is None:
                self.config.option.maxschedchunk = 1  # xdist hands out long stretches otherwise: the last ones first
            if dry or workers:
                for lane in lanes:
                    lane.close()
            else:
                self._lanes = lanes
            if not dry:
                self.config.opscope_run_dir = self.plan.run_dir  # type: ignore[attr-defined]
                self.config.opscope_doing = self._delivering  # type: ignore[attr-defined]
        return self.plan

    def _made(self) -> tuple[plan.RunPlan, list[plan.AnyLane]] | None:
        """Takes the next step towards the plan and the lanes. None if there is another one, for which exporters are at
        work. Bad input ends the session with one line and exit code 2."""
        if self._making is None:
            self.display.doing("preparing")
            start = Start(
                self.config.stash[request.KEY],
                self._prepared,
                command_line=("pytest", *map(str, self.config.invocation_params.args)),
                dry=self.config.option.collectonly,
                claims=self._claims,
                at_once=workers_of(self.config),
            )
            self._making = start_run.make(start)
        try:
            next(self._making)
        except StopIteration as made:
            return made.value
        except KeyboardInterrupt:
            self._refuse(f"{PYTEST}: interrupted while preparing; no op has run")
        except InputError as error:
            self._refuse(refusal(PYTEST, error))
        return None

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

    def _prepared(self, event: progress.Event) -> None:
        """Shows a step of the preparation. The first that makes a model has workers get their backends ready."""
        self.display.prepared(event)
        if self._orders is not None and server_ahead.lanes_may_load(event):
            self._orders.making()

    def _beside_conftests(self) -> None:
        """Undoes what conftest files did to this process, and says what was left out of them."""
        conftests.put_back(self.config)
        reporter: Any = self.config.pluginmanager.getplugin("terminalreporter")
        for line in conftests.notes(self.config):
            if self.worker is None and reporter is not None:
                _write(reporter, f"opscope: {line}")

    def pytest_report_header(self) -> Sequence[str]:
        """Says which hooks of conftest files are not called, whether passes in C are left unused, and what is
        wrong with the release of JAX."""
        slower = [f"passes over arrays: {passes.state}"] if passes.left_unused else []
        asked = self.config.stash.get(request.KEY, None)  # a worker of xdist was asked nothing, and has a header too
        author = (asked.settings["goldens_by"] if asked else None) or ""
        release = "" if author.endswith(".whl") else author.partition("@")[2]
        return [*conftests.header(self.config), *slower, *xla_releases.notes(author=release)]

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionstart(self) -> Generator[None, None, None]:
        """Prepares the run after pytest's header, and after xdist has started its workers."""
        gc_pause.resume()
        try:
            yield
        except EOFError:  # of execnet, which waits for the first byte of each
            hint = "the same command again"
            self._refuse(refusal(PYTEST, InputError("-n", "workers that start", "one that ended at once", hint)))
        self._beside_conftests()
        try:
            self._prepare()
        finally:
            self._close_orders()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_setupnodes(self, specs: Sequence[Any]) -> None:
        """Has workers of this machine start while models are prepared, and others after it."""
        self._beside_conftests()
        run_request = self.config.stash[request.KEY]
        if run_request.models and self.plan is None and awaited_orders.can_wait(specs):
            self._orders = AwaitedOrders(registry.split_names(run_request.settings["backend"]))
            self._made()  # models are exported while xdist starts its workers, one after another
        else:
            self._prepare()

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Sends a worker its orders, or where it will find them."""
        if self.plan is None and self._orders is not None:
            node.workerinput[WORKER_INPUT] = json.dumps({AWAITED: self._orders.place(node.gateway.id)})
        else:
            node.workerinput[WORKER_INPUT] = json.dumps(self._prepare().as_json())

    @pytest.hookimpl
    def pytest_collection(self, session: pytest.Session) -> bool | None:
        """Collects the ops, and nothing else. An xdist controller collects nothing: its workers do."""
        if self.config.pluginmanager.hasplugin("dsession"):
            return None
        run_plan = self._prepare()
        items = collecting.collect(session, self, run_plan)
        session.testscollected = len(items)
        self.selected = {item.nodeid for item in items}
        if not (self.worker or self.config.option.collectonly):
            self._remember_selection(run_plan)
            self._begin([item.row for item in items if isinstance(item, OpItem)])
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

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Remembers which tests the workers selected; all others are deselected."""
        self._started += 1
        if self._orders is not None and self._started == workers_of(self.config):
            self._orders.all_read()
        self.selected = set(ids)
        if self.plan is not None and not self.config.option.collectonly:
            self._remember_selection(self.plan)

    # --- the ops

    @property
    def tags(self) -> list[str]:
        """Names of the run's backends; one empty name where there is only one."""
        assert self.plan is not None
        return [side.tag for side in self.plan.sides()]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """On a cluster, runs the tests in the order in which records arrive."""
        if self.plan is None or self.plan.orders.cluster is None or self.config.option.collectonly:
            return None
        from opscope.harness.run.executors import cluster_loop

        try:
            self._begin(())
            cluster_loop.run(session, self._climbers)
        except InputError as error:
            self.give_up(str(error))
            raise pytest.exit.Exception("no further op runs", returncode=2) from None
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Runs an op without pytest's phases that an op does not need."""
        if not protocol.fits(item):
            return None
        protocol.run(item)
        return True

    def climb(self, row: OpRow, tag: str = "") -> tuple[OpTest, Verdict]:
        """Takes one op up the ladder of a backend in this process's lane, and writes its record immediately."""
        try:
            self._begin(())
            return self._climbers[tag].climb(row)
        except InputError as error:
            # The backend is no longer usable or the disk is full, so every later op would fail too.
            self.give_up(str(error))
            raise pytest.exit.Exception("no further op runs", returncode=2) from None

    def climbers(self) -> list[Climber]:
        """The climbers of this process, one for each backend of the run."""
        self._begin(())
        return list(self._climbers.values())

    def _begin(self, rows: Sequence[OpRow]) -> None:
        """Makes this process's climbers. If one of `rows` needs a lane, it starts now, while ops are collected."""
        assert self.plan is not None
        if self._climbers:
            return
        sides = self.plan.sides()
        writers = [side.writer(self.worker or plan.MAIN) for side in sides]
        self._lanes = self._lanes or [side.lane(writer) for side, writer in zip(sides, writers, strict=True)]
        controller = None if self.worker is None else CONTROLLER
        for side, lane, writer in zip(sides, self._lanes, writers, strict=True):
            climber = self._climbers[side.tag] = side.climber(lane, writer, controller)
            if any(climber.needs_lane(row) for row in rows):
                climber.start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Opens the display when the first op starts."""
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

    def give_up(self, line: str) -> None:
        """Remembers why no further op runs. A worker also sends it to the controller, which only sees an exit."""
        self._given_up = line
        if self.worker is not None:
            self.config.workeroutput[REFUSAL] = line  # type: ignore[attr-defined]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Remembers why a worker gave up."""
        output = getattr(node, "workeroutput", {})
        self._given_up = self._given_up or output.get(REFUSAL, "")
        self.waited += output.get(WAITED, 0.0)

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

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Closes the lane. On the controller, gives every op a record and checks the ledger."""
        if self.plan is not None and self.plan.preparing is not None:
            self.plan.preparing.stop()
        self.display.doing("ending the run")
        self._close()
        if self.worker is not None:
            self.config.workeroutput[WAITED] = self.waited  # type: ignore[attr-defined]
        if self.worker is not None or self.plan is None or self.config.option.collectonly:
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
        if self.closed.stored is not None:
            self.config.opscope_records = (self.closed.stored, self.closed.attempts)  # type: ignore[attr-defined]
        upkeep.trim(self.plan.orders.caches, self._max_cache(), every=upkeep.EVERY_SECONDS)
        if session.exitstatus == pytest.ExitCode.OK:
            if self.closed.problem or damage.losses():
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
            elif self.plan.orders.share is None and self.closed.run is not None and nothing_ran(self.closed.run):
                session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED  # as of pytest's own tests
            elif unmatched_globs(self.plan.rows, self.plan.orders.globs):
                session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED  # some of what was asked for is not there

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
        page = replace(
            self.closed.run,
            places=places,
            folder=self.config.invocation_params.dir,
            listed_above=self._listed_above(terminalreporter),
        )
        summary.show(page, console)
        if self.waited >= LONG and self.config.get_verbosity() >= 0:
            terminalreporter.write_line(f"waited {self.waited:.1f} s for goldens")
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

    def _close_orders(self) -> None:
        """Tells workers that have no orders by now that there are none."""
        if self._orders is not None:
            self._orders.give(None)

    def pytest_unconfigure(self) -> None:
        """Ends all children, however the session ended."""
        self.display.close()
        if self._making is not None:
            self._making.close()
        if self._orders is not None:
            self._orders.close()
        gc_pause.set_aside()  # at its end pytest collects all garbage ten times
        self._close()
        scratch.close()
        self._claims.close()

    def _close(self) -> None:
        """Ends the lanes and closes the journals of this process."""
        self.waited += sum(climber.waited for climber in self._climbers.values())
        for open_ in (*self._climbers.values(), *self._lanes):
            open_.close()
        self._climbers, self._lanes = {}, []
