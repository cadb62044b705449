"""Recorded runs in a small file, from which the demo replays its nights.

`python -m opscope.reports.demo.recorded RUN_DIR...` writes recorded.jsonl.xz again, without the fields that a night
changes or that follow from other fields. A run takes the place of the one of its backend, board and format; the others
stay, so one run of a compiler that is not installed everywhere can be recorded by itself. Each line is one op of one
run: its manifest row and its OpTest.
"""

from __future__ import annotations

import json
import lzma
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from opscope.harness.record.records import OpRow, OpTest, RunRecord
from opscope.harness.record.store import load_run

FILE = Path(__file__).with_name("recorded.jsonl.xz")
ROW_WITHOUT = {"module", "sources", "golden", "provenance"}
TEST_WITHOUT = {
    *("run_id", "op_id", "op_name", "inputs", "outputs", "op_params", "uses", "locations", "models", "attempt"),
    *("artifact", "repro", "filepath", "full_test_name", "test_start_ts", "test_end_ts", "cached_from", "provenance"),
    *("config", "schema_version", "pipeline", "frontend", "framework_op_name", "left_behind"),
}
"""Fields of OpTest that each night sets again, that follow from the row, or that name paths of where it ran."""
OPTIONS = ("dtype", "seed", "inputs", "data_format", "math_fidelity", "fingerprint", "versions")
"""Options of a run that affect its results; the others are paths on the machine that it ran on."""
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


def record(run_dirs: Sequence[Path], models: Sequence[str]) -> None:
    """Writes runs to FILE, with only `models` of each."""
    of_run: dict[tuple[str, str, str], list[str]] = {}
    lines: list[str] = []
    for line in lzma.decompress(FILE.read_bytes()).decode().splitlines():
        entry = json.loads(line)
        if "run" in entry:
            head = entry["run"]
            key = head["backend"], head["arch"], head["options"].get("data_format") or ""
            lines = of_run.setdefault(key, [])
        lines.append(line)
    for run_dir in run_dirs:
        run = load_run(run_dir)
        models_of_run = [model for model in run.record.models if model in models]
        options = run.record.origin.options
        lines = of_run[run.record.backend, run.record.arch, options.get("data_format") or ""] = []
        head = {
            "backend": run.record.backend,
            "arch": run.record.arch,
            "models": models_of_run,
            "versions": run.record.origin.versions,
            "options": {name: options[name] for name in OPTIONS if name in options},
            "module_ops": {m: run.header.module_ops[m] - run.header.dead.get(m, 0) for m in models_of_run},
            "structural": {m: run.header.structural[m] for m in models_of_run},
        }
        lines.append(json.dumps({"run": head}))
        tests = {test.op_id: test for test in run.tests}
        for row in run.rows:
            uses = tuple(use for use in row.uses if use.model in models_of_run)
            if uses:
                row_fields = row.model_copy(update={"uses": uses}).model_dump(
                    exclude_defaults=True, exclude=ROW_WITHOUT
                )
                test = tests[row.op_id].model_dump(mode="json", exclude_defaults=True, exclude=TEST_WITHOUT)
                lines.append(json.dumps({"row": row_fields, "test": test}, separators=(",", ":")))
    text = "\n".join(line for lines in of_run.values() for line in lines)
    FILE.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


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


if __name__ == "__main__":
    from opscope.reports.demo.story import ARRIVALS

    record([Path(word) for word in sys.argv[1:]], tuple(ARRIVALS))
