"""The gate for a new build of a compiler: what it makes of models and ops that the old one made otherwise.

Both builds take the same models with the same options, whole. Exports, splits, inputs and goldens are made once, by the
first that needs them; what a build made of an op, and its verdict, is kept for later gates. The ops of models whose
programs differ are then compiled alone, so that the smallest op that shows each change is known. Nothing is published.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from opscope.base.labels import NEWS, Label
from opscope.base.results_folder import make_folder
from opscope.base.statuses import RIGHT
from opscope.base.visible_text import percent_change
from opscope.harness.backends import registry
from opscope.harness.record.errors import InputError
from opscope.harness.record.one_failure import UNLOADED, failure_of_all
from opscope.harness.record.optest import backend_label
from opscope.harness.record.records import WHOLE_MODEL, OpTest
from opscope.harness.record.run_folders import runs_root
from opscope.harness.record.store import RUN_FILE, load_run
from opscope.harness.record.workflows import SPLIT
from opscope.reports.compare.changed_programs import Counts, changed_totals, op_of
from opscope.reports.compare.diff import Row, compare
from opscope.reports.compare.lowered_differently import Group, Lowered, compare_lowered
from opscope.reports.compare.outcomes import RunView, from_folder
from opscope.reports.database.owners import owner, rules_here
from opscope.reports.nightly.builds import Revisions, Source
from opscope.reports.nightly.config import Config
from opscope.reports.nightly.gate import GATES
from opscope.reports.nightly.journal_counter import Counter
from opscope.reports.nightly.running import FINISHED, Watch, child, last_line, outcome_of
from opscope.reports.nightly.sweeps import Sweep, first_command, sweeps
from opscope.reports.nightly.uplift_leads import Lead, leads_of
from opscope.reports.records import lowered

WHERE, HINT = "opscope gate", "opscope doctor"
FULL = "full"
SUITE = "suite:"
"""Models that are sets of single ops."""
DRAM_PEAK, L1_PEAK = "peak of DRAM bytes", "peak of L1 bytes of a core"
WRONG_IN_BOTH = "wrong in both"
NEARER = 1.1
"""By how much an error has to fall or rise for a result to be called better or worse."""


@dataclass(frozen=True)
class Build:
    """One of the two builds."""

    name: str
    """The backend as it was asked for."""
    compiler: str
    """What its run says of it: version, library and digest."""


@dataclass(frozen=True)
class Model:
    """A whole model, or an op alone, in both builds."""

    name: str
    op_id: str
    status: tuple[str, str]
    equal: bool | None
    """Whether both builds made the same program of it; None where one of them has left none to compare."""
    cycles: tuple[int, int] | None
    """Of one execution on the simulator; None where one of them has none."""
    cycles_error: float | None
    """How far they may be from a card's, in percent."""
    temp_bytes: tuple[int, int] | None
    launches: tuple[int, int] | None
    totals: Counts
    """What its program has more or less of: `casts`, results in `l1 width_sharded`, ops of `const-eval`,
    `peak of DRAM bytes`."""
    pcc: tuple[float | None, float | None]
    numbers: str
    """`equal bits`, `within`, `better`, `worse`, `wrong`, `right now`, `wrong in both`; empty where nothing was
    computed."""
    reason: str = ""
    """What the verdict on the numbers rests on."""


