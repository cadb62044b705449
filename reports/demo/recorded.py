"""Recorded runs in a small file, from which the demo replays its nights.

Each line is one op of one run: its manifest row and its OpTest. `python -m ci.record_demo` writes the file.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from opscope.harness.record.records import OpRow, OpTest, RunRecord

FILE = Path(__file__).with_name("recorded.jsonl.xz")
Line = dict[str, Any]


@dataclass(frozen=True)
class RecordedRun:
    """One recorded run: a backend on a board, over some models."""

    record: RunRecord
    module_ops: dict[str, int]
    structural: dict[str, int]
    ops: tuple[tuple[OpRow, Line], ...]
    """Manifest row of each op, and the fields of its OpTest that were kept."""

    @property
    def data_format(self) -> str:
        """The number format that was asked for; empty for the default."""
        return str(self.record.origin.options.get("data_format") or "")

    @property
    def name(self) -> str:
        """Its backend, board and format, as a part of names."""
        return "-".join(filter(None, (self.record.backend, self.record.arch, self.data_format)))


@cache
def recorded_runs() -> tuple[RecordedRun, ...]:
    """Reads the recorded runs."""
    return tuple(_runs(lzma.decompress(FILE.read_bytes()).decode().splitlines()))


def _runs(lines: Iterable[str]) -> Iterator[RecordedRun]:
    head: Line = {}
    ops: list[tuple[OpRow, Line]] = []
    for line in lines:
        entry = json.loads(line)
        if "run" in entry:
            if head:
                yield _run(head, ops)
            head, ops = entry["run"], []
        else:
            module = f"ops/{entry['row']['op_id']}.mlirbc"  # of an export that is long gone
            ops.append((OpRow.model_validate({"module": module, **entry["row"]}), entry["test"]))
    yield _run(head, ops)


def _run(head: Line, ops: Sequence[tuple[OpRow, Line]]) -> RecordedRun:
    origin = {"versions": head["versions"], "options": head["options"]}
    record = RunRecord.model_validate(
        {
            "run_id": "recorded",
            **{name: head[name] for name in ("models", "backend", "arch")},
            "started": "2026-01-01T00:00:00Z",
            "origin": origin,
        }
    )
    return RecordedRun(record, head["module_ops"], head["structural"], tuple(ops))


def test_of(recorded: Line, row: OpRow, **fields: Any) -> OpTest:
    """Builds an OpTest from its recorded fields and its row; `fields` set the rest."""
    return OpTest.model_validate(
        {
            **recorded,
            **{name: getattr(row, name) for name in ("op_id", "op_name", "inputs", "outputs", "op_params", "frontend")},
            "uses": len(row.uses),
            "locations": tuple(dict.fromkeys(use.location for use in row.uses if use.location)),
            "models": tuple(dict.fromkeys(use.model for use in row.uses)),
            "model_name": row.uses[0].model,
            **fields,
        }
    )
