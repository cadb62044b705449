"""Prints what to fix first, and the readiness of one model, in the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opscope.base.page import Page
from opscope.base.statuses import TERMINAL
from opscope.base.terminal import plain
from opscope.base.visible_text import counted, one_line
from opscope.harness.record.causes import by_cause, parts_within, short
from opscope.harness.record.signature import shorten
from opscope.reports.compare.night_times import night_column
from opscope.reports.compare.outcomes import RunView
from opscope.reports.compare.readiness import Counted
from opscope.reports.compare.run_selection import Listed, left_out_line
from opscope.reports.compare.unblock import FixPlan, Missing
from opscope.reports.compare.whole_since import Night, Since

if TYPE_CHECKING:
    from opscope.wire import readiness as wire

COUNTS = [("ops", "right"), ("right", "right"), ("missing", "right"), ("not attempted", "right")]
"""Columns of a model's history."""


def _of_models(ops: Mapping[str, int]) -> str:
    return ", ".join(f"{counted(count, 'op')} of {model}" for model, count in ops.items())


def show_plan(plan: FixPlan, page: Page, most: int, team: str | None = None, left_out: str = "") -> None:
    """Prints the ranking and the unlock curve, or that there is nothing to fix; `left_out` is a line about runs."""
    runs = ", ".join(f"{run.run_id} ({run.name})" for run in plan.runs)
    models = f"1 model, {len(plan.whole)} whole, in its newest run"
    if len(plan.models) != 1:
        models = f"{len(plan.models)} models, {len(plan.whole)} of them whole, in the newest run of each"
    page.prose(f"{models}: {runs}", "bold")
    if left_out:
        page.prose(left_out, TERMINAL["known"])
    if plan.unknown:
        page.prose(f"not attempted: {_of_models(plan.unknown)}")
    if plan.never:
        page.prose(f"never to be right (limitations): {_of_models(plan.never)}")
    if not plan.fixes:
        if len(plan.curve) > 1:
            page.prose(f"Nothing to fix: no failure belongs to {team}.", TERMINAL["good"])
        elif plan.never and not plan.unknown:
            page.line("Nothing to fix: what fails is never to be right.", TERMINAL["known"])
        elif plan.unknown:
            reason = "no attempted op fails, and others were not attempted"
            page.prose(f"Nothing to fix is known: {reason}.", TERMINAL["known"])
        else:
            page.line("Nothing to fix: no op fails.", TERMINAL["good"])
        return
    page.line()
    by = {"cluster": "cause"}.get(plan.by, plan.by)
    last = ", those that a note acknowledges last" if any(fix.acknowledged for fix in plan.fixes) else ""
    page.line(f"What blocks the most models, by {by}{last}", "bold")
    columns = [
        (by, ""),
        ("models", "right"),
        ("alone", "right"),
        ("uses", "right"),
        ("ops", "right"),
        ("known", "right"),
        ("fails at", ""),
        ("its ops", ""),
        ("owner", ""),
        ("error message", ""),
    ]
    page.table(
        columns,
        [
            (
                _named(plan, fix.fix),
                len(fix.models),
                fix.alone,
                fix.uses,
                fix.ops,
                fix.known or "",
                fix.stage,
                ", ".join(fix.op_names[:3]) + (" …" if len(fix.op_names) > 3 else ""),
                fix.owner,
                shorten(f"{'flaky: ' * fix.flaky}{fix.error}", 90),
            )
            for fix in plan.fixes[:most]
        ],
    )
    notes = {fix.cluster: fix.remark for fix in plan.fixes[:most] if fix.remark}
    for cause, remark in notes.items():
        page.prose(f"cause {short(cause)}, note: {one_line(remark)}", "bold")
    if len(plan.fixes) > most:
        page.line(f"and {len(plan.fixes) - most} more; see --limit, --json")
    page.line("Fixes that complete models fastest", "bold")
    page.table(
        [("fixes", "right"), ("whole models", "right"), ("", ""), ("models completed", ""), ("by the fix", "")],
        [
            (
                step.fixes,
                f"{step.whole} / {len(plan.models)}",
                _bar(step.whole, len(plan.models)),
                ", ".join(step.unlocked[:6]) + (" …" if len(step.unlocked) > 6 else ""),
                _named(plan, step.fix),
            )
            for step in plan.curve[: most + 1]
        ],
    )


def _named(plan: FixPlan, fix: str) -> str:
    """A fix as it is shown: a cause by its short id, an op by its own."""
    return short(fix) if plan.by == "cluster" else fix


