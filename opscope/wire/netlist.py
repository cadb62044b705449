"""`opscope netlist --json`."""

from __future__ import annotations

from typing import Any

from opscope.compiler.buda.netlist.model import Op
from opscope.wire.answer import Answer


class Graph(Answer):
    """A graph of a netlist."""

    name: str
    chip: int
    ops: tuple[str, ...]
    cores: int
    l1_bytes: int
    """The most that a core's buffers take."""


class Netlist(Answer):
    """A netlist that was checked."""

    name: str
    arch: str
    queues: int
    graphs: tuple[Graph, ...]
    programs: tuple[str, ...]


class Tested(Answer):
    """With --run-test-config: what a run of the netlist's own test found."""

    netlist: str
    passed: bool
    why: str
    """Why it did not pass; empty if it did."""
    queues: tuple[str, ...]
    """The queues that were compared."""
    inputs: int
    inputs_asked: int
    positive_inputs: bool
    """Whether inputs were drawn positive, since the netlist does not say how."""
    encodings_of_ours: tuple[str, ...]
    rounds: int
    """How often its programs ran, where results depend on what ran before; else 0."""
    constant_tiles: int
    """Tiles that should be one number, of which no correlation was asked, but that all elements are close."""
    unstable: tuple[str, ...]
    """Queues of which rounding to float32 alone fails the comparison: what it leaves of it was asked."""


PRINTS: Any = Netlist | Op | Tested
