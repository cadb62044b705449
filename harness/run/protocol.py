"""Runs an op in pytest: with the usual reports, but without the hooks around the code of a test.

An op has no fixtures or marks, and runs no code of its own in pytest's process. pytest's logging, capturing and
skipping around set-up, call and tear-down of a test would take as long as all the harness's own work for an op.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest

from opscope.harness.run.items import OpItem

THROUGH = (pytest.exit.Exception, KeyboardInterrupt)
"""Exceptions that end the session instead of failing the op."""


def fits(item: pytest.Item) -> bool:
    """Whether an item is an op that is not debugged, whose set-up is not shown, and that no plugin has marked."""
    option = item.config.option
    watched = any(getattr(option, name, False) for name in ("usepdb", "setupshow", "setuponly"))
    return isinstance(item, OpItem) and not item.own_markers and not watched


def run(item: pytest.Item) -> None:
    """Runs one op and reports it as pytest's own `runtestprotocol` does."""
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
