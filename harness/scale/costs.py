"""What an op costs, known before it runs and equal on every machine: from its manifest row, or from a file of figures.

A share of a sweep must come out the same in every job, so nothing here reads a cache or a history of this machine.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from statistics import median

from opscope.base import regular_file
from opscope.base.op_families import PRODUCTS, op_family
from opscope.harness.record import store
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import OpRow, OpTest
from opscope.harness.record.stages import Status

FORMAT = "opscope_costs"
"""First key of a file of costs; its value is the version of the format."""

OVERHEAD_US, ELEMENT_US, PRODUCT_US = 12_000, 0.004, 0.00007
"""Microseconds of an op, of an element of its operands and results, of a product: fitted to the 2,212 ops of the JAX
models and the op suite on the reference backend (2 cores of an AMD EPYC; docs/scale.md)."""

UNRUN = frozenset({Status.SKIPPED, Status.NOT_RUN})


def expected(row: OpRow) -> int:
    """The estimated cost of an op in microseconds, from its types alone."""
    elements = sum(math.prod(desc.shape) for desc in (*row.inputs, *row.outputs))
    products = 0.0
    if op_family(row.op_name) in PRODUCTS and len(row.inputs) > 1 and row.outputs:
        # For A[m, k] B[k, n] this is m k n, whichever way the factors lie; a window counts by its root.
        sizes = (row.inputs[0].shape, row.inputs[1].shape, row.outputs[0].shape)
        products = math.sqrt(math.prod(math.prod(shape) for shape in sizes))
    return OVERHEAD_US + int(ELEMENT_US * elements + PRODUCT_US * products)


def of_rows(rows: Collection[OpRow], measured: Mapping[str, float] | None = None) -> dict[str, int]:
    """Microseconds of each op: as `measured` (seconds), else as expected at the speed that was measured elsewhere."""
    measured_seconds = measured or {}
    guess = {row.op_id: expected(row) for row in rows}
    ratios = [1e6 * measured_seconds[op_id] / guess[op_id] for op_id in sorted(guess) if op_id in measured_seconds]
    speed = median(ratios) if ratios else 1.0
    return {
        op_id: max(1, round(1e6 * measured_seconds[op_id] if op_id in measured_seconds else speed * microseconds))
        for op_id, microseconds in guess.items()
    }


def of_tests(tests: Iterable[OpTest]) -> dict[str, float]:
    """Seconds that ops took, by id, summed over backends. Ops that did not run are left out."""
    seconds: dict[str, float] = {}
    for test in tests:
        if test.status not in UNRUN and test.stages:
            seconds[test.op_id] = seconds.get(test.op_id, 0.0) + sum(stage.seconds for stage in test.stages)
    return seconds


def from_option(path: str | None, folder: Path) -> dict[str, float]:
    """Seconds by op id, of what `--shard-costs` names, seen from `folder`; none if it names nothing."""
    return {} if path is None else read(folder / path)


def read(path: Path, where: str = "--shard-costs") -> dict[str, float]:
    """Seconds by op id, of a run folder or a file that `opscope costs` wrote. Raises InputError for anything else."""
    hint = "a run folder, or a file that `opscope costs RUN` wrote"
    if path.is_dir():
        return of_tests(store.load_run(path).tests)
    try:
        value = json.loads(regular_file.read_text(path))
        version, seconds = value[FORMAT], value.get("seconds")
        if version == 1:
            return {str(op_id): float(duration) for op_id, duration in seconds.items()}
    except OSError as error:
        raise InputError(where, "a file of costs", f"{path} ({error.strerror})", hint) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(where, "a file of costs", f"{path}, which is something else", hint) from None
    raise InputError(where, "costs of version 1", f"version {version} in {path}", hint)


def text(seconds: Mapping[str, float]) -> str:
    """A file of costs: sorted and rounded to 0.1 ms, so that it reads well in a diff."""
    rounded = {op_id: round(seconds[op_id], 4) for op_id in sorted(seconds)}
    return json.dumps({FORMAT: 1, "seconds": rounded}, indent=0) + "\n"
