"""The parts that can be at fault for a wrong answer, and the score of one case."""

from __future__ import annotations

import collections
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Fault(StrEnum):
    """Who is at fault, or that nobody is."""

    NONE = "none"
    NEVER = "never"
    """The case has a value that no board and no StableHLO module has, or an answer that no device can give."""
    IMPORTER = "importer"
    """torch-mlir refuses the graph, or XLA computes other numbers from what it made of a right graph."""
    FRONTEND = "frontend"
    """The rewriting of the graph (`models/frontends/through_onnx`) fails, or gives a graph with other numbers."""
    COMPILER = "compiler"
    """A stage before `run` refuses the module."""
    DEVICE = "device"
    """The run fails, or gives other numbers than stored, where XLA gives the stored ones."""
    COMPARISON = "comparison"
    """The numbers are within the suite's own tolerance, and the harness's verdict refuses them."""


OURS = (Fault.FRONTEND, Fault.COMPILER, Fault.DEVICE, Fault.COMPARISON)
"""Faults of this project."""


@dataclass(frozen=True)
class Score:
    """What became of one case."""

    name: str
    op: str
    """The op type of its node; of several, joined by `+`."""
    fault: Fault
    why: str = ""
    ran_on: str = ""
    """`device`, `host` or `mixed`, if it ran."""
    within: str = ""
    """`suite`: within the suite's own tolerance; else the row of the tolerance table."""


def counts(scores: Iterable[Score]) -> dict[str, collections.Counter[Fault]]:
    """Op -> fault -> number of cases."""
    table: dict[str, collections.Counter[Fault]] = collections.defaultdict(collections.Counter)
    for score in scores:
        table[score.op][score.fault] += 1
    return dict(sorted(table.items()))
