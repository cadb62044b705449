"""A repro folder for each failure of a run, written by a child once the run has ended.

    RUN/artifacts/<op id>/repro-<backend>/

The child, since pytest processes import neither NumPy nor MLIR. Values take at most `repro_size` bytes in a run, one
failure of each fingerprint first and the small ones before the large; the folders of the others go without values.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from opscope.base.children.call import call
from opscope.base.children.ending import Cause
from opscope.base.children.inside import Parent
from opscope.base.inner_path import inside
from opscope.base.machine import memory_limit
from opscope.harness.record import artifacts, store
from opscope.harness.record.element_types import byte_size
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import OpRow, OpTest
from opscope.harness.record.signature import shorten
from opscope.harness.record.stages import FAILED, Status
from opscope.harness.record.store import StoredRun

SECONDS = 600.0
"""How long the child may take; what it has written by then stays."""


def place(run_dir: Path, test: OpTest) -> Path:
    """Where the repro folder of a failure lies."""
    return store.artifact_dir(run_dir, test.op_id) / f"{artifacts.REPRO}{test.backend}"


def place_to_write(run_dir: Path, test: OpTest) -> Path:
    """`place`, once it is known to lie in the run folder. Raises InputError where a link leads out of it."""
    folder = place(run_dir, test)
    try:
        return inside(run_dir, folder.relative_to(run_dir))
    except OSError as error:
        raise store.refused(folder, error, "--out DIR") from error


def failures(run: StoredRun) -> list[OpTest]:
    """The red ones: what no limitation names, and what a golden was there for."""
    return [t for t in run.tests if t.fails_run and t.status in FAILED and t.status is not Status.NO_GOLDEN]


def leave(run_dir: Path, size: int, run: StoredRun | None = None) -> str:
    """Writes the folders of a run's failures; what went wrong, empty: nothing. `size` 0: writes none.

    `run` is what the folder holds, where that is known.
    """
    try:
        if not size or not failures(run or store.load_run(run_dir)):
            return ""
        task = {"run_dir": str(run_dir), "size": size}
        outcome = call(
            "opscope.harness.triage.after_run:write_in_child", task, seconds=SECONDS, memory=memory_limit(None)
        )
    except (OSError, InputError) as error:
        return f"repro folders: {error}"
    if outcome.ending.cause is Cause.TIMEOUT:
        return f"repro folders: expected all within {SECONDS:g} s, got some; try opscope repro ID for the others"
    if not outcome.ending.ok:
        return f"repro folders: {outcome.log.last_line() or outcome.ending.text}"
    problems: list[str] = outcome.result
    if not problems:
        return ""
    return f"repro folders: {json.dumps(problems) if len(problems) > 1 else problems[0]}"


def ordered(tests: Iterable[OpTest]) -> list[OpTest]:
    """The failures in the order in which room is given: one of each cause first, the small ones before the large."""
    small = sorted(tests, key=lambda test: sum(byte_size(d.shape, d.data_type) for d in (*test.inputs, *test.outputs)))
    seen: set[tuple[str, str | None]] = set()
    first, rest = [], []
    for test in small:
        cause = (test.op_name, test.error_signature)
        (rest if cause in seen else first).append(test)
        seen.add(cause)
    return [*first, *rest]


def write_all(run_dir: Path, limit: int) -> list[str]:
    """Writes the folders that are not there yet; a line for each that could not be written."""
    from opscope.harness.triage import bundle, from_run

    run = from_run.load(run_dir)
    rows = {row.op_id: row for row in run.rows}
    known_values: dict[str, Path] = {}
    bytes_left, problems = limit, []
    for test in ordered(failures(run)):
        folder = place(run_dir, test)
        row = rows[test.op_id]
        if row.module is None or row.uses[0].model in {*run.header.unfinished, *run.header.lost}:
            continue  # there is nothing to write it from; where a run goes on, it has it in the end
        if _is_written(folder, test):
            continue
        values = _size(row) <= bytes_left
        try:
            bytes_left -= bundle.write(
                place_to_write(run_dir, test),
                row,
                test,
                from_run.origin(run_dir, run, row, test),
                values=values,
                known=known_values,
            )
        except (OSError, ValueError) as error:
            problems.append(f"{test.op_id}: {shorten(str(error), 160)}")
    return problems


def _size(row: OpRow) -> int:
    """The bytes of all values of an op."""
    outputs = row.outputs if row.golden else ()
    return sum(byte_size(desc.shape, desc.data_type) for desc in (*row.inputs, *outputs))


def _is_written(folder: Path, test: OpTest) -> bool:
    """Whether a folder of this very failure was written before."""
    from opscope.harness.triage import bundle

    try:
        return bundle.read(folder).failure.same(test)
    except InputError:
        return False


def folders(run_dir: Path, tests: Iterable[OpTest]) -> Mapping[tuple[str, str], Path]:
    """The repro folders that are there, by op id and backend."""
    return {(t.op_id, t.backend): folder for t in tests if (folder := place(run_dir, t)).is_dir()}


def write_in_child(parent: Parent) -> list[str]:
    """The child: does the task of `leave`; the problems that it met."""
    task = parent.task()
    return write_all(Path(task["run_dir"]), task["size"])
