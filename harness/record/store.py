"""The run folder: what a run wrote, and reading it back years later.

    RUN/run.json          RunRecord
    RUN/manifest.jsonl    ManifestHeader, then one OpRow a line
    RUN/journal/<writer>.jsonl   one OpTest a line, appended as each op ends; one writer a file
    RUN/artifacts/<op_id>/       full diagnostics and dumped IR
    RUN/artifacts/models/        traceback of each model that could not be exported

A journal survives SIGKILL at any moment: each line is one `write` to an O_APPEND file, and a torn last line is ignored.
The highest attempt at an op counts. A full or read-only disk is an InputError of one line.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError

from opscope.base import atomic_write, regular_file
from opscope.base.results_folder import results_folder
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import SCHEMA_VERSION, WHOLE_MODEL, ManifestHeader, OpRow, OpTest, Record, RunRecord

RUN_FILE, MANIFEST_FILE, JOURNAL_DIR, ARTIFACT_DIR = "run.json", "manifest.jsonl", "journal", "artifacts"

WHOLE_FILE = "whole.jsonl"
"""Records of models that ran as one program before any op."""
MODELS_DIR = "models"
"""Folder below the artifacts for what concerns a whole model."""

Upgrader = Callable[[dict[str, Any]], dict[str, Any]]

UPGRADERS: dict[type[Record], dict[int, Upgrader]] = {RunRecord: {}, ManifestHeader: {}, OpTest: {}}
"""Per record and schema version: the function that makes the next version of it. Version 1 is the first."""

R = TypeVar("R", bound=Record)

_SURROGATE = re.compile("[\ud800-\udfff]")


class StoredRun(NamedTuple):
    """A run as stored on disk: `tests` holds the highest attempt at each op, in the manifest's order."""

    record: RunRecord
    header: ManifestHeader
    rows: list[OpRow]
    tests: list[OpTest]


# --- names and places


def default_run_dir(models: Iterable[str], started: datetime, root: Path | None = None) -> Path:
    """`<root>/.opscope/runs/<UTC yyyymmdd-hhmmss>-<models>`, not yet taken; `root` is the current folder by default."""
    label = file_name("+".join(Path(model).name for model in models))[:60] or "run"
    base = runs_root(root) / f"{started:%Y%m%d-%H%M%S}-{label}"
    path, count = base, 1
    while path.exists():
        count += 1
        path = base.with_name(f"{base.name}-{count}")
    return path


def file_name(text: str) -> str:
    """`text` as the name of a file or folder."""
    utf_8 = sys.getfilesystemencoding() == "utf-8"
    return re.sub(r"[^\w.+-]+", "_", text, flags=0 if utf_8 else re.ASCII)


def runs_root(root: Path | None = None) -> Path:
    """The folder of all runs without `--run-dir`."""
    return results_folder(root) / "runs"


def newest_run(root: Path | None = None) -> Path | None:
    """The newest run folder below `root` that has a manifest; None if there is none."""
    folder = runs_root(root)
    runs = [path.parent for path in folder.glob(f"*/{MANIFEST_FILE}")] if folder.is_dir() else []
    return max(runs, key=lambda run: (run / MANIFEST_FILE).stat().st_mtime_ns, default=None)


def artifact_dir(run_dir: Path, op_id: str) -> Path:
    """Folder of one op's diagnostics and dumped IR (not created)."""
    return run_dir / ARTIFACT_DIR / op_id


# --- writing


def write_run(run_dir: Path, record: RunRecord) -> None:
    """Writes RUN/run.json, whole or not at all. Raises InputError if the disk refuses it."""
    write_whole(run_dir / RUN_FILE, record.model_dump_json(indent=1) + "\n")


def write_manifest(run_dir: Path, header: ManifestHeader, rows: Iterable[OpRow]) -> None:
    """Writes RUN/manifest.jsonl, whole or not at all. Raises InputError if the disk refuses it."""
    lines = [header.model_dump_json(), *(row.model_dump_json() for row in rows)]
    write_whole(run_dir / MANIFEST_FILE, "\n".join(lines) + "\n")


