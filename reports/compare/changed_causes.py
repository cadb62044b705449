"""What changed between two runs or nights, cause by cause, as plain data.

Terminal, report.html, markdown and assistants render this, and group nothing themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from opscope.base.labels import CHANGES, LABELS, QUIET, Label
from opscope.harness.record.causes import Cause, by_cause
from opscope.reports.compare.diff import Diff, Row

FLAKY = "flaky: these do not fail the gate"


class Section(NamedTuple):
    """The causes of one label, or all that came and went by itself."""

    title: str
    """The label, or FLAKY."""
    tone: str
    causes: tuple[ChangedCause, ...]
    """The one with the most uses first."""

    @property
    def rows(self) -> list[Row]:
        """The ops of all its causes."""
        return [row for cause in self.causes for row in cause.failures]

    @property
    def heading(self) -> str:
        """The title with its numbers: `PERSISTING (3, 2 of them expected failures)`."""
        rows = self.rows
        counts = {
            "of them expected failures": sum(bool(row.known) for row in rows),
            "acknowledged": sum(row.acknowledged for row in rows),
        }
        parts = [str(len(rows)), *(f"{count} {what}" for what, count in counts.items() if count)]
        return f"{self.title} ({', '.join(parts)})"


class ChangedCause(Cause[Row]):
    """The ops that one cause made change in one way."""

    @property
    def names(self) -> str:
        """`stablehlo.add (3), stablehlo.abs`: the names of its ops, the most frequent first."""
        names = Counter(row.op_name for row in self.failures)
        return ", ".join(f"{name} ({count})" if count > 1 else name for name, count in names.most_common())

    @property
    def models(self) -> list[str]:
        """The models that have one of its ops."""
        return sorted({model for row in self.failures for model in row.models})

    @property
    def heading(self) -> str:
        """What is the same for all its ops; empty for an op without an error, which is a cause of its own."""
        row = self.first
        owner = f"owner {row.owner}" if row.owner else ""
        if not row.cluster:
            return ""
        if row.label == Label.PCC_DROP:
            return "; ".join(filter(None, ["less exact than before", owner]))
        where = f" at {row.failed_stage}" if row.failed_stage and row.status_b else ""
        parts = [turn(row) + where, owner, f"known: {row.known}" if row.known else ""]
        return "; ".join(filter(None, parts)) + (f": {error_of(row)}" if error_of(row) else "")

    def brief(self) -> dict[str, Any]:
        """The cause in a few words, for who reads many: `opscope diff --cause ID` has the rest."""
        row, models = self.first, self.models
        told = {
            "cause": row.cluster,
            "label": str(row.label),
            "ops": self.ops,
            "names": self.names,
            "models": models[:3],
            "models_left_out": max(0, len(models) - 3),
            "stage": row.failed_stage,
            "error": error_of(row) or row.note,
            "owner": row.owner,
            "known": row.known,
            "flaky": row.flaky,
            "note": row.remark,
            "op_id": row.op_id,
            "repro": row.repro,
        }
        return {name: value for name, value in told.items() if value}


def turn(row: Row) -> str:
    """`success -> wrong_result`, or the status that an op had in both."""
    return f"{row.status_a or 'absent'} -> {row.status_b}" if row.status_a != row.status_b else row.status_b


def error_of(row: Row) -> str:
    """The error that the row is about: that of the later run, and of the earlier where that is fixed."""
    return row.error_b or (row.error_a if row.label == Label.FIXED else "")


def counts_of(diff: Diff) -> dict[str, int]:
    """How many ops there are of each change, as the sections count them: `NEW 3, FIXED 1, known or flaky 1`."""
    counts = Counter(row.change for row in diff.rows)
    return {change: counts[change] for change in CHANGES if counts[change]}


def causes_of(rows: Iterable[Row]) -> tuple[ChangedCause, ...]:
    """Rows of one label by cause; of one without an error each op is a cause."""
    found = by_cause(rows, lambda row: (row.cluster or row.op_id, row.known, row.owner), lambda row: row.uses)
    return tuple(ChangedCause(cause.failures, cause.ops, cause.uses) for cause in found)


def sections_of(diff: Diff) -> list[Section]:
    """What changed, the most urgent first, without what is only counted."""
    listed = [row for row in diff.rows if row.label not in QUIET]
    parts = [
        (str(label), LABELS[label].tone, [r for r in listed if r.label == label and not r.flaky]) for label in Label
    ]
    parts.append((FLAKY, "", [row for row in listed if row.flaky]))
    return [Section(title, tone, causes_of(rows)) for title, tone, rows in parts if rows]
