"""A backend for whole nights: right numbers by the golden's own compiler, but for ops whose names stand in a file."""

from __future__ import annotations

import os
import time
from pathlib import Path

from opscope.harness.backends.base import Job, StageError
from opscope.harness.backends.xla import Xla
from opscope.harness.record.stages import Stage


class Lame(Xla):
    """XLA, which refuses the ops named in $LAME, each on a line of its own; `slow` makes every op take a while."""

    name = "lame"
    lasting = False

    def fingerprint(self) -> str:
        """Another one where it refuses other ops: a verdict of before does not hold."""
        return f"{super().fingerprint()}-{Path(os.environ['LAME']).read_text().replace('slow', '')}"

    def climb(self, stage: Stage, job: Job) -> None:
        """Climbs as XLA does, unless the op is one of those."""
        words = Path(os.environ["LAME"]).read_text().split()
        if stage is self.stages[0]:
            time.sleep(0.3 * ("slow" in words))
            refused = [word for word in words if word.encode() in job.module]
            if refused:
                raise StageError(f"no lowering for {refused[0]}")
        super().climb(stage, job)
