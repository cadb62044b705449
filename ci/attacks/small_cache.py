"""A cache that command lines made from a few tiny models, and what a run on it says: for the attacks on caches."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci.attacks.attempt import Ending
from ci.attacks.called import UNEXPLAINED, call
from ci.sweep_command import sweep_command

SECONDS = 300
"""Limit of one run; it takes some five."""

WITH_A_FRAMEWORK = """
import jax.numpy as jnp


def model(x, y):
    return jnp.tanh(x @ y) + 1.0


example_inputs = (jnp.ones((4, 8)), jnp.ones((8, 4)))
"""

AS_A_FILE = """
func.func @main(%a: tensor<{n}x8xf32>, %b: tensor<{n}x8xf32>) -> tensor<{n}x8xf32> {{
  %0 = stablehlo.add %a, %b : tensor<{n}x8xf32>
  %1 = stablehlo.tanh %0 : tensor<{n}x8xf32>
  return %1 : tensor<{n}x8xf32>
}}
"""

FILES = 9
"""Models that are StableHLO files; one more is a Python file."""

OF_A_RUN = frozenset(
    {
        "digest",
        "run_id",
        "test_start_ts",
        "test_end_ts",
        "stages",
        "attempt",
        "artifact",
        "repro",
        "filepath",
        "full_test_name",
        "cached_from",
        "outcomes",
    }
)
"""Fields of a record that differ between equal runs."""


@dataclass(frozen=True)
class Said:
    """What one run ended with."""

    code: int | None
    """Exit code; None if it did not end."""
    output: str
    records: dict[str, Any]
    """The record of each op, without what differs between equal runs."""

    def beside(self, right: Said) -> Ending:
        """The ending of a run that should have said what `right` says."""
        if self.code is None:
            return "stuck"
        if any(word in self.output for word in UNEXPLAINED):
            return "traceback"
        return "no effect" if (self.records, self.code) == (right.records, right.code) else "silent"

    def sound(self) -> Said:
        """This run, which nothing has disturbed. Raises RuntimeError if it is not right all the same."""
        if self.code != 0:
            raise RuntimeError(f"the first run ended with {self.code}:\n{self.output}")
        return self


def write_models(folder: Path) -> list[str]:
    """Writes the models and returns the options that name them."""
    (folder / "python_model.py").write_text(WITH_A_FRAMEWORK)
    for n in range(1, FILES + 1):
        (folder / f"file{n}.mlir").write_text(AS_A_FILE.format(n=n))
    names = ["python_model.py", *(f"file{n}.mlir" for n in range(1, FILES + 1))]
    return [word for name in names for word in ("--model", str(folder / name))]


def run(models: list[str], cache: Path, run_dir: Path, *options: str, prefix: tuple[str, ...] = ()) -> Said:
    """Runs the ops of the models on a cache; the run folder is replaced."""
    shutil.rmtree(run_dir, ignore_errors=True)
    command = [*prefix, *sweep_command("", "--run-dir", str(run_dir), *models, *options)]
    environment = {"OPSCOPE_CACHE_DIR": str(cache), "OPENBLAS_NUM_THREADS": "1"}
    ended = call(run_dir.parent, command, command, SECONDS, environment)
    return Said(ended.code, ended.text, {} if ended.code is None else records_of(run_dir))


def records_of(run_dir: Path) -> dict[str, Any]:
    """The last record of each op of a run."""
    records = {}
    for path in sorted((run_dir / "journal").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            records[record["op_id"]] = {name: value for name, value in record.items() if name not in OF_A_RUN}
    return records


def files_by_kind(root: Path) -> dict[str, list[Path]]:
    """The files below a folder by kind: where they are, without keys and numbers, so that no list is kept here."""
    kinds: dict[str, list[Path]] = {}
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        parts = path.relative_to(root).parts
        words = [part for part in parts[:-1] if not _is_key(part)]
        name = f"*{path.suffix}" if _is_key(path.stem) else path.name
        kinds.setdefault("/".join([*words, name]), []).append(path)
    return kinds


def _is_key(word: str) -> bool:
    """Whether a name is a number or a digest, or the beginning of one, rather than a word."""
    return len(word) < 3 or any(character.isdigit() for character in word)
