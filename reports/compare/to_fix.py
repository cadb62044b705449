"""What there is to say of what to fix first, and of one model that is not whole yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from opscope.base.document.nodes import Cause, Causes, Column, Node, Op, Table, Words, causes_within
from opscope.base.visible_text import counted, one_line
from opscope.harness.record.causes import short
from opscope.reports.compare.night_times import night_column
from opscope.reports.compare.readiness import Readiness
from opscope.reports.compare.run_selection import left_out_line
from opscope.reports.compare.unblock import FixPlan, Missing

COUNTS = [Column(name, "right") for name in ("ops", "right", "missing", "not attempted")]
"""Columns of a model's history."""


def document(
    plan: FixPlan, most: int, team: str | None = None, left_out: str = "", *, curve: bool = True
) -> Iterator[Node]:
    """The ranking and the unlock curve, or that there is nothing to fix; `left_out` is a line about runs."""
    runs = ", ".join(f"{run.run_id} ({run.name})" for run in plan.runs)
    models = f"1 model, {len(plan.whole)} whole, in its newest run"
    if len(plan.models) != 1:
        models = f"{len(plan.models)} models, {len(plan.whole)} of them whole, in the newest run of each"
    yield Words(f"{models}: {runs}", "strong")
    if left_out:
        yield Words(left_out, "known")
    if plan.unknown:
        yield Words(f"not attempted: {_of_models(plan.unknown)}")
    if plan.never:
        yield Words(f"never to be right (limitations): {_of_models(plan.never)}")
    if not plan.fixes:
        yield _nothing(plan, team)
        return
    yield ranking(plan, most)
    for cause, remark in {fix.cluster: fix.remark for fix in plan.fixes[:most] if fix.remark}.items():
        yield Words(f"cause {short(cause)}, note: {one_line(remark)}", "strong")
    if curve:
        yield _curve(plan, most)


def _of_models(ops: Mapping[str, int]) -> str:
    return ", ".join(f"{counted(count, 'op')} of {model}" for model, count in ops.items())


def _nothing(plan: FixPlan, team: str | None) -> Words:
    if len(plan.curve) > 1:
        return Words(f"Nothing to fix: no failure belongs to {team}.", "good")
    if plan.never and not plan.unknown:
        return Words("Nothing to fix: what fails is never to be right.", "known")
    if plan.unknown:
        return Words("Nothing to fix is known: no attempted op fails, and others were not attempted.", "known")
    return Words("Nothing to fix: no op fails.", "good")


def ranking(plan: FixPlan, most: int) -> Table:
    """The fixes that help most; *alone*: models that nothing else blocks."""
    by = {"cluster": "cause"}.get(plan.by, plan.by)
    last = ", those that a note acknowledges last" if any(fix.acknowledged for fix in plan.fixes) else ""
    numbers = [Column(name, "right") for name in ("models", "alone", "uses", "ops")]
    columns = [
        Column(by, "code"),
        *numbers,
        Column("known", "right", fillable=True),
        Column("fails at"),
        Column("its ops", "names"),
        Column("owner", fillable=True),
        Column("error message", "long"),
    ]
    rows = [
        (
            _named(plan, fix.fix),
            *(len(fix.models), fix.alone, fix.uses, fix.ops, fix.known or ""),
            *(fix.stage, fix.op_names, fix.owner, f"{'flaky: ' * fix.flaky}{fix.error}"),
        )
        for fix in plan.fixes[:most]
    ]
    title = f"What blocks the most models, by {by}{last}"
    return Table(columns, rows, title, len(plan.fixes) - len(rows), "--limit, --json")


def _curve(plan: FixPlan, most: int) -> Table:
    columns = [Column("fixes", "right"), Column("whole models", "right"), Column("", "bar")]
    columns += [Column("models completed", "names"), Column("by the fix")]
    count = len(plan.models)
    rows = [
        (step.fixes, f"{step.whole} / {count}", step.whole / count, step.unlocked, _named(plan, step.fix))
        for step in plan.curve[: most + 1]
    ]
    return Table(columns, rows, "Fixes that complete models fastest")


def _named(plan: FixPlan, fix: str) -> str:
    """A fix as it is shown: a cause by its short id, an op by its own."""
    return short(fix) if plan.by == "cluster" else fix


def of_model(readiness: Readiness, most: int) -> Iterator[Node]:
    """Which failures keep one model from being whole, and how their number changed; at most `most` of its ops."""
    view, last = readiness.view, readiness.runs[-1]
    what = "night" if view.place == "night" else "run"
    yield Words(f"{readiness.model} on {view.name}, {what} {view.run_id}", "strong")
    if left_out := left_out_line(readiness.left_out, readiness.stopped):
        yield Words(left_out, "known")
    if view.deselected:
        yield Words(f"{view.deselected} of {len(view.ops)} ops were deselected in this run (--ops, -k)", "known")
    sums = f"{last.right} right + {last.missing} missing + {last.not_attempted} not attempted"
    yield Words(f"{counted(last.ops, 'unique op')} = {sums}", "good" if view.whole(readiness.model) else "")
    program = view.programs.get(readiness.model)
    if program is not None and program.op_id not in view.ops:
        yield Words(f"as one program: {program.status}", "good" if program.right else "")
    if readiness.since is not None:
        yield Words(readiness.since.text)
    if rows := readiness.missing:
        of_ops = all(row.op_id in view.ops for row in rows)
        title = "Ops that are not right" if of_ops else "No op is wrong alone; as one program the model is"
        yield causes_within(rows, _same, _cause, _op, most, Causes(title))
    if len(readiness.runs) > 1:
        head = [Column("run"), Column("started (UTC)"), Column("compiler", spare=True)]
        columns = [*head, *COUNTS[:-1], Column(COUNTS[-1].head, "right", spare=True)]
        runs = [
            (run.run_id, run.started[:16], run.revision[:12], run.ops, run.right, run.missing, run.not_attempted)
            for run in readiness.runs
        ]
        yield Table(columns, runs, "Run by run")
    if readiness.nights:
        head, labels = night_column([(night.label, night.zone) for night in readiness.nights])
        nights = [
            (
                label,
                f"{night.outcome} {night.reason}".strip(),
                *(night.ops, night.right_ops, night.bad_ops, night.not_attempted),
            )
            for label, night in zip(labels, readiness.nights, strict=True)
        ]
        yield Table([Column(head), Column("outcome"), *COUNTS], nights, "Night by night")


def _same(row: Missing) -> tuple[object, ...]:
    return row.cluster, row.status, row.failed_stage, row.stage, row.known, row.owner, row.flaky


def _cause(row: Missing) -> Cause:
    what = f"{row.status}{f' at {row.failed_stage}' if row.failed_stage else ''}, after {row.stage}"
    of = row.owner, row.known, row.remark, row.acknowledged
    return Cause(row.cluster, what, row.error, row.failed_stage, *of, flaky=row.flaky)


def _op(row: Missing) -> Op:
    params = ", ".join(f"{name}={value}" for name, value in row.params.items())
    types = f"{row.types}{f'  {params}' if params else ''}"
    return Op(row.op_id, row.op_name, types, row.uses, counted(row.uses, "use"), row.error, repro=row.repro)
