"""The pytest plugin: declares the options and starts an op-by-op run.

Without `--op-by-op` it only adds options. With it, the project's own tests are ignored, its conftest files work beside
the ops (harness/run/conftests.py), and `harness/run/session.py` takes over collection.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Generator, Mapping
from typing import Any

import pytest

from opscope.base import gc_pause
from opscope.harness.record.errors import PYTEST, InputError, refusal
from opscope.harness.settings import foreign_options

with gc_pause.paused():  # nothing that an import makes is garbage; this one is most of what pytest imports of ours
    from opscope.harness.settings.settings import SETTINGS

USAGE = 2
"""Exit code for bad input."""

FOLLOWERS = ("opscope.reports.plugin", "opscope.reports.fork_ahead")
"""Plugins in other packages that a run registers. As entry points they would be loaded at every start of pytest."""

SESSION = "opscope-session"
"""Name under which the plugin of an op-by-op run is registered."""


OWN_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "--model": {
        "action": "append",
        "metavar": "MODEL",
        "help": "Model to run: a name, a glob, `all`, the path or glob of model files, or NAME=FILE to name a "
        "file's model; may be given several times.",
    },
    "--op-by-op": {
        "action": "store_true",
        "help": "Run each unique op of the models by itself (--workflow split). Without --model, list the models.",
    },
    "--ops": {
        "action": "append",
        "metavar": "GLOB",
        "help": "Run only ops of this name or family (`stablehlo.dot*`, `dot*`, `matmul`); the others count as "
        "skipped.",
    },
    "--op": {
        "action": "append",
        "metavar": "ID",
        "help": "Run this op of an earlier run (the newest, or --run-dir) again, as a run of its own, without "
        "exporting the model; the earlier run stays as it is.",
    },
    "--run-dir": {"metavar": "DIR", "help": "Run folder; default: a new one in .opscope/runs."},
    "--resume": {
        "metavar": "RUN_DIR",
        "help": "Continue a run that was killed, interrupted or out of budget, with its own options.",
    },
}
"""Options that are no settings: what a run is of."""


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Adds the options of the group `opscope`."""
    group = parser.getgroup("opscope", "op-by-op runs of ML compilers (opscope)")
    for flag, own in OWN_OPTIONS.items():
        default = False if own.get("action") == "store_true" else None
        group.addoption(flag, dest=f"opscope_{flag[2:].replace('-', '_')}", default=default, **own)
    for setting in SETTINGS:
        if not setting.option or foreign_options.owned(setting.name, pluginmanager):
            continue
        if setting.repeated:
            kind: dict[str, Any] = {"action": "append", "metavar": setting.metavar}
        elif not setting.metavar:
            kind = {"action": "store_true"}
        else:
            kind = {"metavar": setting.metavar, **({"nargs": "?", "const": ""} if setting.optional else {})}
        group.addoption(setting.flag, dest=setting.dest, default=None, help=setting.help, **kind)


@pytest.hookimpl(wrapper=True, trylast=True)  # inside of pytest's own, which shows what a failing import wrote
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, None, None]:
    """Has the conftest files of the folder work beside an op-by-op run, and nothing else of theirs."""
    options = early_config.known_args_namespace
    options.opscope_op_by_op = (
        options.opscope_op_by_op or options.opscope_op_by_op_on_fail or bool(options.opscope_workflow)
    )
    if options.opscope_op_by_op:
        gc_pause.none_at_exit()
        early_config.add_cleanup(gc_pause.restorer())  # the last of all, as they run from the last to the first
        gc_pause.pause()  # until the session begins: nothing that is imported is garbage
        manager = early_config.pluginmanager
        foreign_options.take_out(manager)
        foreign_options.import_plainly(early_config)
        for name in FOLLOWERS:
            module = importlib.import_module(name)
            if not manager.is_registered(module):
                manager.register(module, name)
    if not options.opscope_op_by_op or options.help or options.version:
        return (yield)
    if options.opscope_no_cache:  # every op will run
        from opscope.base.children import forked
        from opscope.harness.lanes import worker_ahead

        forked.get_ready(worker_ahead.WORKER)
    from opscope.harness.run import conftests

    options.noconftest |= conftests.ignored(options, early_config.invocation_params.dir)
    with conftests.beside(early_config):
        yield
    return None


XDIST = pytest.StashKey[InputError]()
"""What is wrong with the options that were given to pytest-xdist."""


@pytest.hookimpl(wrapper=True, specname="pytest_cmdline_main")
def pytest_options_as_given(config: pytest.Config) -> Generator[None, Any, Any]:
    """Looks at the options of pytest-xdist as they were given: wrappers come before all other hooks."""
    option = config.option
    if option.opscope_op_by_op or option.opscope_op_by_op_on_fail or option.opscope_workflow:
        from opscope.harness.run import slots_asked

        try:
            slots_asked.check(config)
        except InputError as error:
            config.stash[XDIST] = error
    return (yield)


AT_ONCE = pytest.StashKey[int]()
"""How many ops are under way at once."""


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
    option.opscope_op_by_op |= bool(option.opscope_op_by_op_on_fail or option.opscope_workflow)
    if option.help or option.version:
        return None
    try:
        if not option.opscope_op_by_op:
            _without_op_by_op(config)
            return None
        from opscope.harness.run import request, server_ahead

        if not (option.opscope_model or option.opscope_op or option.opscope_run_dir or option.opscope_resume):
            request.refuse_without_model(config)
            sys.stdout.write(request.model_list())
            return 0
        run_request = config.stash[request.KEY] = request.read(config)
        if run_request.resume is not None:
            from opscope.harness.run import resume

            run = resume.unfinished(run_request.resume)
            resume.options(run, run_request.settings.values, run_request.settings.sources)  # for what it raises
            resume.publish_again(run, run_request.settings)
        if run_request.again:
            from opscope.harness.run import ops_again

            plan = ops_again.from_run(run_request)  # also for what it raises
            server_ahead.for_lanes([side.orders.context.backend for side in plan.sides()])
        if problem := config.stash.get(XDIST, None):
            raise problem
        server_ahead.begin(run_request)
    except InputError as error:
        sys.stderr.write(f"{refusal(PYTEST, error)}\n")
        return USAGE
    return None


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
        config.pluginmanager.register(OpByOp(config, config.stash[AT_ONCE]), SESSION)
