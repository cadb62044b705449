"""TT-Buda's compile depths as words of the ladder: `--until GENERATE_NETLIST`, and the depth that a record tells."""

from __future__ import annotations

from opscope.harness.record.stages import Stage

BACKEND = "buda"
"""The backend that has depths."""
DEPTHS = (
    "init-compile", "generate-initial-graph", "post-initial-graph-pass", "consteval-graph", "post-pattern-matcher",
    "optimized-graph", "autograd", "post-autograd-pass", "pre-lowering-pass", "buda-graph-pre-placer", "balancer-pass",
    "pre-netlist-pass", "generate-netlist",
)  # fmt: skip
"""Its stages before `run`; compiler/depths.py has the steps."""
NAMES = {Stage(word): word.upper().replace("-", "_") for word in DEPTHS} | {
    Stage.RUN: "BACKEND_GOLDEN_VERIFY",
    Stage.COMPARE: "FULL",
}
"""Stage -> depth."""
STAGES = {name: stage for stage, name in NAMES.items()}


def depth_of(backend: str, stage: Stage) -> str:
    """The depth that an op of the backend has reached with a stage; empty for a backend without depths."""
    return NAMES.get(stage, "") if backend == BACKEND else ""
