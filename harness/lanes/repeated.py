"""Runs a passing op again in its lane: does it give the same bits?

What differs from run to run is no wrong result, but it hides real changes and may become one. Such a record keeps its
status; its `stability` is VARYING, `outcomes` says what differed, `canary` whose fault it may be, and each result that
did has the flag `varies`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from opscope.base.damage import Damaged
from opscope.harness.backends.base import Backend, BackendError, Job
from opscope.harness.lanes import canary
from opscope.harness.lanes.result_digests import of
from opscope.harness.prepare.inputs import row_inputs
from opscope.harness.record.records import OpRow, ResultCheck
from opscope.harness.record.stages import VARYING, Stage, Status

VARIES = "varies"
"""Flag of a result whose bits differ from run to run."""


def may_vary(job: Job | None, backend: Backend) -> bool:
    """Whether results may differ from run to run: of cards, and where the backend says so (`Backend.repeats`)."""
    return backend.repeats or (job is not None and job.ran_on == "silicon")


def times(job: Job, backend: Backend) -> int:
    """How often a passing op runs: as asked for, else twice where results may vary."""
    return job.options.repeat or (2 if may_vary(job, backend) else 1)


def fields(
    row: OpRow,
    job: Job,
    backend: Backend,
    export_dir: Path,
    compiled: Mapping[Stage | str, Any],
    checks: Sequence[ResultCheck],
) -> dict[str, Any]:
    """Runs an op that has passed as often as it is to run, and returns what its record says if a run differs.

    `compiled` is the job's `state` from before it ran, which a backend may have used up. Raises what no run is to
    blame for: Damaged, BackendError.
    """
    ends = [str(Status.SUCCESS)]
    varying = set[int]()
    for _ in range(times(job, backend) - 1):
        job.state |= compiled
        job.inputs, job.inputs_after, job.outputs = row_inputs(row, export_dir), None, []
        try:
            backend.climb(Stage.RUN, job)
        except (Damaged, BackendError):
            raise
        except Exception as error:  # noqa: BLE001  the op has passed: this is how its next run ends
            ends.append(f"{Status.RUN_FAILED}: {type(error).__name__}: {error}")
            continue
        digests = [of(array) for array in job.outputs]
        apart = {n for n, check in enumerate(checks) if n >= len(digests) or digests[n] != check.digest}
        varying |= apart
        others = ", ".join(f"result {n} {digests[n] if n < len(digests) else 'missing'}" for n in sorted(apart))
        ends.append(f"{Status.SUCCESS}: other bits in {others}" if apart else str(Status.SUCCESS))
    job.inputs, job.inputs_after = [], None
    if len(set(ends)) == 1:
        return {}
    flagged = [
        check.model_copy(update={"flags": (*check.flags, VARIES)}) if n in varying else check
        for n, check in enumerate(checks)
    ]
    return {
        "stability": VARYING,
        "outcomes": tuple(ends),
        "canary": canary.blames(backend, job.options),
        "results": tuple(flagged),
    }
