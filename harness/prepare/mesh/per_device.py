"""The arrays of one value on the devices of a mesh."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class PerDevice:
    """The arrays of one value, one per device; equal ones are the same object."""

    buffers: tuple[Any, ...]

    def groups(self) -> dict[int, list[int]]:
        """Devices by their array, each group under its first device."""
        return grouped([(id(buffer),) for buffer in self.buffers])


def grouped(keys: Sequence[tuple[int, ...]]) -> dict[int, list[int]]:
    """Devices with equal keys, each group under its first device."""
    first: dict[tuple[int, ...], int] = {}
    groups: dict[int, list[int]] = {}
    for device, key in enumerate(keys):
        groups.setdefault(first.setdefault(key, device), []).append(device)
    return groups
