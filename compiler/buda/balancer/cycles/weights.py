"""Which constants apply: a set of weights per op, the most special one whose conditions hold."""

from __future__ import annotations

from collections.abc import Mapping

from opscope.compiler.buda.balancer.cycles.weights_grayskull import GRAYSKULL
from opscope.compiler.buda.balancer.cycles.weights_wormhole_b0 import WORMHOLE_B0

Weights = tuple[float, ...]
"""Of most ops (per ublock, per tile); of others see the formula."""
WeightSets = Mapping[str, Mapping[str, Weights]]
"""Op -> conditions joined by `/` (empty: always) -> weights; later sets are more special."""

BY_ARCH: Mapping[str, WeightSets] = {
    "grayskull": GRAYSKULL,
    "wormhole_b0": WORMHOLE_B0,
    "blackhole": WORMHOLE_B0,
}
"""Blackhole's constants in TT-Buda are a copy of Wormhole's: nobody measured them."""


def weights(arch: str, op: str, conditions: frozenset[str]) -> Weights:
    """Weights of `op` under `conditions`; an op that nobody measured counts as a copy (`nop`)."""
    sets = BY_ARCH[arch].get(op) or BY_ARCH[arch]["nop"]
    for key in reversed(list(sets)):
        if conditions.issuperset(part for part in key.split("/") if part):
            return sets[key]
    raise KeyError(f"{arch}: {op} has no set of weights that always applies")
