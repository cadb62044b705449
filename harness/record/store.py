"""The run folder: what a run wrote, and reading it back years later.

    RUN/run.json          RunRecord
    RUN/manifest.jsonl    ManifestHeader, then one OpRow a line
    RUN/journal/<writer>.jsonl   one OpTest a line, appended as each op ends; one writer a file
    RUN/artifacts/, RUN/artifacts.json   full diagnostics, and their digests (harness/record/artifacts.py)

A journal survives SIGKILL at any moment: each line is one `write` to an O_APPEND file, and a torn last line is ignored.
The highest attempt at an op counts. A full or read-only disk is an InputError of one line.

Every line and every JSON file begins with its digest (opscope/base/stored.py); a file written as a whole, and run.json
at a run's end, also say how many lines there are. What is damaged is reported (opscope/base/damage.py) and left out.
Runs from before have no digests: they are read, and said to be unverified.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from pydantic import ValidationError

from opscope.base import atomic_write, damage, regular_file, stored
from opscope.base.inner_path import inside
from opscope.base.visible_text import cut
from opscope.harness.record import artifacts
from opscope.harness.record.errors import InputError, resuming
from opscope.harness.record.records import SCHEMA_VERSION, WHOLE_MODEL, ManifestHeader, OpRow, OpTest, Record, RunRecord
from opscope.harness.record.run_folders import MANIFEST_FILE, RUN_FILE

JOURNAL_DIR, ARTIFACT_DIR = "journal", artifacts.ARTIFACT_DIR

SELECTION_FILE = "selection.json"
"""Ids of the selected ops, where these are not all."""
WHOLE_FILE = "whole.jsonl"
"""Records of models that ran as one program before any op."""
MODELS_DIR = "models"
"""Folder below the artifacts for what concerns a whole model."""

LINES = "lines"
"""Field beside the digest: in run.json, of a run that has ended, segment -> its number of lines; in the first line of a
manifest, the number of the lines that follow."""

Upgrader = Callable[[dict[str, Any]], dict[str, Any]]

UPGRADERS: dict[type[Record], dict[int, Upgrader]] = {RunRecord: {}, ManifestHeader: {}, OpTest: {}}
"""Per record and schema version: the function that makes the next version of it. Version 1 is the first."""

R = TypeVar("R", bound=Record)
T = TypeVar("T")

_OLD_STATUS = re.compile(rb'"golden_failed(?=["\s])')
"""Where a record says how it or another attempt ended: `"golden_failed"`, `"golden_failed at compare"`."""

_SURROGATE = re.compile("[\ud800-\udfff]")


class StoredRun(NamedTuple):
    """A run as stored on disk: `tests` holds the highest attempt at each op, in the manifest's order, `whole` what
    `whole_tests` returns."""

    record: RunRecord
    header: ManifestHeader
    rows: list[OpRow]
    tests: list[OpTest]
    whole: list[OpTest]


def artifact_dir(run_dir: Path, op_id: str) -> Path:
    """Folder of one op's diagnostics and dumped IR (not created)."""
    return run_dir / ARTIFACT_DIR / op_id


# --- writing


def write_run(run_dir: Path, record: RunRecord) -> None:
    """Writes RUN/run.json, whole or not at all; once the run has ended, with the lines that it left, and the digests of
    its artifacts. Raises InputError if the disk refuses it."""
    text = record.model_dump_json(indent=1)
    if record.ended is not None:
        try:
            if isinstance(limit := record.origin.options.get("repro_size"), int):
                artifacts.keep_results(run_dir, limit)
            artifacts.seal(run_dir, record.run_id)
        except OSError as error:
            raise refused(run_dir / artifacts.FILE, error) from error
        text = f'{{"{LINES}": {json.dumps(_line_counts(run_dir))},{text[1:]}'
    write_whole(run_dir / RUN_FILE, stored.sealed(text) + b"\n")


def _line_counts(run_dir: Path) -> dict[str, int]:
    """The number of lines of each segment of a run."""
    paths = [*_segments(run_dir), *filter(Path.is_file, [run_dir / WHOLE_FILE])]
    return {path.relative_to(run_dir).as_posix(): path.read_bytes().count(b"\n") for path in paths}


def _segments(run_dir: Path) -> list[Path]:
    folder = run_dir / JOURNAL_DIR
    if folder.is_dir() and not os.access(folder, os.R_OK | os.X_OK):  # where `glob` finds nothing
        raise _closed(folder)
    return sorted(folder.glob("*.jsonl"))


