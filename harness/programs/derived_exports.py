"""Export folders for workflows whose rows a child derives from a model's export: ops of a compiler's own program, or
pieces of the model.

The key of the former covers the export, the workflow, the backend's report and the options; pieces follow from the
StableHLO alone, so all backends share them. They have the layout of any export folder (pieces.py and
prepare/model_pieces.py make their contents). Imports neither jax nor numpy, as pytest processes call it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from opscope.base.children.call import call
from opscope.base.damage import Damaged
from opscope.harness.backends import registry
from opscope.harness.cache import export_folder
from opscope.harness.cache.claims import Claims
from opscope.harness.engine.jobs import Job, Kind, side_by_side
from opscope.harness.lanes.flight import Ready
from opscope.harness.prepare.allowance import Allowance, Allowing, BudgetSpent, Killed
from opscope.harness.prepare.authorities import golden_author
from opscope.harness.prepare.turn import Turn
from opscope.harness.record import workflows
from opscope.harness.record.errors import InputError
from opscope.harness.record.manifests import Manifest, merge_all
from opscope.harness.record.optest import RunContext
from opscope.harness.record.records import ManifestHeader, ModelFailure
from opscope.harness.record.result_options import Decides
from opscope.harness.record.stages import ModelStatus


def check(workflow: str, backends: str) -> None:
    """Raises InputError if a workflow needs the compiler's own program and the backends do not provide it."""
    names = registry.split_names(backends)
    if len(names) == 1 and registry.declares(names[0], "takes_apart"):
        return
    able = [name for name in registry.own_names() if registry.declares(name, "takes_apart")]
    expected = f"one backend that hands over its program ({', '.join(able)})"
    raise InputError(
        f"--workflow {workflow}", expected, ", ".join(names), " or ".join(f"--backend {name}" for name in able)
    )


def derive(
    workflow: str,
    header: ManifestHeader,
    context: RunContext,
    ready: Ready,
    cache: Path,
    report: Callable[[dict[str, Any]], None],
    claims: Claims,
    allowance: Allowing,
    at_once: int = 1,
) -> Manifest:
    """Returns the manifest of all models of `header` for `workflow`, `at_once` of them made side by side. A model whose
    child ended counts as failed.

    `allowance` makes the time and memory of each: its export was made within another one, maybe in an earlier run. It
    is given what to call while a child works.
    """
    sources = export_folder.sources_digest()
    of_ttnn = workflows.workflow(workflow).of_ttnn
    code = [Path(__file__).with_name("pieces.py")] if of_ttnn else []  # the sources of `prepare` are in each key

    def derived(model: str, base: str, turn: Turn) -> Manifest | ModelFailure:
        arguments: dict[str, object] = {"base": Path(base).name, "workflow": workflow}
        if of_ttnn:
            arguments |= {"backend": ready.fingerprint, "options": context.options.decisive(Decides.COMPILATION)}
        folder = cache / "exports" / export_folder.key(code, arguments, sources)
        try:
            if not export_folder.intact(folder):
                turn.report({"event": "stage", "model": model, "stage": workflow, "done": 0, "total": 1})
                _make(workflow, model, Path(base), folder, context, allowance(turn.check))
                turn.report({"event": "stage", "model": model, "stage": workflow, "done": 1, "total": 1})
            manifest = export_folder.read_manifest(folder)
        except (RuntimeError, Damaged) as error:
            return ModelFailure(model=model, framework="", status=ModelStatus.PREPARE_FAILED, error=str(error))
        except BudgetSpent as error:
            reason = f"budget: it was at {error} when the time of --budget was over"
            return ModelFailure(model=model, framework="", status=ModelStatus.NOT_RUN, error=reason)
        except Killed as error:
            return ModelFailure(model=model, framework="", status=ModelStatus.NOT_RUN, error=str(error))
        claims.hold(folder)
        export_folder.mark_used(folder)
        return manifest

    jobs = [
        Job(Kind.DERIVE, model, partial(derived, model, base))
        for model, base in zip(header.models, header.export_dirs, strict=True)
    ]
    merged, rows = merge_all(side_by_side(jobs, at_once, report))
    return merged.model_copy(update={"failed": (*header.failed, *merged.failed)}), rows


def _make(workflow: str, model: str, base: Path, folder: Path, context: RunContext, allowance: Allowance) -> None:
    """Lets a child make one folder. Raises RuntimeError with a one-line message if it fails, BudgetSpent, Killed."""
    exports = export_folder.make_dir(folder.parent)
    temporary = Path(tempfile.mkdtemp(prefix=".making-", dir=exports))
    task = {
        "workflow": workflow,
        "model": model,
        "base": str(base),
        "folder": str(folder),
        "temporary": str(temporary),
        "context": context.as_json(),
    }
    try:
        author = golden_author.variables(context.options.goldens_by)
        environment = {"OPSCOPE_CACHE_DIR": str(exports.parent), **author}
        of_ttnn = workflows.workflow(workflow).of_ttnn
        outcome = call(
            f"opscope.harness.{'programs.derived_exports_child' if of_ttnn else 'prepare.model_pieces'}:derive",
            task,
            seconds=allowance.left(),
            memory=allowance.memory,
            environment=environment,
            watch=allowance.check,
        )
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    if outcome.ending.ok and outcome.result:
        raise RuntimeError(outcome.result)
    if not outcome.ending.ok or not export_folder.complete(folder):
        if allowance.budget_is_spent:
            raise BudgetSpent(workflow)
        failure = Killed if outcome.ending.from_outside else RuntimeError
        raise failure(allowance.reason(outcome.ending, workflow, outcome.log.last_line()))
