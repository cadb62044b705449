"""The hooks of an op-by-op run in pytest; `plugin.py` registers them where a run is asked for."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from opscope.base import gc_pause, machine
from opscope.harness.record.errors import PYTEST, InputError, interrupted, refusal, refuse_closed_stdout
from opscope.harness.run import command_line
from opscope.harness.settings import foreign_options

USAGE = 2
"""Exit code for bad input."""

FOLLOWERS = ("opscope.reports.plugin", "opscope.reports.fork_ahead")
"""Plugins in other packages that a run registers. As entry points they would be loaded at every start of pytest."""

SESSION = "opscope-session"
"""Name under which the plugin of an op-by-op run is registered."""


def register(config: pytest.Config) -> None:
    """Registers the hooks of this file, and of those that follow a run, where there is one."""
    manager = config.pluginmanager
    names = (__name__, *(FOLLOWERS if config.option.opscope_op_by_op else ()))
    for name in names:
        module = importlib.import_module(name)
        if not manager.is_registered(module):
            manager.register(module, name)


def leave_out(config: pytest.Config) -> None:
    """Takes out plugins and import hooks that a run has no use for, and the collection of garbage until the session
    begins, as nothing that is imported is any."""
    gc_pause.none_at_exit()
    config.add_cleanup(gc_pause.restorer())  # the last of all, as they run from the last to the first
    gc_pause.pause()
    foreign_options.take_out(config.pluginmanager)
    foreign_options.import_plainly(config)


@contextlib.contextmanager
def beside_conftests(config: pytest.Config) -> Iterator[None]:
    """Surrounds the import of the conftest files."""
    options = config.known_args_namespace
    if options.opscope_no_cache:  # every op will run
        from opscope.base.children import forked
        from opscope.harness.lanes import worker_ahead

        forked.get_ready(worker_ahead.WORKER)
    from opscope.harness.run import conftests

    options.noconftest |= conftests.ignored(options, config.invocation_params.dir)
    with conftests.beside(config):
        yield


XDIST = pytest.StashKey[InputError]()
"""What is wrong with the options that were given to pytest-xdist."""


@pytest.hookimpl(wrapper=True, specname="pytest_cmdline_main")
def pytest_whole_command(config: pytest.Config) -> Generator[None, Any, Any]:
    """Looks at the options of pytest-xdist as they were given, since wrappers come before all other hooks. Says in one
    line that Ctrl-C came where no session hears it: between two hooks, or while plugins clean up."""
    option = config.option
    if not option.opscope_op_by_op:
        return (yield)
    from opscope.harness.run import slots_asked

    try:
        slots_asked.check(config)
    except InputError as error:
        config.stash[XDIST] = error
    try:
        return (yield)
    except KeyboardInterrupt:
        line = interrupted(getattr(config, "opscope_run_dir", None))
        sys.stderr.write(f"{line}\n")
        return USAGE


AT_ONCE = pytest.StashKey[int]()
"""How many ops are under way at once."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """As many lanes for `-n auto` as this process may keep processors busy; a conftest file's own hook is asked first.
    None, where xdist itself looks for the number in its variable."""
    return None if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS") else machine.processors()


@pytest.hookimpl(tryfirst=True, specname="pytest_configure")
def pytest_lanes_not_workers(config: pytest.Config) -> None:
    """Takes the number of xdist's workers for the number of lanes, before it makes what would start them."""
    if config.option.opscope_op_by_op:
        from opscope.harness.run import slots_asked

        config.stash[AT_ONCE] = slots_asked.taken(config)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Refuses bad input before a session starts, and lists the models if none is named."""
    option = config.option
    if option.help or option.version:
        return None
    try:
        if not option.opscope_op_by_op:
            _without_op_by_op(config)
            return None
        refuse_closed_stdout()
        from opscope.harness.run import lanes_ahead, request, server_ahead

        command_line.take_preset(config)
        if not (option.opscope_model or option.opscope_op or option.opscope_run_dir or option.opscope_resume):
            _refuse_others_model(config)
            request.refuse_without_model(config)
            sys.stdout.write(request.model_list())
            return 0
        if getattr(option, "benchmark_only", False):
            raise InputError("--benchmark-only", "none with --op-by-op", "it: no op is a benchmark", "leaving it out")
        if getattr(option, "timeout", None):
            sys.stderr.write("opscope: --timeout of pytest-timeout is left out: each op has --op-timeout\n")
        run_request = config.stash[request.KEY] = request.read(config)
        if run_request.resume is not None:
            from opscope.harness.run import resume

            run = resume.unfinished(run_request.resume)
            resume.options(run, run_request.settings.values, run_request.settings.sources)  # for what it raises
            resume.publish_again(run, run_request.settings)
        if run_request.again:
            from opscope.harness.run import ops_again

            plan = ops_again.from_run(run_request)  # also for what it raises
            lanes_ahead.for_lanes([side.orders.context.backend for side in plan.sides()])
        if problem := config.stash.get(XDIST, None):
            raise problem
        server_ahead.begin(run_request)
    except InputError as error:
        sys.stderr.write(f"{refusal(PYTEST, error)}\n")
        if sys.stdout is None:
            raise SystemExit(USAGE) from None  # pytest would write to it
        return USAGE
    return None


def _refuse_others_model(config: pytest.Config) -> None:
    """Raises InputError if the model was given by an option that another has declared."""
    for flag in config.stash.get(command_line.TAKEN, ()):
        if flag in ("--model", "--op", "--resume", "--run-dir"):
            own = command_line.long_name(flag)
            raise InputError(flag, f"{own}, as {flag} is an option of this project", f"{flag} alone", own)


def _without_op_by_op(config: pytest.Config) -> None:
    """Raises InputError if an option needs an op-by-op run and there is none."""
    option = config.option
    options_of_a_run = (
        ("--model", option.opscope_model),
        ("--op", option.opscope_op),
        ("--ops", option.opscope_ops),
        ("--run-dir", option.opscope_run_dir),
        ("--resume", option.opscope_resume),
    )
    for flag, value in options_of_a_run:
        if value:
            expected = "--op-by-op or --workflow as well"
            raise InputError(flag, expected, f"{flag} alone", "--op-by-op, or --workflow full for the model as a whole")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Sets the attributes that other plugins read, and registers the run, if there is one.

    This runs late, so that the first output of the run follows pytest's own header.
    """
    config.opscope_run_dir = None  # type: ignore[attr-defined]
    config.opscope_records = None  # type: ignore[attr-defined]
    config.opscope_places = {}  # type: ignore[attr-defined]
    config.opscope_doing = lambda what: None  # type: ignore[attr-defined]
    if config.option.opscope_op_by_op and not (config.option.help or config.option.version):
        from opscope.harness.run.session import OpByOp

        for setting in foreign_options.OWNERS:
            foreign_options.take(setting, config)
        # Otherwise pytest's header would name the folders of the project's own tests, which this run does not collect.
        config.args_source = pytest.Config.ArgsSource.INVOCATION_DIR
        session = OpByOp(config, config.stash[AT_ONCE])
        config.pluginmanager.register(session, SESSION)
        config.add_cleanup(session.end)
