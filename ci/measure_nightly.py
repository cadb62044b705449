"""What a night and a gate add to the sweeps that they start: `make measure ARGS=nightly`.

Measures the processor time of the whole command with its children, over five unchanged models. Every verdict is kept,
so the rest is collection, and what is measured here: publishing, comparing, the report, the summary.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from figures import Figure

BIN = Path(sys.executable).parent
MODELS = ("mnist_mlp", "resnet50", "bert_base", "vit_base", "gpt2_small")
MOST = 15.0
"""Seconds of processor time that a night may add to its sweep."""


def cpu(command: Sequence[str | Path], folder: Path, environment: dict[str, str]) -> float:
    """Runs a command, which must end with 0; returns the processor time of it and its children in seconds."""
    before = os.times()
    subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def figures(folder: Path) -> Iterator[Figure]:
    """The second of two equal nights, and a gate against it, each compared with the bare sweep."""
    environment = {**os.environ, "OPSCOPE_CACHE_DIR": str(folder / "cache")}
    place = folder / "nights"
    place.mkdir(parents=True)
    (place / "nightly.yaml").write_text(f"models: [{', '.join(MODELS)}]\n")
    night = [BIN / "opscope", "nightly", "nightly.yaml"]
    cpu(night, place, environment)
    models = [word for model in MODELS for word in ("--model", model)]
    bare = cpu([BIN / "pytest", *models, "--op-by-op", "-q", "--no-report"], place, environment)
    again = cpu(night, place, environment)
    gate = cpu([BIN / "opscope", "gate", "--config", "nightly.yaml", "--baseline", "nightly"], place, environment)
    for command, seconds in (("a night", again), ("a gate", gate)):
        value = f"{seconds:.1f} s of CPU, of the sweep alone {bare:.1f} s"
        name = f"{command} over five models, nothing changed: beside its sweep"
        yield Figure(name, value, f"<= {MOST:.0f} s more", seconds - bare <= MOST)
