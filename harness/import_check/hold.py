"""Holds each model of a run to its framework: one `ImportCheck` for each, kept in the cache like goldens.

The framework's results are made beside the export (`models/frontends/own_results.py`), or in a process of their own
where only the walk knows the inputs. A child compares them (`compare_child.py`). No pytest process imports NumPy here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from opscope.base.cache_folder import read_only
from opscope.base.children.call import Outcome, call
from opscope.base.children.ending import KILLED
from opscope.base.damage import Damaged
from opscope.base.digest import digest_of_sources, source_files, words_digest
from opscope.base.file_names import as_text
from opscope.base.places import HOME, room
from opscope.base.slots import SlotAddress
from opscope.base.temporary_folder import TemporaryFolder
from opscope.harness.cache import export_folder
from opscope.harness.cache.claims import Claims
from opscope.harness.cache.json_store import JsonStore
from opscope.harness.prepare import exporting, interpreters
from opscope.harness.prepare.allowance import Allowance, BudgetSpent, Killed, ModelRefused
from opscope.harness.prepare.exporting import Export, ExportFailed
from opscope.harness.prepare.preparation import Preparation, Task
from opscope.harness.prepare.turn import Turn
from opscope.harness.prepare.whole_manifest import whole_rows
from opscope.harness.record.records import ImportCheck, OpRow, Source
from opscope.harness.record.result_options import DRAWN
from opscope.harness.record.stages import ImportStatus
from opscope.models import frontends
from opscope.models.frontends import own_results

if TYPE_CHECKING:
    from typing import Unpack

    from opscope.base.children.child import ChildOptions

FOLDER = "imports"
"""The subfolder of the cache folder."""
SOURCES = ("harness/formulas", "harness/verdict", "harness/import_check", "models/frontends")
"""Source folders that decide a check, besides those that decide the export folder."""

OUT_OF_TIME = "the time of --budget was over"
"""Why a model was not held to its framework that a run with more time holds to it."""

CUT_SHORT = re.compile(r"timeout|more than|killed|memory|budget|share of the time")
"""Words of a limit, which says what a run did and nothing about its model."""


def unfinished(checks: Sequence[ImportCheck]) -> bool:
    """Whether some models were not checked against their frameworks for what says nothing of them: the budget was over,
    or somebody else killed the process that did it."""
    return any(check.error == OUT_OF_TIME or KILLED.search(check.error) for check in checks)


def kept(task: Task, folder: Path, claims: Claims, slots: SlotAddress | None, turn: Turn) -> ImportCheck:
    """The check of one model: the kept one, or a new one."""
    report = turn.report
    store = JsonStore(Path(str(task.request.cache_dir)) / FOLDER)
    limits = f"{task.request.seconds} {task.request.memory}"
    key = words_digest(folder.name, _sources(), limits, digits=20)
    if (kept := store.get(key)) is not None:
        try:
            return ImportCheck.model_validate(kept)
        except ValidationError:
            pass  # of another opscope
    report({"event": "stage", "model": task.name, "stage": "import", "done": 0, "total": 1})
    try:
        check, whole = _check(task, folder, claims, slots, turn)
        if whole and not (check.status is ImportStatus.NOT_CHECKED and CUT_SHORT.search(check.error)):
            store.put(key, check.model_dump(mode="json"))
    except BudgetSpent:  # another run may have the time
        check = _unchecked(task, OUT_OF_TIME)
    except (ExportFailed, Killed, ModelRefused, Damaged) as error:
        check = _unchecked(task, f"it could not be exported again: {error}")
    report({"event": "stage", "model": task.name, "stage": "import", "done": 1, "total": 1})
    return check


@cache
def _sources() -> str:
    return digest_of_sources(source_files(*map(room, SOURCES)), root=HOME)


def _unchecked(task: Task, reason: str) -> ImportCheck:
    framework = task.export.framework if task.export else ""
    return ImportCheck(model=task.name, framework=framework, status=ImportStatus.NOT_CHECKED, error=as_text(reason))


def _check(task: Task, folder: Path, claims: Claims, slots: SlotAddress | None, turn: Turn) -> tuple[ImportCheck, bool]:
    """The check of one model, and whether no limit has cut it short. Raises BudgetSpent, Damaged, and what an exporter
    raises that runs again."""
    request, export = task.request, task.export
    assert export is not None
    allowance = request.allowance(turn.check, slots=slots)
    if not allowance.left():
        raise BudgetSpent("its beginning")
    cache_dir = Path(str(request.cache_dir))
    if read_only(cache_dir):
        cache_dir = claims.temporary()
    (row,) = whole_rows([folder])
    if not row.golden:
        return _unchecked(task, _no_golden(row, request)), True
    if drawn := drawing(export_folder.read_manifest(folder)[1]):
        return _unchecked(task, drawn), True
    module = exporting.exported(export, cache_dir, request.max_cache, claims, allowance)
    with TemporaryFolder("import") as temporary:
        sides = _Sides(task, export, allowance, turn, _framework_task(task, row, folder, module), Path(temporary))
        own = _own_folder(module, request)
        if own is None:
            own, outcome = sides.temporary, sides.run_in_framework()
            if not (own / own_results.FILE).is_file():
                return _ended(task, outcome, allowance, "its own framework"), not outcome.ending.cut_short
        walked = {"folder": str(folder), "own": str(own), "cache_dir": str(cache_dir), "slots": slots}
        outcome = sides.compare(walked)
        if outcome.result is None:
            return _ended(task, outcome, allowance, "the comparison"), not outcome.ending.cut_short
        if ImportCheck.model_validate(outcome.result).status is not ImportStatus.DIFFERS:
            return ImportCheck.model_validate(outcome.result), True
        # In a child of its own: whatever ends it, the difference has been seen and stays.
        answer = sides.explain(outcome.result, walked)
        if answer.result is None and allowance.budget_is_spent:
            raise BudgetSpent("why it differs")  # that may be a golden in doubt
        return ImportCheck.model_validate(answer.result or outcome.result), not answer.ending.cut_short


@dataclass(frozen=True)
class _Sides:
    """Children that compute and compare both sides of a model: the walk's results and its framework's."""

    task: Task
    export: Export
    allowance: Allowance
    turn: Turn
    framework_task: dict[str, Any]
    """For a child that runs the model in its framework."""
    temporary: Path

    @property
    def _environment(self) -> dict[str, str]:
        return dict(frontends.get(self.export.framework).environment)

    def run_in_framework(self) -> Outcome:
        """Has the framework write its results into the temporary folder."""
        task = {**self.framework_task, "folder": str(self.temporary), "slots": self.allowance.slots}
        with interpreters.calling(self.export.python, self._environment) as how:
            return self._in_child("opscope.models.frontends.own_results_child:run", task, **how)

    def compare(self, walked: Mapping[str, Any]) -> Outcome:
        """Compares results; `walked` says where both are."""
        nodes = own_results.with_nodes(self.export.framework)
        orders = {
            "model": self.task.name,
            "framework": self.export.framework,
            **walked,
            "environment": self._environment,
            "nodes": self.framework_task if nodes else None,
        }
        return self._in_child("opscope.harness.import_check.compare_child:compare_import", orders)

    def explain(self, check: Any, walked: Mapping[str, Any]) -> Outcome:
        """Says of results that differ why they do, by a second runtime where there is one."""
        second = self.temporary / "second"
        if self.export.framework == "onnx":
            second.mkdir()
            task = {**self.framework_task, "folder": str(second)}
            runtime = "opscope.models.frontends.through_onnx.onnx_runtime:write"
            self._in_child(runtime, task, environment=self._environment)
        made = str(second) if (second / own_results.FILE).is_file() else ""
        question = {"check": check, "second": made, **walked}
        return self._in_child("opscope.harness.import_check.compare_child:explain_import", question)

    def _in_child(self, function: str, orders: dict[str, Any], **options: Unpack[ChildOptions]) -> Outcome:
        allowance = self.allowance
        return call(
            function, orders, seconds=allowance.left(), memory=allowance.memory, watch=self.turn.check, **options
        )


def _ended(task: Task, outcome: Outcome, allowance: Allowance, at: str) -> ImportCheck:
    """The check of a model whose child gave no answer. Raises BudgetSpent if that was the run's."""
    if allowance.budget_is_spent:
        raise BudgetSpent(at)
    check = _unchecked(task, allowance.reason(outcome.ending, at, outcome.log.last_line()))
    return check.model_copy(update={"status": ImportStatus.CRASHED}) if outcome.ending.crashed else check


