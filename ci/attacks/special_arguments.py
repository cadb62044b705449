"""Every FILE, folder and database that a command or a pytest option takes, with something else in its place.

A pipe, a device, a folder, a link to itself, garbage, an empty file, nothing at all; for options that write, what
cannot be written. Each must end in one line and exit code 2 (4 from pytest), or do what was asked.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

from ci.attacks._many_models import GOOD
from ci.attacks.attempt import Attempt
from ci.attacks.called import Called, judged, opscope, pytest
from ci.attacks.damage import put_in_place

SAMPLE, FULL = 4, 500
SECONDS = 60

READ = (
    "compile {}",
    "opt {} -p stablehlo-to-ttir",
    "plan {}.mlir",
    "plan {}.yaml",
    "netlist {}",
    "show {}",
    "show mnist_mlp --owners {}",
    "show run --alone {}",
    "costs {}",
    "export {} --format csv -o -",
    "limitations check {}",
    "limitations update {}",
    "limitations list --limitations {}",
    "repro OP --run {} --out out",
    "reduce OP --run {} --out out",
    "probe OP --run {}",
    "replay {}",
    "reduce {}",
    "bisect {} --good HEAD~1 --bad HEAD",
    "nightly {} --dry-run",
    "gate --config {}",
    "merge {} --into out",
    "publish {} --to sqlite:///d.sqlite",
    "publish run --to sqlite:///d.sqlite --night {}",
    "report {}",
    "diff run {}",
    "diff {} run",
    "unblock {}",
    "unblock run --owners {}",
    "db owners {} --db sqlite:///d.sqlite",
    "dashboard restore {} --home home",
    "db stats --db sqlite:///{}",
    "db upgrade --db sqlite:///{}",
    "db prune --keep 1d --db sqlite:///{}",
    f"db alias {'0' * 16} {'1' * 16} --db sqlite:///{{}}",
    "db owners owners.yaml --db sqlite:///{}",
    "sql model_coverage --db sqlite:///{}",
    "sql 'SELECT 1' --db sqlite:///{}",
    "status --db sqlite:///{}",
    "diff --db sqlite:///{}",
    "unblock --db sqlite:///{}",
    "readiness m --db sqlite:///{}",
    "report --db sqlite:///{}",
    "show mnist_mlp --db sqlite:///{}",
    "export --format csv -o - --db sqlite:///{}",
    "publish run --to sqlite:///{}",
    "pytest --model {}.mlir --op-by-op",
    "pytest --model {}.onnx --op-by-op",
    "pytest --model {}.py --op-by-op",
    "pytest --model {}.pb --op-by-op",
    "pytest --model {}.tflite --op-by-op",
    "pytest --model good.mlir --op-by-op --limitations {}",
    "pytest --model good.mlir --op-by-op --backend {}.yaml",
    "pytest --model good.mlir --op-by-op --backend {}.py",
    "pytest --model good.mlir --op-by-op --inputs {}.npz",
    "pytest --model good.mlir --op-by-op --weights {}.safetensors",
    "pytest --resume {}",
    "pytest --model good.mlir --op-by-op --shard 1/2 --shard-costs {}",
    "pytest --model good.mlir --op-by-op --budget 1h --budget-history {}",
    "pytest --model good.mlir --op-by-op --publish=sqlite:///{}",
)
"""Commands that read `{}`; OP is an op of the run `run`."""
WRITTEN = (
    "compile good.mlir -o {}",
    "compile good.mlir --dump-ir {}",
    "opt good.mlir -p stablehlo-to-ttir -o {}",
    "plan matmul:64x64x64 --netlist {}",
    "plan matmul:64x64x64 --picture {}",
    "plan matmul:64x64x64 -o {}",
    "plan matmul:64x64x64 --backend-output {}",
    "export run --format csv -o {}",
    "export run --format parquet -o {}",
    "report run -o {}",
    "merge run --into {}",
    "repro OP --run run --out {}",
    "dashboard backup {} --home home",
    "pytest --model good.mlir --op-by-op --run-dir {}",
    "gate --config good.yaml --summary {}",
)
"""Commands that write to `{}`."""
KINDS = (
    "a pipe",
    "/dev/zero",
    "a folder",
    "a link to itself",
    "garbage",
    "an empty file",
    "nothing",
    "no rights",
    "a name that is no text",
)
OUTPUTS = ("a link to itself", "/dev/full", "below a file", "garbage", "a folder")
"""A pipe is a place to write to: somebody may read from it."""
MAY_WORK = ("nothing", "a folder", "an empty file", "garbage", "a name that is no text")
"""What a command may take: a new database, a folder to write to, a file to replace."""


def _called(folder: Path, words: list[str]) -> Called:
    """Runs `opscope WORDS` or `pytest WORDS`."""
    environment = {"OPSCOPE_CACHE_DIR": str(folder.parent / "cache"), "COLUMNS": "400"}
    if words[0] != "pytest":
        return opscope(folder, *words, seconds=SECONDS, environment=environment)
    report = () if "--publish" in words[-1] else ("--no-report",)
    backend = () if "--backend" in words else ("--backend", "null")
    return pytest(folder, *words[1:], *report, *backend, seconds=SECONDS, environment=environment)


def attack(count: int, seed: int, folder: Path) -> Iterator[Attempt]:
    """Every command with every kind, in a drawn order."""
    good = folder / "good"
    good.mkdir()
    (good / "good.mlir").write_text(GOOD)
    (good / "owners.yaml").write_text("owners: []\n")
    (good / "good.yaml").write_text("models: [good.mlir]\nbackends: ['null']\n")
    _called(good, ["pytest", "--model", "good.mlir", "--op-by-op", "--run-dir", "run"])
    row = (good / "run" / "manifest.jsonl").read_text().splitlines()[1]
    op_id = json.loads(row[row.index("{") :])["op_id"]
    every = [(words, kind, True) for words in READ for kind in KINDS if kind != "no rights" or os.geteuid()]
    every += [(words, kind, False) for words in WRITTEN for kind in OUTPUTS]
    random.Random(seed).shuffle(every)
    for number in range(count):
        text, kind, read = every[number % len(every)]
        place = folder / str(number)
        shutil.copytree(good, place)
        word = next(word for word in text.split() if "{}" in word)
        suffix = word.rpartition("{}")[2]
        path = put_in_place(place / f"special{suffix}", kind)
        words = text.replace("OP", op_id).replace(f"{{}}{suffix}", str(path))
        called = _called(place, _split(words))
        silent = ""
        if read and called.code == 0 and kind not in MAY_WORK:
            silent = f"exit 0: {called.text[-300:]!r}"
        elif called.code == 2 and words.split()[0] != "pytest" and called.text.count("\n") > 1:
            silent = f"more than a line: {called.text[-600:]!r}"
        yield judged("read" if read else "written", f"{text}: {kind}", [called], silent=silent)
        shutil.rmtree(place, ignore_errors=True)


def _split(text: str) -> list[str]:
    """The words of a command, those in single quotes as one."""
    parts = text.split("'")
    return [word for index, part in enumerate(parts) for word in ([part] if index % 2 else part.split())]
