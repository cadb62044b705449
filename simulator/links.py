"""What a collective moves over the links between chips, by the ring that its group forms, and how long that takes.

One chip's share: in a ring of n chips each step hands a part on to the next chip (Patarasuk and Yuan 2009). Rate and
latency of a link are the board's, measured ones with their source (compiler/target/boards). Assumed are that the chips
of a group are neighbours in a ring, that a collective uses one link of each pair of neighbours, and that transfers of
different collectives do not wait for each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from opscope.compiler.target.formats import FORMATS
from opscope.compiler.target.program import TensorDesc
from opscope.compiler.target.system_desc import Ethernet


@dataclass
class Links:
    """What one chip has received from others so far."""

    received: int = 0
    """Bytes of tensors as they are stored, without the padding of tiles."""
    steps: int = 0
    """How often it waited for a neighbour."""

    def take(self, kernel: str, chips: int, operand: TensorDesc, result: TensorDesc) -> None:
        """Adds a collective of a group of `chips`, from one chip's operand to its result."""
        if chips < 2:
            return
        rounds = chips - 1
        size = {
            "all_gather": rounds * _bytes(operand),
            "reduce_scatter": rounds * _bytes(result),
            "all_reduce": 2 * rounds * _bytes(operand) / chips,
            "all_to_all": rounds * _bytes(operand) / chips,
        }.get(kernel, _bytes(operand))
        self.received += math.ceil(size)
        self.steps += {"all_reduce": 2 * rounds, "collective_permute": 1, "collective_broadcast": 1}.get(kernel, rounds)

    def nanoseconds(self, link: Ethernet | None) -> float | None:
        """The time of the transfers, one after another; None for a board without links."""
        return None if link is None else self.received / link.gb_per_s + self.steps * link.hop_ns


def _bytes(desc: TensorDesc) -> float:
    return math.prod(desc.shape) * FORMATS[desc.data_format].datum_bytes()
