"""An export folder whose goldens are still being made: which of its ops can run already, and where their files are.

Children say it (`Announcer`), in messages to the process that runs their ops:

    {"split": header, "count"}          of the child that splits: the ops, and nothing of their goldens; then, in parts,
    {"rows"}                            as many rows
    {"folder"}                          of the child that evaluates: where the files of the ops below are; again after
                                        one that died, whose files stay as long as the export is under construction
    {"op", "row", "files"}              of it, for each op whose inputs and goldens are stored: sizes and digests too

That process knows how it ends: the export is complete, has failed, or was cut off by the budget.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from opscope.base import stored
from opscope.base.stored import FileMark
from opscope.harness.cache import export_folder
from opscope.harness.record.records import ManifestHeader, OpRow

FOLDER = "preparing"
"""The folder of splits in a run folder; it is there as long as goldens are made."""
PART = 1000
"""So many rows are in one message."""


class Announcer:
    """The side of a child."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        """`tell` sends a text to the process that runs the ops."""
        self._tell = tell
        self._marks: dict[str, FileMark] = {}

    def split(self, header: ManifestHeader, rows: Sequence[OpRow]) -> None:
        """Says which ops a model has."""
        self._tell(f'{{"split":{header.model_dump_json()},"count":{len(rows)}}}')
        for start in range(0, len(rows), PART):
            texts = ",".join(row.model_dump_json() for row in rows[start : start + PART])
            self._tell(f'{{"rows":[{texts}]}}')

    def begin(self, folder: Path) -> None:
        """Says where files of the export are from now on."""
        self._tell(json.dumps({"folder": str(folder)}))

    def op(self, folder: Path, row: OpRow) -> None:
        """Says that an op's inputs and goldens are stored in `folder`. Raises OSError if they cannot be read."""
        files = export_folder.files_of(row)
        for path in files:
            if path not in self._marks:
                self._marks[path] = stored.mark_of(folder / path)
        marks = {path: self._marks[path] for path in files}
        self._tell(json.dumps({"op": row.op_id, "row": row.model_dump_json(), "files": marks}))


class _Op(NamedTuple):
    """An op that can run, as it was announced."""

    row: str
    """Its row as JSON: of many ops few are under way at once."""
    files: dict[str, FileMark]
    folder: Path


class GrowingExport:
    """What is known of one model's export so far; one thread after the other tells it, others ask meanwhile."""

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        """`changed` is called whenever more is known."""
        self._changed = changed
        self._header: ManifestHeader | None = None
        self._count = 0
        self._rows: list[OpRow] = []
        self.folder: Path | None = None
        """Where the files are, once there are some."""
        self.complete = False
        self.failure = ""
        """Why there will be no more goldens; empty as long as that is not known."""
        self.cut_off = False
        """Whether that says nothing of the model: the time of --budget is over, or a disk is full."""
        self._announced: dict[str, _Op] = {}
        self._order: list[str] = []
        self._final: export_folder.Rows | None = None

    # --- what is told

    def take(self, text: str) -> None:
        """Takes what a child announces. Raises ValueError or KeyError for what no `Announcer` says."""
        values = json.loads(text)
        if "op" in values:
            assert self.folder is not None
            marks = {path: FileMark(*mark) for path, mark in values["files"].items()}
            again = values["op"] in self._announced
            self._announced[values["op"]] = _Op(values["row"], marks, self.folder)
            if not again:
                self._order.append(values["op"])
        elif "folder" in values:
            self.folder = Path(values["folder"])
        elif self.manifest is not None:
            pass  # a child in the place of one that died says the same again
        elif "split" in values:
            self._rows, self._count = [], values["count"]
            self._header = ManifestHeader.model_validate(values["split"])
        else:
            self._rows += [OpRow.model_validate(row) for row in values["rows"]]
        self._changed()

    def split(self, header: ManifestHeader, rows: Sequence[OpRow]) -> None:
        """Takes the ops of a model that need not be split."""
        self._header, self._rows, self._count = header, list(rows), len(rows)
        self._changed()

    def is_complete(self, folder: Path) -> None:
        """Notes that the export is complete, and is there."""
        self.folder, self.complete = folder, True
        self._changed()

    def fails(self, reason: str, cut_off: bool = False) -> None:
        """Notes that no more goldens will be made, in this run if something has cut them off."""
        self.failure, self.cut_off = reason, cut_off
        self._changed()

    # --- what is asked

    @property
    def manifest(self) -> tuple[ManifestHeader, list[OpRow]] | None:
        """What the split knows; None if it is not over."""
        return None if self._header is None or len(self._rows) < self._count else (self._header, self._rows)

    def row(self, op_id: str) -> OpRow | None:
        """The row of an op that can run now, or None. Raises Damaged.

        The files of an export under construction will be held to the digests that came with the row.
        """
        if self.complete and self.folder is not None:
            if self._final is None:
                self._final = export_folder.Rows(self.folder)
            return self._final.get(op_id)
        op = None if self.failure else self._announced.get(op_id)
        if op is None:
            return None
        stored.expect(op.folder, op.files)
        return OpRow.model_validate_json(op.row)

    @property
    def ended(self) -> bool:
        """Whether nothing more is announced."""
        return self.complete or bool(self.failure)

    def has(self, op_id: str) -> bool:
        """Whether an op has its row by now, as far as that is known without reading a file."""
        return not self.failure and (self.complete or op_id in self._announced)

    def announced_after(self, count: int) -> Sequence[str]:
        """Ids of the ops that were announced after the first `count`."""
        return self._order[count:]

    def folder_of(self, op_id: str) -> Path | None:
        """Where the files of an op are, once it can run."""
        op = self._announced.get(op_id)
        return self.folder if self.complete else None if op is None else op.folder

    def announced(self) -> dict[str, OpRow]:
        """The rows of all ops that could run at some time, whatever has become of their files."""
        return {op_id: OpRow.model_validate_json(op.row) for op_id, op in self._announced.items()}
