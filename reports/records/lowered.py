"""What a compiler made of each op of a run, so that two releases of it can be compared: the last IR, in one file.

    RUN/lowered.json.xz    backend -> op id -> its last IR, without what says nothing of the program;
                           `BACKEND calls` -> op id -> the kernels of one execution on the simulator, with their cycles

`opscope history` and `opscope gate --old --new` keep it.
"""

from __future__ import annotations

import json
import lzma
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from opscope.harness.record import artifacts, lowered_ir, structure
from opscope.harness.record.optest import backend_label
from opscope.harness.record.records import OpTest
from opscope.harness.record.stages import WHOLLY_COMPILED
from opscope.harness.record.store import read_run, write_whole

FILE = "lowered.json.xz"
_CALLS = " calls"


def keep(run_dir: Path, tests: Iterable[OpTest]) -> Path:
    """Gathers the IR that `--keep-ir` left in a run's folder, and removes it but for ops that went wrong.

    Raises InputError where the folder cannot be written.
    """
    kept: dict[str, dict[str, Any]] = {}
    gathered: list[Path] = []
    for test in tests:
        label = backend_label(test.backend)
        if label not in kept:  # a process that was killed has gathered some
            kept[label], kept[label + _CALLS] = dict(read(run_dir, label)), dict(read_calls(run_dir, label))
        folder = run_dir / artifacts.ARTIFACT_DIR / test.op_id / artifacts.ir_folder(label)
        last = lowered_ir.last_ir(folder) if test.failed_stage in WHOLLY_COMPILED else None
        if last is not None:
            kept[label][test.op_id] = lowered_ir.plain(last.read_text(encoding="utf-8", errors="replace"))
            if calls := structure.calls_of(folder):
                kept[label + _CALLS][test.op_id] = calls
            if test.failed_stage is None:
                gathered.append(folder)
    text = json.dumps({label: dict(sorted(of.items())) for label, of in sorted(kept.items()) if of})
    place = write_whole(run_dir / FILE, lzma.compress(text.encode()), "a writable folder")
    for folder in gathered:  # once nothing is lost by it
        shutil.rmtree(folder, ignore_errors=True)
    artifacts.seal(run_dir, read_run(run_dir).run_id)
    return place


def read(run_dir: Path, label: str) -> Mapping[str, str]:
    """Op id -> its last IR on a backend; empty where a run has not kept it."""
    return {op_id: str(text) for op_id, text in _read(run_dir, label).items()}


def read_calls(run_dir: Path, label: str) -> Mapping[str, Sequence[tuple[str, int]]]:
    """Op id -> the kernels of its execution, with their cycles, of those that ran on the simulator."""
    return _read(run_dir, label + _CALLS)


def _read(run_dir: Path, key: str) -> dict[str, Any]:
    try:
        kept = json.loads(lzma.decompress((run_dir / FILE).read_bytes()))
        return {str(op_id): value for op_id, value in kept.get(key, {}).items()}
    except (OSError, ValueError, EOFError, AttributeError, lzma.LZMAError):
        return {}
