"""Whether the golden that a verdict rests on stands, by a second authority: asked where a result was found wrong.

Op forms whose golden is known to be wrong have a second authority's values from their preparation; it is compared here,
where the rules of the verdict are known. An op is in doubt if the authorities part by more than a host may, and its
result is right by one of them and not by the other; a result that is wrong by both is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from opscope.base.damage import Damaged
from opscope.harness.backends.base import Job, Target
from opscope.harness.cache import export_folder
from opscope.harness.lanes.explained import operands_of
from opscope.harness.prepare.authorities.ask import ask
from opscope.harness.prepare.inputs import row_golden, row_second
from opscope.harness.record.optest import DOUBT
from opscope.harness.record.records import OpRow, ResultCheck
from opscope.harness.record.signature import shorten
from opscope.harness.verdict.compare import compare_op

HOST = Target(card_type="host", float_format=None, math_fidelity="exact")
"""Authorities compute each tensor in its own type."""


@dataclass(frozen=True)
class Opinion:
    """What a second authority says of a golden, and of a result."""

    text: str
    """For the record; begins with DOUBT if the authorities part."""
    right: bool = False
    """Whether the result is right by the second authority, of one that parts."""

    @property
    def parts(self) -> bool:
        """Whether the second authority contradicts the golden."""
        return self.text.startswith(DOUBT)


def of(row: OpRow, job: Job, target: Target, export_dir: Path, *, wrong: bool) -> Opinion | None:
    """The second opinion on an op whose result was found right or `wrong`; None if there is none to ask for.

    Raises Damaged for a file of the export folder.
    """
    if row.second is None and not wrong:
        return None
    try:
        if row.second is not None:
            by, values = row.second.by, row_second(row, export_dir)
            if not values:
                return Opinion(row.second.text)
        else:
            answer = ask(row, export_dir, export_folder.cache_dir(None))
            by, values = answer.by, list(answer.values)
            if answer.refusal:
                return Opinion(answer.none)
        golden = row_golden(row, export_dir)
        checks = _held_to(golden, row, job, HOST, export_dir)(values)
        if all(check.passed for check in checks):
            return Opinion(f"{by} agrees with the golden")
        right = all(check.passed for check in _held_to(values, row, job, target, export_dir)(job.outputs))
    except Damaged:
        raise
    except (OSError, ValueError, MemoryError) as error:
        return Opinion(f"no second authority: {shorten(str(error), 200) or type(error).__name__}")
    why = f" ({row.second.text})" if row.second is not None else ""
    return Opinion(f"{DOUBT}{_difference(golden, values, checks, by)}{why}", right)


def _held_to(
    expected: Sequence[np.ndarray], row: OpRow, job: Job, target: Target, export_dir: Path
) -> Callable[[Sequence[np.ndarray]], list[ResultCheck]]:
    """The comparison of an op's verdict with other values in place of the golden."""
    return lambda got: compare_op(row, expected, got, target, operands_of(row, job, export_dir), row.held_to)


def _difference(
    golden: Sequence[np.ndarray], values: Sequence[np.ndarray], checks: Sequence[ResultCheck], by: str
) -> str:
    """Where the authorities part most in their first result that differs, and what each of them has there."""
    number = next(index for index, check in enumerate(checks) if not check.passed)
    ours, theirs = golden[number], values[number]
    if ours.shape != theirs.shape or not ours.size:
        return f"result {number}: {checks[number].reason}"
    wide = [np.asarray(each, np.complex128 if each.dtype.kind == "c" else np.float64) for each in (ours, theirs)]
    with np.errstate(all="ignore"):
        apart = np.abs(wide[0] - wide[1])
    differs = np.asarray((wide[0] != wide[1]) & ~((wide[0] != wide[0]) & (wide[1] != wide[1])))
    apart = np.where(differs, np.where(np.isnan(apart), np.inf, apart), -1.0)
    index = np.unravel_index(int(np.argmax(apart)), ours.shape)
    place = f"[{', '.join(map(str, index))}]" if index else ""
    figures = [f"{each[index]:.9g}" for each in wide]
    return (
        f"result {number}{place}: XLA has {figures[0]}, {by} {figures[1]}; "
        f"{int(differs.sum()):,} of {ours.size:,} elements differ"
    )
