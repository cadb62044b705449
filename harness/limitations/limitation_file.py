"""Files of expected failures in YAML: the project's own, beside this file, and one of the user's.

    limitations:
    - op: stablehlo.fft          # a pattern, or a list of them
      backend: reference
      stage: stablehlo-to-ttir
      kind: notyet               # notimpl, notyet, never
      reason: the target has no such op

All other fields of `Limitation` may follow (docs/triage.md). Each row remembers its lines, so that it can be taken out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from opscope.base.yaml_text import YamlError, parse_with_nodes, read_text
from opscope.harness.limitations.import_rows import IMPORT
from opscope.harness.limitations.limitations import KINDS, Limitation
from opscope.harness.record.depths import DEPTHS
from opscope.harness.record.errors import InputError, closest
from opscope.harness.record.optest import backend_label
from opscope.harness.record.stages import Stage
from opscope.models import frontends

OWN = Path(__file__).with_name("limitations.yaml")
"""The rows of the backends in this tree."""

HEAD = "limitations"
NEEDED = ("op", "backend", "stage", "kind", "reason")
NAMES = tuple(f.name for f in fields(Limitation) if f.name != "where")


@dataclass(frozen=True)
class Placed:
    """A row and the lines that it stands on: from `start` up to, not including, `end`, counted from 0."""

    row: Limitation
    start: int
    end: int


@dataclass(frozen=True)
class LimitationFile:
    """A file of rows. One that does not exist (yet) has none."""

    path: Path
    text: str = ""
    placed: tuple[Placed, ...] = field(default=())

    @property
    def rows(self) -> tuple[Limitation, ...]:
        """The rows in the order of the file."""
        return tuple(placed.row for placed in self.placed)


def all_rows(own: str | Path | None) -> tuple[Limitation, ...]:
    """The rows of the user's file, then the project's own. Raises InputError for a bad one."""
    return (*(read(Path(own)).rows if own else ()), *project_rows())


@cache
def project_rows() -> tuple[Limitation, ...]:
    """The project's own rows."""
    return read(OWN).rows


def read(path: Path) -> LimitationFile:
    """A file and its rows. Raises InputError: not there, no such file of rows, or a row that says nothing sensible."""
    try:
        return parse(read_text(path), path)
    except FileNotFoundError:
        raise InputError(str(path), "a file of limitations", "no such file", "opscope limitations update") from None
    except (OSError, YamlError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(str(path), "a file of limitations", reason or "unreadable") from error


def parse(text: str, path: Path) -> LimitationFile:
    """The rows in a text that is, or will be, the content of `path`. Raises InputError."""
    try:
        values, root = parse_with_nodes(text)
    except YamlError as error:
        at = f"{path}:{error.line}" if error.line is not None else str(path)
        raise InputError(at, "YAML", error.reason) from error
    values = {} if root is None else values
    if not isinstance(values, dict) or set(values) - {HEAD} or not isinstance(values.get(HEAD) or [], list):
        got = ", ".join(map(str, values)) if isinstance(values, dict) else type(values).__name__
        raise InputError(str(path), f"one list named `{HEAD}`", got or "none")
    nodes = _sequence(root)
    rows = [
        _row(value, f"{path}:{node.start_mark.line + 1}")
        for value, node in zip(values.get(HEAD) or [], nodes, strict=True)
    ]
    spans = _spans(text.splitlines(), [node.start_mark.line for node in nodes])
    placed = [Placed(row, *span) for row, span in zip(rows, spans, strict=True)]
    return LimitationFile(path, text, tuple(placed))


def _sequence(root: Any) -> list[Any]:
    """The nodes of the rows."""
    for key, value in getattr(root, "value", None) or ():
        if key.value == HEAD and isinstance(value.value, list):
            return value.value
    return []


def _spans(lines: list[str], starts: list[int]) -> list[tuple[int, int]]:
    """The lines of each row, without the blank lines and comments that follow it."""
    # A key may stand on the line below its dash.
    begins = [next(n for n in range(start, -1, -1) if lines[n].lstrip().startswith("-")) for start in starts]
    spans = []
    for begin, end in zip(begins, [*begins[1:], len(lines)], strict=False):
        while not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#"):
            end -= 1
        spans.append((begin, end))
    return spans


def _row(value: object, where: str) -> Limitation:
    """One row. Raises InputError that names its line."""
    if not isinstance(value, dict):
        raise InputError(where, "a mapping of fields", type(value).__name__)
    for name in value:
        if name not in NAMES:
            raise InputError(where, "a field of a limitation", repr(name), closest(str(name), NAMES))
    missing = [name for name in NEEDED if not value.get(name)]
    if missing:
        raise InputError(where, ", ".join(NEEDED), f"no {', '.join(missing)}")
    row = Limitation(where=where, **{name: _READ[name](f"{where} {name}", text) for name, text in value.items()})
    check(row)
    return replace(row, backend=backend_label(row.backend))


def _text(where: str, value: object) -> str:
    if isinstance(value, dict | list):
        raise InputError(where, "a text", type(value).__name__)
    return "" if value is None else str(value)


def _texts(where: str, value: object) -> tuple[str, ...]:
    return tuple(_text(where, each) for each in (value if isinstance(value, list) else [value]))


def _date(where: str, value: object) -> date | None:
    if value is None or type(value) is date:
        return value
    try:
        return date.fromisoformat(str(value))
    except ValueError:
        raise InputError(where, "a date", repr(str(value)), "2026-12-31") from None


def _stage(where: str, value: object) -> Stage:
    try:
        return Stage(str(value))
    except ValueError:
        raise InputError(where, "a stage", repr(value), closest(str(value), list(Stage))) from None


def _flag(where: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InputError(where, "true or false", repr(value))
    return value


def _map(where: str, value: object) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise InputError(where, "a mapping of attributes to patterns", type(value).__name__)
    return {str(name): _text(where, pattern) for name, pattern in value.items()}


_READ: dict[str, Callable[[str, object], Any]] = {
    **dict.fromkeys(NAMES, _text),
    **dict.fromkeys(("op", "types", "op_ids", "data_formats", "but"), _texts),
    "families": lambda where, value: frozenset(_texts(where, value)),
    "stage": _stage,
    "strict": _flag,
    "params": _map,
    "since": _date,
    "expires": _date,
}
"""How each field is read."""


def check(row: Limitation) -> None:
    """Raises InputError for a row whose backend, stage or kind does not exist, or that gives no reason.

    A backend that is a file is written as its path ends (`mine.py`) and may be anything. A stage is one of the words of
    the backends in this tree, or stands in the source of the row's own backend.
    """
    from opscope.harness.backends import registry

    importer = row.stage == IMPORT
    known = row.backend in frontends.names() if importer else registry.is_alone(row.backend)
    where = row.where or f"limitation {', '.join(row.op)}"
    if not known and backend_label(row.backend) == row.backend and not registry.is_label_with_argument(row.backend):
        names = frontends.names() if importer else registry.names_alone()
        raise InputError(f"{where} backend", "a backend or its file", f"'{row.backend}'", closest(row.backend, names))
    stages = {*map(str, Stage), *DEPTHS, IMPORT}
    if row.stage not in stages and not registry.mentions(row.backend, row.stage):
        raise InputError(f"{where} stage", "a stage of a backend", f"'{row.stage}'", closest(row.stage, stages))
    if row.kind not in KINDS:
        raise InputError(f"{where} kind", f"one of {', '.join(KINDS)}", f"'{row.kind}'")
    if not row.reason.strip():
        raise InputError(f"{where} reason", "a reason", "none")
