"""A mesh of chips: each chip runs the same program in a thread of its own, and collectives wait for all of them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import numpy as np

from opscope.simulator.errors import MeshError
from opscope.simulator.links import Links

END = "end"
"""The place of a chip whose program has ended."""


class Mesh:
    """Exchanges images between the threads of `chips` chips. A single chip never waits."""

    def __init__(self, chips: int, seconds: float = 600.0) -> None:
        self.chips = chips
        self._barrier = threading.Barrier(chips, timeout=seconds)
        self._images: list[tuple[str, np.ndarray | None]] = [("", None)] * chips
        """Per chip, the place at which it waits and its image."""

    def gather(self, chip: int, place: str, image: np.ndarray | None) -> list[np.ndarray | None]:
        """Waits for all chips and returns their images. Raises MeshError if they are not at the same place."""
        if self.chips == 1:
            return [image]
        self._images[chip] = (place, image)
        try:
            self._barrier.wait()
            images = list(self._images)
            self._barrier.wait()
        except threading.BrokenBarrierError as error:
            raise MeshError(
                f"mesh: expected all {self.chips} chips at {place}, got one that failed or is late"
            ) from error
        if len({at for at, _ in images}) > 1:
            places = ", ".join(at for at, _ in images)
            raise MeshError(f"mesh: expected all chips at the same collective, got {places}; try the same predicates")
        return [image for _, image in images]

    def fail(self) -> None:
        """Releases the chips that wait for one that failed."""
        self._barrier.abort()


ALONE = Mesh(1)
"""The mesh of every chip without others: it keeps nothing."""


@dataclass
class Chip:
    """One chip's place in a mesh."""

    chip: int = 0
    mesh: Mesh = ALONE
    at: str = ""
    """The op that it is executing."""
    links: Links = field(default_factory=Links)
    """What it has received from other chips; the same object for all ops of a run."""

    def exchange(self, image: np.ndarray) -> list[np.ndarray]:
        """Returns the images of all chips at this op, in the order of the chips."""
        return [part for part in self.mesh.gather(self.chip, self.at, image) if part is not None]
