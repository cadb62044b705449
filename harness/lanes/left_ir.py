"""What a compiler had written of an op when the op ended its process: how far it came, and its IR.

A backend whose compiler writes each stage's IR to its lane's folder names these files (`Backend.stage_files`). The
lane's parent reads them, since the process that wrote them is gone.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from opscope.base import regular_file
from opscope.harness.record import artifacts
from opscope.harness.record.optest import RunContext, backend_label
from opscope.harness.record.stages import Stage

LARGEST = 1 << 24
"""Bytes of a file that is kept."""
_STAMP = re.compile(r"_\d{10,}(?=\.)")
"""What makes a file's name unique: a time in milliseconds."""


def last_passed(folder: Path | None, stages: Sequence[Stage], files: Mapping[str, str]) -> Stage | None:
    """The last of `stages` whose file is in `folder`; None if there is none."""
    if folder is None or not files:
        return None
    return next((stage for stage in reversed(stages) if stage in files and any(folder.glob(files[stage]))), None)


def keep(folder: Path | None, files: Mapping[str, str], context: RunContext, op_id: str) -> None:
    """Stores what lies beside such files as the op's IR, named by its stage. What the disk refuses is left out.

    With --keep-ir too: the process ended before it could move them.
    """
    if folder is None or not files:
        return
    target = artifacts.ir_folder(backend_label(context.backend))
    for path in _beside(folder, files):
        with contextlib.suppress(OSError):
            if path.stat().st_size <= LARGEST:
                name = _STAMP.sub("", path.name)
                artifacts.write(context.run_dir, op_id, f"{target}/{name}", regular_file.read_bytes(path))


def _beside(folder: Path, files: Mapping[str, str]) -> Iterator[Path]:
    for place in sorted({(folder / pattern).parent for pattern in files.values()}):
        if place.is_dir():
            yield from sorted(path for path in place.iterdir() if path.is_file())
