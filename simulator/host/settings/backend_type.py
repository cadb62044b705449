"""Kinds of back ends."""

from __future__ import annotations

from opscope.simulator.host.settings.named_value import NamedValue

REFUSED = {
    "Model": "it estimates and computes nothing; `opscope plan` prints estimates",
    "Versim": "it simulates the hardware's RTL, which is not public",
    "Emulation": "it needs an emulator of the chip",
}
"""Kinds without a meaning here, and why."""


class BackendType(NamedValue):
    """What runs a program. Here `Golden` and `Silicon` are the same simulated card."""

    Golden = 0
    Model = 1
    Versim = 2
    Silicon = 3
    NoBackend = 4
    Emulation = 5
    Invalid = 255
