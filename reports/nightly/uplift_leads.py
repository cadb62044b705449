"""What follows a line of a gate: the smallest module that shows it, and the command that finds its commit or release.

Each is made smaller while both builds are there (`opscope reduce`), within one budget. The measure of `opscope bisect
--on` is the first that tells the two builds apart: a count, a layout, cycles, temporary memory, the verdict.
"""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.base.live import progress
from opscope.base.own_command import own_command
from opscope.base.results_folder import make_folder
from opscope.base.visible_text import cut
from opscope.harness.record.program_changes import name_of
from opscope.harness.record.records import WHOLE_MODEL
from opscope.harness.record.result_options import changed_words
from opscope.reports.compare.changed_programs import is_counted_each_time
from opscope.reports.compare.lowered_differently import Group, Place, word_of
from opscope.reports.nightly.builds import releases_from
from opscope.reports.nightly.running import child, last_line

if TYPE_CHECKING:
    from opscope.reports.nightly.uplift import Asked, Model, Pair, Uplift

WHERE = "opscope gate"
FOLDER = "smallest"
"""Below the folder of a gate: a repro folder of each op that was made smaller."""
MOST_TYPES = 4
"""Operands of an op in a line."""
_ANSWER = re.compile(r"^\{$.*^\}$", re.MULTILINE | re.DOTALL)
"""What a command has printed with --json, beside its progress."""


@dataclass(frozen=True)
class Lead:
    """How a change, a failure or a dearer model is followed up."""

    what: str
    """The change, or the name of the op or the model."""
    reduce: str = ""
    """The command that makes the smallest op or the model that shows it smaller."""
    bisect: str = ""
    """The command that finds its commit, of releases with others between them the one that finds the release; empty
    where the commits or how they are built is not known, or where no measure tells the builds apart."""
    after: str = ""
    """What is left of the smallest op or of the model: name and operands; empty where it was not made smaller."""
    elements: tuple[int, int] | None = None
    """Of its operands and results, before and then."""
    module: str = ""
    """That as StableHLO."""
    folder: str = ""
    """Its repro folder."""
    complete: bool = False
    """Whether nothing smaller shows it; else the budget ended it."""
    why: str = ""
    """Why it was not made smaller."""


@dataclass(frozen=True)
class _Subject:
    """What is followed up."""

    lead: Lead
    op_id: str
    pair: Pair
    """The runs in which it is made smaller."""
    lowering: bool
    """Whether the difference of two lowerings is to stay; else the failure."""
    better: bool = False
    change: str = ""
    """The name of what changed in a model; empty for an op."""

    @property
    def order(self) -> tuple[bool, bool]:
        """What is made smaller first: an op, in seconds, before a model, and what is worse before what is better."""
        return bool(self.change), self.better


def leads_of(
    asked: Asked, folder: Path, found: Uplift, pairs: tuple[Pair | None, Pair | None], say: Callable[[str], None]
) -> tuple[dict[str, Lead], tuple[str, ...] | None]:
    """Leads by a change's `what`, the id of an op that fails now, and the name of a model that costs more though its
    program is none of the changes; and the releases between the builds, if they are such and anything is led to.

    `folder` is the gate's, `pairs` are the runs of whole models and of ops alone.
    """
    every = _Subjects(asked, found, pairs)
    subjects = dict(every.every())
    until = time.monotonic() + (asked.reduce if asked.smallest else 0)
    keys = sorted((key for key, each in subjects.items() if each.op_id), key=lambda key: subjects[key].order)
    leads = {key: subject.lead for key, subject in subjects.items()}
    for number, key in enumerate(keys):  # half for each but the last: a part of it would make none of them smaller
        if (seconds := (until - time.monotonic()) / min(len(keys) - number, 2)) > 0:
            progress.step(f"making {cut(leads[key].what, 60)} smaller", number, len(keys))
            leads[key] = _smaller(asked, folder, subjects[key], seconds)
            say(f"smallest of {cut(leads[key].what, 60)}: {leads[key].after or leads[key].why}")
    return leads, tuple(every.releases[1]) if leads and every.releases is not None else None