def _closed(folder: Path) -> InputError:
    """The error for a folder of another user, which is not damaged."""
    return InputError(str(folder), "a folder that may be entered", os.strerror(errno.EACCES), "as its owner")


def write_manifest(run_dir: Path, header: ManifestHeader, rows: Iterable[OpRow]) -> None:
    """Writes RUN/manifest.jsonl, whole or not at all. Raises InputError if the disk refuses it."""
    texts = [row.model_dump_json() for row in rows]
    first = f'{{"{LINES}":{len(texts)},{header.model_dump_json()[1:]}'
    write_whole(run_dir / MANIFEST_FILE, b"".join(stored.sealed(text) + b"\n" for text in (first, *texts)))


def line_of(test: OpTest, text: str = "") -> bytes:
    """The line of a record, with its digest. `text` is the record's JSON, where that is known: it is not made again."""
    return stored.sealed(test.model_dump_json() if not text or "\n" in text else text) + b"\n"


def write_json(path: Path, values: Mapping[str, Any], hint: str = "another --run-dir") -> Path:
    """Writes a small file of a run with its digest. Raises InputError where the disk refuses it."""
    return write_whole(path, stored.sealed(json.dumps(values, indent=1)) + b"\n", hint)


def read_json(path: Path, what: str) -> Any:
    """What `write_json` wrote, or what an opscope without digests did; None if there is no such file.

    Raises InputError if it is damaged; `what` says what the file is.
    """
    try:
        data = regular_file.read_bytes(path).removesuffix(b"\n")
        text = stored.unsealed(data, where=path)
        if text is data:
            unverified(path.parent)
        return json.loads(text)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        got = error.got if isinstance(error, damage.Damaged) else f"something else ({error})"
        raise InputError(str(path), what, got, "a copy of the run folder, or a new run") from error


def unverified(run_dir: Path) -> None:
    """Says that a run has no digests, as an older opscope wrote it."""
    damage.say(f"{run_dir}: unverified (written without digests, by an older opscope)")


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

    def __init__(self, run_dir: Path, writer: str, name: str = "") -> None:
        """With a `name`, it is that file of the run's folder."""
        self._run_dir, self._name = run_dir, name or f"{JOURNAL_DIR}/{writer}.jsonl"
        self.path = run_dir / self._name
        self._fd: int | None = None
        self._lock = threading.Lock()

    def append(self, test: OpTest, text: str = "") -> None:
        """Adds one line by one `write`; `text` is the record's JSON, where that is known. Raises InputError if the disk
        refuses it; earlier lines stay whole."""
        line = line_of(test, text)
        try:
            with self._lock:  # of several lanes
                descriptor = self._open()
                end = os.fstat(descriptor).st_size
                written = os.write(descriptor, line)
                if written != len(line):
                    # A disk that fills up takes part of a line: take it back, so that the segment ends whole.
                    os.ftruncate(descriptor, end)
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise refused(self.path, error) from error

    def _open(self) -> int:
        if self._fd is None:
            inside(self._run_dir, self._name)  # no link of a run from elsewhere
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
    size = os.fstat(descriptor).st_size
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
    tests = in_order(rows, latest(attempts))
    return StoredRun(record, header, list(rows), tests, whole_tests(run_dir)), attempts


def in_order(rows: Sequence[OpRow], tests: Iterable[OpTest]) -> list[OpTest]:
    """The records in the order of the manifest."""
    order = {row.op_id: position for position, row in enumerate(rows)}
    return sorted(tests, key=lambda test: order.get(test.op_id, len(order)))


def read_run(run_dir: Path) -> RunRecord:
    """RUN/run.json. Raises InputError if it is damaged, since nothing can be said of a run without it."""
    return parse(RunRecord, _run_file(run_dir)[0], str(run_dir / RUN_FILE))


def has_run(folder: Path) -> bool:
    """Whether a folder holds a run. Raises InputError for one that may not be entered."""
    try:
        return (folder / RUN_FILE).is_file()
    except PermissionError:
        raise _closed(folder) from None


def _run_file(run_dir: Path) -> tuple[bytes, dict[str, int]]:
    """The record in RUN/run.json as JSON, and how many lines each segment has; empty if the run has not ended."""
    path = run_dir / RUN_FILE
    data = _bytes(path, "a run folder").removesuffix(b"\n")
    try:
        body = stored.unsealed(data, where=path)
    except damage.Damaged as error:
        raise InputError(str(path), "the record of a run", error.got, "a copy of the run folder") from None
    if body is data:
        return data, {}
    values = json.loads(body)
    lines = values.pop(LINES, {})
    return json.dumps(values).encode(), lines


