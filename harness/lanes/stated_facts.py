"""What a backend states of an op that it ran, before it becomes a record: only what can be.

A place that nobody knows would be a place of execution of its own in every rate, and a negative number the best of all.
Both are the backend's fault and not the op's.
"""

from __future__ import annotations

import math
import numbers

from opscope.harness.backends.base import BackendError, Job
from opscope.harness.record.measures import KINDS

PLACES = ("none", "host", "simulator", "silicon", "mixed")
"""Where an op can have run."""


def check(job: Job) -> None:
    """Raises BackendError for results that are no arrays, and a place of execution or a quantity that cannot be."""
    is_list = isinstance(job.outputs, list | tuple)
    wrong = [each for each in job.outputs if not (hasattr(each, "shape") and hasattr(each, "dtype"))] if is_list else []
    if wrong or not is_list:
        got = f"a {type(wrong[0]).__name__} among them" if wrong else type(job.outputs).__name__
        raise BackendError(f"job.outputs, {got}", "a list of NumPy arrays", "job.outputs = [numpy.asarray(result)]")
    if job.ran_on not in PLACES:
        raise BackendError(f"job.ran_on {job.ran_on!r}", f"one of {', '.join(PLACES)}", "job.ran_on = 'host'")
    for name, kind in KINDS.items():
        value = getattr(job, name)
        if value is None or kind is str:
            continue
        if not isinstance(value, numbers.Real) or not math.isfinite(value) or value < 0:
            raise BackendError(f"job.{name} {value!r}", "a number from 0", f"job.{name} = None where it is unknown")