@dataclass(frozen=True)
class _Subjects:
    """What there is to follow up, what fails now first, then what costs most."""

    asked: Asked
    found: Uplift
    pairs: tuple[Pair | None, Pair | None]

    def every(self) -> Iterator[tuple[str, _Subject]]:
        for row in self.found.news:
            pair = next(each for each in self.pairs if each is not None and row.op_id in each.views[1].ops)
            model = self._model(pair, row.op_id)
            ways = [(test.status, test.failed_stage) for of in pair.tests if (test := of.get(row.op_id)) is not None]
            on = ("verdict" if model else "") if ways[0] != ways[-1] else "pcc" if row.pcc_a != row.pcc_b else None
            bisect = self._bisect(pair, row.op_id, on, fails=True)
            command = f"opscope reduce {row.op_id} --run {word_of(pair.folders[1])}"
            yield row.op_id, _Subject(Lead(row.op_name, command, bisect), row.op_id, pair, lowering=False)
        models, alone = self.pairs
        groups = sorted(self.found.changes or self.found.op_changes, key=lambda group: -(group.cycles or 0))
        for group in groups:
            pair = models if self.found.changes else alone
            assert pair is not None
            place = group.places[0]
            bisect = self._bisect(pair, place.op_id, measure_of(place, alone=not self.found.changes))
            shows = pair if alone is None or group.smallest_id not in alone.views[1].ops else alone
            command = f"opscope reduce {group.smallest_id} --run {word_of(shows.folders[1])}"
            command += f" --against {shlex.quote(self.asked.old.backend)}"
            change = name_of(group.alike) if shows is not alone else ""  # a model may have several
            command += f" --change {change}" if change else ""
            lead = Lead(group.what, self._again(group) if self.asked.old.commit else command, bisect)
            better = (group.cycles or 0) < 0
            yield group.what, _Subject(lead, group.smallest_id, shows, lowering=True, better=better, change=change)
        changed = {place.name for group in self.found.changes for place in group.places}
        for model in self.found.models:
            if models is not None and model.name not in changed and (on := _of_costs(model, self.asked.slower)):
                lead = Lead(model.name, bisect=self._bisect(models, model.op_id, on))
                yield model.name, _Subject(lead, "", models, lowering=False)

    def _model(self, pair: Pair, op_id: str) -> str:
        """The word of `--model` for a whole model; empty for an op."""
        op = pair.views[1].ops[op_id]
        return next(iter(self.asked.words_for(next(iter(op.uses_of))))) if op.op_name == WHOLE_MODEL else ""

    def _again(self, group: Group) -> str:
        """The gate that makes a change smaller for longer: of revisions, which are built for it."""
        at, (pair, _) = self.asked.revisions, self.pairs
        assert at is not None
        model = self._model(pair, group.places[0].op_id) if pair is not None else self.asked.models[0]
        words = ["opscope", "gate", "--old", self.asked.old.commit, "--new", self.asked.new.commit, *at.words]
        return shlex.join([*words, "--model", model, *self._options, "--reduce", "10m"])

    @property
    def _options(self) -> list[str]:
        return changed_words({**self.asked.options, "arch": self.asked.arch})

    @cached_property
    def releases(self) -> tuple[str, list[str]] | None:
        """The builds as releases of one backend, and those between them."""
        return releases_from(self.asked.old.backend, self.asked.new.backend)

    def _bisect(self, pair: Pair, op_id: str, on: str | None, *, fails: bool = False) -> str:
        """The line that finds the commit of what a measure says of a model, or of an op; of an op's failure with an
        empty one, none without one. Of releases it finds the release, by all of those between."""
        at, model = self.asked.revisions, self._model(pair, op_id)
        if at is None and self.releases is not None and self.releases[1]:
            name = model or next(iter(pair.views[1].ops[op_id].uses_of))
            word = next((word for word in self.asked.words_for(name) if name not in self.asked.suites), name)
            words = ["opscope", "history", "--backend", self.releases[0], "--model", word, *self._options]
            return shlex.join([*words, *(["--workflow", "full"] if model else []), *(["--bisect"] if fails else [])])
        if at is None or at.ends is None or on is None:
            return ""
        subject = ["--model", model, *self._options] if model else [op_id, "--run", word_of(pair.folders[1])]
        words = ["opscope", "bisect", *subject, *(["--on", on] if on else [])]
        return shlex.join([*words, "--good", at.ends[0], "--bad", at.ends[1], *at.words])


