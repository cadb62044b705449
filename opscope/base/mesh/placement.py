"""Which part of an array each device of a mesh has, from the text of XLA's sharding (`{devices=[2,1,4]<=[8] ...}`)."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_TILES = re.compile(
    r"devices=\[(?P<tiles>[\d,]+)\](?:<=\[(?P<iota>[\d,]+)\](?:T\((?P<order>[\d,]+)\))?|(?P<list>[\d,]+))"
    r"(?P<last> last_tile_dim_replicate| last_tile_dims=\{replicated\})?"
)


@dataclass(frozen=True)
class Placement:
    """Where the part of each device begins in the whole array. What reaches over the end is filled with zeros."""

    starts: tuple[tuple[int, ...], ...]
    """One per device."""
    shape: tuple[int, ...]
    """Shape of each part."""

    def part(self, whole: np.ndarray, device: int) -> np.ndarray:
        """A device's part of an array, as a new one."""
        return part_of(whole, self.starts[device], self.shape)

    def joined(self, parts: Sequence[np.ndarray], shape: Sequence[int]) -> np.ndarray:
        """The array of shape `shape` whose parts these are; of equal places the first device's part counts."""
        whole = np.empty(tuple(shape), parts[0].dtype)
        for device in reversed(range(len(parts))):
            place = zip(self.starts[device], self.shape, strict=True)
            inside = whole[tuple(slice(start, start + size) for start, size in place)]
            inside[...] = parts[device][tuple(slice(size) for size in inside.shape)]
        return whole


def part_of(whole: np.ndarray, start: Sequence[int], shape: Sequence[int]) -> np.ndarray:
    """The elements from `start` on, in an array of shape `shape`, with zeros where it reaches over the end."""
    inside = whole[tuple(slice(first, first + size) for first, size in zip(start, shape, strict=True))]
    part = np.zeros(tuple(shape), whole.dtype)
    part[tuple(slice(size) for size in inside.shape)] = inside
    return part


def placement(sharding: str, shape: Sequence[int], devices: int) -> Placement:
    """Reads a sharding of an array of shape `shape` over `devices` devices.

    Raises ValueError for one that is neither replicated nor tiles the array, such as one device's own.
    """
    if sharding.strip() in ("", "{}", "{replicated}"):
        return Placement(((0,) * len(shape),) * devices, tuple(shape))
    read = tiles_of(sharding)
    if read is None:
        raise ValueError(f"sharding: expected replicated or tiles of devices, got {sharding!r}")
    tiles, _, ids = read
    split = tiles[: len(shape)]
    complete = sorted(ids) == list(range(devices)) and math.prod(tiles) == devices
    if not complete or len(tiles) != len(shape) + ("last_tile" in sharding):
        raise ValueError(f"sharding: expected tiles over {devices} devices of {len(shape)} dims, got {sharding!r}")
    local = tuple(-(-size // parts) for size, parts in zip(shape, split, strict=True))
    starts: list[tuple[int, ...]] = [()] * devices
    for place, device in zip(np.ndindex(*tiles), ids, strict=True):
        starts[device] = tuple(at * size for at, size in zip(place, local, strict=False))
    return Placement(tuple(starts), local)


def tiles_of(sharding: str) -> tuple[list[int], list[int], list[int]] | None:
    """The number of parts along each dim, the sizes of the axes of devices that the text names (their count if it lists
    them), and the device of each part in row-major order; None for a sharding without tiles."""
    match = _TILES.fullmatch(sharding.strip().removeprefix("{").removesuffix("}"))
    if match is None:
        return None
    if match["list"]:
        ids = _numbers(match["list"])
        return _numbers(match["tiles"]), [len(ids)], ids
    sizes = _numbers(match["iota"])
    order = np.arange(math.prod(sizes)).reshape(sizes)
    order = order.transpose(_numbers(match["order"])) if match["order"] else order
    return _numbers(match["tiles"]), sizes, order.reshape(-1).tolist()


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]
