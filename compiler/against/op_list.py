"""The op table beside a list of tt-mlir's ops: which it lacks, which are called otherwise, whose attributes differ.

A list is JSON: `{"ttir": ["abs", ...], "ttnn": [...]}`, or with attributes `{"ttir": {"cumsum": ["dim"], ...}}`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

from opscope.compiler.ops import families as _families  # noqa: F401  (fills the table)
from opscope.compiler.ops.row import TABLE, Lowering, OpRow

DIALECTS = ("ttir", "ttnn")
Difference = Literal["same", "missing", "renamed", "attributes"]
RENAMED = {
    "ttir.batch_norm": "ttir.batch_norm_inference",
    "ttir.convolution": "ttir.conv2d",
    "ttir.gather_dim": "ttir.gather",
    "ttir.pooling": "ttir.max_pool2d",
    "ttir.round": "ttir.round_even",
    "ttir.slice": "ttir.slice_static",
    "ttnn.embedding_backward": "ttnn.embedding_bw",
    "ttnn.slice": "ttnn.slice_static",
}
"""What another version of tt-mlir calls an op -> our name."""


class ListError(ValueError):
    """A list that cannot be read as one of ops."""


@dataclass(frozen=True)
class Comparison:
    """One op of the list."""

    op: str
    difference: Difference
    kind: Lowering | Literal[""]
    """How the table lowers it; empty if it lacks it."""
    words: str
    """The reason of an op that is not lowered, our name, or the attributes that differ."""


def read_list(source: str) -> dict[str, dict[str, tuple[str, ...] | None]]:
    """Returns dialect -> op -> its attributes, None if the list has no attributes. Raises ListError."""
    try:
        document = json.loads(source)
    except json.JSONDecodeError as error:
        raise ListError(f"expected JSON, got: {error}") from error
    if not isinstance(document, dict) or not set(DIALECTS) & set(document):
        raise ListError(f"expected an object with {' or '.join(DIALECTS)}, got {type(document).__name__}")
    listed: dict[str, dict[str, tuple[str, ...] | None]] = {}
    for dialect in DIALECTS:
        ops: Any = document.get(dialect, [])
        if not isinstance(ops, list | dict) or not all(isinstance(name, str) for name in ops):
            raise ListError(f"{dialect}: expected names of ops, got {str(ops)[:60]}")
        listed[dialect] = {
            name.removeprefix(f"{dialect}."): _attributes(dialect, name, ops[name]) if isinstance(ops, dict) else None
            for name in ops
        }
    return listed


def _attributes(dialect: str, name: str, names: Any) -> tuple[str, ...] | None:
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(word, str) for word in names):
        raise ListError(f"{dialect}.{name}: expected a list of attributes' names, got {str(names)[:60]}")
    return tuple(names)


def against(listed: dict[str, dict[str, tuple[str, ...] | None]]) -> list[Comparison]:
    """Returns one comparison for each op of the list, in its order."""
    return [_compared(dialect, name, attributes) for dialect, ops in listed.items() for name, attributes in ops.items()]


def _compared(dialect: str, name: str, attributes: tuple[str, ...] | None) -> Comparison:
    full, row = f"{dialect}.{name}", TABLE.named(dialect, name)
    if row is None:
        ours = RENAMED.get(full, "")
        mine = TABLE.named(dialect, ours.removeprefix(f"{dialect}.")) if ours else None
        if mine is not None:
            return Comparison(full, "renamed", mine.lowering, f"here {ours}")
        near = get_close_matches(name, _names(dialect), n=1, cutoff=0.8)
        return Comparison(full, "missing", "", f"the nearest name here is {dialect}.{near[0]}" if near else "")
    if attributes is not None and row.lowered and (words := _differing(row, attributes)):
        return Comparison(full, "attributes", row.lowering, words)
    return Comparison(full, "same", row.lowering, row.reason if not row.lowered or row.lowering == "decomposed" else "")


def _differing(row: OpRow, attributes: Iterable[str]) -> str:
    ours, theirs = {name.rstrip("?") for name in row.attrs}, set(attributes)
    parts = (("lacks", theirs - ours), ("adds", ours - theirs))
    return "; ".join(f"{label} {', '.join(sorted(names))}" for label, names in parts if names)


def _names(dialect: str) -> list[str]:
    return sorted({row.ttir if dialect == "ttir" else row.ttnn_name for row in TABLE} - {""})


def summary(compared: list[Comparison]) -> str:
    """Returns one line: how many ops of each dialect the table has, and how many of them it lowers."""
    parts = []
    for dialect in DIALECTS:
        ops = [each for each in compared if each.op.startswith(f"{dialect}.")]
        if ops:
            here = [each for each in ops if each.difference != "missing"]
            lowered = sum(each.kind in ("row", "pattern", "device", "decomposed") for each in here)
            parts.append(f"{len(here)} of {len(ops)} ops of {dialect} are in the table, {lowered} of them lowered")
    return "; ".join(parts)
