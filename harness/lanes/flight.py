"""An op in flight in a lane: which stages it has begun, for the record in case its child ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from opscope.base.children.ending import Cause, Ending
from opscope.harness.record import artifacts
from opscope.harness.record.optest import RunContext, backend_label, build_test, now
from opscope.harness.record.records import OpRow, OpTest, StageTime
from opscope.harness.record.stages import Stage, Status

if TYPE_CHECKING:
    from opscope.harness.cache.made_of import Made


@dataclass(frozen=True)
class Ready:
    """A child's report about its backend, sent once it has started."""

    card_type: str
    fingerprint: str
    stages: tuple[Stage, ...]
    data_format: str
    """The format that all floats are stored in. If empty, each tensor keeps its own type."""
    math_fidelity: str
    verdict_fingerprint: str = ""
    """Digest of the code that turns the backend's results into verdicts (harness/cache/verdict_fingerprint.py), with
    the version of the tolerance table."""
    lasting: bool = False
    """Whether all of this depends only on sources and installed packages."""
    compile_depths: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Stage -> the compiler's own name for the depth that an op has then reached."""
    stage_files: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Stage -> pattern of the file that shows that the op in flight has passed it."""
    writes_diagnostics: bool = False
    """Whether its output while an op fails to compile belongs to the diagnostic."""
    versions: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Name -> version of what the backend consists of, where it says so."""
    commit: Mapping[str, str] = field(default_factory=dict, hash=False, compare=False)
    """The compiler's own commit, where the backend names one (harness/backends/life.py). No part of a verdict's key."""
    blas: str = field(default="", hash=False, compare=False)
    """The kernels of BLAS that the child computes with (`machine.blas_kernel`). No part of a verdict's key."""
    refused: str = ""
    """Why the backend cannot be used here: then each op fails so."""
    read: Mapping[str, Any] | None = field(default=None, hash=False, compare=False, repr=False)
    """What the child had read up to the end of its last op (`opscope.base.reading`). No part of a key."""
    made: Made | None = field(default=None, hash=False, compare=False, repr=False)
    """The same of another machine's child, as a list that was made there."""


@dataclass
class Flight:
    """The op that a child is running: which stages it has begun, for the record in case the child ends."""

    row: OpRow
    context: RunContext
    ready: Ready
    attempt: int
    marks: Callable[[bool], list[tuple[Stage, float]]] = lambda rubbish: []
    """The stages that it has begun, each with its moment (time.monotonic); those before its process sent rubbish."""
    started: datetime = field(default_factory=now)
    rubbish: bool = False
    """Whether its process has sent what is no answer."""
    _passed: Stage | None = None
    """The last stage that the files of its compiler show as passed, where the process did not say so."""

    @cached_property
    def _begun(self) -> list[tuple[Stage, float]]:
        """As it stands when the op has ended."""
        return self.marks(self.rubbish)

    def came_to(self, passed: Stage | None) -> None:
        """Notes the last stage that the files of its compiler show as passed, where the process did not say so."""
        stages = self.ready.stages
        if passed in stages and self._begun and self._begun[-1][0] in stages:
            at = stages.index(passed) + 1
            if at < len(stages) and at > stages.index(self._begun[-1][0]):
                self._begun = [*self._begun[:-1], (stages[at], self._begun[-1][1])]
                self._passed = passed

    def ended(self, ending: Ending, output: str, cause: str = "") -> OpTest:
        """Returns the record of an op that ended its child, with the child's last output, and the line of it that
        names the cause."""
        if ending.cause is Cause.TIMEOUT:
            return self._record(Status.TIMEOUT, None, ending.text, output)
        return self._record(Status.CRASHED, ending.kind, ending.text, output, cause)

    def crashed(self, kind: str, text: str, output: str) -> OpTest:
        """Returns the record of an op that crashed. `kind` is a word or two, `text` the description."""
        return self._record(Status.CRASHED, kind, text, output)

    def _record(self, status: Status, crash_kind: str | None, text: str, output: str, cause: str = "") -> OpTest:
        stages = [Stage.SPLIT, *(stage for stage, _ in self._begun)]
        # Reading the op before its first stage counts as part of that stage.
        failed = stages[-1] if self._begun else (self.ready.stages or (Stage.COMPARE,))[0]
        reached = self._passed or (stages[-2] if self._begun else Stage.SPLIT)
        moments = [moment for _, moment in self._begun] + [time.monotonic()]
        times = tuple(
            StageTime(stage=stage, seconds=moments[index + 1] - moments[index])
            for index, (stage, _) in enumerate(self._begun)
        )
        message = f"{text} at {failed}"
        return build_test(
            self.row,
            self.context,
            status=status,
            stage_reached=reached,
            failed_stage=failed,
            started=self.started,
            error=cause or message,
            attempt=self.attempt,
            stages=times,
            compile_depth=self.ready.compile_depths.get(reached, ""),
            data_format=self.ready.data_format,
            math_fidelity=self.ready.math_fidelity,
            crash_kind=crash_kind,
            artifact=artifacts.write(
                self.context.run_dir,
                self.row.op_id,
                artifacts.named("crash", backend_label(self.context.backend)),
                f"{message}\n\nlast output of the worker:\n{output}",
            ),
        )
