"""Compares two runs op by op: what is new, fixed, worse or gone, and what else changed between them.

Every op of either run gets one label. Rates come twice: over all ops, and like for like (ops attempted in both
runs), so that a larger set of models never reads as a regression.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pydantic import JsonValue

from opscope.base.labels import (
    LEAST_NS,
    MORE_CYCLES,
    MORE_TIME,
    NEWS,
    QUIET,
    TURNS,
    UNREPEATED,
    Label,
    change_of,
    is_drop,
    is_farther,
    side_of,
)
from opscope.harness.record.causes import LESS_EXACT, cause_of
from opscope.harness.record.isolation import Artefact
from opscope.harness.record.origin import CYCLE_MODEL, OF_ONE_RUN, as_of_any_run, conditions_of
from opscope.reports.compare.changed_programs import ChangedProgram, changed_programs
from opscope.reports.compare.commit_range import CommitRange, range_of
from opscope.reports.compare.outcomes import Outcome, RunView
from opscope.reports.database.notes import Note


@dataclass(frozen=True)
class Row:
    """One op in two runs; fields in `_a` belong to the earlier run, fields in `_b` to the later."""

    label: str
    op_id: str
    op_name: str
    op_kind: str
    types: str
    models: tuple[str, ...]
    uses: int
    status_a: str
    status_b: str
    stage_a: str
    stage_b: str
    failed_stage: str
    """Where it goes wrong in the later run; in the earlier, if it is right now."""
    error_a: str
    error_b: str
    cluster: str
    pcc_a: float | None
    pcc_b: float | None
    cycles_a: int | None
    cycles_b: int | None
    compile_ms_a: float | None
    compile_ms_b: float | None
    known: str
    """The limitation that names the failure."""
    flaky: bool
    note: str
    repro: str
    owner: str = ""
    """The team that owns it (ci/owners.yaml); empty if no rule fits, and for rows that are no failure."""
    remark: str = ""
    """What a note says of its cause (opscope note)."""
    acknowledged: bool = False
    """Whether that note acknowledges the cause, so that it does not alarm."""

    @property
    def change(self) -> str:
        """What its label counts as: itself, `acknowledged`, or `known or flaky`."""
        return change_of(self.label, known=bool(self.known), flaky=self.flaky, acknowledged=self.acknowledged)

    @property
    def news(self) -> bool:
        """Whether the row fails a gate."""
        return self.change in NEWS


@dataclass(frozen=True)
class Rate:
    """Attempted and right ops and their share, 0 to 1, in unique ops and in uses: of the earlier run (`_a`) and of the
    later (`_b`), of one place of execution."""

    scope: str
    """`all`, or `like for like`: ops that both runs attempted."""
    ran_on: str
    right_ops_a: int
    attempted_ops_a: int
    rate_ops_a: float | None
    right_uses_a: int
    attempted_uses_a: int
    rate_uses_a: float | None
    right_ops_b: int
    attempted_ops_b: int
    rate_ops_b: float | None
    right_uses_b: int
    attempted_uses_b: int
    rate_uses_b: float | None


@dataclass(frozen=True)
class Cluster:
    """The failures of one cause, in either run."""

    cluster: str
    flaky: bool
    stage: str
    error: str
    labels: Mapping[str, int]
    """Label -> ops."""
    ops: int
    uses: int
    models: tuple[str, ...]


@dataclass(frozen=True)
class Change:
    """What differs between the runs besides their results."""

    what: str
    """`compiler`, `arch`, `option NAME`, `version NAME`, ..."""
    a: JsonValue
    b: JsonValue


Slower = Callable[[Outcome, Outcome], str]
"""Returns why an op counts as slower now, or an empty text (reports/compare/history.py)."""


@dataclass(frozen=True)
class Diff:
    """Two runs compared."""

    a: RunView
    b: RunView
    rows: tuple[Row, ...]
    counts: Mapping[str, int]
    rates: tuple[Rate, ...]
    clusters: tuple[Cluster, ...]
    changes: tuple[Change, ...]
    notes: tuple[str, ...]
    isolation: tuple[Artefact, ...] = ()
    """Ops whose verdicts differ, if one run has ops alone and the other models as one program."""
    programs: tuple[ChangedProgram, ...] = ()
    """Whole models of which the compiler made another program."""

    @property
    def since(self) -> CommitRange | None:
        """The commits since the last complete night before the later run, or since the earlier run; None where neither
        has one."""
        before = self.a.known_good
        return range_of(before.origin, before.backend, self.b.origin, self.b.backend)

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions that changed (harness/cache/conditions.py)."""
        return tuple(conditions_changed(self.a.origin, self.b.origin))

    @property
    def news(self) -> int:
        """Rows that fail a gate."""
        return sum(row.news for row in self.rows)

    @property
    def in_both(self) -> int:
        """Number of ops that both runs attempted."""
        return sum(
            op.attempted and op_id in self.a.ops and self.a.ops[op_id].attempted for op_id, op in self.b.ops.items()
        )


