"""What to fix first: causes of failure by the models that they block, and the fixes that complete models fastest.

A *fix* removes one cause of failure (an error cluster), or all failures of one op's name where `by` says so. A model
is whole when all of its ops were attempted and none goes wrong, nor the model as one program (`RunView.lacking`). One
with ops that nobody attempted is not whole, and no fix is known to make it so, since nobody knows about them; nor is
there a fix for ops that a limitation of kind `never` names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from opscope.harness.record.stages import depths
from opscope.reports.compare.outcomes import Outcome, RunView

BY = ("cluster", "op")
"""What one fix is."""


@dataclass(frozen=True)
class Fix:
    """One cause of failure, or the ops of one name, and what it blocks."""

    fix: str
    """The cause, or the name of the op."""
    op_names: tuple[str, ...]
    stage: str
    """Where its ops go wrong."""
    error: str
    ops: int
    uses: int
    models: tuple[str, ...]
    alone: int
    """Number of models that nothing else blocks."""
    known: int
    """Number of its ops that a limitation names."""
    repro: str
    cluster: str = ""
    """The cause; of the ops of one name that of its op with the most uses."""
    owner: str = ""
    """The team that owns it (ci/owners.yaml)."""
    remark: str = ""
    """What a note says of its cause (opscope note)."""
    acknowledged: bool = False
    """Whether that note acknowledges the cause."""
    flaky: bool = False
    """Whether repeated attempts disagreed for each of its ops: what comes and goes is no fix to begin with."""


@dataclass(frozen=True)
class Step:
    """One point of the unlock curve: after so many fixes, so many models are whole."""

    fixes: int
    """Fixes made so far."""
    fix: str
    """The last of them; empty at the first point, which is today."""
    whole: int
    unlocked: tuple[str, ...]
    """Models that this step makes whole."""


@dataclass(frozen=True)
class PlannedRun:
    """A run whose models are looked at."""

    run_id: str
    started: str
    """Date and time with its zone."""
    backend: str
    arch: str
    board: str
    """Empty where its backend has none."""
    name: str
    """What its series is called."""


@dataclass(frozen=True)
class FixPlan:
    """What to fix, in which order, for the models of some runs."""

    runs: tuple[PlannedRun, ...]
    models: tuple[str, ...]
    whole: tuple[str, ...]
    """Models of which every op was attempted and came out right."""
    unknown: Mapping[str, int]
    """Model -> number of ops that were not attempted, if any."""
    never: Mapping[str, int]
    """Model -> number of ops that a limitation of kind `never` names, if any: no fix makes such a model whole."""
    by: str
    fixes: tuple[Fix, ...]
    curve: tuple[Step, ...]


@dataclass(frozen=True)
class Placed:
    """An op of a model that goes wrong, in that model's run."""

    model: str
    op: Outcome
    uses: int


def plan(views: Mapping[str, RunView], by: str = "cluster") -> FixPlan:
    """The ranking and the curve. `views` maps a model to its run."""
    lacking = {model: view.lacking.get(model, ()) for model, view in views.items()}
    placed = [Placed(model, op, op.uses_of[model]) for model, ops in lacking.items() for op in ops if op.bad]
    never = Counter(occurrence.model for occurrence in placed if is_never_fixed(occurrence.op))
    placed = [occurrence for occurrence in placed if not is_never_fixed(occurrence.op)]
    unknown = {model: sum(not op.attempted for op in ops) for model, ops in lacking.items()}
    tried = {model for model, count in unknown.items() if not count and model not in never}
    needs: dict[str, set[str]] = {model: set() for model in views}
    groups: dict[str, list[Placed]] = {}
    for occurrence in placed:
        key = occurrence.op.cause if by == "cluster" else occurrence.op.op_name
        needs[occurrence.model].add(key)
        groups.setdefault(key, []).append(occurrence)
    newest = max(views.values(), key=lambda view: view.started, default=None)
    fixes = sorted(
        (_fix(key, group, {model: needs[model] for model in tried}, newest) for key, group in groups.items()),
        key=lambda fix: (fix.acknowledged, fix.flaky, -len(fix.models), -fix.uses, fix.fix),
    )
    weight = {fix.fix: fix.uses for fix in fixes}
    runs_used = {view.run_id: view for view in views.values()}
    return FixPlan(
        runs=tuple(
            PlannedRun(view.run_id, view.started.isoformat(), view.backend, view.arch, view.board, view.name)
            for view in runs_used.values()
        ),
        models=tuple(sorted(views)),
        whole=tuple(sorted(model for model, view in views.items() if view.whole(model))),
        unknown={model: count for model, count in sorted(unknown.items()) if count},
        never=dict(sorted(never.items())),
        by=by,
        fixes=tuple(fixes),
        curve=tuple(_known(curve(needs, weight), tried)),
    )


def for_good(view: RunView) -> list[Fix]:
    """The causes that no plan has, since a limitation of kind `never` names all their ops. They fail all the same."""
    groups: dict[str, list[Placed]] = {}
    for model, ops in view.lacking.items():
        for op in ops:
            if op.bad:
                groups.setdefault(op.cause, []).append(Placed(model, op, op.uses_of[model]))
    never = {key: group for key, group in groups.items() if all(is_never_fixed(placed.op) for placed in group)}
    return [_fix(key, group, {}, view) for key, group in sorted(never.items())]


def is_never_fixed(op: Outcome) -> bool:
    """Whether a limitation says that an op fails for good: that is no fix to offer."""
    return op.expected.partition(":")[0] == "never"