def _bar(part: int, whole: int) -> str:
    return "█" * round(20 * part / whole) if whole and not plain() else ""


def _cause(row: Missing) -> tuple[str, ...]:
    """What is equal for ops that one cause keeps from being right."""
    return row.cluster, row.status, row.failed_stage, row.stage, row.known, row.owner


def _heading(row: Missing) -> str:
    """What is the same for all ops of a cause."""
    where = f" at {row.failed_stage}" if row.failed_stage else ""
    remark = f"; known: {row.known}" if row.known else ""
    remark += f"; owner {row.owner}" if row.owner else ""
    error = f": {row.error}" if row.error else ""
    return f"{row.status}{where}, after {row.stage}{remark}{error}"


@dataclass(frozen=True)
class Readiness:
    """What keeps one model from being whole in a run, and how it was before."""

    view: RunView
    model: str
    missing: Sequence[Missing]
    """Its ops that are not right."""
    runs: Sequence[Counted]
    """Earlier runs and this one, oldest first."""
    nights: Sequence[Night] = ()
    since: Since | None = None
    left_out: Sequence[Listed] = ()
    """Later runs, of selected ops, that do not count."""

    def answer(self) -> wire.Readiness:
        """The same as `--json` prints it."""
        from opscope.wire import readiness as wire

        return wire.Readiness(
            model=self.model,
            run_id=self.view.run_id,
            missing=tuple(self.missing),
            history=tuple(self.runs),
            nights=tuple(self.nights),
            since=self.since,
            left_out=tuple(run.run_id for run in self.left_out),
        )


def show_readiness(readiness: Readiness, page: Page, most: int) -> None:
    """Prints which failures keep one model from being whole, and how their number changed."""
    view, last = readiness.view, readiness.runs[-1]
    what = "night" if view.place == "night" else "run"
    page.prose(f"{readiness.model} on {view.on}, {what} {view.run_id}", "bold")
    if readiness.left_out:
        page.prose(left_out_line(readiness.left_out), TERMINAL["known"])
    if view.deselected:
        page.line(
            f"{view.deselected} of {len(view.ops)} ops were deselected in this run (--ops, -k)", TERMINAL["known"]
        )
    page.line(
        f"{last.ops} unique ops = {last.right} right + {last.missing} missing + {last.not_attempted} not attempted",
        TERMINAL["good"] if last.right == last.ops else "",
    )
    if readiness.since is not None:
        page.prose(readiness.since.text)
    if readiness.missing:
        _show_missing(readiness.missing, page, most)
    if len(readiness.runs) > 1:
        page.line()
        page.line("Run by run", "bold")
        page.table(
            [("run", ""), ("started (UTC)", ""), ("compiler", ""), *COUNTS],
            [
                (run.run_id, run.started[:16], run.revision[:12], run.ops, run.right, run.missing, run.not_attempted)
                for run in readiness.runs
            ],
            spare=("compiler", "started (UTC)"),
        )
    if readiness.nights:
        page.line()
        page.line("Night by night", "bold")
        head, labels = night_column([(night.label, night.zone) for night in readiness.nights])
        page.table(
            [(head, ""), ("outcome", ""), *COUNTS],
            [
                (
                    label,
                    f"{night.outcome} {night.reason}".strip(),
                    *(night.ops, night.right_ops, night.bad_ops, night.not_attempted),
                )
                for label, night in zip(labels, readiness.nights, strict=True)
            ],
        )


def _show_missing(rows: Sequence[Missing], page: Page, most: int) -> None:
    page.line()
    causes = sorted(by_cause(rows, _cause, lambda row: row.uses), key=lambda cause: cause.first.acknowledged)
    for cause in parts_within(causes, most):
        page.prose(cause.with_counts(_heading(cause.first), cause.first.cluster), indent=2)
        if cause.first.remark:
            page.prose(f"note: {one_line(cause.first.remark)}", "bold", indent=4)
        for row in cause.failures:
            params = ", ".join(f"{name}={value}" for name, value in row.params.items())
            op = f"{row.op_name} [{row.op_id}] {row.types}{f'  {params}' if params else ''}"
            page.prose(op, indent=4)
            error = f": {row.error}" if row.error != cause.first.error else ""
            page.prose(f"{row.uses} use{'' if row.uses == 1 else 's'}{error}", "dim", indent=6)
            if row.repro:
                page.line(row.repro, "dim", indent=6)
    if len(rows) > most:
        page.line(f"and {len(rows) - most} more; see --limit, --json", indent=2)