def read_manifest(run_dir: Path) -> tuple[ManifestHeader, list[OpRow]]:
    """RUN/manifest.jsonl. Damaged rows are reported and left out, and so is an op that an earlier row has."""
    lines = lines_of_manifest(run_dir)
    header = header_of(run_dir, next(lines))
    return header, list(each_once(records_in(lines, lambda where, line: parse(OpRow, line, where)), run_dir))


class Row(Protocol):
    """A row of a manifest, however it was read."""

    op_id: str


RowT = TypeVar("RowT", bound=Row)


def each_once(rows: Iterable[RowT], run_dir: Path) -> Iterator[RowT]:
    """The rows of a manifest without those of an op that came before: the ledger would not add up."""
    seen: set[str] = set()
    for row in rows:
        if row.op_id in seen:
            damage.found(run_dir / MANIFEST_FILE, f"a second row of {row.op_id}", "the first one counts")
            continue
        seen.add(row.op_id)
        yield row


def lines_of_manifest(run_dir: Path) -> Iterator[Line]:
    """The lines of RUN/manifest.jsonl that are not damaged. The first is the header's line, or empty."""
    path = run_dir / MANIFEST_FILE
    pieces = _pieces(path, "a run folder")
    first = next(pieces, b"").removesuffix(b"\n")
    try:
        header = stored.unsealed(first, where=path)
    except damage.Damaged as error:
        raise InputError(f"{path}:1", "a ManifestHeader", error.got, "a copy of the run folder") from None
    count = 0
    if header is not first:
        values = json.loads(header)
        count = values.pop(LINES, 0)
        header = json.dumps(values).encode()
    yield Line(f"{path}:1", header, first is not header)
    yield from _whole_lines(path, pieces, 2, count)


def header_of(run_dir: Path, first: Line) -> ManifestHeader:
    """The header in the first line of a manifest. Raises InputError if it is none."""
    if not first.text:
        raise InputError(str(run_dir / MANIFEST_FILE), "a manifest", "an empty file", "running the models again")
    return parse(ManifestHeader, first.text, first.where)


def refuse_unprepared(header: ManifestHeader, rows: Iterable[OpRow], run_dir: Path, where: str) -> None:
    """Raises InputError for an op whose model has no complete export in a run: killed, out of budget, or it failed."""
    failed = header.lost
    for model in dict.fromkeys(row.uses[0].model for row in rows):
        if model in header.unfinished:
            got = f"{model}, whose goldens were not all made when {run_dir} ended"
            raise InputError(where, "an op of a model that was prepared", got, resuming(run_dir))
        if model in failed:
            got = f"{model}, which is {failed[model].status.value} in {run_dir}"
            raise InputError(where, "an op of a model that was prepared", got, f"pytest --op-by-op --model {model}")


def refuse_other_values(rows: Iterable[OpRow], run_dir: Path, where: str) -> None:
    """Raises InputError for a run whose inputs opscope draws as other values by now: its goldens are for others."""
    from opscope.models.arguments import GENERATOR  # here, since an image runs without any of the models' code

    older = {source.generator for row in rows for source in row.sources if source.law} - {GENERATOR}
    if older:
        got = f"{run_dir}, whose goldens are for those of generator {min(older)}"
        raise InputError(where, f"a run on values of generator {GENERATOR}", got, "a new run of the same models")


def read_journal(run_dir: Path) -> Iterator[OpTest]:
    """Every OpTest of every segment, all attempts. Leaves out a torn last line, and damage, which it reports."""
    return records_in(lines_of_journal(run_dir), lambda where, line: parse(OpTest, line, where))


class Line(NamedTuple):
    """One line of a manifest or a journal."""

    where: str
    text: bytes
    """The record as JSON, without its digest."""
    verified: bool


def records_in(lines: Iterable[Line], read: Callable[[str, bytes], T]) -> Iterator[T]:
    """The records in some lines; a line without a digest that holds none is damaged. Raises InputError for a schema."""
    warned = False
    for where, text, verified in lines:
        try:
            record = read(where, text)
        except NotARecordError as error:
            if verified:
                raise
            damage.found(where, error.got)
            continue
        if not (verified or warned):
            warned = True
            segment = Path(where.rpartition(":")[0])
            unverified(segment.parent.parent if segment.parent.name == JOURNAL_DIR else segment.parent)
        yield record


