"""Reports in pytest an op that the engine has run, with its own times.

An op has no fixtures or marks, and runs no code of its own in pytest's process. pytest's logging, capturing and
skipping around set-up, call and tear-down of a test would take as long as all the harness's own work for an op: they
are left out unless another plugin has a part in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import pytest

from opscope.harness.run.items import OpItem

THROUGH = (pytest.exit.Exception, KeyboardInterrupt)
"""Exceptions that end the session instead of failing the op."""

PHASES = ("pytest_runtest_setup", "pytest_runtest_call", "pytest_runtest_teardown")
OURS = ("_pytest.", "opscope.")
"""How the modules begin of plugins that have nothing to do around an op."""
OF_CALLS = (
    "_pytest.terminal",
    "_pytest.main",
    "_pytest.cacheprovider",
    "_pytest.stepwise",
    "_pytest.logging",
    "opscope.",
)
"""The same of those that take nothing from the report of a set-up or tear-down in which nothing happened."""


class Reports:
    """Reports the tests of a session: an op as briefly as the plugins that are there allow."""

    def __init__(self, session: pytest.Session) -> None:
        self._session, option = session, session.config.option
        self._brief = not _have_hooks(session.config, PHASES, OURS)
        self._call_alone = option.durations is None and not (
            _have_hooks(session.config, ("pytest_runtest_logreport",), OF_CALLS)
            or _have_hooks(session.config, ("pytest_runtest_makereport",), OURS)
        )

    def test(self, item: pytest.Item) -> None:
        """Reports one test. As the next test is not known yet, the set-up of this one's model is torn down. Raises what
        ends the session."""
        if self._brief and fits(item):
            self._op(item)
        else:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=self._session)
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)
        if self._session.shouldstop:
            raise self._session.Interrupted(self._session.shouldstop)

    def _op(self, item: pytest.Item) -> None:
        """Reports one op as pytest's own `runtestprotocol` does."""
        hook, location = item.ihook, item.location
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=location)
        if not self._call_alone:
            _phase(hook, item, "setup", lambda: None)
        _phase(hook, item, "call", item.runtest)
        if not self._call_alone:
            _phase(hook, item, "teardown", lambda: None)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=location)


def _have_hooks(config: pytest.Config, names: Sequence[str], but: tuple[str, ...]) -> bool:
    """Whether a plugin has one of some hooks whose module's name does not begin with one of those."""
    hooks = [each.function for name in names for each in getattr(config.hook, name).get_hookimpls()]
    return any(not str(hook.__module__).startswith(but) for hook in hooks)


def fits(item: pytest.Item) -> bool:
    """Whether an item is an op that is not debugged, whose set-up is not shown, and that no plugin has marked."""
    option = item.config.option
    watched = any(getattr(option, name, False) for name in ("usepdb", "setupshow", "setuponly"))
    return isinstance(item, OpItem) and not item.own_markers and not watched


def _phase(hook: Any, item: pytest.Item, when: Literal["setup", "call", "teardown"], step: Callable[[], None]) -> None:
    call = pytest.CallInfo.from_call(step, when=when, reraise=THROUGH)
    hook.pytest_runtest_logreport(report=hook.pytest_runtest_makereport(item=item, call=call))
