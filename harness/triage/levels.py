"""The optimization level where a failure begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from opscope.harness.record.records import OpTest

if TYPE_CHECKING:
    from opscope.harness.triage.bundle import Failure


def begins_at(own: int, failure: Failure, at: Callable[[int], OpTest | None]) -> int | None:
    """The lowest level at which an op or a piece fails as it does at its `own`; None where that is not known.

    `at` is the record at a lower level; None if it cannot run any more.
    """
    for level in range(own):
        test = at(level)
        if test is None:
            return None
        if failure.alike(test):
            return level
    return own
