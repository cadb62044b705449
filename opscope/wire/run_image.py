"""`opscope run-image --json`."""

from __future__ import annotations

from typing import Any

from opscope.simulator.host.tt_device_image import DeviceDescription
from opscope.wire.answer import Answer


class Ran(Answer):
    """A run of a device image."""

    card_type: str
    cycles: int
    device_ns: float
    results: dict[str, tuple[int, ...]]
    """Result -> its shape."""


PRINTS: Any = Ran | DeviceDescription