def compare(a: RunView, b: RunView, slower: Slower | None = None) -> Diff:
    """Labels every op of both runs. Without `slower`, compile times are shown but get no label."""
    labelled = labelled_rows(a, b, slower)
    order = list(Label)
    rows = sorted(labelled, key=lambda row: (order.index(Label(row.label)), -len(row.models), -row.uses, row.op_id))
    counts = Counter(row.label for row in rows)
    changed = changes(a, b)
    conditions = [change.what for change in changed if change.what.startswith(CONDITION)]
    if conditions and all(change.what in (*conditions, *EXPLAINS_NOTHING) for change in changed):
        names = ", ".join(what.removeprefix(CONDITION) for what in conditions)
        rows = [_with_note(row, f"only {names} changed") if row.label in WORSE_NOW else row for row in rows]
    notes = [] if slower else ["compile times are not judged, because that needs five comparable runs in the database"]
    counted = any(op.ran_on == SIMULATOR and op.cycles for op in b.ops.values())
    if counted and CYCLE_MODEL in conditions_changed(a.origin, b.origin):
        notes.append("cycles of the simulator are not compared: its model is another one than in the earlier run")
    for run, which in ((a, "earlier"), (b, "later")):
        if run.missing:
            rest = "ops that did not run are not gone"
            if run.complete is not None:
                rest = f"ops that it did not try are as {run.complete.run_id} left them"
            notes.append(f"the {which} night is partial: {', '.join(run.missing)} missing; {rest}")
        elif run.outcome != "complete":
            notes.append(f"the {which} run is {run.outcome}; ops without a result count as not run")
        if run.deselected:
            notes.append(f"{run.deselected} of {len(run.ops)} ops were deselected in the {which} run (--ops, -k)")
    return Diff(
        a,
        b,
        tuple(rows),
        {str(label): counts[label] for label in Label if counts[label]},
        tuple(rates(a, b)),
        tuple(clusters(rows)),
        tuple(changed),
        tuple(notes),
        programs=changed_programs(a, b),
    )


SIMULATOR = "simulator"
"""Where an op ran whose cycles the simulator has counted."""
CONDITION = "condition "
"""How `Change.what` begins where a condition changed."""
EXPLAINS_NOTHING = ("models", "host", "version opscope")
"""What else may differ between two runs where only conditions explain what became of an op of both: which of our own
rules a newer opscope has changed, they say."""
WORSE_NOW = (Label.NEW, Label.REASON_CHANGED, Label.PCC_DROP, Label.SLOWER)


def conditions_changed(old: Mapping[Any, Any], new: Mapping[Any, Any]) -> dict[str, tuple[Any, Any]]:
    """The conditions that differ between two runs, given their origins, with both values; none where one of them, of an
    earlier version of opscope, says nothing of its own."""
    before, now = conditions_of(old.get("options")), conditions_of(new.get("options"))
    if not before or not now:
        return {}
    return {
        name: (before.get(name), now.get(name)) for name in sorted({*before, *now}) if before.get(name) != now.get(name)
    }


def _with_note(row: Row, note: str) -> Row:
    """The row with a note more, if the op was tried before: else it is new, whatever changed."""
    return replace(row, note="; ".join(filter(None, (row.note, note)))) if row.status_a else row


def of_cause(diff: Diff, cause: str) -> Diff:
    """Only the rows of one cause."""
    rows = tuple(row for row in diff.rows if row.cluster == cause)
    counts = Counter(row.label for row in rows)
    causes = tuple(each for each in diff.clusters if each.cluster == cause)
    return replace(diff, rows=rows, counts=dict(counts), clusters=causes, notes=())


