"""The work that a run saved: equal ops run once, and ops with a verdict that still holds do not run at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from opscope.harness.record.records import TAKEN, OpRow, OpTest


@dataclass(frozen=True)
class Savings:
    """Counts of one run."""

    uses: int
    """Number of places, over all models, with an op that can be run."""
    by_model: int
    """Sum over the models of their unique ops."""
    unique: int
    """Unique ops of all models together; these are run."""
    verdicts: int
    kept: int
    """Verdicts taken from earlier runs."""
    kept_seconds: float
    """Seconds that these ops took in the earlier runs."""
    taken: int = 0
    """Verdicts of other releases, which had made an equal program of the op."""

    @property
    def lines(self) -> list[str]:
        """The lines that a run prints; none if nothing was saved."""
        texts = []
        if self.uses > self.unique:
            models = f" ({self.by_model:,} with each model alone)" if self.by_model > self.unique else ""
            share = _percent(self.uses - self.unique, self.uses)
            ops = f"{self.unique:,} unique op{'s' * (self.unique != 1)}"
            texts.append(f"merging: {self.uses:,} uses are {ops}{models}, {share} saved")
        if self.kept:
            share = _percent(self.kept, self.verdicts)
            took = f", which took {self.kept_seconds:.1f} s to run" if self.kept_seconds else ""
            texts.append(
                f"cache: {self.kept:,} of {self.verdicts:,} verdicts come from earlier runs, {share} saved{took} "
                "(--no-cache runs every op)"
            )
        if self.taken:
            verb = "verdict is that" if self.taken == 1 else "verdicts are those"
            texts.append(
                f"programs: {self.taken:,} {verb} of another release with an equal program (--no-cache runs every op)"
            )
        return texts


def savings(rows: Iterable[OpRow], tests: Sequence[OpTest]) -> Savings:
    """The savings of a run, from its ops and records."""
    runnable = [row for row in rows if row.module is not None]
    kept = [test for test in tests if test.cached_from and TAKEN not in test.cached_from]
    return Savings(
        uses=sum(len(row.uses) for row in runnable),
        by_model=sum(len({use.model for use in row.uses}) for row in runnable),
        unique=len(runnable),
        verdicts=len(tests),
        kept=len(kept),
        kept_seconds=sum(stage.seconds for test in kept for stage in test.stages),
        taken=sum(TAKEN in test.cached_from for test in tests),
    )


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %"