def drawing(rows: Sequence[OpRow]) -> str:
    """Why the results of a model with these ops are its own in each run; empty if they are not."""
    names = sorted({row.op_name for row in rows} & {"stablehlo.rng"})
    return f"{names[0]} draws numbers by an algorithm that each implementation has for itself" if names else ""


def _no_golden(row: OpRow, request: Preparation) -> str:
    """Why the walk gave a model no results."""
    if request.inputs in DRAWN:
        count = sum(math.prod(desc.shape) for desc in row.inputs)
        return f"its ops have random inputs, no result is the model's (its arguments are {count:,} numbers)"
    return f"the golden evaluation has no result: {row.no_golden}"


def _own_folder(module: Path, request: Preparation) -> Path | None:
    """The framework's results that were made beside the export; None if they are those of other values, or none."""
    if not own_results.usual_values(request.inputs, request.weights) or not (module / own_results.FILE).is_file():
        return None
    return module if own_results.seed_of(module) == request.seed else None


def _framework_task(task: Task, row: OpRow, folder: Path, module: Path) -> dict[str, Any]:
    """What a process gets that runs the model in its framework."""
    assert task.export is not None
    return {
        "framework": task.export.framework,
        **asdict(task.export.source),
        "module": str(module),
        "cap": task.request.max_live_bytes,
        "sources": [_place(source, folder) for source in row.sources],
    }


def _place(source: Source, folder: Path) -> Mapping[str, Any]:
    """Where the value of an argument comes from, for a process that does not know the export folder."""
    if source.path is not None:
        return {"path": str(folder / source.path)}
    return {"law": source.law, "seed": source.seed, "index": source.index}