def lines_of_journal(run_dir: Path) -> Iterator[Line]:
    """The lines of every segment that are not damaged; a torn last line is left out, unless the run has ended since."""
    counts = _run_file(run_dir)[1] if (run_dir / RUN_FILE).is_file() else {}
    paths = _segments(run_dir)
    for name in counts:
        if name != WHOLE_FILE and run_dir / name not in paths:
            damage.found(run_dir / name, "no such file")
    for path in paths:
        yield from _lines_of(path, counts.get(path.relative_to(run_dir).as_posix(), 0))


def _lines_of(path: Path, count: int) -> Iterator[Line]:
    """The lines of one segment, which should have `count` at least."""
    whole = (line for line in _pieces(path, "a journal") if line.endswith(b"\n"))  # the last one may be torn
    return _whole_lines(path, whole, 1, count)


def _count(path: Path, expected: int, got: int) -> None:
    if got < expected:
        damage.found(path, f"{got} lines instead of {expected}")


def _whole_lines(path: Path, pieces: Iterable[bytes], first: int, count: int) -> Iterator[Line]:
    """The lines that are not empty and hold what was written, with their numbers from `first` on. There should be
    `count` of them, which is known at the end: a run may have more lines than there is memory for."""
    got = 0
    for number, piece in enumerate(pieces, first):
        got += piece.endswith(b"\n")
        line = piece.removesuffix(b"\n")
        if not line:
            continue
        where = f"{path}:{number}"
        try:
            text = stored.unsealed(line, where=where)
        except damage.Damaged as error:
            damage.found(where, error.got)
            continue
        yield Line(where, todays_statuses(text), text is not line)
    _count(path, count, got)


def _pieces(path: Path, what: str) -> Iterator[bytes]:
    """The lines of a file, one at a time. Raises InputError where there is none that can be read."""
    with _readable(path, what), open(path, "rb", opener=regular_file.opener) as file:
        yield from file


def todays_statuses(text: bytes) -> bytes:
    """A record's JSON in which `wrong_result` has its name of today; records from before call it `golden_failed`."""
    return _OLD_STATUS.sub(b'"wrong_result', text) if b'"golden_failed' in text else text


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
    counts = _run_file(run_dir)[1] if (run_dir / RUN_FILE).is_file() else {}
    if not path.is_file():
        _count(path, counts.get(WHOLE_FILE, 0), 0)
        return []
    return list(records_in(_lines_of(path, counts.get(WHOLE_FILE, 0)), lambda where, line: parse(OpTest, line, where)))


def whole_models(run_dir: Path, tests: Iterable[OpTest]) -> list[OpTest]:
    """The records of all models that ran as one program: those before any op, and those of workflow `full`."""
    records = [*whole_tests(run_dir), *(test for test in tests if test.op_name == WHOLE_MODEL)]
    return list({(test.model_name, test.backend): test for test in records}.values())


def next_attempt(run_dir: Path, op_id: str) -> int:
    """The number of the next attempt at an op of a run; 1 if there was none."""
    return 1 + max((test.attempt for test in read_journal(run_dir) if test.op_id == op_id), default=0)


def _bytes(path: Path, what: str) -> bytes:
    with _readable(path, what):
        return regular_file.read_bytes(path)


@contextlib.contextmanager
def _readable(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise InputError(str(path.parent), what, f"no {path.name}", "a folder below .opscope/runs") from error
    except OSError as error:
        raise InputError(str(path), what, error.strerror or "unreadable") from error


class NotARecordError(InputError):
    """A text that holds no record of a known schema."""


def parse(kind: type[R], text: bytes, where: str) -> R:
    """One line, without its digest, as a record of today's schema.

    Raises InputError for another schema, and NotARecordError for anything else.

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
        raise NotARecordError(where, f"a {kind.__name__}", f"invalid JSON ({error})") from error
    if b"\\ud" in text or b"\\uD" in text:
        values = encodable(values)
    if not isinstance(values, dict):
        raise NotARecordError(where, f"a {kind.__name__}", type(values).__name__)
    values = upgrade(kind, values, where)
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        got = f", got {cut(str(first['input']), 80)!r}" if first["type"] == "value_error" else ""
        raise NotARecordError(where, f"a {kind.__name__}", f"{place}: {first['msg']}{got}") from error


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
