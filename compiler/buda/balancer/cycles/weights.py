"""Chooses constants: each op has sets of weights, and the most specific one whose conditions hold applies."""

from __future__ import annotations

from collections.abc import Mapping

from opscope.compiler.buda.balancer.cycles.weights_grayskull import GRAYSKULL
from opscope.compiler.buda.balancer.cycles.weights_wormhole_b0 import WORMHOLE_B0

Weights = tuple[float, ...]
"""For most ops (per ublock, per tile); for others see the formula."""
WeightSets = Mapping[str, Mapping[str, Weights]]
"""Op -> conditions joined by `/` (empty: always) -> weights; later sets are more specific."""

BY_ARCH: Mapping[str, WeightSets] = {"grayskull": GRAYSKULL, "wormhole_b0": WORMHOLE_B0, "blackhole": WORMHOLE_B0}
"""Blackhole's constants in TT-Buda are a copy of Wormhole's and were never measured."""


def weights(arch: str, op: str, conditions: frozenset[str]) -> Weights:
    """Returns the weights of `op` under `conditions`; an op that was never measured counts as a copy (`nop`)."""
    sets = BY_ARCH[arch].get(op) or BY_ARCH[arch]["nop"]
    for key in reversed(list(sets)):
        if conditions.issuperset(part for part in key.split("/") if part):
            return sets[key]
    raise KeyError(f"{arch}: {op} has no set of weights that always applies")
