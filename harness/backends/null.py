"""A backend that accepts every op and computes nothing: it measures the harness itself and tests the protocol.

It has no outputs and `ran_on` stays `none`, so the ladder compares nothing: its records end as `stopped` after `run`
and never count as a success.
"""

from __future__ import annotations

from opscope.harness.backends.base import Backend, Job, Target
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage


class Null(Backend):
    """Accepts each op at every stage and has no result."""

    name = "null"
    lasting = True
    forkable = True
    stages = (Stage.COMPILE, Stage.RUN)

    def target(self, options: ResultOptions) -> Target:
        """A card of type `none`."""
        return Target(card_type="none", float_format=None, math_fidelity="exact")

    def fingerprint(self, options: ResultOptions | None = None) -> str:
        """A constant, because no code of this backend can change a result."""
        return "null-1"

    def climb(self, stage: Stage, job: Job) -> None:
        """Nothing to do at any stage."""

    def available(self) -> str | None:
        """Always usable."""
        return None
