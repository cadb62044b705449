"""What two releases of a compiler lower, compute and abort differently, each difference named.

    37 of 967 ops lower differently, 5 compute differently, 1 aborts no more

Compared are the last IRs that `opscope history` keeps (reports/records/lowered.py), in the folders of the runs.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa

from opscope.harness.record.errors import InputError
from opscope.harness.record.lowered_ir import difference
from opscope.harness.record.stages import Status
from opscope.harness.record.store import read_run
from opscope.reports.compare.night_views import newest_run
from opscope.reports.compare.outcomes import Outcome, RunView
from opscope.reports.records import lowered

_SIZES = re.compile(r"\[([\d,]*)\]")


@dataclass(frozen=True)
class Group:
    """Ops that differ in the same way."""

    what: str
    """`ops: ttnn.typecast is gone`, `layouts of ttnn.matmul`, `attributes of ttnn.matmul`, `compiles now`."""
    ops: tuple[str, ...]
    """Their ids, the smallest op first."""
    smallest: str
    """Name and types of the smallest."""
    command: str
    """`opscope reduce` of the smallest: of its failure in one of the runs, else of what differs."""


@dataclass(frozen=True)
class Lowered:
    """Two runs compared."""

    compared: int
    """Ops of which both have kept an IR."""
    lowering: tuple[Group, ...]
    computing: tuple[Group, ...]
    compiling: tuple[Group, ...]
    """What compiles now, or no more."""
    aborting: tuple[Group, ...]
    without: int
    """Ops that both compilers took, and of which one run alone has an IR: how they lower is not known."""

    @property
    def sentence(self) -> str:
        """In one line; empty if neither run has kept an IR."""
        if not self.compared and not self.without:
            return ""
        lower, compute = (sum(len(group.ops) for group in groups) for groups in (self.lowering, self.computing))
        words = [
            f"{lower} of {self.compared} ops lower{'s' * (lower == 1)} differently",
            f"{compute} compute{'s' * (compute == 1)} differently",
        ]
        for group in (*self.compiling, *self.aborting):
            count = len(group.ops)
            verb, _, when = group.what.partition(" ")
            words.append(f"{count} {verb if count == 1 else verb.removesuffix('s')} {when}")
        if self.without:
            words.append(f"{self.without} more {'has' if self.without == 1 else 'have'} an IR in one of the runs alone")
        return ", ".join(words)


class _Side(NamedTuple):
    """A run, and its folder."""

    run: RunView
    folder: Path

    @property
    def place(self) -> str:
        """The folder as a command names it."""
        here = Path.cwd()
        return shlex.quote(str(self.folder.relative_to(here) if self.folder.is_relative_to(here) else self.folder))


def compare_lowered(a: RunView, b: RunView, folder_a: Path, folder_b: Path) -> Lowered:
    """Compares what two runs have kept in their folders."""
    before, now = lowered.read(folder_a, a.backend), lowered.read(folder_b, b.backend)
    sides = _Side(a, folder_a), _Side(b, folder_b)
    lowering: dict[str, list[Outcome]] = {}
    computing: dict[str, list[Outcome]] = {}
    verdicts: dict[str, list[Outcome]] = {}
    both = [op_id for op_id in now if op_id in before and op_id in b.ops]
    for op_id in both:
        if before[op_id] != now[op_id]:
            lowering.setdefault(difference(before[op_id], now[op_id]), []).append(b.ops[op_id])
    without = 0
    for op_id, new in b.ops.items():
        old = a.ops.get(op_id)
        without += old is not None and _ran(old) and _ran(new) and (op_id in before) != (op_id in now)
        if old is None or not (old.attempted and new.attempted):
            continue
        if what := _verdict(old, new):
            verdicts.setdefault(what, []).append(new)
        elif _ran(old) and _ran(new) and (old.status, old.pcc) != (new.status, new.pcc):
            computing.setdefault(f"{old.status} -> {new.status}", []).append(new)
    named = {what: _groups({what: ops}, *sides)[0] for what, ops in verdicts.items()}
    return Lowered(
        len(both),
        tuple(_groups(lowering, *sides)),
        tuple(_groups(computing, *sides)),
        tuple(named[what] for what in sorted(named) if what.startswith("compiles")),
        tuple(named[what] for what in sorted(named) if what.startswith("aborts")),
        without,
    )


def _verdict(old: Outcome, new: Outcome) -> str:
    """What changed of whether an op compiles at all; empty if nothing did."""
    crashed = old.status == Status.CRASHED, new.status == Status.CRASHED
    if crashed[0] != crashed[1]:
        return "aborts now" if crashed[1] else "aborts no more"
    refused = old.status == Status.COMPILE_FAILED, new.status == Status.COMPILE_FAILED
    if refused[0] != refused[1]:
        return "compiles no more" if refused[1] else "compiles now"
    return ""


def _ran(op: Outcome) -> bool:
    return op.right or op.status == Status.WRONG_RESULT


def _groups(ops_of: Mapping[str, Sequence[Outcome]], before: _Side, now: _Side) -> list[Group]:
    """The groups, those of most ops first."""
    groups = []
    for what, ops in ops_of.items():
        first, *_ = by_size = sorted(ops, key=lambda op: (_elements(op.types), op.op_id))
        failing = next((side for side in (now, before) if (op := side.run.ops.get(first.op_id)) and op.bad), None)
        command = f"opscope reduce {first.op_id} --run {(failing or now).place}"
        command += "" if failing is not None else f" --against {before.run.backend}"
        groups.append(Group(what, tuple(op.op_id for op in by_size), f"{first.op_name} {first.types}", command))
    return sorted(groups, key=lambda group: (-len(group.ops), group.what))


def _elements(types: str) -> int:
    """The elements of an op's operands and results: `f32[8,10] -> f32[8]` has 88."""
    return sum(prod(int(size) for size in sizes.split(",") if size) for sizes in _SIZES.findall(types))


def folder_of(connection: sa.Connection | None, view: RunView, root: Path) -> Path:
    """The folder of a run, or of the newest run of a night, if it is below `root` and has kept an IR."""
    run_id = view.run_id
    if view.place == "night" and connection is not None and (run := newest_run(connection, run_id, view.series)):
        run_id = str(run["run_id"])
    elif view.place != "database":
        return Path(view.place)
    return folder_of_run(run_id, root)


def folder_of_run(run_id: str, root: Path) -> Path:
    """The folder below `root` of a run that has kept an IR: a night names the folders of its runs otherwise."""
    for file in sorted(root.glob(f"*/{lowered.FILE}")):
        with suppress(InputError):
            if read_run(file.parent).run_id == run_id:
                return file.parent
    return root / run_id
