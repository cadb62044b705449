"""TT-Buda's compile depths as words of the ladder: `--until GENERATE_NETLIST`, and the depth that a record tells."""

from __future__ import annotations

from harness.backends.buda import DEPTHS, Buda
from harness.stages import Stage

NAMES = {Stage(word): word.upper().replace("-", "_") for word in DEPTHS} | {
    Stage.RUN: "BACKEND_GOLDEN_VERIFY",
    Stage.COMPARE: "FULL",
}
"""Stage -> depth."""
STAGES = {name: stage for stage, name in NAMES.items()}


def depth_of(backend: str, stage: Stage) -> str:
    """The depth that an op of the backend has reached with a stage; empty for a backend without depths."""
    return NAMES.get(stage, "") if backend == Buda.name else ""
