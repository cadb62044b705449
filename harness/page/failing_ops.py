"""The failing ops of a run, each cause once with its ops below it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from opscope.base.document.nodes import Cause, Causes, Op, causes_within
from opscope.harness.record.causes import cause_of_test
from opscope.harness.record.optest import shapes_text
from opscope.harness.record.records import OpTest
from opscope.harness.record.signature import shorten
from opscope.harness.record.stages import FAILED

CAUSES = 10
"""How many causes are shown where each has three lines."""
FAILING = 30
"""How many failures are listed; the report has the rest."""


def verdict_text(test: OpTest) -> str:
    """How and why an op failed; of limited length."""
    stage = f" at {test.failed_stage}" if test.failed_stage else ""
    expectation = test.expected if test.status not in FAILED else ""
    flaky = f"{test.stability}: " if test.flaky else ""
    return expectation or f"{flaky}{test.status.value}{stage}: {_reason(test)}".removesuffix(": ")


def place_text(test: OpTest) -> str:
    """Where in the model an op comes from; empty if that is unknown."""
    more = f" and {test.uses - 1} more" if test.uses > 1 else ""
    return f"from {test.locations[0]}{more}" if test.locations else ""


def failures(
    failing: Sequence[OpTest],
    scripts: Mapping[tuple[str, str], str] | None = None,
    listed_above: Collection[str] = (),
    *,
    several: bool = False,
    most: int = FAILING,
) -> Causes:
    """The failing ops of a run by their causes, at most `most` of them.

    `scripts`: what runs an op from its repro folder, by its id and backend. Of ops in `listed_above` pytest's FAILURES
    has the rest. `several`: whether the run has more than one backend.
    """
    by_uses = sorted(failing, key=lambda test: -test.uses)

    def cause_of(test: OpTest) -> Cause:
        return _cause(test, f" on {test.backend}" if several else "")

    def op_of(test: OpTest) -> Op:
        listed = test.op_id in listed_above
        return Op(
            test.op_id,
            test.op_name,
            f"({shapes_text(test.inputs)})",
            test.uses,
            "" if listed else place_text(test),
            "" if listed else _reason(test),
            note="" if listed else test.hypothesis,
            repro="" if listed else test.repro,
            script=(scripts or {}).get((test.op_id, test.backend), ""),
        )

    count = len({_same(test) for test in by_uses})
    remarks = [f"{count} causes"] * (count > 1)
    remarks += ["numbers and commands in FAILURES"] * bool(listed_above)
    about = Causes("Failing ops", tone="bad", remarks=remarks, see="the report, or opscope unblock")
    return causes_within(by_uses, _same, cause_of, op_of, most, about)


def _same(test: OpTest) -> tuple[object, ...]:
    return test.backend, test.status, test.failed_stage, cause_of_test(test), test.flaky, test.expected


def _cause(test: OpTest, on: str) -> Cause:
    cause, stage = cause_of_test(test), str(test.failed_stage or "")
    if test.status not in FAILED and test.expected:
        return Cause(cause, f"{test.expected}{on}", "", stage, "", "", "")
    what = f"{test.status}{f' at {stage}' if stage else ''}{on}"
    return Cause(cause, what, _reason(test), stage, "", "", "", flaky=test.flaky)


def _reason(test: OpTest) -> str:
    """What an op's failure says, of limited length."""
    return shorten(test.error_message or test.crash_kind or "")


def with_short_paths(text: str, folder: Path | None) -> str:
    """`text` with paths inside `folder`, and their SQLite URLs, made relative to it."""
    if folder is None or folder == folder.parent:
        return text
    return re.sub(rf"(?:(?<![\w/.-])|(?<=sqlite:///)){re.escape(str(folder))}/(?=[\w.])", "", text)
