"""What a backend's compiler made of each op of a run: TTIR, TTNN, or where it stopped and why.

For `opscope ops --against-backend`, by the entry point group `opscope.emissions`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from opscope.base.stored import checked
from opscope.base.temporary_folder import TemporaryFolder
from opscope.harness.record import artifacts
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import backend_label
from opscope.harness.record.records import OpTest
from opscope.harness.record.stages import FAILED, Stage
from opscope.harness.record.store import artifact_dir
from opscope.harness.triage import from_run

LAST = Stage.TTNN_TO_FLATBUFFER
Emitted = tuple[str, str, bytes, str, str, str, str]
"""Id and name of an op, its module, TTIR and TTNN as text, and stage and reason if it was refused.

The module is the one that the backend's compiler read, where it wrote that: PJRT hands chlo ops over as composites or
as their formula.
"""


def emissions(backend: str, runs: tuple[Path, ...], models: tuple[str, ...], arch: str) -> Iterator[Emitted]:
    """Yields what `backend` made of each unique op of finished runs, or of `models` without any, compiled first.

    Raises InputError for a run without that backend or without its IR, and for what a run refuses.
    """
    from opscope.harness.run.api import run_op_by_op

    with TemporaryFolder("emissions") as scratch:
        seen: set[str] = set()
        for number, source in enumerate(runs or models):
            folder = source if isinstance(source, Path) else Path(scratch) / str(number)
            if not runs:
                run_op_by_op(
                    str(source),
                    backend=backend,
                    arch=arch,
                    keep_ir=True,
                    until=LAST,
                    reruns=0,
                    no_cache=True,
                    run_dir=folder,
                )
            for emitted in _of_run(folder, backend):
                if emitted[0] not in seen:
                    seen.add(emitted[0])
                    yield emitted


def _of_run(run_dir: Path, backend: str) -> Iterator[Emitted]:
    run, label = from_run.load(run_dir), backend_label(backend)
    tests = {test.op_id: test for test in run.tests if test.backend == label}
    if not tests:
        had = ", ".join(sorted({test.backend for test in run.tests})) or "nothing"
        raise InputError("--against-run", f"a run of backend {label}", f"one of {had}", f"--backend {label} --keep-ir")
    if not any((artifact_dir(run_dir, op) / artifacts.ir_folder(label)).is_dir() for op in tests):
        raise InputError("--against-run", "a run that kept its IR", str(run_dir), "running it with --keep-ir")
    for row in run.rows:
        test = tests.get(row.op_id)
        if test is None or row.module is None:
            continue
        folder = artifact_dir(run_dir, row.op_id) / artifacts.ir_folder(label)
        read = _text(folder, "shlo").encode()
        module = read or checked(from_run.export_dir(run, row), row.module).read_bytes()
        yield row.op_id, row.op_name, module, _text(folder, "ttir"), _text(folder, "ttnn"), *_refusal(test)


def _text(folder: Path, dialect: str) -> str:
    """The text of a stage, by tt-mlir's name of the file or by this compiler's."""
    for path in (*folder.glob(f"{dialect}.mlir"), *folder.glob(f"[0-9]-{dialect}.mlir")):
        return path.read_text(encoding="utf-8")
    return ""


def _refusal(test: OpTest) -> tuple[str, str]:
    """Stage and reason of an op that did not come through the compiler; empty for one that did."""
    if test.status not in FAILED or test.failed_stage is None or test.failed_stage in (Stage.RUN, Stage.COMPARE):
        return "", ""
    return str(test.failed_stage), " ".join((test.error_message or "").split())