def labelled_rows(a: RunView, b: RunView, slower: Slower | None, without: Collection[Label] = ()) -> list[Row]:
    """A row for each op of either run, except those whose label is in `without`."""
    rows = []
    known = {*a.models, *a.asked, *a.known_good.models, *a.known_good.asked}
    notes = b.notes or a.notes  # a run that is no night yet is compared with one of the database
    recounted = CYCLE_MODEL in conditions_changed(a.origin, b.origin)
    for op_id in dict.fromkeys([*b.ops, *a.ops]):
        old, new = a.ops.get(op_id), b.ops.get(op_id)
        if new is None and a.workflow != b.workflow:
            label, note = Label.NEVER_RUN, f"the later run is of workflow {b.workflow}"
        else:
            before = replace(old, cycles=None) if recounted and old is not None and old.ran_on == SIMULATOR else old
            label, note = _label(before, new, b, slower)
            if label is Label.NEW and old is None and new is not None and new.uses_of and not known & set(new.uses_of):
                label, note = Label.FIRST, f"new in {', '.join(sorted(new.uses_of))}"
        if label not in without:
            rows.append(_row(label, note, old, new))
    return [_with_remark(row, notes[row.cluster], b.day) if row.cluster in notes else row for row in rows]


def first_rows(now: RunView) -> list[Row]:
    """A row for each op that goes wrong in a run that nothing is before."""
    rows = labelled_rows(replace(now, ops={}), now, None, QUIET)
    return [replace(row, label=Label.FIRST, note="") for row in rows if row.label == Label.NEW]


def _with_remark(row: Row, note: Note, day: str) -> Row:
    return replace(row, remark=note.line(day), acknowledged=note.quiets(day))


def _row(label: Label, note: str, old: Outcome | None, new: Outcome | None) -> Row:
    op = new or old
    assert op is not None
    failing = new if new is not None and new.bad else old if old is not None and old.bad else None
    return Row(
        label=label,
        op_id=op.op_id,
        op_name=op.op_name,
        op_kind=op.op_kind,
        types=op.types,
        models=tuple(sorted({*(old.uses_of if old else ()), *(new.uses_of if new else ())})),
        uses=op.uses,
        status_a=old.status if old else "",
        status_b=new.status if new else "",
        stage_a=old.stage if old else "",
        stage_b=new.stage if new else "",
        failed_stage=(failing.failed_stage or failing.stage) if failing else "",
        error_a=old.error if old else "",
        error_b=new.error if new else "",
        cluster=failing.cause if failing else _cause_of_drop(label, op),
        pcc_a=old.pcc if old else None,
        pcc_b=new.pcc if new else None,
        cycles_a=old.cycles if old else None,
        cycles_b=new.cycles if new else None,
        compile_ms_a=_ms(old),
        compile_ms_b=_ms(new),
        known=new.expected if new and new.bad else "",
        flaky=bool((old and old.flaky) or (new and new.flaky)),
        note=note,
        repro=op.repro,
    )


def _cause_of_drop(label: Label, op: Outcome) -> str:
    """The cause of an op that is right and further from its golden; empty for another label."""
    if label is not Label.PCC_DROP:
        return ""
    return cause_of(LESS_EXACT, op.stage, op.op_name, op.types.removeprefix(" -> ").partition("[")[0])


def _ms(op: Outcome | None) -> float | None:
    return 1000 * op.compile_seconds if op is not None and op.compile_seconds else None