@dataclass(frozen=True)
class Uplift:
    """What a new build changes."""

    old: Build
    new: Build
    board: str
    options: Mapping[str, Any]
    worse: tuple[str, ...]
    """Why the new build is worse, a line each; empty if it is not."""
    models: tuple[Model, ...]
    """All that both builds took whole, those whose cycles changed most first."""
    changes: tuple[Group, ...]
    """What differs in their programs, the change of most cycles first."""
    ops: tuple[Model, ...]
    """Single ops whose program or numbers differ."""
    op_changes: tuple[Group, ...]
    """What differs in the programs of single ops."""
    news: tuple[Row, ...]
    """What fails now and did not, or for another reason."""
    fixed: tuple[Row, ...]
    compared: int
    """Programs that both builds made."""
    folded: int
    """Programs whose text differs in nothing but names, locations and the order of independent ops."""
    skipped: tuple[str, ...]
    """What was asked for and could not be compared, and why."""
    not_priced: tuple[str, ...]
    """Models whose cycles are not known, and why."""
    seconds: Mapping[str, float]
    """Wall time of each run."""
    commits: str = ""
    """The commits between the builds, as they were given, or where both say theirs."""
    owners: Mapping[str, str] = field(default_factory=dict)
    """A change's `what`, or the id of an op that fails anew -> the team that owns it (ci/owners.yaml)."""
    leads: Mapping[str, Lead] = field(default_factory=dict)
    """A change's `what`, the id of an op that fails anew, or the name of a model that costs more -> its follow-up."""
    between: tuple[str, ...] | None = None
    """The releases between the builds, where something is to be followed up; None where they are not two of one
    backend."""

    @property
    def verdict(self) -> str:
        """`worse` or `not worse`."""
        return "worse" if self.worse else "not worse"

    @property
    def differing(self) -> tuple[Model, ...]:
        """Models of which the builds made different programs, or programs that need other amounts of memory."""
        return tuple(model for model in self.models if model.equal is False or model.totals)


@dataclass(frozen=True)
class Asked:
    """What a gate is asked for."""

    old: Source
    new: Source
    models: tuple[str, ...]
    arch: str
    workers: int
    options: Mapping[str, Any]
    slower: float
    """Percent by which a model's cycles and its temporary memory may rise."""
    smallest: bool
    """Whether the ops of models that changed are compiled alone, and the smallest made smaller."""
    reduce: float
    """Seconds in which the ops that show a change are made smaller, in all."""
    root: Path
    commits: str = ""
    """What the builds were made of, as `OLD..NEW`."""
    revisions: Revisions | None = None
    """How the commits between them are found."""

    @property
    def whole(self) -> tuple[str, ...]:
        """What both builds take as one program."""
        return tuple(model for model in self.models if not model.startswith(SUITE))

    @property
    def suites(self) -> tuple[str, ...]:
        """Sets of single ops."""
        return tuple(model for model in self.models if model.startswith(SUITE))

    def words_for(self, name: str) -> Sequence[str]:
        """Words of `--model` for a model of a run that was asked for so: its name, or what names its file."""
        if files := [word for word in self.whole if Path(word).stem == name and Path(word).is_file()]:
            return files
        if "all" in self.whole or any(fnmatchcase(name, word) for word in self.whole):
            return [name]
        return [word for word in self.whole if re.search("[:=/.]", word)]  # FILE:ENTRY, NAME=FILE, a glob of files

    @property
    def most_sweeps(self) -> int:
        """How many runs there are at most: of models that changed or are not taken whole, the ops are run too."""
        return 2 * bool(self.whole) + 2


@dataclass(frozen=True)
class Pair:
    """The runs of both builds."""

    views: tuple[RunView, RunView]
    tests: tuple[Mapping[str, OpTest], Mapping[str, OpTest]]
    lowered: Lowered
    folders: tuple[Path, Path]


def run(asked: Asked, watch: Watch, say: Callable[[str], None]) -> Uplift:
    """Runs both builds and compares them.

    Raises InputError where they cannot be compared: a build that cannot be had, a run that did not end, no program that
    both have made.
    """
    for source in (asked.old, asked.new):
        registry.check_name(source.backend)
    folder = asked.root / GATES / f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}"
    make_folder(folder)
    seconds: dict[str, float] = {}
    whole, suites = asked.whole, asked.suites
    sweep = _Sweeps(asked, folder, watch, say, seconds)
    pair = sweep.pair(whole, FULL) if whole else None
    changed = _changed(pair) if pair is not None and asked.smallest else set[str]()
    declined = _declined(pair) if pair is not None else set[str]()
    words = sorted({word for name in changed | declined for word in asked.words_for(name)})
    alone = sweep.pair((*suites, *words), SPLIT) if suites or words else None
    found = _uplift(asked, pair, alone, (*suites, *declined), seconds)
    began = time.monotonic()
    leads, between = leads_of(asked, folder, found, (pair, alone), say)
    seconds["smallest"] = round(time.monotonic() - began, 1)
    return replace(found, leads=leads, between=between, seconds=seconds)


