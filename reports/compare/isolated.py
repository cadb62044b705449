"""Compares verdicts of ops alone with those in their model, for `opscope diff` of runs of `split` and `full`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from opscope.harness.record import isolation
from opscope.harness.record.store import RUN_FILE, load_run, whole_models
from opscope.reports.compare.diff import Diff
from opscope.reports.compare.outcomes import RunView

ALONE, WHOLE = "split", "full"


def labelled(diff: Diff, root: Path) -> Diff:
    """A comparison with its isolation artefacts, where one run has ops alone and the other models as one program.

    They are read from the run folders, which hold the values inside a model: those named, or the ids below `root`.
    """
    runs = {view.workflow: view for view in (diff.a, diff.b)}
    if set(runs) != {ALONE, WHOLE}:
        return diff
    alone, whole = _folder(runs[ALONE], root), _folder(runs[WHOLE], root)
    if alone is None or whole is None:
        missing = runs[ALONE if alone is None else WHOLE].run_id
        note = f"verdicts alone and in a model are not compared, because the run folder of {missing} is missing"
        return replace(diff, notes=(*diff.notes, note))
    models = whole_models(whole, load_run(whole).tests)
    artefacts = isolation.artefacts(models, whole, isolation.by_op(load_run(alone).tests))
    note = () if artefacts else ("no op changes its verdict when it runs alone",)
    return replace(diff, isolation=tuple(artefacts), notes=(*diff.notes, *note))


def _folder(view: RunView, root: Path) -> Path | None:
    places = (Path(view.place), root / view.run_id)
    return next((place for place in places if (place / RUN_FILE).is_file()), None)
