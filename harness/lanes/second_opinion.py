"""Whether the golden that a verdict rests on stands, by other authorities: asked where a result contradicts it.

Neither the accused nor XLA, which makes goldens, is asked about itself. One right answer decides alone. Else a golden
falls if two authorities agree with each other and contradict it, and stands if one agrees and none contradicts; all
else leaves it in doubt. A result that is right by one side and wrong by another is in doubt too; one that is wrong by
all is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from opscope.base.damage import Damaged
from opscope.harness.backends.base import Backend, Job, Target
from opscope.harness.cache import export_folder
from opscope.harness.lanes.explained import operands_of
from opscope.harness.prepare.authorities.ask import Answer, answers
from opscope.harness.prepare.authorities.voices import VOICES
from opscope.harness.prepare.inputs import row_golden, row_second
from opscope.harness.record.optest import DOUBT, REFUTED
from opscope.harness.record.records import OpRow, ResultCheck
from opscope.harness.record.signature import shorten
from opscope.harness.verdict.compare import compare_op
from opscope.harness.verdict.operands import NotEvaluatedError

MADE_HERE = ("captured:", "random:", "classes:")
"""How the provenance of an op begins whose golden was made when its model was walked."""
HOST = Target(card_type="host", float_format=None, math_fidelity="exact")
"""Authorities compute each tensor in its own type."""


@dataclass(frozen=True)
class Opinion:
    """What others say of a golden, and of a result."""

    text: str
    """For the record; begins with DOUBT where the golden is in doubt, with REFUTED where it has fallen."""
    in_doubt: bool = False
    """Whether nobody can say whether the result is right."""
    checks: Sequence[ResultCheck] = ()
    """Where the golden has fallen: the verdict on the result by what has taken its place."""
    no_golden: str = ""
    """Why the golden is none, where it differs from itself."""


def accused(backend: Backend, label: str) -> frozenset[str]:
    """The names of a backend and of those whose class it is made from: they are the same code."""
    classes = {vars(kind)["name"] for kind in type(backend).__mro__ if "name" in vars(kind)}
    return frozenset({label.partition("@")[0], *classes})


def own_golden(row: OpRow, code: frozenset[str]) -> str:
    """Why an op has no golden for a backend of this code: it is its own; empty if it is another's."""
    by = row.second.by if row.second is not None and not row.second.values else ""
    own = any(voice.by == by and voice.code in code for voice in VOICES)
    return f"its golden is its own: {row.second.text}" if own and row.second is not None else ""


def of(row: OpRow, job: Job, target: Target, export_dir: Path, code: frozenset[str], *, wrong: bool) -> Opinion | None:
    """The opinion on an op whose result was found right or `wrong` on a backend of this code; None if nobody is asked:
    the result is right, and neither its op's form nor another backend has put the golden in question.

    Raises Damaged for a file of the export folder.
    """
    if row.second is None and not wrong:
        return None
    if row.second is not None and row.second.by and not row.second.values:
        return Opinion(row.second.text)  # it is the golden, or has no answer
    try:
        golden = row_golden(row, export_dir)
        heard = _Heard(golden, lambda expected, got: _checks(expected, got, row, job, HOST, export_dir))
        for answer in _asked(row, export_dir, code):
            heard.hear(answer)
            if heard.decided:
                break
        why = f" ({row.second.text})" if row.second is not None and row.second.by else ""
        if heard.instead is not None:
            checks = _checks(heard.instead.values, job.outputs, row, job, target, export_dir)
            return Opinion(f"{REFUTED}{heard.differences()}{why}", checks=checks)
        if wrong and not heard.favour and (reason := _differs_from_itself(golden, row, job, export_dir)):
            return Opinion(heard.differences() if heard.against else heard.in_favour(), no_golden=reason)
        if not heard.against:
            known_wrong = bool(why) and not heard.favour
            return Opinion(f"{DOUBT}{heard.in_favour()}{why}" if known_wrong else heard.in_favour(), known_wrong)
        sides = [_checks(answer.values, job.outputs, row, job, target, export_dir) for answer in heard.against]
        right = [all(check.passed for check in checks) for checks in sides]
        return Opinion(f"{DOUBT}{heard.differences()}{why}", any(right) if wrong else not all(right))
    except Damaged:
        raise
    except (OSError, ValueError, MemoryError) as error:
        return Opinion(f"no second authority: {shorten(str(error), 200) or type(error).__name__}")


def _asked(row: OpRow, export_dir: Path, code: frozenset[str]) -> Iterator[Answer]:
    """The answers on an op, that which lies beside its golden first."""
    second = row.second if row.second is not None and row.second.values else None
    codes = {voice.code for voice in VOICES if second is not None and voice.by == second.by}
    if second is not None and codes.isdisjoint(code):
        yield Answer(second.by, tuple(row_second(row, export_dir)))
    yield from answers(row, export_dir, export_folder.cache_dir(None), code | codes)