@dataclass(frozen=True)
class _Sweeps:
    """Runs both builds on some models."""

    asked: Asked
    folder: Path
    watch: Watch
    say: Callable[[str], None]
    seconds: dict[str, float]

    def pair(self, models: tuple[str, ...], workflow: str) -> Pair:
        """Both builds, one after the other: the second finds what the first has prepared."""
        labels = {backend_label(source.backend) for source in (self.asked.old, self.asked.new)}
        again = "again" if len(labels) == 1 else ""  # against itself it runs twice
        old = self._run(self.asked.old, models, workflow)
        new = self._run(self.asked.new, models, workflow, again)
        views = from_folder(old), from_folder(new)
        backends = self.asked.old.backend, self.asked.new.backend
        tests = [{test.op_id: test for test in load_run(each).tests} for each in (old, new)]
        return Pair(views, (tests[0], tests[1]), compare_lowered(*views, old, new, backends=backends), (old, new))

    def _run(self, source: Source, models: tuple[str, ...], workflow: str, again: str = "") -> Path:
        asked, backend = self.asked, source.backend
        options = {**asked.options, "workflow": workflow, "keep_ir": True}
        options |= {"system_desc": source.system_desc} if source.system_desc else {}
        if again and asked.old.backend == backend:  # a build against itself would be held to its own verdicts
            options["no_cache"] = True
        content = {"models": [*models], "architectures": [asked.arch], "backends": [backend]}
        config = Config(Path(WHERE), content, models, (backend,), (asked.arch,), workers=asked.workers, options=options)
        part = " ".join(filter(None, (workflow, again)))
        sweep = replace(*sweeps(config), part=part)
        name = "-".join(filter(None, (self.folder.name, "gate", sweep.cell, workflow, again)))
        run_dir = runs_root(asked.root) / name
        log, counter, began = self.folder / f"{name}.txt", Counter(run_dir), time.monotonic()
        command = first_command(sweep, config, run_dir, None)
        child(command, asked.root, log, lambda: self._look(sweep, counter), source.environment)
        took = self.seconds[f"{source.name} {part}"] = round(time.monotonic() - began, 1)
        if not (run_dir / RUN_FILE).is_file() or outcome_of(run_dir) not in FINISHED:
            raise InputError(f"{WHERE}: {source.name}", "a run to its end", last_line(log) or "none", f"less {log}")
        tests = load_run(run_dir).tests
        unloaded = failure_of_all(tests)
        if unloaded is not None and UNLOADED in (unloaded.error_message or ""):  # which says nothing of its programs
            raise InputError(f"{WHERE}: {source.name}", "a build that can be loaded", str(unloaded.error_message), HINT)
        lowered.keep(run_dir, tests)
        self.say(f"{sweep.label}: {took:.0f} s")
        return run_dir

    def _look(self, sweep: Sweep, counter: Counter) -> None:
        self.watch(sweep, *counter.look())


def _changed(pair: Pair) -> set[str]:
    """The models whose programs differ."""
    ids = {op_id for group in pair.lowered.lowering for op_id in group.ops}
    return {name for op_id in ids for name in pair.views[1].ops[op_id].uses_of}


def _declined(pair: Pair) -> set[str]:
    """The models that a build has not tried as one program, such as those of a backend that takes single ops."""
    return {name for view in pair.views for op in view.ops.values() if not op.attempted for name in op.uses_of}


