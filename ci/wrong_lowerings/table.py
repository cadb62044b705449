"""The table of wrong lowerings, and the TTNN of an op with one of them in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

TABLE = Path(__file__).with_name("wrong_lowerings.yaml")


@dataclass(frozen=True)
class Replacement:
    """A text that is exchanged for another, and how often it is there."""

    before: str
    after: str
    times: int = 1


@dataclass(frozen=True)
class WrongLowering:
    """One fault in the TTNN of one op."""

    kind: str
    """The sort of fault, such as `wrong permutation`."""
    change: str
    """What is wrong, in words."""
    op_id: str
    op: str
    """The op's name in StableHLO."""
    inputs: tuple[str, ...]
    """Types of its operands, such as `5x40xf32`."""
    outputs: tuple[str, ...]
    location: str
    """Where the model has it: the first words of the location that its first use has."""
    replace: tuple[Replacement, ...]

    def applied(self, ttnn: str) -> str:
        """The TTNN module `ttnn` with this fault. Raises ValueError if the row does not fit the module."""
        for part in self.replace:
            count = ttnn.count(part.before)
            if count != part.times:
                raise ValueError(
                    f"{self.op_id} ({self.kind}): expected {part.before!r} {part.times} times, got {count}; "
                    "try the TTNN of the build that the table names"
                )
            ttnn = ttnn.replace(part.before, part.after)
        return ttnn


def wrong_lowerings() -> tuple[WrongLowering, ...]:
    """All rows of the table, in its order."""
    return tuple(_row(row) for row in yaml.load(TABLE.read_text(), yaml.CSafeLoader))


def _row(row: dict[str, Any]) -> WrongLowering:
    replace = tuple(Replacement(one["from"], one["to"], one.get("times", 1)) for one in row["replace"])
    return WrongLowering(
        kind=row["kind"],
        change=row["change"],
        op_id=row["op_id"],
        op=row["op"],
        inputs=tuple(row["inputs"]),
        outputs=tuple(row["outputs"]),
        location=row["location"],
        replace=replace,
    )