def _differs_from_itself(golden: Sequence[np.ndarray], row: OpRow, job: Job, export_dir: Path) -> str:
    """Why a golden by the installed XLA is none: made once more, it is another; empty if it is not, or is another's."""
    if row.second is not None or job.options.goldens_by or not row.provenance.startswith(MADE_HERE):
        return ""
    if (operands := operands_of(row, job, export_dir)) is None:
        return ""
    try:
        again = operands.run(operands.inputs)
    except (NotEvaluatedError, ValueError):  # the latter for a module that is not StableHLO
        return ""
    wrong = next((check.reason for check in _checks(golden, again, row, job, HOST, export_dir) if not check.passed), "")
    return f"its golden differs from itself where XLA makes it once more: {wrong}" if wrong else ""


class _Heard:
    """The answers on one golden so far."""

    def __init__(
        self,
        golden: Sequence[np.ndarray],
        compared: Callable[[Sequence[np.ndarray], Sequence[np.ndarray]], list[ResultCheck]],
    ) -> None:
        self._golden, self._compared = golden, compared
        self.favour: list[Answer] = []
        self.against: list[Answer] = []
        self._checks: list[list[ResultCheck]] = []
        """Of each answer against the golden: how it differs."""
        self._refusals: list[str] = []
        self.instead: Answer | None = None
        """What has taken the golden's place."""
        self.decided = False

    def hear(self, answer: Answer) -> None:
        """Counts one answer."""
        if answer.refusal:
            self._refusals.append(answer.refusal)
            return
        checks = self._compared(self._golden, answer.values)
        if all(check.passed for check in checks):
            self.favour.append(answer)
            self.decided = answer.exact or not self.against
            if answer.exact:
                self.against.clear()
            return
        allies = [each for each in self.against if all(c.passed for c in self._compared(each.values, answer.values))]
        self.against.append(answer)
        self._checks.append(checks)
        if answer.exact or allies:
            self.instead, self.decided = (answer if answer.exact else allies[0]), True

    def in_favour(self) -> str:
        """What is said of a golden that nobody contradicts."""
        if self.favour:
            return f"{self.favour[0].by} agrees with the golden"
        return f"no second authority: {'; '.join(self._refusals) or 'there is none beside the accused'}"

    def differences(self) -> str:
        """Where the first answer parts most from the golden in its first result that differs, what each of all has
        there, and who refused."""
        checks, first = self._checks[0], self.against[0]
        number = next(index for index, check in enumerate(checks) if not check.passed)
        ours, theirs = self._golden[number], first.values[number]
        if ours.shape != theirs.shape or not ours.size:
            return f"result {number}: {first.by}: {checks[number].reason}"
        index, count = _farthest(ours, theirs)
        place = f"[{', '.join(map(str, index))}]" if index else ""
        everyone = [("XLA", ours), *((each.by, each.values[number]) for each in (*self.against, *self.favour))]
        said = [f"{by} {_figure(values[index])}" for by, values in everyone if values.shape == ours.shape]
        refused = "".join(f"; {reason}" for reason in self._refusals)
        return (
            f"result {number}{place}: {said[0].replace('XLA', 'XLA has', 1)}, {', '.join(said[1:])}; "
            f"{count:,} of {ours.size:,} elements differ{refused}"
        )


def _figure(value: np.generic) -> str:
    return f"{np.asarray(value, np.complex128 if value.dtype.kind == 'c' else np.float64)[()]:.9g}"


def _farthest(ours: np.ndarray, theirs: np.ndarray) -> tuple[tuple[int, ...], int]:
    """Where two arrays of a shape differ most, and in how many elements; by bits where no value differs."""
    wide = [np.asarray(each, np.complex128 if each.dtype.kind == "c" else np.float64) for each in (ours, theirs)]
    with np.errstate(all="ignore"):
        apart = np.abs(wide[0] - wide[1])
    differs = np.asarray((wide[0] != wide[1]) & ~((wide[0] != wide[0]) & (wide[1] != wide[1])))
    if not differs.any():
        differs = np.asarray(np.signbit(wide[0].real) != np.signbit(wide[1].real))
    apart = np.where(differs, np.where(np.isnan(apart), np.inf, apart), -1.0)
    place = np.unravel_index(int(np.argmax(apart)), ours.shape)
    return tuple(int(number) for number in place), int(differs.sum())


def _checks(
    expected: Sequence[np.ndarray],
    got: Sequence[np.ndarray],
    row: OpRow,
    job: Job,
    target: Target,
    export_dir: Path,
) -> list[ResultCheck]:
    """The comparison of an op's verdict with other values in place of the golden."""
    return compare_op(row, expected, got, target, operands_of(row, job, export_dir), row.held_to)
