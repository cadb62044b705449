"""One record of an op that was run on several classes of inputs (`--inputs classes`), each by itself.

Each class has its own goldens, verdict, reruns and kept verdict. An op that no inputs can help is run on the first
class alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import overload

from opscope.harness.record.records import ClassEnding, OpRow, OpTest, StageTime
from opscope.harness.record.stages import FAILED, Stage, Status

WITHOUT_INPUTS = frozenset({Status.COMPILE_FAILED, Status.SKIPPED, Status.PASSED, Status.STOPPED})
"""Endings that no inputs decide."""


@overload
def of_classes(row: OpRow, test_of: Callable[[OpRow], OpTest]) -> OpTest: ...
@overload
def of_classes(row: OpRow, test_of: Callable[[OpRow], OpTest | None]) -> OpTest | None: ...
def of_classes(row: OpRow, test_of: Callable[[OpRow], OpTest | None]) -> OpTest | None:
    """The record of an op, from those that `test_of` has of it on each class of its inputs; None if one is missing.

    It is that of the last class that failed, whose files are in the run's folder; of one that is right everywhere that
    of the class with the largest error.
    """
    tests: list[OpTest] = []
    for part in row.by_class:
        test = test_of(part)
        if test is None or (not tests and test.status in WITHOUT_INPUTS):
            return test
        tests.append(test)
    return _joined(tests) if row.input_class else tests[0]


def _joined(tests: Sequence[OpTest]) -> OpTest:
    place = max(range(len(tests)), key=lambda place: _badness(tests[place], place))
    shown = tests[place]
    message = shown.error_message
    if wrong := [test.input_class for test in tests if test.status in FAILED]:
        message = f"{message or shown.status}; with inputs: {', '.join(reversed(wrong))}"
    shares = [test.domain_share for test in tests if test.domain_share is not None]
    return shown.model_copy(
        update={
            "error_message": message,
            "test_start_ts": min(test.test_start_ts for test in tests),
            "test_end_ts": max(test.test_end_ts for test in tests),
            "stages": _times(tests),
            "domain_share": max(shares, default=None),
            "cached_from": shown.cached_from if all(test.cached_from for test in tests) else "",
            "input_classes": tuple(
                ClassEnding(
                    input_class=test.input_class,
                    status=test.status,
                    error=test.error_message or "",
                    z_max=test.z_max,
                    cached_from=test.cached_from,
                )
                for test in reversed(tests)
            ),
        }
    )


def _badness(test: OpTest, place: int) -> tuple[int, float]:
    """The order of records: no golden comes before a failure, and of two failures the later one counts."""
    if test.right:
        return 0, test.z_max or 0.0
    return 1 + (test.status in FAILED - {Status.NO_GOLDEN}), place


def _times(tests: Sequence[OpTest]) -> tuple[StageTime, ...]:
    """The seconds of each stage, of all classes together."""
    seconds: Counter[Stage] = Counter()
    for test in tests:
        for each in test.stages:
            seconds[each.stage] += each.seconds  # type: ignore[assignment]
    return tuple(StageTime(stage=stage, seconds=took) for stage, took in seconds.items())