def write_whole(path: Path, content: str | bytes, hint: str = "another --run-dir") -> Path:
    """Writes a file, whole or not at all. Raises InputError, with `hint` as the way out, where the disk refuses it."""
    try:
        atomic_write.write_whole(path, content)
    except OSError as error:
        raise refused(path, error, hint) from error
    return path


def refused(path: Path, error: OSError, hint: str = "another --run-dir") -> InputError:
    """The error for a disk that refuses a file."""
    return InputError(str(path), "a writable place", error.strerror or str(error), hint)


class Journal:
    """One writer's segment of the journal. The file is created at the first append."""

    def __init__(self, run_dir: Path, writer: str) -> None:
        self.path = run_dir / JOURNAL_DIR / f"{writer}.jsonl"
        self._fd: int | None = None

    def append(self, test: OpTest) -> None:
        """Adds one line by one `write`. Raises InputError if the disk refuses it; earlier lines stay whole."""
        line = test.model_dump_json().encode() + b"\n"
        try:
            descriptor = self._open()
            end = os.lseek(descriptor, 0, os.SEEK_END)
            written = os.write(descriptor, line)
            if written != len(line):
                # A disk that fills up takes part of a line: take it back, so that the segment ends whole.
                os.ftruncate(descriptor, end)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise refused(self.path, error) from error

    def _open(self) -> int:
        if self._fd is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            _drop_torn_tail(self._fd)
        return self._fd

    def close(self) -> None:
        """Closes the file; a later append opens it again."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _drop_torn_tail(descriptor: int) -> None:
    """Cuts a line that a killed writer left unfinished, so that the next one starts at a line's start."""
    size = os.lseek(descriptor, 0, os.SEEK_END)
    end = size
    while end:
        start = max(0, end - 65536)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end != size:
        os.ftruncate(descriptor, end)


# --- reading


def load_run(run_dir: Path) -> StoredRun:
    """Reads a whole run folder.

    Raises InputError for a folder without a run, a file that opscope did not write, or another schema.
    """
    return load_attempts(run_dir)[0]


def load_attempts(
    run_dir: Path, manifest: tuple[ManifestHeader, Sequence[OpRow]] | None = None
) -> tuple[StoredRun, list[OpTest]]:
    """Like `load_run`, with every attempt as well. Reads the journal once, and no manifest if `manifest` is given."""
    record = read_run(run_dir)
    header, rows = manifest or read_manifest(run_dir)
    attempts = list(read_journal(run_dir))
    return StoredRun(record, header, list(rows), in_order(rows, latest(attempts))), attempts


def in_order(rows: Sequence[OpRow], tests: Iterable[OpTest]) -> list[OpTest]:
    """The records in the order of the manifest."""
    order = {row.op_id: position for position, row in enumerate(rows)}
    return sorted(tests, key=lambda test: order.get(test.op_id, len(order)))


def read_run(run_dir: Path) -> RunRecord:
    """RUN/run.json."""
    path = run_dir / RUN_FILE
    return parse(RunRecord, _text(path, "a run folder"), str(path))


def read_manifest(run_dir: Path) -> tuple[ManifestHeader, list[OpRow]]:
    """RUN/manifest.jsonl."""
    lines = lines_of_manifest(run_dir)
    header = header_of(run_dir, next(lines))
    return header, [parse(OpRow, line, where) for where, line in lines]


def lines_of_manifest(run_dir: Path) -> Iterator[tuple[str, str]]:
    """The place and the text of each line of RUN/manifest.jsonl. The first is the header's line, or empty."""
    path = run_dir / MANIFEST_FILE
    lines = _text(path, "a run folder").split("\n")
    yield f"{path}:1", lines[0]
    for number, line in enumerate(lines[1:], 2):
        if line:
            yield f"{path}:{number}", line


def header_of(run_dir: Path, first: tuple[str, str]) -> ManifestHeader:
    """The header in the first line of a manifest. Raises InputError if it is none."""
    where, line = first
    if not line:
        raise InputError(str(run_dir / MANIFEST_FILE), "a manifest", "an empty file", "running the models again")
    return parse(ManifestHeader, line, where)


def read_journal(run_dir: Path) -> Iterator[OpTest]:
    """Every OpTest of every segment, all attempts; a torn last line is left out."""
    for where, line in lines_of_journal(run_dir):
        yield parse(OpTest, line, where)


