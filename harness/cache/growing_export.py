"""An export folder whose goldens are still being made: which of its ops can run already, and where their files are.

    RUN/preparing/<number>.jsonl    one file per model whose goldens were not complete when the run began

Its lines, each sealed and written by one `write`, come from one writer after the other:

    {"split": {"header", "rows"}}       from the child that splits: the ops, and nothing of their goldens
    {"folder"}                          from the child that evaluates: where the files of the ops below are; again after
                                        one that died, whose files stay as long as the export is under construction
    {"op", "row", "files"}              from it, for each op whose inputs and goldens are stored: sizes and digests too
    {"complete": folder}                from the controller: the export is complete, and is there now
    {"failed": reason}                  from the controller: there will be no more goldens
    {"cut_off": reason}                 the same, because the time of --budget is over

A file that is there no more says that none of the last three could be written: to remove it takes no space.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from opscope.base import damage, stored
from opscope.base.damage import Damaged
from opscope.base.stored import FileMark
from opscope.harness.cache import export_folder
from opscope.harness.record.records import ManifestHeader, OpRow

FOLDER = "preparing"
"""The folder of these files in a run folder; it is there as long as goldens are made."""


class Announcer:
    """The writer's side."""

    def __init__(self, path: Path, tell: Callable[[str], None] | None = None) -> None:
        """With `tell`, lines are told to who writes them (`tell` of its announcer), as from another machine."""
        self._path, self._tell = path, tell
        self._marks: dict[str, FileMark] = {}

    def split(self, header: ManifestHeader, rows: Iterable[OpRow]) -> None:
        """Says which ops a model has. Raises OSError, as all methods do, if the disk refuses the line."""
        texts = ",".join(row.model_dump_json() for row in rows)
        self._write(f'{{"split":{{"header":{header.model_dump_json()},"rows":[{texts}]}}}}')

    def begin(self, folder: Path) -> None:
        """Says where files of the export are from now on."""
        self._write(json.dumps({"folder": str(folder)}))

    def op(self, folder: Path, row: OpRow) -> None:
        """Says that an op's inputs and goldens are stored in `folder`."""
        files = export_folder.files_of(row)
        for path in files:
            if path not in self._marks:
                self._marks[path] = stored.mark_of(folder / path)
        marks = json.dumps({path: self._marks[path] for path in files})
        self._write(f'{{"op":"{row.op_id}","row":{row.model_dump_json()},"files":{marks}}}')

    def complete(self, folder: Path) -> None:
        """Says that the export is complete."""
        self._write_last({"complete": str(folder)})

    def failed(self, reason: str) -> None:
        """Says that no more goldens will be made."""
        self._write_last({"failed": reason})

    def cut_off(self, reason: str) -> None:
        """Says that no more goldens will be made in this run, whose budget is over."""
        self._write_last({"cut_off": reason})

    def _write_last(self, values: dict[str, str]) -> None:
        try:
            self._write(json.dumps(values))
        except OSError:
            self._path.unlink(missing_ok=True)  # or some would wait for ever
            raise

    def write(self, text: str) -> None:
        """Writes a line of which an announcer elsewhere has told."""
        self._write(text)

    def _write(self, text: str) -> None:
        if self._tell is not None:
            self._tell(text)
            return
        # The line break in front ends what a killed writer may have left unfinished.
        line = b"\n" + stored.sealed(text) + b"\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            while line:  # a disk that is full takes a part, and then raises
                line = line[os.write(descriptor, line) :]
        finally:
            os.close(descriptor)


class GrowingExport:
    """A reader's side: what is known of one model's export so far. `look` reads what is new."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest: tuple[ManifestHeader, list[OpRow]] | None = None
        """What the split knows, once it is over."""
        self.folder: Path | None = None
        """Where the files are, once there are some."""
        self.complete = False
        self.failure = ""
        """Why there will be no more goldens; empty as long as that is not known."""
        self.cut_off = False
        """Whether that is because the time of --budget is over."""
        self.gone = False
        """Whether there is no file at the last look."""
        self.fresh: list[str] = []
        """The ops that looks have seen announced. Whoever has taken them in empties the list."""
        self._announced: dict[str, dict[str, Any]] = {}
        self._folders: dict[str, Path] = {}
        """Where the files of each of these ops are."""
        self._final: dict[str, OpRow] | None = None
        self._read = 0

    def look(self) -> None:
        """Reads the lines that were written since the last look; a damaged one is said and left out."""
        for values in self._new_lines():
            if "op" in values:
                self._announced[values["op"]] = values
                if self.folder is not None:
                    self._folders[values["op"]] = self.folder
                self.fresh.append(values["op"])
            elif "folder" in values:
                self.folder = Path(values["folder"])
            elif "complete" in values:
                self.folder, self.complete = Path(values["complete"]), True
            elif "failed" in values:
                self.failure = values["failed"]
            elif "cut_off" in values:
                self.failure, self.cut_off = values["cut_off"], True
            elif "split" in values:
                split = values["split"]
                rows = [OpRow.model_validate(row) for row in split["rows"]]
                self.manifest = ManifestHeader.model_validate(split["header"]), rows

    def _new_lines(self) -> Iterator[dict[str, Any]]:
        try:
            with self.path.open("rb") as file:
                file.seek(self._read)
                data = file.read()
        except FileNotFoundError:
            self.gone = True
            return
        self.gone = False
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in filter(None, whole.split(b"\n")):
            try:
                yield json.loads(stored.unsealed(line, where=self.path))
            except (Damaged, ValueError) as error:
                damage.say(f"{self.path}: a damaged line is left out ({error})")

    def row(self, op_id: str) -> OpRow | None:
        """The row of an op that can run now, or None. Raises Damaged.

        The files of an export under construction will be held to the digests that came with the row.
        """
        if self.complete and self.folder is not None:
            if self._final is None:
                self._final = {row.op_id: row for row in export_folder.read_manifest(self.folder)[1]}
            return self._final.get(op_id)
        values = self._announced.get(op_id)
        folder = self.folder_of(op_id)
        if values is None or folder is None or self.failure:
            return None
        stored.expect(folder, {path: FileMark(*mark) for path, mark in values["files"].items()})
        return OpRow.model_validate(values["row"])

    @property
    def ended(self) -> bool:
        """Whether nothing more is announced, as far as the last look tells."""
        return self.complete or self.gone or bool(self.failure)

    def has(self, op_id: str) -> bool:
        """Whether an op has its row by now, as far as that is known without reading a file."""
        return not self.failure and (self.complete or self.gone or op_id in self._announced)

    def announced_after(self, count: int) -> list[str]:
        """Ids of the ops that were announced after the first `count`."""
        return list(islice(self._announced, count, None))

    def folder_of(self, op_id: str) -> Path | None:
        """Where the files of an op are, once it can run."""
        return self.folder if self.complete else self._folders.get(op_id)

    def announced(self) -> dict[str, OpRow]:
        """The rows of all ops that could run at some time, whatever has become of their files."""
        return {op_id: OpRow.model_validate(values["row"]) for op_id, values in self._announced.items()}
