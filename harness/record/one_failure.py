"""Whether a backend fails every op with one text: then it is probably the backend that does not work, not the ops."""

from __future__ import annotations

from collections.abc import Iterable

from opscope.harness.record.records import OpTest
from opscope.harness.record.stages import FAILED, WENT_THROUGH, Status

FIRST = 20
"""So many ops fail first, with one text, before this is said."""

UNLOADED = " cannot be loaded: "
"""Stands in the failure of each op behind the name of a compiler that is not there for any of them."""

UNTRIED = frozenset({Status.NOT_RUN, Status.SKIPPED})


def failure_of_all(tests: Iterable[OpTest]) -> OpTest | None:
    """The first failure of a backend, if its first ops all failed with the same text and no op passed; else None.

    Of a compiler that could not be loaded each failure says so. `tests` are the records of one backend. A failure that
    a limitation expects is an op's own.
    """
    tried = sorted((test for test in tests if test.status not in UNTRIED), key=lambda test: test.test_start_ts)
    first = tried[:FIRST]
    says_so = bool(first) and UNLOADED in (first[0].error_message or "")
    if (len(first) < FIRST and not says_so) or any(test.status in WENT_THROUGH or test.expected for test in tried):
        return None
    failed = all(test.status in FAILED and test.error_signature for test in first)
    return first[0] if failed and len({test.error_signature for test in first}) == 1 else None


def sentence(backend: str, test: OpTest) -> str:
    """What a run says first of such a backend."""
    if UNLOADED in (test.error_message or ""):
        return f"No op could be run on {backend}, so its verdicts are not kept: {test.error_message}"
    return (
        f"The first {FIRST} ops all failed on {backend} with one text, and none passed, so its verdicts are not kept. "
        f"The backend itself may not work here (opscope doctor --backend {backend}): {test.error_message}"
    )
