"""TT-Buda's compile depths as stages of the ladder, for `--until GENERATE_NETLIST` and a record's `compile_depth`."""

from __future__ import annotations

from opscope.harness.record.stages import Stage

DEPTHS = (
    "init-compile",
    "generate-initial-graph",
    "post-initial-graph-pass",
    "consteval-graph",
    "post-pattern-matcher",
    "optimized-graph",
    "autograd",
    "post-autograd-pass",
    "pre-lowering-pass",
    "buda-graph-pre-placer",
    "balancer-pass",
    "pre-netlist-pass",
    "generate-netlist",
)
"""Stages before `run`; compiler/depths.py has the steps."""
NAMES = {Stage(word): word.upper().replace("-", "_") for word in DEPTHS} | {
    Stage.RUN: "BACKEND_GOLDEN_VERIFY",
    Stage.COMPARE: "FULL",
}
"""Stage -> depth."""
STAGES = {name: stage for stage, name in NAMES.items()}
