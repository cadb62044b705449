"""What is read of a compiler at each revision, and the measure by which a revision counts as bad."""

from __future__ import annotations

import json
import operator
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from opscope.base.children.ending import FROM_OUTSIDE, signal_name
from opscope.base.digest import json_digest
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import OpTest, Record, Structure

ON = "--on"
_SUMS: dict[str, Callable[[Structure], int | None]] = {
    "temp_bytes": lambda structure: structure.temp_bytes,
    "launches": lambda structure: structure.launches,
    "dispatches": lambda structure: structure.launches,
    "casts": lambda structure: structure.casts,
}
_OTHERS = ("cycles", "pcc", "structure", "verdict")
NAMES = ("count(OP)", "count(OP, LAYOUT)", *_SUMS, *_OTHERS)
"""The measures."""
_COMPARISONS = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
_MEASURE = re.compile(
    r"\s*(?:count\(\s*(?P<op>[^(),]*[^(),\s])\s*(?:,\s*(?P<layout>[^()]*[^()\s])\s*)?\)|(?P<name>\w+))"
    rf"\s*(?:(?P<sign>{'|'.join(_COMPARISONS)})\s*(?P<number>\S+))?\s*"
)
_OF_A_SHELL, _OF_TIMEOUT = 128, 124
"""What a shell adds to the number of the signal that ended its child; the exit code of `timeout`."""
_OF_THE_MACHINE = re.compile(
    r"No space left on device|Disk quota exceeded|Cannot allocate memory|out of memory|bad_alloc|MemoryError"
    r"|\bKilled\b|\bTerminated\b|Connection (?:timed out|reset|refused)|Could not resolve host|name resolution",
    re.IGNORECASE,
)
"""What tools of a build say where the machine lacks something; a Python program's `Errno` may be any file's."""
_LEAST_ROOM = 2**24
"""Bytes; with less, a disk counts as full."""
Value = float | str
"""A number, or a text that is equal or not."""


class Reading(Record):
    """What a revision of a compiler makes of an op or a model."""

    tests: tuple[OpTest, ...] = ()
    """The records; none where the revision could not be tried."""
    programs: tuple[str, ...] = ()
    """Digests of the graphs of their programs, where a run has kept its IR."""
    why: str = ""
    """Why it could not be tried."""
    by_machine: bool = False
    """Whether the machine may have ended it: a signal from outside, no room, no memory, no network, a time limit. That
    says nothing of the revision, and is not kept."""

    @property
    def structures(self) -> list[Structure]:
        """Of their programs, where the compiler has shown them."""
        return [test.structure for test in self.tests if test.structure is not None]

    @property
    def verdict(self) -> str:
        """How each op ended."""
        return ", ".join(" at ".join(filter(None, (test.status, test.failed_stage))) for test in self.tests)


@dataclass(frozen=True)
class Measure:
    """What `--on` names: a value of each reading, and which values are bad."""

    text: str
    name: str
    op: str = ""
    layout: str = ""
    """A part of the memory and layout of the op's first result, such as `sharded`; empty: any."""
    compare: Callable[[float, float], bool] | None = None
    """None: a value is bad if it is nearer to that of the bad end (a text: if it is not that of the good end)."""
    number: float = 0.0

    @property
    def ends(self) -> tuple[str, str]:
        """What the good end and the bad one have to be."""
        if self.compare is not None:
            return f"a revision at which not {self.text}", f"a revision at which {self.text}"
        return f"a revision with a value of {self.text}", f"a revision with another {self.text} than --good"

    @property
    def missing(self) -> str:
        """What is said of a reading without a value."""
        return f"no {self.name}"

    def value(self, reading: Reading) -> Value | None:
        """The value of a reading; None if it has none."""
        if reading.by_machine:
            return None
        if self.name == "verdict":
            return reading.verdict
        if self.name in ("cycles", "pcc"):
            values = [getattr(test, self.name) for test in reading.tests]
            return None if None in values or not values else (sum if self.name == "cycles" else min)(values)
        if not reading.structures:
            return None
        if self.name == "structure":
            parts = [json.loads(each.model_dump_json(exclude={"cycles"})) for each in reading.structures]
            return json_digest([*parts, *reading.programs])[:8]
        if self.layout:
            places = [place for each in reading.structures for place in each.memory.get(self.op, {}).items()]
            return sum(count for place, count in places if self.layout in place)
        if self.op:
            return sum(each.ops.get(self.op, 0) for each in reading.structures)
        numbers = [_SUMS[self.name](each) for each in reading.structures]
        return None if None in numbers else sum(number or 0 for number in numbers)

    def is_bad(self, value: Value, good: Value, bad: Value) -> bool:
        """Whether a value counts as bad, between those of the two ends."""
        if isinstance(value, str) or isinstance(good, str) or isinstance(bad, str):  # all are texts
            return value != good
        if self.compare is not None:
            return self.compare(value, self.number)
        return abs(value - bad) < abs(value - good)


def ended_by_machine(code: int, text: str, folder: Path) -> bool:
    """Whether the machine may have ended a process, by its return code and its last words.

    The code is as `subprocess` gives it, or as a shell and `timeout` pass it on; `folder` is where it wrote.
    """
    number = -code if code < 0 else code - _OF_A_SHELL
    return (
        code == _OF_TIMEOUT
        or f"signal {signal_name(number)}" in FROM_OUTSIDE
        or bool(_OF_THE_MACHINE.search(text))
        or shutil.disk_usage(folder).free < _LEAST_ROOM
    )


def read_measure(text: str) -> Measure:
    """The measure that a text names, such as `cycles` or `count(ttnn.rms_norm) < 24`. Raises InputError."""
    match = _MEASURE.fullmatch(text)
    if match is None or not (match["op"] or match["name"] in (*_SUMS, *_OTHERS)):
        raise InputError(
            ON, f"one of {', '.join(NAMES)}, alone or with a comparison", repr(text), "count(ttnn.add) < 24"
        )
    name, of_op = match["name"] or "count", (match["op"] or "", match["layout"] or "")
    if not match["sign"]:
        return Measure(text, name, *of_op)
    if name in ("structure", "verdict"):
        raise InputError(ON, f"{name} without a comparison", repr(text), name)
    try:
        return Measure(text, name, *of_op, _COMPARISONS[match["sign"]], float(match["number"]))
    except ValueError:
        raise InputError(ON, "a number to compare with", repr(match["number"])) from None
