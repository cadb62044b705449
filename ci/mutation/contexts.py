"""A pytest plugin for the copy: tells coverage which test or fixture runs, in this process and in those it starts.

A child process reads the name from `MUTATION_CONTEXT` when it starts (`context` in the file that
`COVERAGE_PROCESS_START` names). What a fixture of a file or session runs counts for each test that uses the fixture,
and what runs while a file is collected (arguments of its tests) for each test of the file.
One line per test goes to the file that `MUTATION_JOURNAL` names.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import coverage
import pytest

FAILED = pytest.StashKey[bool]()


def context_of(name: str) -> str:
    """The short name that coverage stores for a test or fixture."""
    return hashlib.sha1(name.encode(errors="replace")).hexdigest()[:12]


def fixture_context(fixture: Any) -> str:
    """The context of a fixture that outlives a test."""
    return context_of(f"{fixture.baseid}::{fixture.argname}")


def collection_context(node: pytest.Collector | pytest.Item) -> str:
    """The context of what runs while the file of a test is collected."""
    return context_of(f"{node.nodeid.partition('::')[0]} is collected")


@contextlib.contextmanager
def entered(context: str) -> Iterator[None]:
    """Whatever runs meanwhile, here or in a child, is noted as run by `context`."""
    before = os.environ.get("MUTATION_CONTEXT", "")
    _enter(context)
    try:
        yield
    finally:
        _enter(before)


def _enter(context: str) -> None:
    os.environ["MUTATION_CONTEXT"] = context
    measured = coverage.Coverage.current()
    if measured is not None:
        measured.switch_context(context)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Runs a test in its context, and notes how long it took and which fixtures it used."""
    started = time.monotonic()
    with entered(context_of(item.nodeid)):
        result = yield
    info = getattr(item, "_fixtureinfo", None)
    fixtures = [] if info is None else [each[-1] for each in info.name2fixturedefs.values()]
    line = {
        "test": item.nodeid,
        "seconds": round(time.monotonic() - started, 3),
        "failed": item.stash.get(FAILED, False),
        "contexts": [
            context_of(item.nodeid),
            collection_context(item),
            *(fixture_context(each) for each in fixtures if each.scope != "function"),
        ],
    }
    with Path(os.environ["MUTATION_JOURNAL"]).open("a") as journal:
        journal.write(json.dumps(line) + "\n")
    return result


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Runs the collection of a file in its own context."""
    if not isinstance(collector, pytest.Module):
        return (yield)
    with entered(collection_context(collector)):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any) -> Generator[None, object, object]:
    """Runs a fixture of a class, file or session in its own context."""
    if fixturedef.scope == "function":
        return (yield)
    with entered(fixture_context(fixturedef)):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Notes that a test failed."""
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report