def _uplift(
    asked: Asked, pair: Pair | None, alone: Pair | None, suites: Sequence[str], seconds: Mapping[str, float]
) -> Uplift:
    pairs = [each for each in (pair, alone) if each is not None]
    compared = sum(each.lowered.compared for each in pairs)
    computed = any(
        op.attempted and op_id in each.views[0].ops and each.views[0].ops[op_id].attempted
        for each in pairs
        for op_id, op in each.views[1].ops.items()
    )
    if not compared and not computed:
        raise InputError(WHERE, "a program that both builds made", "none", f"{HINT}; --model mnist_mlp")
    models = _models(pair) if pair is not None else []
    ops = _models(alone) if alone is not None else []
    # Ops of models that only helped to find the smallest are in their models already.
    judged = [pair] if pair is not None else []
    judged += [_only(alone, suites)] if alone is not None and suites else []
    rows = [row for each in judged for row in compare(*each.views).rows]
    news = tuple(row for row in rows if row.label in NEWS)
    worse = [f"{row.op_name} {_name(row)}: {row.label}: {row.error_b}" for row in news]
    worse += [line for model in models for line in _dearer(model, asked.slower)]
    first = pairs[0]
    changes = pair.lowered.lowering if pair is not None else ()
    op_changes = alone.lowered.lowering if alone is not None else ()
    old, new = first.views
    since = compare(old, new).since
    return Uplift(
        old=Build(asked.old.name, _compiler(old)),
        new=Build(asked.new.name, _compiler(new)),
        board=new.board,
        options=dict(asked.options),
        worse=tuple(worse),
        models=tuple(sorted(models, key=lambda model: (-_moved(model), model.name))),
        changes=tuple(_with_smallest(changes, op_changes)),
        ops=tuple(op for op in ops if op.equal is False or op.numbers not in ("equal bits", "")),
        op_changes=tuple(op_changes),
        news=news,
        fixed=tuple(row for row in rows if row.label == Label.FIXED),
        compared=compared,
        folded=sum(each.lowered.folded for each in pairs),
        skipped=tuple(_skipped(pairs)),
        not_priced=tuple(_not_priced(models, pair)) if pair is not None else (),
        seconds=dict(seconds),
        commits=asked.commits or (since.text if since is not None else ""),
        owners=_owners(asked.root, (*changes, *op_changes), news),
    )


def _owners(root: Path, changes: Sequence[Group], news: Sequence[Row]) -> dict[str, str]:
    """Who owns each change, by its ops and models, and each failure."""
    rules = rules_here(None, None, root)
    found = {
        change.what: owner(
            rules,
            [op_of(name) for place in change.places for name in (*place.counts, *place.layouts)],
            "",
            "",
            [place.name for place in change.places],
        )
        for change in changes
    }
    found |= {row.op_id: owner(rules, [row.op_name], row.failed_stage, row.cluster, row.models) for row in news}
    return {name: team for name, team in found.items() if team}


def _only(pair: Pair, suites: Sequence[str]) -> Pair:
    """The ops of suites alone."""
    views = [
        replace(view, ops={key: op for key, op in view.ops.items() if any(name in op.uses_of for name in suites)})
        for view in pair.views
    ]
    return replace(pair, views=(views[0], views[1]))


def _name(row: Row) -> str:
    return ", ".join(row.models) if row.op_name == WHOLE_MODEL else row.types


def _compiler(view: RunView) -> str:
    return str(view.origin.get("compiler") or "")


def _models(pair: Pair) -> list[Model]:
    """Each model or op that both builds have tried."""
    differing = {op_id for group in pair.lowered.lowering for op_id in group.ops}
    found = []
    for op_id, new in pair.tests[1].items():
        old = pair.tests[0].get(op_id)
        if old is None:
            continue
        own = [view.ops[op_id].structure for view in pair.views]
        known = [each for each in own if each is not None]
        outcome = pair.views[1].ops[op_id]
        numbers, reason = numbers_of(old, new)
        found.append(
            Model(
                ", ".join(outcome.uses_of) if new.op_name == WHOLE_MODEL else f"{new.op_name} {outcome.types}",
                op_id,
                (old.status, new.status),
                op_id not in differing if len(known) == 2 else None,
                None if old.cycles is None or new.cycles is None else (old.cycles, new.cycles),
                new.cycles_error,
                _both(each.temp_bytes if each is not None else None for each in own),
                _both(each.launches if each is not None else None for each in own),
                {**(changed_totals(*known) if len(known) == 2 else {}), **_peaks(old, new)},
                (old.pcc, new.pcc),
                numbers,
                reason,
            )
        )
    return found


def _both(values: Any) -> tuple[int, int] | None:
    old, new = values
    return None if old is None or new is None else (old, new)


