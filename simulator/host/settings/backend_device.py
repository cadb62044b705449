"""Architectures."""

from __future__ import annotations

from opscope.simulator.host.errors import NoMeaningHere
from opscope.simulator.host.settings.named_value import NamedValue


class BackendDevice(NamedValue):
    """An architecture."""

    Grayskull = 0
    Wormhole = 1
    Wormhole_B0 = 2
    Blackhole = 3
    Invalid = 255

    @property
    def arch(self) -> str:
        """The compiler's name of it. Raises NoMeaningHere for those that it does not know."""
        if self in (BackendDevice.Wormhole, BackendDevice.Invalid):
            raise NoMeaningHere(
                f"arch: expected Grayskull, Wormhole_B0 or Blackhole, got {self.name}, of which no board is described"
            )
        return self.name.lower()
