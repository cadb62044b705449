"""Makes the export folder of one model in child processes: its exporter, then a child that splits it and walks it."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from opscope.base import clocks, damage, jobs_ahead
from opscope.base.atomic_write import new_folder
from opscope.base.children.call import Outcome, call
from opscope.base.children.ending import Cause, ChildEnded, Ending, killed_from_outside
from opscope.harness.cache import export_folder, upkeep
from opscope.harness.cache.claims import Claims
from opscope.harness.cache.export_folder import JOURNAL
from opscope.harness.cache.growing_export import GrowingExport
from opscope.harness.prepare import exporting
from opscope.harness.prepare.allowance import Allowance, BudgetSpent, Killed, ModelRefused
from opscope.harness.prepare.authorities import golden_author
from opscope.harness.prepare.model_job import ModelJob
from opscope.harness.prepare.preparation import Task
from opscope.harness.record.errors import InputError
from opscope.models import frontends
from opscope.models.frontends import own_results, packages_ahead

if TYPE_CHECKING:
    from opscope.base.children.child import ChildOptions

Event = dict[str, Any]
"""`{"event": "stage", "model", "stage": "export" | "split" | "golden", "done", "total"}` while it works (`"forked"` in
the first says whether the exporter is a fork of the process of all children),
`{"event": "op", "model", "op", "seconds"}` where one op takes long (and with no name once it is over),
`{"event": "split", "model"}` once its ops are announced,
`{"event": "done", "model", "export_dir", "cached"}` or `{"event": "failed", "model", "status", "error"}` per model."""

CHILD = "opscope.harness.prepare.prepare_child:prepare"
"""What the child runs that splits a model and walks it."""

AHEAD, SERVER = ("opscope.harness.prepare.prepare_child:load",), "splits"
"""What the process is called for before it is forked for such children, and its name: lanes have no part in it."""

CACHE = "cache folder"
"""Where an error is that no model is to blame for."""

SLOW = 1.0
"""Seconds after which the op is named whose golden is being evaluated."""
MAX_CRASHES = 20
"""How many ops of one model may crash the child before the model counts as failed."""


MAX_KILLS = 3
"""How often a model's child is started anew that somebody has killed."""


class Unpreparable(Exception):
    """A model that was exported could not be split or evaluated."""


class Elsewhere(Protocol):
    """Other machines, on which models are walked."""

    def walk(self, making: Making, module: str, temporary: Callable[[], Path]) -> bool:
        """Has a model walked whose ops are announced, so that its folder is complete then. False if no machine can.

        `module` is the exporter's folder, empty for a StableHLO file; `temporary` makes a folder that exists until the
        model is made. Raises what `walked` raises.
        """
        ...

    def note(self, event: Event) -> None:
        """Takes an event of a split: `split` then says how many `processes` may walk the model."""
        ...

    def here(self, allowance: Allowance) -> AbstractContextManager[None]:
        """Waits until there is room on this machine to walk a model."""
        ...

    def close(self) -> None:
        """Ends all walks there."""
        ...