def lines_of_journal(run_dir: Path) -> Iterator[tuple[str, str]]:
    """The place and the text of each line of every segment; a torn last line is left out."""
    for path in sorted((run_dir / JOURNAL_DIR).glob("*.jsonl")):
        lines = _text(path, "a journal").split("\n")[:-1]  # what follows the last newline is empty or torn
        for number, line in enumerate(lines, 1):
            yield f"{path}:{number}", line


def latest(tests: Iterable[OpTest]) -> list[OpTest]:
    """The highest attempt at each op on each backend; the later one if two are equal."""
    best: dict[tuple[str, str], OpTest] = {}
    for test in tests:
        key = (test.op_id, test.backend)
        if key not in best or test.attempt >= best[key].attempt:
            best[key] = test
    return list(best.values())


def whole_tests(run_dir: Path) -> list[OpTest]:
    """The records of models that ran as one program before any op (`--op-by-op-on-fail`), in the order in which they
    were made; a torn last line is left out."""
    path = run_dir / WHOLE_FILE
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [OpTest.model_validate(upgrade(OpTest, json.loads(line), str(path))) for line in lines]


def whole_models(run_dir: Path, tests: Iterable[OpTest]) -> list[OpTest]:
    """The records of all models that ran as one program: those before any op, and those of workflow `full`."""
    records = [*whole_tests(run_dir), *(test for test in tests if test.op_name == WHOLE_MODEL)]
    return list({(test.model_name, test.backend): test for test in records}.values())


def next_attempt(run_dir: Path, op_id: str) -> int:
    """The number of the next attempt at an op of a run; 1 if there was none."""
    return 1 + max((test.attempt for test in read_journal(run_dir) if test.op_id == op_id), default=0)


def _text(path: Path, what: str) -> str:
    try:
        return regular_file.read_text(path)
    except FileNotFoundError as error:
        raise InputError(str(path.parent), what, f"no {path.name}", "a folder below .opscope/runs") from error
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no text"
        raise InputError(str(path), what, reason or "unreadable") from error


def parse(kind: type[R], text: str, where: str) -> R:
    """One line as a record of today's schema. Raises InputError for anything else.

    `where` is the place that the error names.
    """
    # A run may have 20,000 records: a valid one of today's schema is parsed in one go, others are examined.
    with contextlib.suppress(ValidationError):
        record = kind.model_validate_json(text)
        if getattr(record, "schema_version", SCHEMA_VERSION) == SCHEMA_VERSION:
            return record
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(where, f"a {kind.__name__}", f"invalid JSON ({error})") from error
    if "\\ud" in text or "\\uD" in text:
        values = encodable(values)
    if not isinstance(values, dict):
        raise InputError(where, f"a {kind.__name__}", type(values).__name__)
    values = upgrade(kind, values, where)
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        got = f", got {str(first['input'])[:80]!r}" if first["type"] == "value_error" else ""
        raise InputError(where, f"a {kind.__name__}", f"{place}: {first['msg']}{got}") from error


def encodable(value: Any) -> Any:
    """A value of JSON with escapes for lone surrogates, which are in JSON but in no encoding and no database."""
    match value:
        case str():
            return value if value.isascii() else _SURROGATE.sub(lambda lone: f"\\u{ord(lone[0]):04x}", value)
        case dict():
            return {encodable(name): encodable(item) for name, item in value.items()}
        case list():
            return [encodable(item) for item in value]
        case _:
            return value


def upgrade(kind: type[Record], values: dict[str, Any], where: str) -> dict[str, Any]:
    """`values` in today's schema. Raises InputError for a newer one and for one without an upgrader."""
    if "schema_version" not in kind.model_fields:
        return values
    version = values.get("schema_version", SCHEMA_VERSION)
    while version != SCHEMA_VERSION:
        step = UPGRADERS.get(kind, {}).get(version) if isinstance(version, int) else None
        if step is None:
            newer = isinstance(version, int) and version > SCHEMA_VERSION
            hint = "a newer opscope" if newer else "running the models again, or the version of opscope that wrote it"
            raise InputError(where, f"schema {SCHEMA_VERSION}", f"schema {version}", hint)
        values = step(values)
        version = values["schema_version"]
    return values