def _known(steps: Sequence[Step], tried: Collection[str]) -> list[Step]:
    """The steps of a curve, of which only models count whose ops were all attempted."""
    known: list[Step] = []
    for step in steps:
        unlocked = tuple(model for model in step.unlocked if model in tried)
        known.append(replace(step, unlocked=unlocked, whole=len(unlocked) + (known[-1].whole if known else 0)))
    return known


def _fix(key: str, group: Sequence[Placed], needs: Mapping[str, set[str]], newest: RunView | None) -> Fix:
    models = sorted({occurrence.model for occurrence in group})
    ops = {occurrence.op.op_id: occurrence.op for occurrence in group}
    first = max(group, key=lambda occurrence: (occurrence.uses, occurrence.op.op_id)).op
    causes = {op.cause for op in ops.values()}
    return Fix(
        fix=key,
        op_names=tuple(name for name, _ in Counter(op.op_name for op in ops.values()).most_common()),
        stage=first.failed_stage or first.stage,
        error=first.error or first.status,
        ops=len(ops),
        uses=sum(occurrence.uses for occurrence in group),
        models=tuple(models),
        alone=sum(needs.get(model) == {key} for model in models),
        known=sum(bool(op.expected) for op in ops.values()),
        repro=first.repro,
        cluster=first.cause,
        flaky=all(op.flaky for op in ops.values()),
        remark="" if newest is None else noted(newest, first.cause)[0],
        acknowledged=newest is not None and all(map(newest.acknowledges, causes)),
    )


def noted(view: RunView, cause: str) -> tuple[str, bool]:
    """What a note says of a cause on the date of a run, and whether it acknowledges the cause; nothing without one."""
    note = view.notes.get(cause)
    return note.line(view.day) if note else "", view.acknowledges(cause)


def curve(needs: Mapping[str, Iterable[str]], weight: Mapping[str, int] | None = None) -> list[Step]:
    """Greedy cover: again and again the bundle of fixes that makes the most models whole per fix, one point a fix.

    A model becomes whole only when all that it needs is fixed, so a bundle is the whole missing set of some model; of
    equally good ones the smaller goes first, then the one with more uses. The first point is today, without any fix.
    """
    weight = weight or {}
    missing = {model: frozenset(need) for model, need in needs.items()}
    whole = sorted(model for model, need in missing.items() if not need)
    done: set[str] = set()
    steps = [Step(0, "", len(whole), tuple(whole))]
    open_ = {model: need for model, need in missing.items() if need}
    while open_:
        bundles = {frozenset(need - done) for need in open_.values()}

        def gain(bundle: frozenset[str]) -> tuple[float, int, int, list[str]]:
            unlocked = _completed(open_, done | bundle)
            # Sorted names last, so that equal bundles come in the same order on every machine.
            return -unlocked / len(bundle), len(bundle), -sum(weight.get(fix, 0) for fix in bundle), sorted(bundle)

        for fix in _ordered(min(bundles, key=gain), open_, done, weight):
            done.add(fix)
            unlocked = sorted(model for model, need in open_.items() if need <= done)
            for model in unlocked:
                del open_[model]
            steps.append(Step(len(done), fix, steps[-1].whole + len(unlocked), tuple(unlocked)))
    return steps


def _ordered(
    bundle: frozenset[str], needs: Mapping[str, frozenset[str]], done: Iterable[str], weight: Mapping[str, int]
) -> list[str]:
    """The fixes of a bundle so that models become whole as early as they can: the one that lacks least comes first."""
    left = [need - set(done) for need in needs.values() if need <= bundle | set(done)]
    order: list[str] = []
    while len(order) < len(bundle):
        lacking = [need.difference(order) for need in left if not need <= set(order)]
        least = min(lacking, key=lambda need: (len(need), -sum(weight.get(fix, 0) for fix in need), sorted(need)))
        order += sorted(least, key=lambda fix: (-weight.get(fix, 0), fix))
    return order


def _completed(needs: Mapping[str, frozenset[str]], done: set[str]) -> int:
    return sum(need <= done for need in needs.values())


# --- one model


@dataclass(frozen=True)
class Missing:
    """An op that keeps a model from being whole."""

    op_id: str
    op_name: str
    op_kind: str
    types: str
    params: Mapping[str, str]
    uses: int
    status: str
    stage: str
    """The last stage that it passed."""
    depth: int
    """How many stages that is."""
    failed_stage: str
    cluster: str
    """The cause."""
    error: str
    known: str
    """The limitation that names it."""
    flaky: bool
    repro: str
    remark: str
    """What a note says of its cause."""
    acknowledged: bool
    """Whether that note acknowledges the cause."""
    owner: str = ""
    """The team that owns it (ci/owners.yaml)."""


OWN = ("op_id", "op_name", "op_kind", "types", "status", "stage", "failed_stage", "error", "flaky", "repro")
"""Fields of an op that keeps a model from being whole which are those of its outcome."""


def missing(view: RunView, model: str) -> list[Missing]:
    """What keeps `model` from being whole, the op with the most uses first.

    Those of causes that a note acknowledges come last.
    """
    depth = depths({op.stage for op in view.ops.values()}, view.climbs)
    rows = [
        Missing(
            **{name: getattr(op, name) for name in OWN},
            params=dict(op.params),
            uses=op.uses_of[model],
            depth=depth.get(op.stage, 0),
            cluster=op.cause,
            known=op.expected,
            remark=remark,
            acknowledged=acknowledged,
        )
        for op in view.lacking.get(model, ())
        for remark, acknowledged in [noted(view, op.cause)]
    ]
    return sorted(rows, key=lambda row: (row.acknowledged, -row.uses, row.op_name, row.op_id))