@dataclass(frozen=True)
class Making:
    """One model on its way to its export folder: what all steps of it share."""

    task: Task
    allowance: Allowance
    report: Callable[[Event], None]
    at_once: int = 1
    """How many models are made side by side, which share the processors for threads that compile."""
    only_split: bool = False
    """Whether the model is exported and its ops are announced, and no folder is made."""
    elsewhere: Elsewhere | None = None
    """The machines that walk it, where these can."""
    growing: GrowingExport | None = None
    """What hears of its ops before their goldens are made; None where nobody waits for them."""

    @property
    def threads(self) -> int:
        """On how many threads ops are compiled before they are needed."""
        return max(1, jobs_ahead.threads() // self.at_once)


def make(making: Making) -> None:
    """Makes one export folder in child processes, with a new child after each op that killed the last one."""
    task, allowance = making.task, making.allowance
    if task.unreadable is not None:
        raise ModelRefused(task.path, *task.unreadable)
    if not allowance.left():
        raise BudgetSpent("its beginning")
    exports = export_folder.make_dir(Path(task.folder).parent)
    upkeep.trim(exports.parent, task.request.max_cache, every=upkeep.EVERY_MODELS)
    with Claims() as claims:
        if task.export is None:
            _make_from(making, "", claims)
            return
        forked = bool(packages_ahead.for_all_children(frontends.get(task.export.framework)))
        making.report(
            {"event": "stage", "model": task.name, "stage": "export", "done": 0, "total": 1, "forked": forked}
        )
        request, own = task.request, None
        if own_results.usual_values(request.inputs, request.weights):
            own = exporting.Own(request.seed, request.max_live_bytes)
        with exporting.exported_first(task.export, exports.parent, request.max_cache, claims, allowance, own) as module:
            twin = exporting.twin(task.export, module, exports.parent)
            if twin and export_folder.linked(task.folder_of(twin), Path(task.folder)):
                _announce_whole(making)
            else:
                _make_from(making, str(module), claims)


def _announce_whole(making: Making) -> None:
    """Announces the ops of a model that was made before, to those who wait for its split."""
    task = making.task
    if making.growing is not None:
        header, rows = export_folder.read_manifest(Path(task.folder))
        making.growing.split(header, rows)
        making.report({"event": "split", "model": task.name, "processes": 1})


def _make_from(making: Making, module: str, claims: Claims) -> None:
    """Makes the export folder from an exporter's, `module`, or a StableHLO file's, where that is empty."""
    task, elsewhere = making.task, making.elsewhere
    exports = Path(task.folder).parent
    with contextlib.ExitStack() as stack:

        def temporary() -> Path:
            try:
                folder = new_folder(exports, upkeep.UNFINISHED)
            except OSError as error:
                raise export_folder.unwritable(exports, error) from None
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            claims.hold(folder)
            return folder

        if elsewhere is None:
            walked(making, module, temporary())
        elif making.only_split:

            def note(event: Event) -> None:
                elsewhere.note(event)
                making.report(event)

            walked(replace(making, report=note), module, temporary())
        elif not elsewhere.walk(making, module, temporary):
            with elsewhere.here(making.allowance):
                walked(making, module, temporary())
        if task.kept and not making.only_split:
            with contextlib.suppress(OSError):  # it goes with its folder
                Path(task.kept).unlink(missing_ok=True)


def walked(making: Making, module: str, temporary: Path, place: str = "") -> None:
    """Splits and walks a model in children, below `temporary`, which then is its export folder.

    What is announced goes to the model's growing export; without one it is reported (`{"event": "announce", "text"}`).
    With `place`, where the folder will be in the end on another machine, so is damage. Where other machines will walk
    the model, what a StableHLO file holds is left for them (`model_job.handed_over`), as an exporter leaves it.

    Raises Unpreparable, BudgetSpent, Killed, ModelRefused, InputError.
    """
    task, allowance = making.task, making.allowance
    job = ModelJob(
        name=task.name,
        path=task.path,
        entry=task.entry,
        folder=task.folder,
        request=asdict(task.request),
        exported=module,
        temporary=str(temporary),
        kept=task.kept,
        compile_threads=making.threads,
        slots=allowance.slots,
        only_split=making.only_split,
        elsewhere=place,
        hand_over=making.only_split and making.elsewhere is not None,
    )
    kills = 0
    while True:
        outcome = _run_child(job, making)
        # Whole, however its maker ended afterwards.
        if outcome.ending.ok or export_folder.complete(Path(task.folder)):
            return
        if allowance.budget_is_spent:
            raise BudgetSpent("golden" if _evaluating(temporary) else allowance.step)
        if outcome.ending.from_outside and kills < MAX_KILLS and allowance.left():
            kills += 1  # neither the model nor an op is to blame
            continue
        op = _evaluating(temporary)
        late = outcome.ending.cause is Cause.TIMEOUT
        if job.compile_threads and (temporary / JOURNAL).exists() and not late and allowance.left():
            # Which of the ops under way has ended the child is known where there is only one.
            job = replace(job, compile_threads=0)
            continue
        op_id, _, op_text = op.partition(" ")
        line = outcome.log.last_line()[:200] or "no output"
        if not op or not allowance.left() or op_id in job.fatal_ops or len(job.fatal_ops) >= MAX_CRASHES:
            at = f"golden of {op_text}" if op else allowance.step
            reason = allowance.reason(outcome.ending, at, line)
            raise Killed(reason) if outcome.ending.from_outside else Unpreparable(reason)
        how = f"more than {task.request.op_seconds:g} s" if late else outcome.ending.kind
        why = f"XLA gave no value ({how}): {line}"
        if outcome.ending.from_outside:
            why = f"{killed_from_outside(outcome.ending.kind)}, at golden of {op_text}"
        fatal_ops = {**job.fatal_ops, op_id: why}
        job = replace(job, fatal_ops=fatal_ops, limited=job.limited or outcome.ending.cut_short)


def _journals(temporary: Path) -> list[Path]:
    """The journal of the child, and those of the processes that it has evaluate ops; none once the folder is complete,
    and so was moved."""
    try:
        return sorted(path for path in temporary.iterdir() if path.name.startswith(JOURNAL))
    except FileNotFoundError:
        return []


class _UnderEvaluation:
    """The op that one process evaluates."""

    def __init__(self, journal: Path, task: Task) -> None:
        self._journal, self._task = journal, task
        self._written, self._since, self._named = 0, clocks.awake(), False

    def look(self, report: Callable[[Event], None]) -> None:
        """Reports an op that takes long. Raises ChildEnded, and moves the journal to where the child's own is, if one
        takes too long; FileNotFoundError if the journal is gone."""
        state, seconds = self._journal.stat(), self._task.request.op_seconds
        last = state.st_mtime_ns
        if not state.st_size:  # no op: XLA starts, which takes longer where the machine is busy, or its turn is over
            self._since = clocks.awake()
            return
        if last != self._written:  # the file's time says whether it was written, not how long ago: clocks are set
            if self._named:
                report({"event": "op", "model": self._task.name, "op": "", "seconds": 0.0})
            self._written, self._since, self._named = last, clocks.awake(), False
        elif (took := clocks.awake() - self._since) > seconds:
            self._journal.replace(self._journal.with_name(JOURNAL))
            raise ChildEnded(Ending(Cause.TIMEOUT, f"more than {seconds:g} s"))
        elif took > SLOW and not self._named:
            self._named = True
            name = "".join(self._journal.read_text(encoding="utf-8", errors="replace").split(" ")[1:2])
            report({"event": "op", "model": self._task.name, "op": name, "seconds": took})


def _evaluating(temporary: Path) -> str:
    """The op that the child had begun to evaluate when it died, from its journal: id, name and place."""
    journal = temporary / JOURNAL
    return journal.read_text(encoding="utf-8", errors="replace").strip() if journal.is_file() else ""


_made: dict[str, None] = {}
"""The models of which this process has made an export, in their order."""


def _fork_options(model: str) -> ChildOptions:
    """The options of `call` for the child of a model: from the second model on, a fork of a process that has imported
    what splits and walks. That takes half a second once, and two tenths from each child."""
    _made.setdefault(model)
    return {} if next(iter(_made)) == model else {"ahead": AHEAD, "server": SERVER}


def _run_child(job: ModelJob, making: Making) -> Outcome:
    """One child at work until it ends; it is late once one op is under evaluation for more than `op_seconds`, or all
    that the model may take is used up. Raises InputError or Unpreparable if the child reports one."""
    allowance, report, temporary = making.allowance, making.report, Path(job.temporary)
    error: Event = {}
    for journal in _journals(temporary):
        journal.unlink()
    ops: dict[Path, _UnderEvaluation] = {}

    def take(event: Event) -> None:
        allowance.note(event)
        if event["event"] == "error":
            error.update(event)
        elif event["event"] == "announce" and making.growing is not None:
            making.growing.take(event["text"])
        elif event["event"] == "damage" and not job.elsewhere:
            damage.say(event["line"])
        else:
            report(event)

    def check_op() -> None:
        allowance.check()
        for journal in _journals(temporary):
            with contextlib.suppress(FileNotFoundError):
                ops.setdefault(journal, _UnderEvaluation(journal, making.task)).look(report)

    if not job.exported:  # the child's own first word comes after seconds of imports
        report({"event": "stage", "model": job.name, "stage": "export", "done": 0, "total": 1})
    own = golden_author.variables(making.task.request.goldens_by)
    outcome = call(
        CHILD,
        asdict(job),
        seconds=allowance.left(),
        memory=allowance.memory,
        on_message=take,
        watch=check_op,
        **({"environment": own} if own else _fork_options(job.name)),
    )
    if error and "where" not in error:
        raise Unpreparable(error["got"])
    if error and own and "StableHLO" in error["expected"]:
        raise Unpreparable(f"{making.task.request.goldens_by}, which makes goldens, cannot read it: {error['got']}")
    if error:
        refusal = InputError if error["where"] == CACHE else ModelRefused
        raise refusal(error["where"], error["expected"], error["got"], error.get("hint", ""))
    return outcome
