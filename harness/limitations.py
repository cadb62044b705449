"""Known limitations as data: which ops fail on which backend, at which stage, and why.

A row turns the failure that it names into an expected one. A failure for another reason stays a failure, and an op that
passes although a row names it fails too: the row is to be deleted. Kinds: `notimpl` (we have not), `notyet` (they have
not), `never` (the hardware cannot; the reason names the fact).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from harness.backends import registry
from harness.errors import InputError, closest
from harness.kinds import COMPUTING, op_kind
from harness.optest import backend_label
from harness.records import OpRow, OpTest
from harness.stages import FAILED, Stage, Status

KINDS = ("notimpl", "notyet", "never")


@dataclass(frozen=True)
class Limitation:
    """One row: the ops it names (all given conditions hold) and the failure it expects of them."""

    op: str
    """Pattern (fnmatch) of the op's name."""
    backend: str
    stage: Stage
    """Where it fails."""
    kind: str
    reason: str
    message: str = "*"
    """Pattern (fnmatch) of the record's error message."""
    types: tuple[str, ...] = ()
    """Element types; one of the op's inputs or outputs has one of them. Empty: any."""
    op_ids: tuple[str, ...] = ()
    """Empty: any."""
    params: Mapping[str, str] = field(default_factory=dict)
    """Attribute -> pattern of its text."""
    op_kinds: frozenset[str] = frozenset()
    """Families of ops (harness/kinds.py). Empty: any."""
    card: str = "*"
    """Pattern (fnmatch) of the card, `sim-e150`. A row that asks for one speaks of records only, not of plans."""
    data_formats: tuple[str, ...] = ()
    """Forced float format; "" is none forced. Empty: any."""
    but: tuple[str, ...] = ()
    """Names of ops that the row does not speak of."""

    def names(self, op: OpRow | OpTest, backend: str) -> bool:
        """Whether the row speaks of this op on this backend."""
        kinds = {desc.data_type for desc in (*op.inputs, *op.outputs)}
        card, forced = (op.card_type, op.data_format) if isinstance(op, OpTest) else ("", "")
        return (
            self.backend == backend
            and fnmatchcase(op.op_name, self.op)
            and op.op_name not in self.but
            and (not self.types or not kinds.isdisjoint(self.types))
            and (not self.op_ids or op.op_id in self.op_ids)
            and (not self.op_kinds or op_kind(op.op_name) in self.op_kinds)
            and fnmatchcase(card, self.card)
            and (not self.data_formats or forced in self.data_formats)
            and all(fnmatchcase(op.op_params.get(name, ""), pattern) for name, pattern in self.params.items())
        )


@dataclass(frozen=True)
class Verdict:
    """What a record means for a test: `pass`, `xfail` (a limitation names the failure) or `fail`, and why."""

    outcome: str
    reason: str = ""


def _types(types: Sequence[str], fact: str, stage: Stage = Stage.TTIR_TO_TTNN) -> Limitation:
    """The row of element types that the hardware has no format for."""
    return Limitation("*", "reference", stage, "never", fact, types=tuple(types))


_NARROW_DST = "Dst of Grayskull holds 16 bits per datum: no {}"


def _narrow_dst(fact: str, **conditions: Any) -> tuple[Limitation, ...]:
    """The rows of what Grayskull cannot compute with: by kind, and the moves that are computed as selections."""
    base = Limitation(
        "*", "reference", Stage.TTIR_TO_TTNN, "never", _NARROW_DST.format(fact), "*in Dst of grayskull*",
        card="sim-e150", **conditions,
    )  # fmt: skip
    return replace(base, op_kinds=COMPUTING), replace(base, op="stablehlo.select")


LIMITATIONS: tuple[Limitation, ...] = (
    _types(("f64",), "no 64-bit float: a datum of Dst and of the vector unit's registers has at most 32 bits"),
    replace(
        _types(
            ("i64", "ui64"), "no 64-bit integer: a datum of Dst and of the vector unit's registers has at most 32 bits"
        ),
        # Both meet 64 bits as pairs of words, and compute with 32.
        but=("stablehlo.bitcast_convert", "stablehlo.rng_bit_generator"),
    ),
    _types(
        ("complex<f32>", "complex<f64>"), "no complex data format in unpacker, packer or Dst", Stage.STABLEHLO_TO_TTIR
    ),
    *_narrow_dst("Float32", types=("f32",), data_formats=("", "Float32")),
    *_narrow_dst("Float32", types=("bf16", "f16"), data_formats=("Float32",)),
    *_narrow_dst("Int32", types=("i32", "ui32", "i16", "i8")),
)
"""Every known limitation of the backends in this tree."""


def check_rows(rows: Iterable[Limitation], backends: Iterable[str] | None = None) -> None:
    """Raises InputError for a row whose backend, stage or kind does not exist, or that gives no reason."""
    known = list(registry.names() if backends is None else backends)
    for row in rows:
        where = f"limitation {row.op}"
        if row.backend not in known:
            raise InputError(where, "a backend", f"'{row.backend}'", closest(row.backend, known))
        if row.kind not in KINDS:
            raise InputError(where, f"one of {', '.join(KINDS)}", f"'{row.kind}'")
        if row.stage not in tuple(Stage):
            raise InputError(where, "a stage", f"'{row.stage}'", closest(row.stage, list(Stage)))
        if not row.reason.strip():
            raise InputError(where, "a reason", "none")


def match(
    op: OpRow | OpTest, backend: str | None = None, rows: Sequence[Limitation] = LIMITATIONS
) -> Limitation | None:
    """The first row that names this op; `backend` may be left out for a record, which knows its own."""
    label = backend_label(backend if backend is not None else op.backend if isinstance(op, OpTest) else "")
    return next((row for row in rows if row.names(op, label)), None)


def verdict(test: OpTest, limitation: Limitation | None) -> Verdict:
    """What `test` means, given the row that names its op (None: no row does)."""
    failed = test.status in FAILED
    if limitation is None:
        return Verdict("fail" if failed else "pass")
    expected = f"{limitation.kind}: {limitation.reason}"
    if failed:
        if test.failed_stage is not limitation.stage:
            where = test.failed_stage or test.status.value
            return Verdict("fail", f"expected to fail at {limitation.stage} ({expected}), failed at {where}")
        if not fnmatchcase(test.error_message or "", limitation.message):
            return Verdict("fail", f"expected '{limitation.message}' ({expected}), failed for another reason")
        return Verdict("xfail", expected)
    if limitation.kind == "never" and test.ran_on in ("host", "mixed"):
        return Verdict("pass")  # what the hardware cannot, the host has done
    if test.status is Status.SUCCESS or _passed(test, limitation.stage):
        return Verdict("fail", f"unexpected pass: expected to fail at {limitation.stage} ({expected}); delete the row")
    return Verdict("pass")


def _passed(test: OpTest, stage: Stage) -> bool:
    """Whether an op that was stopped had gone through `stage` before."""
    return test.status is Status.STOPPED and stage in [time.stage for time in test.stages]


def judged(test: OpTest, rows: Sequence[Limitation] = LIMITATIONS) -> tuple[OpTest, Verdict]:
    """The record with its `expected` column filled in, and what it means."""
    limitation = match(test, rows=rows)
    outcome = verdict(test, limitation)
    if outcome.outcome == "xfail" or outcome.reason.startswith("unexpected pass"):
        test = test.model_copy(update={"expected": outcome.reason})
    return test, outcome


check_rows(LIMITATIONS)
