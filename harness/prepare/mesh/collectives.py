"""What devices compute together, by the specification's formulas: each device's array from those of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

COLLECTIVES = frozenset(
    f"stablehlo.{name}"
    for name in (
        "all_gather",
        "all_reduce",
        "all_to_all",
        "collective_broadcast",
        "collective_permute",
        "reduce_scatter",
        "partition_id",
        "replica_id",
    )
)
"""Ops whose result depends on which device computes them, or on the other devices' arrays."""
JOINS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "stablehlo.add": np.add,
    "stablehlo.multiply": np.multiply,
    "stablehlo.maximum": np.maximum,
    "stablehlo.minimum": np.minimum,
    "stablehlo.and": np.bitwise_and,
    "stablehlo.or": np.bitwise_or,
    "stablehlo.xor": np.bitwise_xor,
}
"""The body of a reduction -> what joins two arrays. On booleans `add` is `or` and `multiply` is `and`, as there."""


@dataclass(frozen=True)
class Collective:
    """One op of several devices."""

    name: str
    """Without its dialect: `all_reduce`."""
    groups: tuple[tuple[int, ...], ...]
    """Devices that exchange arrays, without the empty places of short groups; of a permutation pairs of source and
    target."""
    devices: int
    partitions: int
    dim: int = 0
    """The dim along which arrays are joined or split."""
    other_dim: int = 0
    """The dim along which `all_to_all` joins."""
    body: str = ""
    """The op that joins two values: `stablehlo.add`; empty if arrays are only moved."""

    def members(self, device: int) -> tuple[int, ...]:
        """The group of a device. Raises ValueError if it is in none."""
        group = self._group(device)
        if group is None:
            raise ValueError(f"device {device} is in none of the groups {list(map(list, self.groups))}")
        return group

    def _group(self, device: int) -> tuple[int, ...] | None:
        return next((group for group in self.groups if device in group), None)

    def results(self, operands: Sequence[np.ndarray | None]) -> list[np.ndarray]:
        """Each device's result from all devices' operands (None where the op has none). Raises ValueError where the
        specification defines no result."""
        if self.name in ("partition_id", "replica_id"):
            ids = (divmod(device, self.partitions) for device in range(self.devices))
            return [np.array(part if self.name == "partition_id" else replica, np.uint32) for replica, part in ids]
        arrays = [operand for operand in operands if operand is not None]
        if len(arrays) != self.devices:
            raise ValueError(f"expected the arrays of {self.devices} devices, got {len(arrays)}")
        of_device: Callable[[int, list[np.ndarray]], np.ndarray] = getattr(self, f"_{self.name}")
        return [of_device(device, arrays) for device in range(self.devices)]

    def parts(self, device: int, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """What a reduction joins for a device, in the order of its group."""
        group = self.members(device)
        if self.name != "reduce_scatter":
            return [arrays[member] for member in group]
        place = group.index(device)
        return [_shares(arrays[member], len(group), self.dim)[place] for member in group]

    def _all_reduce(self, device: int, arrays: list[np.ndarray]) -> np.ndarray:
        return folded(self.parts(device, arrays), self.body)

    _reduce_scatter = _all_reduce

    def _all_gather(self, device: int, arrays: list[np.ndarray]) -> np.ndarray:
        return np.concatenate([arrays[member] for member in self.members(device)], self.dim)

    def _all_to_all(self, device: int, arrays: list[np.ndarray]) -> np.ndarray:
        group = self.members(device)
        place = group.index(device)
        return np.concatenate(
            [_shares(arrays[member], len(group), self.dim)[place] for member in group], self.other_dim
        )

    def _collective_broadcast(self, device: int, arrays: list[np.ndarray]) -> np.ndarray:
        group = self._group(device)
        return np.zeros_like(arrays[device]) if group is None else arrays[group[0]]

    def _collective_permute(self, device: int, arrays: list[np.ndarray]) -> np.ndarray:
        source = next((source for source, target in self.groups if target == device), None)
        return np.zeros_like(arrays[device]) if source is None else arrays[source]


def folded(parts: Sequence[np.ndarray], body: str) -> np.ndarray:
    """All parts joined by a body; floats narrower than 32 bits in float32, rounded once. Raises ValueError for a body
    that is not in JOINS."""
    own = parts[0].dtype
    if body not in JOINS:
        raise ValueError(f"a reduction by {body}: there is no formula for it here")
    wide = np.dtype(np.float32) if own.itemsize < 4 and own.kind in "fV" else own
    total = parts[0].astype(wide)
    for part in parts[1:]:
        total = JOINS[body](total, part.astype(wide))
    return total.astype(own)


def _shares(array: np.ndarray, count: int, dim: int) -> list[np.ndarray]:
    """Equal shares along a dim. Raises ValueError if there are none."""
    if array.shape[dim] % count:
        raise ValueError(f"dim {dim} of {array.shape[dim]} does not fall into {count} equal shares")
    return np.split(array, count, dim)
