"""Expected failures: which ops fail on which backend, at which stage, and why; and what a record then means.

A row turns the failure that it names into an expected one. A failure for another reason stays a failure, and an op that
passes although a row names it fails too: the row is to be deleted. Kinds: `notimpl` (we have not), `notyet` (they have
not), `never` (the hardware cannot; the reason names the fact). Rows are read from files
(harness/limitations/limitation_file.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from fnmatch import fnmatchcase

from opscope.base.op_families import op_family
from opscope.harness.record.optest import backend_label
from opscope.harness.record.records import OpRow, OpTest
from opscope.harness.record.stages import FAILED, Stage, Status

KINDS = ("notimpl", "notyet", "never")

BODY = "body"
"""The parameter of an op with a body that says which ops are in it."""
GRACE = timedelta(days=14)
"""How long a row excuses after its day of expiry: the page warns meanwhile, then the failure is red."""


@dataclass(frozen=True)
class Limitation:
    """One row: the ops it names (all given conditions hold) and the failure it expects of them."""

    op: tuple[str, ...]
    """Patterns (fnmatch) of the op's name; one of them fits."""
    backend: str
    stage: Stage
    """The stage at which the op fails."""
    kind: str
    reason: str
    message: str = "*"
    """Pattern (fnmatch) of the record's error message."""
    signature: str = ""
    """Fingerprint of the error (harness/record/signature.py). Empty: any."""
    types: tuple[str, ...] = ()
    """Element types; one of the op's inputs or outputs has one of them. Empty: any."""
    op_ids: tuple[str, ...] = ()
    """Empty: any."""
    params: Mapping[str, str] = field(default_factory=dict)
    """Attribute -> pattern of its text."""
    families: frozenset[str] = frozenset()
    """Families of ops (opscope/base/op_families.py). Empty: any."""
    arch: str = "*"
    """Pattern (fnmatch) of the board, `e150`. A row with a board applies to records only, not to plans."""
    data_formats: tuple[str, ...] = ()
    """Forced float format; "" is none forced. Empty: any."""
    but: tuple[str, ...] = ()
    """Names of ops that the row does not cover."""
    link: str = ""
    """Link of the issue that tracks it."""
    since: date | None = None
    expires: date | None = None
    """First day on which the row has to be reviewed; None if it does not expire."""
    within: str = ""
    """Pattern (fnmatch) of the message with which an op that holds others (a loop, a branch, a composite, what has a
    body) fails because the row names one of these. Empty: none is named so."""
    strict: bool = True
    """False: only some of the ops that it names fail so; the others may pass, and fail for reasons of their own."""
    where: str = field(default="", compare=False)
    """File and line that the row was read from."""

    def names(self, op: OpRow | OpTest, backend: str) -> bool:
        """Whether the row covers this op on this backend."""
        if self.backend != backend:  # most rows, of each op
            return False
        forced = op.data_format if isinstance(op, OpTest) else ""
        return (
            (self._fits(op) or self._named_within(op))
            and any(fnmatchcase(board, self.arch) for board in boards(op))
            and (not self.data_formats or forced in self.data_formats)
        )

    def is_about(self, op_name: str) -> bool:
        """Whether the row is about ops of a name, as far as that alone says it."""
        return (
            any(fnmatchcase(op_name, pattern) for pattern in self.op)
            and op_name not in self.but
            and (not self.families or op_family(op_name) in self.families)
        )

    def _fits(self, op: OpRow | OpTest) -> bool:
        """Whether this op is one that the row is about, by what it is."""
        return (
            self.is_about(op.op_name)
            and (not self.types or any(desc.data_type in self.types for desc in (*op.inputs, *op.outputs)))
            and (not self.op_ids or op.op_id in self.op_ids)
            and all(fnmatchcase(op.op_params.get(name, ""), pattern) for name, pattern in self.params.items())
        )

    def _named_within(self, op: OpRow | OpTest) -> bool:
        """Whether this op failed because of one in it that the row is about."""
        return bool(self.within) and isinstance(op, OpTest) and holds_others(op) and _says(op, self.within)

    def expired(self, today: date) -> bool:
        """Whether the row has reached its day of expiry."""
        return self.expires is not None and today >= self.expires

    def excuses(self, today: date) -> bool:
        """Whether the row still turns a failure into an expected one."""
        return self.expires is None or today < self.expires + GRACE


def holds_others(op: OpRow | OpTest) -> bool:
    """Whether an op has others in it: a loop, a branch, a composite, what has a body."""
    return op_family(op.op_name) == "control" or BODY in op.op_params


