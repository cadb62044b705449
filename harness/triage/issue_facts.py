"""issue.json of a repro folder: what only the run knows of a failure, for the text of an issue (`issue.py`).

A file of its own beside repro.json, which earlier versions read too: `opscope bisect` has them run the folder.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from opscope.base import regular_file
from opscope.harness.record.records import OpTest, Record

FILE = "issue.json"


class Facts(Record):
    """What a run knows of a failure beside its repro.json."""

    uses: int = 0
    models: tuple[str, ...] = ()
    card_type: str = ""
    ran_on: str = ""
    compiled_by: str = ""
    narrowed: tuple[str, ...] = ()
    build: str = ""
    """What the backend says of its build (`Backend.build_note`)."""
    files: tuple[str, ...] = ()
    """The backend's own files in the folder (`Backend.repro_files`)."""


def write(folder: Path, test: OpTest, build: str, files: Iterable[str]) -> None:
    """Writes the facts in a record, and what its backend says, into a repro folder."""
    facts = Facts(
        uses=test.uses,
        models=test.models,
        card_type=test.card_type,
        ran_on=test.ran_on,
        compiled_by=test.compiled_by,
        narrowed=test.narrowed,
        build=build,
        files=tuple(files),
    )
    (folder / FILE).write_text(facts.model_dump_json(indent=1) + "\n", encoding="utf-8")


def read(folder: Path) -> Facts:
    """The facts of a folder; none of one from before they were written."""
    try:
        return Facts.model_validate_json(regular_file.read_text(folder / FILE))
    except (OSError, ValidationError, UnicodeDecodeError):
        return Facts()
