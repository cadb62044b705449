"""Math fidelity."""

from __future__ import annotations

from opscope.simulator.host.settings.named_value import NamedValue


class MathFidelity(NamedValue):
    """How many phases the matrix unit takes for a product: each adds bits of the operands."""

    LoFi = 0
    HiFi2 = 2
    HiFi3 = 3
    HiFi4 = 4
    Invalid = 255
