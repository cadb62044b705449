"""The conftest files of a user's project beside an op-by-op run: their options and hooks work, and no op knows of them.

What pytest asks about tests that it has collected concerns theirs, so they are not asked it about ops. What they change
in the environment is put back before anything is prepared: a sweep gives the same records wherever it is called. One
that fails to import is left out. `--ignore-conftest`, or pytest's own `--noconftest`, leaves out all.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from opscope.base.visible_text import one_line
from opscope.harness.record.errors import InputError
from opscope.harness.settings.settings import project_folder, resolve

OF_TESTS = (
    "pytest_cmdline_main",
    "pytest_collection",
    "pytest_collection_modifyitems",
    "pytest_collection_finish",
    "pytest_report_collectionfinish",
    "pytest_collectstart",
    "pytest_collectreport",
    "pytest_make_collect_report",
    "pytest_itemcollected",
    "pytest_deselected",
    "pytest_runtestloop",
    "pytest_runtest_protocol",
    "pytest_runtest_setup",
    "pytest_runtest_call",
    "pytest_runtest_teardown",
    "pytest_runtest_makereport",
    "pytest_exception_interact",
    "pytest_xdist_make_scheduler",
    "pytest_xdist_node_collection_finished",
)
"""Hooks that are called with what is collected, or that could take its place."""

PYTESTS_OWN = ("PYTEST_", "COLUMNS", "LINES")
"""How variables begin that pytest itself sets while it starts."""


@dataclass
class Beside:
    """What is known of the conftest files of a run."""

    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    """The variables before any of them was imported."""
    folder: str = field(default_factory=os.getcwd)
    left_out: str = ""
    """One line, if a conftest file could not be imported."""
    uncalled: list[str] = field(default_factory=list)
    """Plugins with hooks that are not called in an op-by-op run, each with these hooks."""
    changed: list[str] = field(default_factory=list)
    """The variables that they changed, which have been put back."""


KEY = pytest.StashKey[Beside]()


def ignored(options: Any, folder: Path) -> bool:
    """Whether no conftest file is to be loaded, by an option, the environment or [tool.opscope]."""
    try:
        settings = resolve({"ignore_conftest": options.opscope_ignore_conftest}, project_folder(folder))
    except InputError:
        return False  # it is refused in a moment, with all the others
    return bool(settings["ignore_conftest"])


@contextmanager
def beside(config: pytest.Config) -> Iterator[None]:
    """Surrounds the import of the conftest files."""
    known = config.stash[KEY] = Beside()
    manager = config.pluginmanager
    before = {id(plugin) for plugin in manager.get_plugins()}
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  also SystemExit, and a skip of pytest
        known.left_out = _left_out(config, error)
    plugins = manager.list_name_plugin()
    theirs = [(name, plugin) for name, plugin in plugins if plugin is not None and id(plugin) not in before]
    if not theirs and not known.left_out:
        del config.stash[KEY]  # there is none, and what else changed the environment is what the user asked for
        return
    for name, plugin in theirs:
        _keep_from_ops(config, known, name, plugin)
    put_back(config)


def _left_out(config: pytest.Config, error: BaseException) -> str:
    """Leaves out the conftest file that could not be imported, and those that would have come after it."""
    manager = config.pluginmanager
    cause = getattr(error, "cause", error)  # of pytest's ConftestImportFailure
    files = [frame.filename for frame in traceback.extract_tb(cause.__traceback__)]
    of_theirs = [file for file in files if Path(file).name == "conftest.py"]
    place = getattr(error, "path", None) or next(iter(of_theirs), "a conftest file")
    half = manager.get_plugin(str(place))  # imported, but an option of its own exists, say
    if half is not None:
        manager.unregister(half)
    reason = one_line(f"{type(cause).__name__}: {cause}".strip().rstrip(":"))
    return f"{_short(config, str(place))} is left out, and what it would load: {reason}"


def _keep_from_ops(config: pytest.Config, known: Beside, name: str, plugin: object) -> None:
    """Takes the hooks of a plugin for tests out of this run."""
    taken = []
    for hook in OF_TESTS:
        caller = getattr(config.hook, hook, None)
        if caller is not None and any(hookimpl.plugin is plugin for hookimpl in caller.get_hookimpls()):
            caller._remove_plugin(plugin)  # pluggy can only unregister a plugin as a whole
            taken.append(hook)
    if taken:
        known.uncalled.append(f"{_short(config, name)}: {', '.join(taken)}")


def _short(config: pytest.Config, name: str) -> str:
    """A file's name relative to the folder of the command, where it is below that."""
    path, folder = Path(name), config.invocation_params.dir
    return one_line(str(path.relative_to(folder)) if path.is_absolute() and path.is_relative_to(folder) else name)


def put_back(config: pytest.Config) -> None:
    """Restores the environment and the current folder as they were before the conftest files."""
    known = config.stash.get(KEY, None)
    if known is None:
        return
    names = sorted(
        name
        for name in {*known.environment, *os.environ}
        if known.environment.get(name) != os.environ.get(name) and not name.startswith(PYTESTS_OWN)
    )
    for name in names:
        if name in known.environment:
            os.environ[name] = known.environment[name]
        else:
            del os.environ[name]
    if os.getcwd() != known.folder:  # noqa: PTH109
        os.chdir(known.folder)
        names.append("the current folder")
    known.changed += [name for name in names if name not in known.changed]


def notes(config: pytest.Config) -> list[str]:
    """Lines about what was left out of conftest files, each once."""
    known = config.stash.get(KEY, None)
    if known is None:
        return []
    lines = [known.left_out] if known.left_out else []
    if known.changed:
        lines.append(f"a conftest file or plugin changes {', '.join(known.changed)}; the ops run without that")
    known.left_out, known.changed = "", []
    return lines


def header(config: pytest.Config) -> Sequence[str]:
    """Lines of pytest's header: which hooks are not called."""
    known = config.stash.get(KEY, None)
    return [] if known is None else [f"not called in an op-by-op run: {line}" for line in known.uncalled]
