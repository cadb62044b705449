"""A release that cannot be used here, beside others that can: its ops fail by that reason, and nothing is loaded."""

from __future__ import annotations

from opscope.harness.backends.base import Backend, Job, StageError, Target
from opscope.harness.record.one_failure import UNLOADED
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage


class Unusable(Backend):
    """What a backend declares, and the reason why there is no more of it."""

    def __init__(self, own: Backend, label: str, reason: str) -> None:
        """`own` has not been loaded."""
        for declared in Backend.__annotations__:
            setattr(self, declared, getattr(own, declared))
        self.name, self.takes_apart, self.lasting, self.revision = label, False, False, ""
        self._reason = reason

    def target(self, options: ResultOptions) -> Target:
        """None: some ask their library for it."""
        return Target("none", None, "")

    def available(self) -> str | None:
        """Nothing has to be there."""
        return None

    def fingerprint(self, options: ResultOptions) -> str:
        """The reason."""
        return f"{self.name}: {self._reason}"

    def climb(self, stage: Stage, job: Job) -> None:
        """Raises StageError with the reason, which is no fault of the op."""
        error = StageError(f"{self.name}{UNLOADED}{self._reason}")
        error.of_backend = True
        raise error
