"""Compares verdicts of ops alone with those in their model, for `opscope diff`.

One run is of `split`, the other of `full` or of pieces.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from opscope.harness.record import isolation
from opscope.harness.record.store import RUN_FILE, load_run, whole_models
from opscope.harness.record.workflows import FULL, SPLIT, workflow
from opscope.reports.compare.diff import Diff
from opscope.reports.compare.outcomes import RunView


def labelled(diff: Diff, root: Path) -> Diff:
    """A comparison with its isolation artefacts, where one run has ops alone and the other models or pieces of them.

    They are read from the run folders, which hold the values inside a model: those named, or the ids below `root`.
    """
    of_ops, of_more = sorted((diff.a, diff.b), key=lambda view: view.workflow != SPLIT)
    if of_ops.workflow != SPLIT or not (of_more.workflow == FULL or workflow(of_more.workflow).of_pieces):
        return diff
    alone, whole = _folder(of_ops, root), _folder(of_more, root)
    if alone is None or whole is None:
        missing = (of_ops if alone is None else of_more).run_id
        note = f"verdicts alone and in a model are not compared, because the run folder of {missing} is missing"
        return replace(diff, notes=(*diff.notes, note))
    tests = load_run(whole).tests
    by_op = isolation.by_op(load_run(alone).tests)
    artefacts = isolation.between(whole, whole_models(whole, tests), tests, by_op)
    note = () if artefacts else ("no op changes its verdict when it runs alone",)
    return replace(diff, isolation=tuple(artefacts), notes=(*diff.notes, *note))


def _folder(view: RunView, root: Path) -> Path | None:
    places = (Path(view.place), root / view.run_id)
    return next((place for place in places if (place / RUN_FILE).is_file()), None)
