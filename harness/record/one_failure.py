"""Whether a backend fails every op with one text: then it is probably the backend that does not work, not the ops."""

from __future__ import annotations

from collections.abc import Iterable

from opscope.harness.record.records import OpTest
from opscope.harness.record.stages import FAILED, WENT_THROUGH, Status

FIRST = 20
"""So many ops fail first, with one text, before this is said."""

UNTRIED = frozenset({Status.NOT_RUN, Status.SKIPPED})


def failure_of_all(tests: Iterable[OpTest]) -> OpTest | None:
    """The first failure of a backend, if its first ops all failed with the same text and no op passed; else None.

    `tests` are the records of one backend. A failure that a limitation expects is an op's own.
    """
    tried = sorted((test for test in tests if test.status not in UNTRIED), key=lambda test: test.test_start_ts)
    first = tried[:FIRST]
    if len(first) < FIRST or any(test.status in WENT_THROUGH or test.expected for test in tried):
        return None
    failed = all(test.status in FAILED and test.error_signature for test in first)
    return first[0] if failed and len({test.error_signature for test in first}) == 1 else None


def sentence(backend: str, test: OpTest) -> str:
    """What a run says first of such a backend."""
    return (
        f"The first {FIRST} ops all failed on {backend} with one text, and none passed, so its verdicts are not kept. "
        f"The backend itself may not work here (opscope doctor --backend {backend}): {test.error_message}"
    )