def measure_of(place: Place, *, alone: bool = False) -> str | None:
    """The measure that tells what a model was before a change from what it is now; of an op `alone`, which is replayed
    without its IR, its cycles or none."""
    for name, pair in place.counts.items() if not alone else ():
        if is_counted_each_time(name):
            return _past(f"count({name})", pair)
    for name, pair in place.layouts.items() if not alone else ():
        op, _, layout = name.partition(" ")
        return _past(f"count({op}, {layout})", pair)
    if place.cycles is not None and place.cycles[0] != place.cycles[1] and place.priced_by != "kernels":
        return _past("cycles", place.cycles)
    return None if alone else "structure"


def _past(measure: str, pair: tuple[int, int]) -> str:
    before, now = pair
    return f"{measure} {'<' if now < before else '>'} {before}"


def _of_costs(model: Model, most: float) -> str:
    """The measure of what a model costs more of, by more than so many percent; empty if nothing that is measured."""
    costs: dict[str, tuple[int, int] | None] = {"cycles": model.cycles, "temp_bytes": model.temp_bytes}
    dearer = (name for name, pair in costs.items() if pair is not None and pair[1] > pair[0] * (1 + most / 100))
    return next((f"{name} > {costs[name][0]}" for name in dearer), "")  # type: ignore[index]


def _smaller(asked: Asked, folder: Path, subject: _Subject, seconds: float) -> Lead:
    """The lead with the smallest module that shows what is followed up, as `opscope reduce` finds it."""
    target = folder / FOLDER / "-".join(filter(None, (subject.op_id, subject.change)))
    log, old = make_folder(target.parent) / f"{target.name}.txt", asked.old
    words = ["reduce", subject.op_id, "--run", str(subject.pair.folders[1]), "--out", str(target), "--json"]
    words += ["--budget", f"{seconds:.1f}s", "-n", str(asked.workers)]
    if subject.lowering:
        words += ["--against", old.backend, *(["--against-path", old.tree] if old.tree else [])]
        words += ["--change", subject.change] if subject.change else []
    log.unlink(missing_ok=True)
    code = child(own_command(*words), asked.root, log, lambda: None, asked.new.environment)
    answer = _ANSWER.search(log.read_text(encoding="utf-8", errors="replace"))
    if code or answer is None:  # what the gate has found stands without it
        return replace(subject.lead, why=last_line(log) or f"exit code {code}")
    found = json.loads(answer[0])
    before, after = found["before"], found["after"]
    smaller = {"after": _text(after), "elements": (_elements(before), _elements(after))}
    return replace(subject.lead, **smaller, module=found["module"], folder=word_of(target), complete=found["complete"])


def _text(form: Mapping[str, Any]) -> str:
    """`stablehlo.convolution f32[1,1,2], f32[2,2,1]`."""
    pairs = zip(form["types"], form["operands"], strict=True)
    types = [f"{kind}[{','.join(map(str, shape))}]" for kind, shape in pairs]
    more = [f"and {len(types) - MOST_TYPES} more"] if len(types) > MOST_TYPES else []
    return f"{form['name']} {', '.join([*types[:MOST_TYPES], *more])}".strip()


def _elements(form: Mapping[str, Any]) -> int:
    return sum(prod(shape) for shape in (*form["operands"], *form["results"]))
