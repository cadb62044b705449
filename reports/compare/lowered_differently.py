"""What two releases of a compiler lower, compute and abort differently, each difference named.

    37 of 967 ops lower differently, 5 compute differently, 1 aborts no more

Compared are the graphs of the last IRs that `opscope history` and `opscope gate --old --new` keep
(reports/records/lowered.py), in the folders of the runs.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa

from opscope.base.visible_text import percent_change
from opscope.harness.record import program_changes
from opscope.harness.record.errors import InputError
from opscope.harness.record.program_changes import Change
from opscope.harness.record.records import WHOLE_MODEL, Structure
from opscope.harness.record.result_options import changed_words
from opscope.harness.record.stages import Status
from opscope.harness.record.store import read_run
from opscope.reports.compare.changed_programs import Counts, changed_counts, changed_layouts, listed_counts, op_of
from opscope.reports.compare.night_views import newest_run
from opscope.reports.compare.outcomes import Outcome, RunView
from opscope.reports.records import lowered

_KERNELS = "kernels"
_CallsOf = Mapping[str, program_changes.Calls]
_SIZES = re.compile(r"\[([\d,]*)\]")


@dataclass(frozen=True)
class Place:
    """A change in one op or model."""

    name: str
    """The model, or the name and types of the op."""
    op_id: str
    sites: int
    """Places of its program that changed so."""
    counts: Counts
    """Op of the program -> how many the whole program has of it, before and now: those whose number changed; of what is
    evaluated once, before the first execution, `ahead OP`; of what is fused into OP, `fused OP WHAT`."""
    layouts: Counts
    """`ttnn.rms_norm l1 width_sharded` -> how many such results the whole program has, where the number of the op is as
    before."""
    cycles: tuple[int, int] | None
    """Of one execution, before and now: what this change costs or saves is the difference. None where there is none, or
    where several changes cannot be told apart."""
    priced_by: str
    """What these cycles are of: `run`, the whole program, where nothing else changed; `ops`, the whole program, if
    nothing but the ops that this change has touched were another; `kernels`, the kernels that this change alone has
    touched; empty without a price."""

    @property
    def text(self) -> str:
        """Its name, counts and price on one line."""
        counts = listed_counts(self.counts, self.layouts)
        price = ""
        if self.cycles is not None:
            before, now = self.cycles
            share = f" ({percent_change(before, now)})" if before else ""
            of = f" of {self.priced_by}" if self.priced_by == _KERNELS else ""
            price = f"cycles{of} {before:,} -> {now:,}{share}"
        return f"{self.name}: {'; '.join(filter(None, (counts, price)))}" if counts or price else self.name


@dataclass(frozen=True)
class Group:
    """Ops that differ in the same way."""

    what: str
    """`ttnn.typecast -46; types of ttnn.where`, `layout (l1 interleaved -> dram interleaved) of ttnn.add`."""
    ops: tuple[str, ...]
    """Their ids, the smallest op first, whole models last."""
    smallest: str
    """Name and types of the smallest, or the model."""
    command: str
    """`opscope reduce` of the smallest: of its failure in one of the runs, else of what differs."""
    kind: str = ""
    """`ops`, `const_eval`, `layout`, `types`, `attributes`, `wiring` or `text`; empty of what is no lowering."""
    places: tuple[Place, ...] = ()
    """Of a lowering, each op and model, that of most cycles first."""
    alike: str = ""
    """Equal for lowerings that differ alike, in whatever run."""
    smallest_id: str = ""
    """The id of the smallest."""

    @property
    def cycles(self) -> int | None:
        """Cycles that it costs in all places together, fewer if it saves some; None where no place has a price."""
        prices = [place.cycles[1] - place.cycles[0] for place in self.places if place.cycles is not None]
        return sum(prices) if prices else None


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
    folded: int = 0
    """Ops whose IR differs in what says nothing of the program: names, locations, the order of independent ops."""

    @property
    def differing(self) -> int:
        """Ops that lower differently, in whatever ways."""
        return len({op_id for group in self.lowering for op_id in group.ops})

    @property
    def sentence(self) -> str:
        """In one line; empty if neither run has kept an IR."""
        if not self.compared and not self.without:
            return ""
        lower, compute = self.differing, sum(len(group.ops) for group in self.computing)
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


def word_of(folder: Path) -> str:
    """A folder as a command here names it."""
    here = Path.cwd()
    return shlex.quote(str(folder.relative_to(here) if folder.is_relative_to(here) else folder))


class _Side(NamedTuple):
    """A run, its folder, and the backend as commands take it."""

    run: RunView
    folder: Path
    backend: str


def compare_lowered(
    a: RunView, b: RunView, folder_a: Path, folder_b: Path, *, backends: tuple[str, str] | None = None
) -> Lowered:
    """Compares what two runs have kept in their folders; `backends` as `--backend` took them, where no names do."""
    before, now = lowered.read(folder_a, a.backend), lowered.read(folder_b, b.backend)
    names = backends or (a.backend, b.backend)
    sides = _Side(a, folder_a, names[0]), _Side(b, folder_b, names[1])
    computing: dict[str, list[Outcome]] = {}
    verdicts: dict[str, list[Outcome]] = {}
    counted = [op_id for op_id in b.ops if all(_counted(run, op_id) for run in (a, b))]
    both = dict.fromkeys([*(op_id for op_id in now if op_id in before and op_id in b.ops), *counted])
    calls = lowered.read_calls(folder_a, a.backend), lowered.read_calls(folder_b, b.backend)
    lowering, folded = _lowering({op_id: (before.get(op_id, ""), now.get(op_id, "")) for op_id in both}, a, b, calls)
    without = 0
    for op_id, new in b.ops.items():
        old = a.ops.get(op_id)
        lacks = op_id not in both and (op_id in before) != (op_id in now)
        without += old is not None and _ran(old) and _ran(new) and lacks
        if old is None or not (old.attempted and new.attempted):
            continue
        if what := _verdict(old, new):
            verdicts.setdefault(what, []).append(new)
        elif _ran(old) and _ran(new) and (old.status, old.pcc) != (new.status, new.pcc):
            computing.setdefault(f"{old.status} -> {new.status}", []).append(new)
    named = {what: _groups({what: ops}, *sides)[0] for what, ops in verdicts.items()}
    return Lowered(
        len(both),
        tuple(_named(lowering, sides)),
        tuple(_groups(computing, *sides)),
        tuple(named[what] for what in sorted(named) if what.startswith("compiles")),
        tuple(named[what] for what in sorted(named) if what.startswith("aborts")),
        without,
        folded,
    )


def _counted(run: RunView, op_id: str) -> Structure | None:
    """The structure of a program whose ops its backend has counted."""
    structure = run.ops[op_id].structure if op_id in run.ops else None
    return structure if structure is not None and structure.counted else None


class _Alike(NamedTuple):
    """Changes of one kind in several ops."""

    changes: list[Change]
    ops: list[Outcome]
    places: list[Place]


def _lowering(
    texts: Mapping[str, tuple[str, str]], a: RunView, b: RunView, calls: tuple[_CallsOf, _CallsOf]
) -> tuple[list[_Alike], int]:
    """What differs in the programs of ops, changes that are alike together, and how many have but another text."""
    alike: dict[str, _Alike] = {}
    folded = 0
    for op_id, (old, new) in texts.items():
        own = [of for run in (a, b) if (of := _counted(run, op_id)) is not None]
        if len(own) == 2:
            of_op = program_changes.changes_of_counts(own[0].ops, own[1].ops)
        elif old == new:
            continue
        else:
            own_calls = calls[0].get(op_id, ()), calls[1].get(op_id, ())
            of_op = program_changes.changes_of_texts(old, new, own_calls)
        folded += not of_op and old != new
        for change in of_op:
            place = _place(change, of_op, (a.ops.get(op_id), b.ops[op_id]))
            group = alike.setdefault(change.alike, _Alike([], [], []))
            group.changes.append(change)
            group.ops.append(b.ops[op_id])
            group.places.append(place)
    return [*alike.values()], folded


def _place(
    change: Change,
    all_changes: Sequence[Change],
    ops: tuple[Outcome | None, Outcome],
) -> Place:
    """A change in one op, with its price."""
    old, new = ops
    structures = before, now = old.structure if old is not None else None, new.structure
    counts: Counts = {name: change.counts[name] for name in change.net}
    layouts: Counts = {}
    if before is not None and now is not None:
        counts = _touched(change, changed_counts(before, now)) or counts
        layouts = _touched(change, changed_layouts(before, now))
    cycles, by = None, ""
    whole = old.cycles if old is not None else None, new.cycles
    touched = [{name.rpartition(".")[2] for name in each.counts} for each in all_changes]
    if whole[0] is not None and whole[1] is not None and len(all_changes) == 1:
        cycles, by = (whole[0], whole[1]), "run"
    elif whole[0] is not None and change.cycles is not None:
        cycles, by = (whole[0], whole[0] + change.cycles), "ops"
    elif all(of is not None and of.cycles for of in structures):
        own = touched[list(all_changes).index(change)]
        if sum(bool(own & names) for names in touched) == 1:
            sums = [sum(of.cycles.get(kernel, 0) for kernel in own) for of in structures if of is not None]
            cycles, by = ((sums[0], sums[1]), _KERNELS) if any(sums) else (None, "")
    return Place(_name(new), new.op_id, change.sites, counts, layouts, cycles, by)


def _touched(change: Change, counts: Counts) -> Counts:
    """Those of the ops that a change has touched; what fusions hold, where it has touched one."""
    holds = any(name.startswith("fusion") for name in change.counts)
    return {name: both for name, both in counts.items() if op_of(name) in change.counts or (holds and "." not in name)}


def _name(op: Outcome) -> str:
    """A model by its name, an op by its own and its types."""
    return ", ".join(op.uses_of) if op.op_name == WHOLE_MODEL else f"{op.op_name} {op.types}"


def _named(found: Sequence[_Alike], sides: tuple[_Side, _Side]) -> list[Group]:
    """The groups of lowerings: what costs or saves most first, then what most ops have."""
    groups = []
    for alike in found:
        total = program_changes.together(alike.changes)
        [group] = _groups({total.what: alike.ops}, *sides, lowerings=True)
        places = sorted(alike.places, key=lambda place: (-_weight(place), place.name))
        groups.append(replace(group, kind=total.kind, places=tuple(places), alike=total.alike))
    return sorted(groups, key=lambda group: (-abs(group.cycles or 0), -len(group.ops), group.what))


def _weight(place: Place) -> int:
    return abs(place.cycles[1] - place.cycles[0]) if place.cycles is not None else 0


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


def _groups(
    ops_of: Mapping[str, Sequence[Outcome]], before: _Side, now: _Side, *, lowerings: bool = False
) -> list[Group]:
    """The groups, those of most ops first; of `lowerings` what differs is to be reduced, whether or not it fails."""
    groups = []
    for what, ops in ops_of.items():
        first, *_ = by_size = sorted(ops, key=lambda op: (op.op_name == WHOLE_MODEL, _elements(op.types), op.op_id))
        failing = next((side for side in (now, before) if (op := side.run.ops.get(first.op_id)) and op.bad), None)
        side = now if lowerings or failing is None else failing
        command = f"opscope reduce {first.op_id} --run {word_of(side.folder)}"
        command += f" --against {shlex.quote(before.backend)}" if side is not failing else ""
        if lowerings and first.op_name == WHOLE_MODEL:  # which finds the smallest op that differs so
            command = _gate(before, now, first)
        groups.append(Group(what, tuple(op.op_id for op in by_size), _name(first), command, smallest_id=first.op_id))
    return sorted(groups, key=lambda group: (-len(group.ops), group.what))


def _gate(before: _Side, now: _Side, model: Outcome) -> str:
    """The command that compares both compilers on a model, with the options of its run."""
    words = ["opscope", "gate", "--old", before.backend, "--new", now.backend, "--model", *model.uses_of]
    return shlex.join([*words, *changed_words(now.run.origin["options"])])


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
