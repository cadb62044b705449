"""The IR of the ops that failed, for report.html: what the run folder has of each stage, the failing line marked.

A lane leaves it (harness/lanes/failed_ir.py, or --keep-ir). Where it did not, the op's own module in its repro folder
is shown. A line is marked only where the text says which: the error names an op, and the line has that op.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from opscope.base import regular_file
from opscope.base.inner_path import inside
from opscope.harness.record import artifacts
from opscope.harness.record.records import OpTest
from opscope.harness.record.stages import FAILED, Status

MOST = 50
"""Largest number of ops whose IR one page has; those with the most uses come first."""
MOST_LINES = 60
"""Largest number of lines that are shown of one file; those around the marked line are kept."""
MOST_LETTERS = 400
"""Where a line is cut: a constant may be long."""
MOST_BYTES = 1 << 20
"""A larger file is not shown."""
SUFFIXES = (".mlir", ".yaml", ".txt")
"""Files of IR that are text."""
OP = r"(?P<op>[A-Za-z_]\w*(?:\.\w+)+)"
NAMES_OP = (
    re.compile(rf"^{OP}: "),  # this project's compiler: `stablehlo.fft: complex numbers`
    re.compile(rf"'{OP}' op "),  # MLIR's verifier and its passes
    re.compile(rf"operation '{OP}'"),  # MLIR's conversions: `failed to legalize operation 'stablehlo.fft'`
)
UNKNOWN = re.compile(r" loc\(unknown\)")

Ir = dict[str, Any]


def of_tests(run_dir: Path | None, tests: Iterable[OpTest]) -> dict[tuple[str, str], list[Ir]]:
    """(op id, backend) -> the IR of each failed op, a dict per stage: `name`, `file` (a link), `lines`, `first` (the
    number of the first line), `marked` (numbers of lines), `cut` (whether lines are missing)."""
    if run_dir is None:
        return {}
    shown: dict[tuple[str, str], list[Ir]] = {}
    failed = [test for test in tests if test.status in FAILED]
    for test in sorted(failed, key=lambda test: (not test.fails_run, -test.uses)):
        if len(shown) == MOST:
            break
        if stages := _of_test(run_dir, test):
            shown[test.op_id, test.backend] = stages
    return shown


def _of_test(run_dir: Path, test: OpTest) -> list[Ir]:
    folder = Path(artifacts.ARTIFACT_DIR, test.op_id)
    ir = folder / artifacts.ir_folder(test.backend)
    paths = [ir / name for name in _names(run_dir / ir)]
    if not paths:
        paths = [folder / f"{artifacts.REPRO}{test.backend}" / "module.mlir"]
    texts = [(path, text) for path in paths if (text := _text(run_dir, path)) is not None]
    names = [re.sub(r"^\d+-", "", path.stem).replace("module", "stablehlo") for path, _ in texts]
    marks = failing_lines([text for _, text in texts], test)
    return [_shown(name, path, text, marked) for name, (path, text), marked in zip(names, texts, marks, strict=True)]


def _names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir() if path.suffix in SUFFIXES)
    except OSError:
        return []


def _text(run_dir: Path, path: Path) -> str | None:
    """The text of a file of the run; None if there is none, or it is too large, or no text."""
    try:
        place = inside(run_dir, path)
        if place.stat().st_size > MOST_BYTES:
            return None
        return regular_file.read_bytes(place).decode()
    except (OSError, UnicodeDecodeError):
        return None


def failing_op(test: OpTest) -> str:
    """The op that the error names; for wrong numbers and other ends the op itself."""
    if test.status == Status.COMPILE_FAILED:
        for pattern in NAMES_OP:
            if match := pattern.search(test.error_message or ""):
                return match["op"]
    return test.op_name


def failing_lines(texts: list[str], test: OpTest) -> list[list[int]]:
    """Of each stage's text the numbers of the lines to mark, from 1: those with the failing op, in the last text that
    has it, since the stage after that one failed. A line of another op that only mentions it is not marked."""
    written = re.compile(rf'^\s*(?:%[^=]+ = )?"?{re.escape(failing_op(test))}"?(?:[\s(<]|$)')
    marks: list[list[int]] = [[] for _ in texts]
    for number in reversed(range(len(texts))):
        lines = [n for n, line in enumerate(texts[number].splitlines(), 1) if written.search(line)]
        if lines:
            marks[number] = lines
            break
    return marks


def _shown(name: str, path: Path, text: str, marked: list[int]) -> Ir:
    lines = [UNKNOWN.sub("", line) for line in text.splitlines()]
    first = max(0, min((marked[0] if marked else 1) - MOST_LINES // 2, len(lines) - MOST_LINES))
    part = lines[first : first + MOST_LINES]
    return {
        "name": name,
        "file": quote(os.fsencode(path)),
        "first": first + 1,
        "lines": [line if len(line) <= MOST_LETTERS else f"{line[:MOST_LETTERS]} …" for line in part],
        "marked": [number for number in marked if first < number <= first + len(part)],
        "cut": len(part) < len(lines),
    }
