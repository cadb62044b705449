"""Records runs for the demo: `python -m ci.record_demo RUN_DIR...` writes reports/demo/recorded.jsonl.xz again.

It has no fields that a night changes or that follow from other fields. A run takes the place of the one of its backend,
board and format; the others stay, so one run of a compiler that is not installed everywhere can be recorded by itself.
"""

from __future__ import annotations

import json
import lzma
import sys
from collections.abc import Sequence
from pathlib import Path

from opscope.harness.record.store import load_run
from opscope.reports.demo.recorded import FILE
from opscope.reports.demo.story import ARRIVALS

ROW_WITHOUT = {"module", "sources", "golden", "provenance"}
TEST_WITHOUT = {
    *("run_id", "op_id", "op_name", "inputs", "outputs", "op_params", "uses", "locations", "models", "attempt"),
    *("artifact", "repro", "filepath", "full_test_name", "test_start_ts", "test_end_ts", "cached_from", "provenance"),
    *("config", "schema_version", "pipeline", "frontend", "framework_op_name", "left_behind"),
}
"""Fields of OpTest that each night sets again, that follow from the row, or that name paths of where it ran."""
OPTIONS = ("dtype", "seed", "inputs", "data_format", "math_fidelity", "fingerprint", "versions")
"""Options of a run that affect its results; the others are paths on the machine that it ran on."""


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


if __name__ == "__main__":
    record([Path(word) for word in sys.argv[1:]], tuple(ARRIVALS))
