"""A run folder of any size, made from a run of the demo: what publishing, reports and databases are measured with.

`python ci/big_run.py INTO --op-tests 100000 --models 60` copies the ops of the demo's last night under other ids until
there are enough, and distributes them over the given number of models; one op in 50 of each copy fails. Runs with two
different `--turn`s differ in a tenth of these failures. No op is run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import xxhash

BIN = Path(sys.executable).parent
NIGHT = "2026-11-20"
LANE = "reference-n150"
NAME = "a-large-night"
Line = dict[str, Any]


def replay(folder: Path) -> Path:
    """Makes the run folder of the last night of the demo's largest lane below `folder` and returns it."""
    command = [
        BIN / "opscope",
        "demo",
        "--nights",
        "1",
        "--until",
        NIGHT,
        "--runs",
        folder / "runs",
        "--to",
        f"sqlite:///{folder}/demo.sqlite",
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return next((folder / "runs").glob(f"*-{LANE}"))


def enlarge(source: Path, into: Path, op_tests: int, models: int, night: str = NIGHT, turn: int | None = None) -> None:
    """Writes a run of `op_tests` unique ops in `models` models to `into`, as copies of those of the run `source`.

    `turn`: which tenth of the ops that would fail does not.
    """
    header, *rows = map(_record, (source / "manifest.jsonl").read_text().splitlines())
    lines = (source / "journal" / "demo.jsonl").read_text().splitlines()
    tests = {test["op_id"]: test for test in map(_record, lines)}
    pairs = [(row, tests[row["op_id"]]) for row in rows if row["op_id"] in tests]
    order = {model: position for position, model in enumerate(header["models"])}
    names = [f"model_{number:02}" for number in range(models)]
    module_ops = Counter(dict.fromkeys(names, 0))
    (into / "journal").mkdir(parents=True, exist_ok=True)
    with (into / "rows").open("w") as manifest, (into / "journal" / "copied.jsonl").open("w") as journal:
        for number in range(op_tests):
            copy, position = divmod(number, len(pairs))
            row, test = pairs[position]
            renamed = {model: names[(index + len(order) * copy) % models] for model, index in order.items()}
            row, test = _copied(row, test, copy, renamed, turn)
            module_ops.update(use["model"] for use in row["uses"])
            manifest.write(_line(row))
            journal.write(_line(test))
    new_header = {
        **header,
        "models": names,
        "export_dirs": [""] * models,
        "module_ops": module_ops,
        "structural": dict.fromkeys(names, 0),
    }
    (into / "manifest.jsonl").write_text(_line(new_header) + (into / "rows").read_text())
    (into / "rows").unlink()
    _write_origin(source, into, names, night)


def _write_origin(source: Path, into: Path, models: list[str], night: str) -> None:
    """Writes where the run came from, and the night that it belongs to."""
    run = _record((source / "run.json").read_text())
    started = {"started": f"{night}T02:00:00Z", "ended": f"{night}T05:00:00Z"}
    (into / "run.json").write_text(_line({**run, **started, "run_id": into.name, "models": models}))
    member = _record((source / "night.json").read_text())
    member["night"] |= {"name": NAME, "started": started["started"], "models": models}
    (into / "night.json").write_text(_line(member))


def _copied(row: Line, test: Line, copy: int, renamed: dict[str, str], turn: int | None) -> tuple[Line, Line]:
    old = row["op_id"]
    new = hashlib.sha256(f"{copy} {old}".encode()).hexdigest()[:16]
    uses = [{**use, "model": renamed[use["model"]], "path": f"{use['path']}.{copy}"} for use in row["uses"]]
    new_test = {name: value.replace(old, new) if isinstance(value, str) else value for name, value in test.items()} | {
        "models": list(dict.fromkeys(use["model"] for use in uses)),
        "model_name": uses[0]["model"],
    }
    drawn, rest = divmod(int(new[:4], 16), 50)
    if rest == 0 and (turn is None or drawn % 10 != turn):
        error = f"ttir-to-ttnn: no kernel of kind {copy % 23} for this op"
        new_test |= {
            "status": "compile_failed",
            "success": False,
            "failed_stage": "ttir-to-ttnn",
            "error_message": error,
            "error_signature": hashlib.sha256(error.encode()).hexdigest()[:16],
            "pcc": None,
            "results": [],
            "stage_reached": "stablehlo-to-ttir",
            "cycles": None,
            "device_ns": None,
            "ran_on": "none",
        }
    return {**row, "op_id": new, "uses": uses}, new_test


def _record(line: str) -> Line:
    """A stored record without what says whether it is damaged."""
    return {name: value for name, value in json.loads(line).items() if name not in ("digest", "lines")}


def _line(record: Line) -> str:
    """The line of a record, with its digest as opscope writes it (docs/architecture.md)."""
    body = json.dumps(record, separators=(",", ":"))[1:]
    return f'{{"digest":"{xxhash.xxh3_128_hexdigest(body.encode())}",{body}\n'


def make(into: Path, op_tests: int, models: int, night: str = NIGHT, turn: int | None = None) -> None:
    """Replays the demo and enlarges its last night to `into`; replaces the folder if it exists."""
    shutil.rmtree(into, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        enlarge(replay(Path(scratch)), into, op_tests, models, night, turn)


def main() -> int:
    """Makes the run folder that the options describe."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("into", type=Path)
    parser.add_argument("--op-tests", type=int, default=100_000)
    parser.add_argument("--models", type=int, default=60)
    parser.add_argument("--night", default=NIGHT, help="the date of its start")
    parser.add_argument("--turn", type=int, choices=range(10), help="the tenth of its failures that it does not have")
    options = parser.parse_args()
    make(options.into, options.op_tests, options.models, options.night, options.turn)
    return 0


if __name__ == "__main__":
    sys.exit(main())
