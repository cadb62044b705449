"""How queues are spread over DRAM channels."""

from __future__ import annotations

from opscope.simulator.host.settings.named_value import NamedValue


class DRAMPlacementAlgorithm(NamedValue):
    """The order in which channels are taken."""

    ROUND_ROBIN = 0
    ROUND_ROBIN_FLIP_FLOP = 1
    GREATEST_CAPACITY = 2
    CLOSEST = 3
