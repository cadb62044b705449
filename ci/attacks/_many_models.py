"""Many hostile model files in one run or one process, beside a good model that must keep its verdict."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ci.attacks.attempt import Attempt, Ending
from ci.attacks.called import UNEXPLAINED
from ci.sweep_command import sweep_command

BIN = Path(sys.executable).parent
PREPARE_SECONDS = 20
"""Limit of each model; a file that exceeds it is ended, and that is its row."""
CALLER_SECONDS = 60
"""What a run may take besides its models' limits."""

GOOD = """func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>) -> tensor<8x4xf32> {
  %c = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %1 = stablehlo.broadcast_in_dim %c, dims = [1] : (tensor<4xf32>) -> tensor<8x4xf32>
  %2 = stablehlo.add %0, %1 : tensor<8x4xf32>
  %3 = stablehlo.tanh %2 : tensor<8x4xf32>
  return %3 : tensor<8x4xf32>
}
"""
GOOD_OPS = 4
"""Unique ops of GOOD."""

SPLIT = """
import sys
from opscope import split
for path in sys.argv[1:]:
    try:
        words = f"{len(split(path, timeout=%d))} ops"
    except ValueError as error:
        words = " ".join(str(error).split())
    print(repr(words), flush=True)
"""


def environment(folder: Path) -> dict[str, str]:
    """The environment of a caller whose caches are in `folder`."""
    return {**os.environ, "OPSCOPE_CACHE_DIR": str(folder / "cache")}


def run_models(
    made: Sequence[tuple[str, Path]],
    folder: Path,
    models: Sequence[str] | None = None,
    seconds: int = PREPARE_SECONDS,
) -> Iterator[Attempt]:
    """One run over all files and a good model; `models` names them where no glob does. `seconds`: limit of each."""
    folder.mkdir()
    good = folder / "good.mlir"
    good.write_text(GOOD)
    named = models if models is not None else [f"{made[0][1].parent}/*{made[0][1].suffix}"]
    words = [word for name in (*named, str(good)) for word in ("--model", name)]
    run = folder / "run"
    options_of_all = f"--backend xla --prepare-timeout {seconds} --op-timeout 20 --reruns 0 --repro-size 0"
    command = sweep_command(options_of_all, *words, "--run-dir", str(run))
    done = _ended(command, folder, seconds * len(made))
    if done is None:
        yield from (Attempt(kind, path.name, "stuck", "no end within its limit") for kind, path in made)
        return
    output = done.stdout + done.stderr
    shown = subprocess.run([BIN / "opscope", "show", run, "--json"], cwd=folder, text=True, capture_output=True)
    if done.returncode not in (0, 1) or shown.returncode or any(word in output for word in UNEXPLAINED):
        yield from (Attempt(kind, path.name, "traceback", output[-3000:]) for kind, path in made)
        return
    page = json.loads(shown.stdout)
    spoiled = _spoiled(page)
    # A file of several public functions is a model for each: FILE.FUNCTION.
    failed = {failure["model"].partition(".")[0]: failure["error"] for failure in page["models"]["failed"]}
    ran = {model.partition(".")[0] for model in page["run"]["models"]}
    for kind, path in made:
        if spoiled:
            yield Attempt(kind, path.name, "spoiled", spoiled)
        elif path.stem in failed:
            error = failed[path.stem]
            yield Attempt(kind, path.name, "noticed" if error and "\n" not in error else "traceback", error)
        else:
            yield Attempt(kind, path.name, "no effect" if path.stem in ran else "silent", "neither a row nor a model")


def _ended(command: Sequence[str | Path], folder: Path, seconds: int) -> subprocess.CompletedProcess[str] | None:
    """How a command ended whose models may take so long; None if it was ended for being stuck."""
    try:
        return subprocess.run(
            command,
            cwd=folder,
            env=environment(folder),
            text=True,
            capture_output=True,
            timeout=CALLER_SECONDS + seconds,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        return None


def _spoiled(page: dict[str, Any]) -> str:
    """What is wrong with the good model; empty if nothing is."""
    tests = [test for test in page["op_tests"] if "good" in test["models"]]
    passed = sum(test["status"] == "success" for test in tests)
    return "" if passed == GOOD_OPS else f"the good model has {passed} of {GOOD_OPS} ops that pass"


def split_models(made: Sequence[tuple[str, Path]], folder: Path) -> Iterator[Attempt]:
    """One process that splits all files by the Python API."""
    folder.mkdir()
    command = [sys.executable, "-c", SPLIT % PREPARE_SECONDS, *(str(path) for _, path in made)]
    done = _ended(command, folder, PREPARE_SECONDS * len(made))
    if done is None:
        yield from (Attempt(kind, path.name, "stuck", "no end within its limit") for kind, path in made)
        return
    lines = done.stdout.splitlines()
    for number, (kind, path) in enumerate(made):
        if number >= len(lines):
            yield Attempt(kind, path.name, "traceback", f"exit code {done.returncode}: {done.stderr[-2000:]}")
            continue
        ending: Ending = "no effect" if lines[number].endswith(" ops'") else "noticed"
        yield Attempt(kind, path.name, ending, lines[number])
