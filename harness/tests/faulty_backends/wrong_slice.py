"""The reference backend, whose device 3 of a mesh begins each slice one element too far on."""

from __future__ import annotations

from opscope.harness.backends.base import Job
from opscope.harness.backends.reference import Reference
from opscope.harness.record.stages import Stage

DEVICE = 3


class WrongSlice(Reference):
    """A compiler that writes a wrong offset into one device's program."""

    name = "wrong_slice"
    lasting = False
    forkable = False

    def climb(self, stage: Stage, job: Job) -> None:
        """As the reference, but for a slice on that device."""
        if stage is Stage.RUN and DEVICE in job.devices and b"dynamic_slice" in job.module:
            job.inputs[1] = job.inputs[1] - 1
        super().climb(stage, job)
