"""The table of hypotheses, in the order in which they are tried: the first that fits is told."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opscope.harness.explain.hypotheses.evidence import Evidence
from opscope.harness.explain.hypotheses.missing import clipped, constant, missing, stale
from opscope.harness.explain.hypotheses.moved import another_axis, another_entry, exchanged, shifted, transposed
from opscope.harness.explain.hypotheses.rounding import block_float, narrower, rounded_away, truncated
from opscope.harness.explain.hypotheses.wrong_values import factor, not_finite, offset, sign

HYPOTHESES: dict[str, Callable[[Evidence], str | None]] = {
    "not finite": not_finite,
    # Where the target computes in blocks, what they lose looks like other things too: zeros, one value everywhere.
    "block format": lambda evidence: block_float(evidence) if evidence.in_blocks else None,
    "missing": missing,
    "clipped": clipped,
    "constant": constant,
    "sign": sign,
    "transposed": transposed,
    "another entry": another_entry,
    "shifted": shifted,
    "stale": stale,
    "truncated": truncated,
    "rounded away": rounded_away,
    "factor": factor,
    "offset": offset,
    "narrower format": narrower,
    # These run the op again.
    "operands exchanged": exchanged,
    "another axis": another_axis,
    "stored in blocks": lambda evidence: None if evidence.in_blocks else block_float(evidence),
}
"""Name -> the function that tests it. Those that need no run of the op come first.

Each holds for every target but for what a card alone does: `block format` is of targets that compute in blocks; tiles
and faces, of which `missing`, `constant`, `stale` and `transposed` may speak, are of targets that hold tensors in them.
"""


def hypothesis(evidence: Evidence) -> str:
    """`name: sentence` of the first hypothesis that fits; empty if none does."""
    with np.errstate(all="ignore"):
        for name, fits in HYPOTHESES.items():
            if said := fits(evidence):
                return f"{name}: {said}"
    return ""
