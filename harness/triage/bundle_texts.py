"""The files of a repro folder that people read: the module as text, run.sh, the test, the README."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opscope.base.visible_text import one_line
from opscope.harness.record.explanation import TEXT as TEXT_FILE
from opscope.harness.record.optest import title
from opscope.harness.record.records import OpRow, OpTest

TEMPLATES = Path(__file__).parent / "templates"
ALONE = "without_opscope.sh"
"""The script that shows a failure with the backend alone."""
LARGEST = 4096
"""Constants with more elements are written as their bytes in the module's text."""


def module_text(module: bytes) -> str:
    """A module as text without locations; what cannot be read is said instead (it may be the fault)."""
    from opscope.harness.prepare import mlir
    from opscope.harness.record.errors import InputError

    try:
        return str(mlir.load(module).operation.get_asm(enable_debug_info=False, large_elements_limit=LARGEST))
    except InputError as error:
        return f"// this version cannot read the module: {error}\n"


@dataclass(frozen=True)
class Beside:
    """What the README says beside the op and its failure."""

    backend: str
    note: str
    """What became of values that are not in the folder."""
    explained: Sequence[str]
    """The files that explain wrong numbers."""
    lines: Sequence[str]
    """What shows the failure with the backend alone."""


def write(folder: Path, test: OpTest, row: OpRow, beside: Beside) -> None:
    """Writes run.sh, test_repro.py and README.md, and the script for the backend alone."""
    shutil.copyfile(TEMPLATES / "run.sh", folder / "run.sh")
    shutil.copyfile(TEMPLATES / "test_repro.py.in", folder / "test_repro.py")  # else pytest would collect the template
    (folder / "run.sh").chmod(0o755)
    readme = (TEMPLATES / "README.md").read_text(encoding="utf-8")
    stage = f" at {test.failed_stage}" if test.failed_stage else ""
    inputs, goldens = len(row.sources), len(row.golden)
    values = f"{inputs} input{'s' * (inputs != 1)} in `inputs/`, {goldens} golden{'s' * (goldens != 1)} in `golden/`"
    values = beside.note if beside.note and not row.golden else values
    for word, text in (
        ("TITLE", title(test)),
        ("FAILURE", f"{test.status}{stage}: {test.error_message or test.crash_kind or ''}"),
        ("SIGNATURE", test.error_signature or "none"),
        ("BACKEND", f"`{beside.backend}` ({test.card_type})"),
        ("PLACE", test.locations[0] if test.locations else test.model_name),
        ("VALUES", values),
        ("WHY", _why(test, beside.explained)),
        ("LINES", _alone(beside.lines)),
    ):
        readme = readme.replace(f"@{word}@", text if word in ("WHY", "LINES") else one_line(text))
    (folder / "README.md").write_text(readme, encoding="utf-8")
    if beside.lines:
        script = folder / ALONE
        script.write_text(
            "\n".join(["#!/bin/sh", 'cd "$(dirname "$0")" || exit 2', *beside.lines, ""]), encoding="utf-8"
        )
        script.chmod(0o755)


def _alone(lines: Sequence[str]) -> str:
    """What shows the failure with the backend alone; empty if it does not say how."""
    return f"\n\nWith the backend alone (`{ALONE}`):\n\n    " + "\n    ".join(lines) if lines else ""


def _why(test: OpTest, explained: Sequence[str]) -> str:
    """What is known about wrong numbers, with the names of the files that show it; empty for any other failure."""
    if TEXT_FILE not in explained:
        return ""
    results = sum(name.endswith(".npy") for name in explained)
    device = f", and {results} of the device's results (`result-<n>.npy`)" if results else ""
    said = f"**{one_line(test.hypothesis)}**\n\n" if test.hypothesis else ""
    picture = "![where the result is wrong](compare.svg)\n\n" if "compare.svg" in explained else ""
    return f"{said}`{TEXT_FILE}` lists the worst elements and what they were made of{device}.\n\n{picture}"
