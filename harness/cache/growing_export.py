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
from typing import Any, NamedTuple

from opscope.base import damage, stored
from opscope.base.damage import Damaged
from opscope.base.stored import FileMark
from opscope.harness.cache import export_folder
from opscope.harness.record.records import ManifestHeader, OpRow

FOLDER = "preparing"
"""The folder of these files in a run folder; it is there as long as goldens are made."""

SPLIT, OP = b'{"split":', b'{"op":"'
"""How the long lines begin. A reader keeps their places in the file, not their text: the rows of 10,000 ops in 64
workers would take 10 GiB, and each worker needs the few rows of the ops that it runs."""


class Announcer:
    """The writer's side."""

    def __init__(self, path: Path, tell: Callable[[str], None] | None = None) -> None:
        """With `tell`, lines are not written but handed to it: the announcer of another machine writes them."""
        self._path, self._tell = path, tell
        self._marks: dict[str, FileMark] = {}

    def split(self, header: ManifestHeader, rows: Iterable[OpRow]) -> None:
        """Says which ops a model has. Raises OSError, as all methods do, if the disk refuses the line."""
        texts = ",".join(row.model_dump_json() for row in rows)
        self._write(f'{SPLIT.decode()}{{"header":{header.model_dump_json()},"rows":[{texts}]}}}}')

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
        self._write(f'{OP.decode()}{row.op_id}","row":{row.model_dump_json()},"files":{marks}}}')

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
        """Writes a line that an announcer on another machine has sent."""
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


class Place(NamedTuple):
    """Where a line is in its file, in bytes."""

    begin: int
    length: int


class GrowingExport:
    """A reader's side: what is known of one model's export so far. `look` reads what is new."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._split: Place | None = None
        self._manifest: tuple[ManifestHeader, list[OpRow]] | None = None
        self.folder: Path | None = None
        """Where the files are, once there are some."""
        self.complete = False
        self.failure = ""
        """Why there will be no more goldens; empty as long as that is not known."""
        self.cut_off = False
        """Whether that is because the time of --budget is over."""
        self.gone = False
        """Whether there is no file at the last look."""
        self._announced: dict[str, Place] = {}
        self._folders: dict[str, Path] = {}
        """Where the files of each of these ops are."""
        self._final: export_folder.Rows | None = None
        self._read = 0

    @property
    def manifest(self) -> tuple[ManifestHeader, list[OpRow]] | None:
        """What the split knows, once a look has seen that it is over; None if it is not, or the file is gone."""
        if self._manifest is None and self._split is not None:
            values = self._values(self._split)
            if values is not None:
                rows = [OpRow.model_validate(row) for row in values["split"]["rows"]]
                self._manifest = ManifestHeader.model_validate(values["split"]["header"]), rows
        return self._manifest

    def look(self) -> None:
        """Reads the lines that were written since the last look; a damaged one is said and left out."""
        for place, line in self._new_lines():
            if line.startswith(OP):
                op_id = line[len(OP) : line.index(b'"', len(OP))].decode()
                self._announced[op_id] = place
                if self.folder is not None:
                    self._folders[op_id] = self.folder
                continue
            if line.startswith(SPLIT):
                self._split = place
                continue
            values = json.loads(line)
            if "folder" in values:
                self.folder = Path(values["folder"])
            elif "complete" in values:
                self.folder, self.complete = Path(values["complete"]), True
            elif "failed" in values:
                self.failure = values["failed"]
            elif "cut_off" in values:
                self.failure, self.cut_off = values["cut_off"], True

    def _new_lines(self) -> Iterator[tuple[Place, bytes]]:
        """Each new line, and where it is."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._read)
                data = file.read()
        except FileNotFoundError:
            self.gone = True
            return
        self.gone = False
        whole = data[: data.rfind(b"\n") + 1]
        begin, self._read = self._read, self._read + len(whole)
        for line in whole.split(b"\n"):
            place, begin = Place(begin, len(line)), begin + len(line) + 1
            if not line:
                continue
            try:
                if not stored.is_sealed(line):
                    json.loads(line)  # what a killed writer has left unfinished
                yield place, stored.unsealed(line, where=self.path)
            except (Damaged, ValueError) as error:
                damage.say(f"{self.path}: a damaged line is left out ({error})")

    def _values(self, place: Place) -> dict[str, Any] | None:
        """What a line holds that a look has read; None if the file is gone. Raises Damaged."""
        try:
            with self.path.open("rb") as file:
                file.seek(place.begin)
                line = file.read(place.length)
        except FileNotFoundError:
            return None
        return json.loads(stored.unsealed(line, where=self.path))

    def row(self, op_id: str) -> OpRow | None:
        """The row of an op that can run now, or None. Raises Damaged.

        The files of an export under construction will be held to the digests that came with the row.
        """
        if self.complete and self.folder is not None:
            if self._final is None:
                self._final = export_folder.Rows(self.folder)
            return self._final.get(op_id)
        place, folder = self._announced.get(op_id), self.folder_of(op_id)
        if place is None or folder is None or self.failure:
            return None
        values = self._values(place)
        if values is None:
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
        lines = {op_id: self._values(place) for op_id, place in self._announced.items()}
        return {op_id: OpRow.model_validate(values["row"]) for op_id, values in lines.items() if values is not None}
