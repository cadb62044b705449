"""A mesh of chips: each chip runs the same program in a thread of its own, and collectives wait for all of them.

What a collective moves over the links between chips goes by the ring that its group forms. One chip's share: in a ring
of n chips each step hands a part on to the next chip (Patarasuk and Yuan 2009). Rate and latency of a link are the
board's, measured ones with their source (compiler/target/boards). Assumed are that the chips of a group are neighbours
in a ring, that a collective uses one link of each pair of neighbours, and that transfers of different collectives do
not wait for each other.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field

import numpy as np

from opscope.compiler.target.formats import FORMATS
from opscope.compiler.target.program import TensorDesc
from opscope.compiler.target.system_desc import Ethernet
from opscope.simulator.errors import MeshError


@dataclass
class Links:
    """What one chip has received from others so far."""

    received: int = 0
    """Bytes of tensors as they are stored, without the padding of tiles."""
    steps: int = 0
    """How often it waited for a neighbour."""

    def take(self, kernel: str, chips: int, operand: TensorDesc, result: TensorDesc) -> None:
        """Adds a collective of a group of `chips`, from one chip's operand to its result."""
        if chips < 2:
            return
        rounds = chips - 1
        size = {
            "all_gather": rounds * _bytes(operand),
            "reduce_scatter": rounds * _bytes(result),
            "all_reduce": 2 * rounds * _bytes(operand) / chips,
            "all_to_all": rounds * _bytes(operand) / chips,
        }.get(kernel, _bytes(operand))
        self.received += math.ceil(size)
        self.steps += {"all_reduce": 2 * rounds, "collective_permute": 1, "collective_broadcast": 1}.get(kernel, rounds)

    def nanoseconds(self, link: Ethernet | None) -> float | None:
        """The time of the transfers, one after another; None for a board without links."""
        return None if link is None else self.received / link.gb_per_s + self.steps * link.hop_ns


def _bytes(desc: TensorDesc) -> float:
    return math.prod(desc.shape) * FORMATS[desc.data_format].datum_bytes()


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