def _label(old: Outcome | None, new: Outcome | None, b: RunView, slower: Slower | None) -> tuple[Label, str]:
    if new is None:
        assert old is not None
        common_models = set(old.uses_of) & set(b.models)
        if common_models or not old.uses_of:
            return Label.VANISHED, ""
        if set(old.uses_of) <= {name.removeprefix("model ") for name in b.missing}:
            return Label.NEVER_RUN, "its models are missing from the later night"
        return Label.NEVER_RUN, "its models are not in the later run"
    if not new.attempted:
        missing = [name for name in b.missing if not name.startswith("model ")]
        return Label.NEVER_RUN, new.status.replace("_", " ") + (f" ({', '.join(missing)} missing)" if missing else "")
    before = old if old is not None and old.attempted else None
    label = TURNS[side_of(before and before.status), side_of(new.status)]
    if label is None:
        assert before is not None
        if not new.bad:
            return _worse(before, new, slower)
        if before.reason == new.reason:
            return Label.PERSISTING, ""
        return Label.REASON_CHANGED, _reasons(before, new)
    if label is Label.ADDED:
        return _unrepeated(before, new) or (label, "")
    if label is Label.NEW and before is None:
        return label, "first attempt" if old is None else f"{old.status.replace('_', ' ')} before"
    known = label is Label.FIXED and new.expected
    return label, f"a limitation still names it: {new.expected}" if known else ""


def _reasons(old: Outcome, new: Outcome) -> str:
    if (old.status, old.failed_stage) != (new.status, new.failed_stage):
        return f"{old.status} at {old.failed_stage or old.stage} before"
    return "a different error at the same stage"


def _worse(old: Outcome, new: Outcome, slower: Slower | None) -> tuple[Label, str]:
    """The label of two right results: less exact, not repeating, slower, or the same."""
    if old.pcc is not None and new.pcc is not None and is_drop(old.pcc, new.pcc):
        return Label.PCC_DROP, f"1 - PCC: {1 - old.pcc:.1e} before, {1 - new.pcc:.1e} now"
    if old.largest_ulp is not None and new.largest_ulp is not None and is_farther(old.largest_ulp, new.largest_ulp):
        return Label.PCC_DROP, f"at most {old.largest_ulp:.3g} ulp before, {new.largest_ulp:.3g} now"
    if unrepeated := _unrepeated(old, new):
        return unrepeated
    if old.cycles and new.cycles and new.cycles > max(MORE_CYCLES, 1 + (new.cycles_error or 0) / 100) * old.cycles:
        return Label.SLOWER, f"{100 * (new.cycles / old.cycles - 1):.0f} % more cycles"
    if takes_longer(old, new):
        assert old.run_ns is not None
        assert new.run_ns is not None
        return Label.SLOWER, f"runs in {new.run_ns / 1000:,.0f} us, {old.run_ns / 1000:,.0f} before"
    why = slower(old, new) if slower else ""
    return (Label.SLOWER, why) if why else (Label.SAME, "")


def _unrepeated(old: Outcome | None, new: Outcome) -> tuple[Label, str] | None:
    """The label of a right result that does not repeat, or not alone, where that was not seen before."""
    label = UNREPEATED.get(new.stability)
    if label is None or (old is not None and old.stability == new.stability):
        return None
    return label, "other bits from run to run" if label is Label.VARYING else "rows have other bits alone"


def takes_longer(old: Outcome, new: Outcome) -> bool:
    """Whether an op's measured time has grown by more than its runs differ among themselves; where it was run so few
    times that nobody knows how they differ, it has not."""
    if old.ran_on != new.ran_on or old.run_ns is None or new.run_ns is None:
        return False
    if old.run_spread_ns is None or new.run_spread_ns is None:
        return False
    growth = new.run_ns - old.run_ns
    return growth > max(old.run_spread_ns + new.run_spread_ns, (MORE_TIME - 1) * old.run_ns, LEAST_NS)


# --- rates


def rates(a: RunView, b: RunView) -> list[Rate]:
    """Attempted and right ops and their share, per scope and place of execution, in unique ops and in uses; in scope
    `all` of a partial night those that it tried itself.

    Like for like, both runs are weighed by the later run's uses. Results of one place never add to those of another.
    """
    both = {op_id for op_id, op in b.ops.items() if op.attempted and op_id in a.ops and a.ops[op_id].attempted}
    rows = []
    for scope, of_a, of_b, weighed in (
        ("all", a.ops.keys() - a.from_complete, b.ops.keys(), a),
        ("like for like", both, both, b),
    ):
        earlier, later = _counted(a, of_a, weighed), _counted(b, of_b, b)
        places = {*earlier.right, *later.right}
        rows += [
            Rate(scope, place, *earlier.shares(place), *later.shares(place)) for place in sorted(places) or ["none"]
        ]
    return rows