def _says(test: OpTest, pattern: str) -> bool:
    """Whether the message of a failure fits a pattern."""
    return fnmatchcase(test.error_message or "", pattern)


@dataclass(frozen=True)
class NewRows:
    """What all rows have in common that a run proposes."""

    kind: str
    since: date
    expires: date | None = None
    link: str = ""


def boards(op: OpRow | OpTest) -> tuple[str, ...]:
    """The names of the board that an op ran on: as the options name it, and as the card reports it."""
    return (op.arch, op.card_type.removeprefix("sim-")) if isinstance(op, OpTest) else ("",)


@dataclass(frozen=True)
class Verdict:
    """What a record means for a test: `pass`, `xfail` (a limitation names the failure) or `fail`, and why."""

    outcome: str
    reason: str = ""


def match(
    op: OpRow | OpTest, backend: str | None = None, rows: Iterable[Limitation] = (), today: date | None = None
) -> Limitation | None:
    """The row that names this op: of several the first that expects what became of it, else the first.

    `backend` may be left out for a record, which has its own.
    """
    label = backend_label(backend if backend is not None else op.backend if isinstance(op, OpTest) else "")
    named = [row for row in rows if row.names(op, label)]
    if isinstance(op, OpTest) and len(named) > 1:
        named.sort(key=lambda row: (verdict(op, row, today).outcome != "xfail", not row.strict))
    return named[0] if named else None


def verdict(test: OpTest, limitation: Limitation | None, today: date | None = None) -> Verdict:
    """What `test` means on a day, given the row that names its op, or None."""
    failed = test.status in FAILED
    if limitation is None:
        return Verdict("fail" if failed else "pass")
    expected = f"{limitation.kind}: {limitation.reason}"
    if failed:
        if not limitation.strict and not _expects(limitation, test):
            return Verdict("fail")
        if _failed_at(test) is not limitation.stage:
            where = test.failed_stage or test.status.value
            return Verdict("fail", f"expected to fail at {limitation.stage} ({expected}), failed at {where}")
        if not _says(test, limitation.message):
            return Verdict("fail", f"expected '{limitation.message}' ({expected}), failed for another reason")
        if limitation.signature and test.error_signature != limitation.signature:
            return Verdict("fail", f"expected signature {limitation.signature} ({expected}), failed for another reason")
        if not limitation.excuses(today or now()):
            return Verdict("fail", f"the limitation expired on {limitation.expires} ({expected}); renew or delete it")
        return Verdict("xfail", expected)
    if limitation.kind == "never" and test.ran_on in ("host", "mixed"):
        return Verdict("pass")  # what the hardware cannot, the host has done
    if limitation.strict and (test.status is Status.SUCCESS or _passed(test, limitation.stage)):
        return Verdict("fail", f"unexpected pass: expected to fail at {limitation.stage} ({expected}); delete the row")
    return Verdict("pass")


def _expects(row: Limitation, test: OpTest) -> bool:
    """Whether a failure is the one that the row expects."""
    return _failed_at(test) is row.stage and _says(test, row.message) and row.signature in ("", test.error_signature)


def _failed_at(test: OpTest) -> Stage | None:
    """Where an op failed; one that ran and has no golden, at the comparison that could not be made."""
    return Stage.COMPARE if test.status is Status.NO_GOLDEN else test.failed_stage


def _passed(test: OpTest, stage: Stage) -> bool:
    """Whether an op that was stopped had gone through `stage` before."""
    return test.status in (Status.PASSED, Status.STOPPED) and stage in [time.stage for time in test.stages]


def judged(test: OpTest, rows: Sequence[Limitation] = (), today: date | None = None) -> tuple[OpTest, Verdict]:
    """The record with its `expected` column filled in, and what it means."""
    outcome = verdict(test, match(test, rows=rows, today=today), today)
    if outcome.outcome == "xfail" or outcome.reason.startswith("unexpected pass"):
        test = test.model_copy(update={"expected": outcome.reason})
    return test, outcome


class ByName:
    """The rows of one backend, of which few may name an op of a name."""

    def __init__(self, rows: Iterable[Limitation], backend: str) -> None:
        label = backend_label(backend)
        self._rows = [row for row in rows if row.backend == label]
        self._known: dict[tuple[str, bool], list[Limitation]] = {}

    def about(self, op: OpRow | OpTest) -> list[Limitation]:
        """The rows that may name an op, or what is in it."""
        known = (op.op_name, holds_others(op))
        if known not in self._known:
            self._known[known] = [row for row in self._rows if (row.within and known[1]) or row.is_about(op.op_name)]
        return self._known[known]


def now() -> date:
    """Today, in UTC."""
    return datetime.now(UTC).date()
