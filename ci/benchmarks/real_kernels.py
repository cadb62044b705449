"""Runs recorded jobs of real kernels on the simulator, and says how many of the bits are the same.

`python -m ci.benchmarks.real_kernels FOLDER` takes any folder of the form that `ci.benchmarks.kernel_jobs` describes.
Ends with 2 for a folder of another form.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ci.benchmarks.kernel_jobs import JobError, KernelJob, kernel_jobs
from opscope.base.page import Page
from opscope.compiler.target.rounding import bits
from opscope.simulator.arithmetic import Arithmetic
from opscope.simulator.images import is_held, widened
from opscope.simulator.operation_run import execute
from opscope.simulator.real_kernels import cause

ENOUGH = 0.99
"""Share of bit-equal values from which on a job counts as the same."""


@dataclass(frozen=True)
class Score:
    """How one job of ours compares with the real one."""

    job: KernelJob
    equal: float
    """Share of values whose bits are the same."""
    ordinary: float
    """The same among values whose operands and results are finite and no denormals."""
    ulp: float
    """The largest difference among those, in units in the last place of the result's format; of the real result."""
    worst: str
    """Operands, the real result and ours, where values differ."""


def score(job: KernelJob, *, exact_order: bool = True) -> Score:
    """Runs a job and compares."""
    arithmetic = Arithmetic(job.arch, exact_order)
    with np.errstate(all="ignore"):
        (image,) = execute(job.operation, job.program, job.values, arithmetic=arithmetic)
    desc = job.program.tensors[job.operation.outputs[0]]
    if is_held(image, desc):
        image = widened(image)
    if image.dtype.kind != "f":
        same = image.astype(job.expected.dtype) == job.expected
        return Score(job, float(same.mean()), float(same.mean()), 0.0 if same.all() else float("nan"), "")
    real = widened(job.expected) if job.expected.dtype == np.uint16 else job.expected.view(np.float32)
    image = np.broadcast_to(image, real.shape)
    same = bits(image) == bits(real)
    usual = _ordinary(real) & np.broadcast_to(_usual_operands(job), real.shape)
    step = 16 if desc.data_format != "Float32" else 0
    apart = np.abs(_ordered(image) - _ordered(real)) >> step
    ulp = float(apart[usual].max()) if usual.any() else 0.0
    return Score(
        job, float(same.mean()), float(same[usual].mean()) if usual.any() else 1.0, ulp, _worst(job, image, real, same)
    )


def _ordinary(x: np.ndarray) -> np.ndarray:
    return np.isfinite(x) & ((np.abs(x) >= np.float32(2.0**-126)) | (x == 0))


def _usual_operands(job: KernelJob) -> np.ndarray:
    """Where all operands of an elementwise job are ordinary; of others everywhere."""
    if not job.kind.startswith(("elementwise", "typecast")):
        return np.True_
    return np.logical_and.reduce([_ordinary(value) for value in job.values.values()])


def _ordered(x: np.ndarray) -> np.ndarray:
    """Integers in the order of the floats, one apart where these are neighbours."""
    pattern = bits(x).astype(np.int64)
    return np.where(pattern >> 31, -(pattern & 0x7FFFFFFF), pattern)


def _worst(job: KernelJob, image: np.ndarray, real: np.ndarray, same: np.ndarray) -> str:
    """The first value that differs, as text."""
    if same.all():
        return ""
    place = np.unravel_index(int(np.argmin(same)), same.shape)
    operands = ", ".join(f"{float(value[place]):.9g}" for value in job.values.values() if value.shape == real.shape)
    return f"{operands + ': ' if operands else ''}{float(real[place]):.9g}, here {float(image[place]):.9g}"


def cause_of(job: KernelJob) -> str:
    """Returns the known rules by which a job's results may differ."""
    formats = {job.program.tensors[tensor].data_format for tensor in (*job.operation.inputs, *job.operation.outputs)}
    return "; ".join(filter(None, (cause(job.operation.kernel, name) for name in sorted(formats))))


def report(jobs: Sequence[KernelJob], without: Sequence[str], *, exact_order: bool) -> dict[str, Any]:
    """Returns every score, and by kind how many jobs are the same, as JSON."""
    scores = [score(job, exact_order=exact_order) for job in jobs]
    kinds: dict[str, dict[str, Any]] = {}
    for each in scores:
        kind = kinds.setdefault(each.job.kind, {"jobs": 0, "same": 0, "equal": []})
        kind["jobs"] += 1
        kind["same"] += each.equal >= ENOUGH
        kind["equal"].append(each.equal)
    for kind in kinds.values():
        kind["equal"] = float(np.mean(kind["equal"]))
    return {
        "order": "exact" if exact_order else "fast",
        "jobs": [
            {
                "job": each.job.name,
                "kind": each.job.kind,
                "equal": each.equal,
                "ordinary": each.ordinary,
                "max_ulp": each.ulp,
                "first_difference": each.worst,
                "cause": "" if each.equal == 1 else cause_of(each.job),
            }
            for each in scores
        ],
        "kinds": dict(sorted(kinds.items())),
        "without_kernel": list(without),
    }


def show(document: dict[str, Any]) -> None:
    """Prints a report as tables."""
    page = Page()
    columns = [("job", "left"), ("kind", "left"), *((name, "right") for name in ("equal", "ordinary", "max ulp"))]
    columns += [("first difference", "left"), ("cause", "left")]
    lines = [
        (
            each["job"],
            each["kind"],
            f"{100 * each['equal']:.2f} %",
            f"{100 * each['ordinary']:.2f} %",
            f"{each['max_ulp']:,.0f}",
            each["first_difference"],
            each["cause"],
        )
        for each in document["jobs"]
    ]
    page.table(columns, lines, f"Jobs, {document['order']} order", spare=("first difference", "kind", "cause"))
    columns = [("kind", "left"), *((name, "right") for name in ("jobs", "same", "mean equal"))]
    kinds = document["kinds"].items()
    page.table(
        columns,
        [(name, str(kind["jobs"]), str(kind["same"]), f"{100 * kind['equal']:.1f} %") for name, kind in kinds],
        f"Jobs with {ENOUGH:.0%} of values equal",
    )
    if document["without_kernel"]:
        page.prose(f"no kernel of that name here: {', '.join(document['without_kernel'])}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the scores of a folder; returns the exit status."""
    parser = argparse.ArgumentParser(prog="real_kernels", description="Compare with recorded runs of real kernels.")
    parser.add_argument("folder", type=Path, help="folder with index.json and its .npz files")
    parser.add_argument("--fast", action="store_true", help="add products as sweeps do, not in the unit's order")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    try:
        document = report(*kernel_jobs(options.folder), exact_order=not options.fast)
    except JobError as error:
        print(error, file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(document))
    else:
        show(document)
    return 0


if __name__ == "__main__":
    sys.exit(main())