class _Counted(NamedTuple):
    """Attempted ops of a run and their uses; place of execution -> those of the right ones."""

    ops: int
    uses: int
    right: Mapping[str, tuple[int, int]]

    def shares(self, place: str) -> tuple[int, int, float | None, int, int, float | None]:
        """Right and attempted ops and their rate, and the same in uses."""
        ops, uses = self.right.get(place, (0, 0))
        return (
            ops,
            self.ops,
            ops / self.ops if self.ops else None,
            uses,
            self.uses,
            uses / self.uses if self.uses else None,
        )


def _counted(run: RunView, only: Collection[str], weighed: RunView) -> _Counted:
    """The attempted ops of `run` that are in `only`, each with its uses in `weighed`."""
    ops = uses = 0
    right: dict[str, tuple[int, int]] = {}
    for op_id, op in run.ops.items():
        if not op.attempted or op_id not in only:
            continue
        weight = (op if weighed is run else weighed.ops[op_id]).uses
        ops, uses = ops + 1, uses + weight
        if op.right:
            right_ops, right_uses = right.get(op.ran_on, (0, 0))
            right[op.ran_on] = (right_ops + 1, right_uses + weight)
    return _Counted(ops, uses, right)


# --- errors


def clusters(rows: Iterable[Row]) -> list[Cluster]:
    """Failures of either run by cause, sorted by the models that they block; flaky ops are separate."""
    groups: dict[tuple[str, bool], list[Row]] = {}
    for row in rows:
        if row.cluster:
            groups.setdefault((row.cluster, row.flaky), []).append(row)
    causes = [
        Cluster(
            cluster,
            flaky,
            stage=next((row.stage_b or row.stage_a for row in group), ""),
            error=next((row.error_b or row.error_a for row in group if row.error_b or row.error_a), ""),
            labels=dict(Counter(row.label for row in group)),
            ops=len(group),
            uses=sum(row.uses for row in group),
            models=tuple(sorted({model for row in group for model in row.models})),
        )
        for (cluster, flaky), group in groups.items()
    ]
    return sorted(causes, key=lambda cause: (cause.flaky, -len(cause.models), -cause.uses, cause.cluster))


# --- what else changed


def changes(a: RunView, b: RunView) -> list[Change]:
    """What differs between the runs besides their results: revisions, versions, models, options, machine."""
    compilers = _revision(a, "backend_"), _revision(b, "backend_")
    pairs: list[tuple[str, Any, Any]] = [
        ("compiler", str(a.origin["compiler"]), str(b.origin["compiler"])),
        *([] if compilers == (_revision(a), _revision(b)) else [("compiler revision", *compilers)]),
        ("revision", _revision(a), _revision(b)),
        ("backend", a.backend, b.backend),
        ("arch", a.arch, b.arch),
        ("models", _only(a.models, b.models), _only(b.models, a.models)),
        ("host", a.origin["host"], b.origin["host"]),
        ("python", a.origin["python"], b.origin["python"]),
    ]
    options = (a.origin["options"], b.origin["options"])
    for kind, old, new in (
        ("versions", _versions(a), _versions(b)),
        ("options", *({name: as_of_any_run(given, name) for name in given} for given in options)),
    ):
        pairs += [(f"{kind[:-1]} {name}", old.get(name), new.get(name)) for name in sorted({*old, *new} - OF_ONE_RUN)]
    pairs += [(f"{CONDITION}{name}", *values) for name, values in conditions_changed(a.origin, b.origin).items()]
    return [Change(what, old, new) for what, old, new in pairs if old != new]


def _versions(run: RunView) -> dict[str, Any]:
    """The versions of packages, and of what the backends consist of (`Backend.versions`)."""
    of_backends = run.origin["options"].get("versions")
    parts = of_backends.values() if isinstance(of_backends, dict) else ()
    return {
        name: version
        for part in (*parts, run.origin["versions"])
        if isinstance(part, dict)
        for name, version in part.items()
    }


def _revision(run: RunView, prefix: str = "") -> str:
    revision, dirty = run.origin[f"{prefix}revision"], run.origin[f"{prefix}dirty"]
    return f"{revision[:12]}{' (changed since)' if dirty else ''}" if revision else ""


def _only(these: Sequence[str], others: Sequence[str]) -> str:
    return ", ".join(model for model in these if model not in others)
