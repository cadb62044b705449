"""What a test of an op tells other plugins of its record: pairs of a name and one plain value each.

JUnit files have a `<property>` for each pair; the line that shows a run's progress reads the first two.
"""

from __future__ import annotations

from collections.abc import Sequence

from opscope.base.visible_text import one_line
from opscope.harness.record.records import OpTest
from opscope.harness.record.stages import Status

STATUS, EXPECTED = "status", "expected"
NAMES = (
    "op_id",
    "op_name",
    "op_kind",
    "backend",
    "stage_reached",
    "failed_stage",
    "error_message",
    "error_signature",
    "crash_kind",
    "hypothesis",
    "second_authority",
    "pcc",
    "z_max",
    "cycles",
    "ran_on",
    "uses",
    "stability",
    "canary",
    "artifact",
    "repro",
    "run_id",
)
"""Fields of a record that a test has as properties under their own names, where they have a value."""

Properties = list[tuple[str, object]]


def of_test(test: OpTest) -> Properties:
    """The properties of a record; `expected` is the reason of the limitation that names its outcome, empty if none."""
    properties: Properties = [(STATUS, test.status.value), (EXPECTED, one_line(test.expected))]
    for name in NAMES:
        value = getattr(test, name)
        if value not in (None, ""):
            properties.append((name, value if isinstance(value, int | float) else one_line(str(value))))
    properties.append(("models", one_line(", ".join(test.models or (test.model_name,)))))
    return properties


def outcome(properties: Sequence[tuple[str, object]]) -> tuple[Status, bool] | None:
    """The status and whether it was expected, of a report with these properties; None if it is not an op's."""
    values = dict(properties)
    if STATUS not in values or EXPECTED not in values:
        return None
    return Status(str(values[STATUS])), bool(values[EXPECTED])
