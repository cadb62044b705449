"""Where the chips of a mesh meet: each runs the same program in a thread of its own, and collectives wait for all."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import numpy as np

from opscope.simulator.errors import MeshError

END = "end"
"""What a chip hands in when its program has ended."""


class Mesh:
    """A meeting place of so many chips. One chip alone meets nobody and waits for nobody."""

    def __init__(self, chips: int, seconds: float = 600.0) -> None:
        self.chips = chips
        self._barrier = threading.Barrier(chips, timeout=seconds)
        self._given: list[tuple[str, np.ndarray | None]] = [("", None)] * chips

    def meet(self, chip: int, what: str, image: np.ndarray | None) -> list[np.ndarray | None]:
        """What every chip hands in, once all have. Raises MeshError where they are not at the same op."""
        if self.chips == 1:
            return [image]
        self._given[chip] = (what, image)
        try:
            self._barrier.wait()
            images = list(self._given)
            self._barrier.wait()
        except threading.BrokenBarrierError as error:
            raise MeshError(
                f"mesh: expected all {self.chips} chips at {what}, got one that failed or is late"
            ) from error
        if len({place for place, _ in images}) > 1:
            places = ", ".join(place for place, _ in images)
            raise MeshError(f"mesh: expected all chips at the same collective, got {places}; try the same predicates")
        return [image for _, image in images]

    def fail(self) -> None:
        """Releases the chips that wait for one that failed."""
        self._barrier.abort()


@dataclass
class Chip:
    """One chip's place in a mesh."""

    chip: int = 0
    mesh: Mesh = field(default_factory=lambda: Mesh(1))
    at: str = ""
    """The op that it is at."""

    def exchange(self, image: np.ndarray) -> list[np.ndarray]:
        """What every chip hands in at this op, in the order of the chips."""
        return [part for part in self.mesh.meet(self.chip, self.at, image) if part is not None]
