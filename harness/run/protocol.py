"""Reports in pytest an op that the engine has run, with its own times.

An op has no fixtures or marks, and runs no code of its own in pytest's process. pytest's logging, capturing and
skipping around set-up, call and tear-down of a test would take as long as all the harness's own work for an op: they
are left out unless another plugin has a part in them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest

from opscope.harness.run.items import OpItem

THROUGH = (pytest.exit.Exception, KeyboardInterrupt)
"""Exceptions that end the session instead of failing the op."""

PHASES = ("pytest_runtest_setup", "pytest_runtest_call", "pytest_runtest_teardown")
OURS = ("_pytest.", "opscope.")
"""How the modules begin of plugins that have nothing to do around an op."""


def others_take_part(config: pytest.Config) -> bool:
    """Whether a plugin beside pytest's own has a hook around set-up, call or tear-down."""
    hooks = [impl.function for phase in PHASES for impl in getattr(config.hook, phase).get_hookimpls()]
    return any(not str(hook.__module__).startswith(OURS) for hook in hooks)


def fits(item: pytest.Item) -> bool:
    """Whether an item is an op that is not debugged, whose set-up is not shown, and that no plugin has marked."""
    option = item.config.option
    watched = any(getattr(option, name, False) for name in ("usepdb", "setupshow", "setuponly"))
    return isinstance(item, OpItem) and not item.own_markers and not watched


def run(item: pytest.Item) -> None:
    """Reports one op as pytest's own `runtestprotocol` does."""
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    _phase(item, "setup", lambda: None)
    _phase(item, "call", item.runtest)
    _phase(item, "teardown", lambda: None)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


def _phase(item: pytest.Item, when: Literal["setup", "call", "teardown"], step: Callable[[], None]) -> None:
    call = pytest.CallInfo.from_call(step, when=when, reraise=THROUGH)
    report = item.ihook.pytest_runtest_makereport(item=item, call=call)
    item.ihook.pytest_runtest_logreport(report=report)


def report_all(session: pytest.Session, item: pytest.Item) -> None:
    """Reports one test. As the next test is not known yet, the set-up of this one's model is torn down. Raises what
    ends the session."""
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=session)
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)
