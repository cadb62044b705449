"""The constants of each arch, and which of them were never measured on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from opscope.simulator.timing.constants import Constants, Sparse
from opscope.simulator.timing.constants_grayskull import GRAYSKULL
from opscope.simulator.timing.constants_wormhole_b0 import WORMHOLE_B0


def _filled(own: Constants, other: Constants) -> Constants:
    """Returns an arch's constants, with Wormhole's for what nobody published of it.

    A sparse product's math takes twice the cycles, as a dense one's: 32 instead of 16 for a product of tiles (tt-buda,
    pybuda/op/eval/buda/matmul.py).
    """

    def slower(entry: Sparse) -> Sparse:
        return replace(entry, column=2 * entry.column, phase=2 * entry.phase)

    depthwise = {"depthwise": replace(other.products["depthwise"], phase=2 * other.products["depthwise"].phase)}
    return Constants(
        own.data,
        {**other.kernels, **own.kernels},
        {**depthwise, **own.products},
        own.sparse or {width: slower(entry) for width, entry in other.sparse.items()},
        own.reduce or other.reduce,
        own.reduce_z or other.reduce_z,
    )


CONSTANTS: Mapping[str, Constants] = {
    "wormhole_b0": WORMHOLE_B0,
    "grayskull": _filled(GRAYSKULL, WORMHOLE_B0),
    # Nobody published Blackhole's: Wormhole's, whose instructions take as many cycles (tt-isa-documentation).
    "blackhole": WORMHOLE_B0,
}
