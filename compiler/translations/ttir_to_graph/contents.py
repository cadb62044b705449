"""The contents of a graph's sources: a TTIR value of the host, laid out as z, rows, columns."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from opscope.compiler.target.queue_content import QueueContent


@dataclass(frozen=True)
class Content:
    """One source of the graph."""

    name: str
    value: SSAValue
    elements: tuple[int, int, int]
    """Elements along z, rows and columns; the value's elements follow in row-major order."""
    inverted: bool = False
    """Whether the source holds the reciprocal of the value."""
    channels: int = 0
    """Input channels I of convolution weights (KH, KW, I, O), padded with zeros to whole tiles."""
    groups: int = 1
    """Groups of these channels; with one group per channel each tap's weights are diagonals of tiles."""

    @property
    def layout(self) -> QueueContent:
        """How the value fills its queue, for a run without the compiler."""
        return QueueContent(self.name, self.elements, self.inverted, self.channels, self.groups)