def _peaks(old: OpTest, new: OpTest) -> Counts:
    """The most memory that an execution has in use, where it changed."""
    pairs = {
        DRAM_PEAK: (old.dram_peak_bytes, new.dram_peak_bytes),
        L1_PEAK: (old.l1_peak_bytes, new.l1_peak_bytes),
    }
    return {name: (a, b) for name, (a, b) in pairs.items() if a is not None and b is not None and a != b}


def numbers_of(old: OpTest, new: OpTest) -> tuple[str, str]:
    """What became of the numbers of an op, and what that rests on.

    Two right results are within the error model of both; `better` or `worse` where the relative L2 error fell or rose
    by a tenth.
    """
    right = old.status in RIGHT, new.status in RIGHT
    if not (old.results and new.results):
        return "", ""
    if not all(right):
        reason = new.error_message if not right[1] else old.error_message
        return {(True, False): "wrong", (False, True): "right now"}.get(right, WRONG_IN_BOTH), reason or ""
    digests = [tuple(check.digest for check in test.results) for test in (old, new)]
    if all(digests[0]) and digests[0] == digests[1]:
        return "equal bits", ""
    errors = [max((check.relative_l2 or 0.0 for check in test.results), default=0.0) for test in (old, new)]
    if errors[0] == errors[1] and not all((*digests[0], *digests[1])):
        return "", ""
    worst = max(new.results, key=lambda check: (check.z_max or 0.0) / (check.z_limit or 1.0))
    limit = (
        f", {worst.z_max:.3g} of its scale where {worst.z_limit:.3g} is right" if worst.z_max and worst.z_limit else ""
    )
    reason = f"relative L2 {errors[0]:.3g} -> {errors[1]:.3g} ({worst.tolerance}{limit})"
    if errors[1] > errors[0] * NEARER:
        return "worse", reason
    return ("better" if errors[1] * NEARER < errors[0] else "within"), reason


def _moved(model: Model) -> int:
    return abs(model.cycles[1] - model.cycles[0]) if model.cycles is not None else 0


def _dearer(model: Model, most: float) -> Iterator[str]:
    """What a model costs more of, by more than so many percent."""
    costs = {"cycles": model.cycles, "temporary bytes": model.temp_bytes, DRAM_PEAK: model.totals.get(DRAM_PEAK)}
    if model.equal:  # else a result may lie there to be read sooner
        costs[L1_PEAK] = model.totals.get(L1_PEAK)
    for what, pair in costs.items():
        if pair is not None and pair[1] > pair[0] * (1 + most / 100):
            share = f" ({percent_change(*pair)})" if pair[0] else ""
            yield f"{model.name}: {what} {pair[0]:,} -> {pair[1]:,}{share}"


def _with_smallest(changes: Sequence[Group], op_changes: Sequence[Group]) -> list[Group]:
    """The changes of models, each with the smallest op alone that shows it too."""
    alone = {group.alike: group for group in op_changes}
    return [
        replace(group, smallest=found.smallest, smallest_id=found.smallest_id, command=found.command)
        if (found := alone.get(group.alike)) is not None
        else group
        for group in changes
    ]


def _skipped(pairs: Sequence[Pair]) -> list[str]:
    found: dict[str, None] = {}
    for pair in pairs:
        for view in pair.views:
            found |= dict.fromkeys(f"{model}: not exported for {view.backend}" for model in view.asked)
            found |= {
                f"{', '.join(op.uses_of)} as one program: {op.error or op.status}": None
                for op in view.ops.values()
                if not op.attempted and op.op_name == WHOLE_MODEL
            }
        if pair.lowered.without:
            found[f"{pair.lowered.without} programs: one of the builds has left no IR of them"] = None
    return [*found]


def _not_priced(models: Sequence[Model], pair: Pair) -> list[str]:
    """Why there are no cycles of a model whose program changed."""
    found = []
    if models and all(model.cycles is None for model in models):
        return [f"all models: {pair.views[1].backend} counts no cycles"]
    for model in models:
        if model.equal is not False or model.cycles is not None:
            continue
        test = pair.tests[1][model.op_id]
        why = test.error_message if test.status not in RIGHT else f"{test.backend} counts none"
        found.append(f"{model.name}: {why or test.status}")
    return found
