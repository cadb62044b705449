"""Runs ops of an earlier run again (`--op`, `--run-dir` without `--model`), without exporting their models.

They are a run of its own, which says of which run it is the answer: what an earlier run, or a night, says stays as it
is, whatever has become of its compiler since.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from opscope.base.file_names import resolved
from opscope.base.results_folder import results_folder
from opscope.harness.backends import registry
from opscope.harness.cache import export_folder, made_of
from opscope.harness.record import artifacts, run_folders, store
from opscope.harness.record.errors import InputError
from opscope.harness.record.manifests import Manifest
from opscope.harness.record.masking import masked
from opscope.harness.record.optest import backend_label, now
from opscope.harness.record.origin import ANSWERS
from opscope.harness.record.records import ManifestHeader
from opscope.harness.record.result_options import OPTIONS
from opscope.harness.record.selection import find_op_ids
from opscope.harness.run import new_run
from opscope.harness.run.plan import RunPlan
from opscope.harness.run.process_plan import mending, orders_of
from opscope.harness.run.request import Request, to_prepare
from opscope.harness.run.starting import Start, Starting
from opscope.harness.triage import bundle, elsewhere, fetch

FROM_THE_RUN = ("backend", *OPTIONS, "op_timeout", "op_memory")
"""Settings that an op of an earlier run takes from that run, unless they are given again."""


class OpsAgain(Starting):
    """Ops that run again: they and their files are known."""

    def __init__(self, start: Start) -> None:
        """Claims its folder. Raises InputError for any bad input."""
        moment, place = now(), run_folders.default_run_dir if start.dry else new_run.made
        plan, settings, self._options = _made(start.request, moment, place)
        if not start.dry:
            new_run.claim(plan.run_dir, start.claims)
        super().__init__(start, plan, settings, None, moment)

    def prepared(self) -> RunPlan:
        """The plan. Raises InputError if files of an op were removed."""
        plan = self.known
        if not all((Path(folder) / bundle.FILE).is_file() for folder in plan.header.export_dirs):
            export_folder.refuse_removed(plan.header, plan.selected(), plan.run_dir, "--op")
        return plan

    def write(self, plan: RunPlan) -> None:
        """Writes run.json and manifest.jsonl."""
        new_run.write(plan, self, self._options)

    def abandon(self) -> None:
        """Removes the folder."""
        if not self.start.dry:
            new_run.remove_unbegun(self.run_dir)


def from_run(request: Request) -> RunPlan:
    """The plan for running ops of an earlier run again, in a folder that is not there yet.

    Raises InputError if there is no run, if it has another schema, or if there is no such op.
    """
    return _made(request, now(), run_folders.default_run_dir)[0]


def _made(
    request: Request, moment: datetime, place: Callable[..., Path]
) -> tuple[RunPlan, dict[str, Any], dict[str, Any]]:
    """The plan, the settings, and the options that the record has in place of the request's. `place` returns the run's
    folder."""
    places = (request.settings["artifact_url"], request.settings["publish"])
    earlier = _earlier(run_of_ops(request.earlier, request.folder, request.op_ids, *places))
    ids = find_op_ids(earlier.manifest[1], request.op_ids) if request.op_ids else set()
    settings = _settings(request, earlier.options)
    cache = export_folder.cache_dir(settings["cache_dir"])
    header, rows = _of_ops((earlier.located(cache), earlier.manifest[1]), ids)
    exported = all(export_folder.complete(Path(folder)) for folder in header.export_dirs)
    files = filter(None, map(registry.file_of, registry.split_names(settings["backend"])))
    if earlier.in_cache and not (exported and all(Path(file).is_file() for file in files)):
        kept = next((path for op_id in sorted(ids) for path in _repro_folders(earlier.place, op_id, settings)), None)
        if kept is not None:
            return _made(replace(request, earlier=str(kept)), moment, place)
    run_dir = place(["again", *sorted(ids)[:1]], moment, request.folder)
    orders = orders_of(request, new_run.new_id(moment), run_dir, settings).alike(op_ids=tuple(ids))
    models, exports_of = earlier.options.get("models"), earlier.options.get(made_of.RUN, "")
    if models:
        orders = mending(orders, to_prepare(request, settings, models, run=exports_of))
    plan = RunPlan(orders, header, rows, again=True)
    store.refuse_other_values(plan.rows, earlier.place, "--op")
    store.refuse_unprepared(plan.header, plan.selected(), earlier.place, "--op")
    own = {name: settings[name] for name in FROM_THE_RUN} | {"models": list(models or ()), made_of.RUN: exports_of}
    return plan, settings, {**masked(own), ANSWERS: {"run": earlier.run_id, "ops": sorted(ids)}}


@dataclass(frozen=True)
class _Earlier:
    """Where ops that run again come from: a run folder, or the repro folder of one op, which is an export too."""

    place: Path
    run_id: str
    options: Mapping[str, Any]
    manifest: Manifest
    in_cache: bool = True

    def located(self, cache: Path) -> ManifestHeader:
        """The manifest's header with the places of its exports: in this cache, or else in the run's own."""
        own = export_folder.cache_dir(self.options.get("cache_dir"))
        return export_folder.located(self.manifest[0], cache, own) if self.in_cache else self.manifest[0]


def _earlier(place: Path) -> _Earlier:
    """What a run folder or a repro folder holds. Raises InputError."""
    if not (place / bundle.FILE).is_file():
        run = store.load_run(place)
        return _Earlier(place, run.record.run_id, run.record.origin.options, (run.header, run.rows))
    repro = bundle.read(place)
    context = bundle.context_of(place, repro, place)
    options = {**repro.options.model_dump(), **context.options.model_dump(), "backend": context.backend}
    header = ManifestHeader(
        models=(bundle.MODEL,),
        export_dirs=(str(resolved(place)),),
        module_ops={bundle.MODEL: len(repro.row.uses)},
        structural={bundle.MODEL: 0},
    )
    return _Earlier(place, repro.run_id, options, (header, [repro.row]), in_cache=False)


def _repro_folders(run_dir: Path, op_id: str, settings: Mapping[str, Any]) -> list[Path]:
    """The repro folders that a run folder has of an op, that of the requested backend first."""
    label = f"{artifacts.REPRO}{backend_label(registry.split_names(settings['backend'])[0])}"
    folders = store.artifact_dir(run_dir, op_id).glob(f"{artifacts.REPRO}*/{bundle.FILE}")
    return sorted((path.parent for path in folders), key=lambda path: (path.name != label, path.name))


def _settings(request: Request, options: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the request, with those of the earlier run that are not given again."""
    settings = dict(request.settings.values)
    for name in FROM_THE_RUN:
        if options.get(name) is not None and not request.settings.is_set(name):
            settings[name] = options[name]
    own = {backend_label(name): name for name in registry.split_names(str(options.get("backend") or ""))}
    settings["backend"] = ",".join(
        _backend(name, own, request.folder) for name in registry.split_names(settings["backend"])
    )
    return settings


def _backend(name: str, own: Mapping[str, str], folder: Path) -> str:
    """A backend that may be named by its label among those of the earlier run, `own`, whatever file has that name. One
    whose file is not where that run had it is the file in `folder` with the longest end of that path, as in another
    checkout."""
    if not Path(registry.file_of(name)).is_file():
        name = own.get(backend_label(name), name)
    kind, colon, path = name.rpartition(":")
    if "/" not in path or Path(path).exists():
        return name
    ends = (folder.joinpath(*Path(path).parts[index:]) for index in range(1, len(Path(path).parts)))
    here = next((end for end in ends if end.is_file()), None)
    return f"{kind}{colon}{here}" if here is not None else name


def _of_ops(manifest: Manifest, ids: Collection[str]) -> Manifest:
    """A manifest of the models alone that use some of its ops; of all models where none is named."""
    header, rows = manifest
    models = {use.model for row in rows if row.op_id in ids for use in row.uses} or set(header.models)
    kept = [(model, folder) for model, folder in zip(header.models, header.export_dirs, strict=True) if model in models]
    update = {
        "models": tuple(model for model, _ in kept),
        "export_dirs": tuple(folder for _, folder in kept),
        "module_ops": {model: header.module_ops[model] for model, _ in kept},
        "structural": {model: header.structural[model] for model, _ in kept},
        "dead": {model: header.dead.get(model, 0) for model, _ in kept},
        "failed": tuple(failure for failure in header.failed if failure.model in models & set(header.models)),
        "imports": (),
        "unfinished": tuple(model for model in header.unfinished if model in models),
    }
    used = ((row, tuple(use for use in row.uses if use.model in models)) for row in rows)
    return header.model_copy(update=update), [row.model_copy(update={"uses": uses}) for row, uses in used if uses]


def run_of_ops(
    run: str, folder: Path, op_ids: Sequence[str], server: str | None = None, database: str | None = None
) -> Path:
    """The run folder, or the repro folder, from which ops run again.

    `run` is a folder, the id or the name of a run in `folder`, the id of a run that `database` knows (None: the one in
    `folder`) or `server` has, or the address of a run on an artifact server. Empty: `folder` itself where it is a repro
    folder, the newest run in it that has the ops, or the newest of all. Raises InputError where there is none.
    """
    words = [op_id for op_id in op_ids if op_id]
    if not run:
        if (folder / bundle.FILE).is_file():
            return folder
        newest = next(run_folders.runs_with_ops(words, folder), None) or run_folders.newest_run(folder)
        if newest is None:
            hint = f"--run-dir RUN, or {_fetching(words, server)}"
            raise InputError("--op", "a run that contains the op", "no run in .opscope/runs", hint)
        return newest
    place = resolved(folder / run)
    if any((place / name).is_file() for name in (store.RUN_FILE, bundle.FILE)):
        return place
    run_id = run
    if fetch.is_server(run):
        server, _, run_id = run.rstrip("/").rpartition("/")
    if (named := run_folders.named(run_id, folder)) is not None:
        return named
    places = elsewhere.known(words[0], database, run_id) if words else []
    if (here := elsewhere.run_here(places)) is not None:
        return here[1]
    if not (words and (server or places)):
        raise InputError(
            "--run-dir",
            "a run folder, or the id or the address of a run",
            f"{run}, of which nothing is here",
            _fetching(words, server),
        )
    out = results_folder(folder) / "repro" / words[0]
    if (out / bundle.FILE).is_file() and bundle.read(out).run_id == run_id:
        return out
    if server:
        return fetch.fetch(server, words[0], run_id, out, "--run-dir")
    return elsewhere.fetched(places, out, "--run-dir")


def _fetching(words: Sequence[str], server: str | None) -> str:
    """The command that fetches an op from the machine that has its run."""
    address = server or "DATABASE, or --from http://HOST:PORT of the artifact server of that machine"
    return f"opscope repro {words[0] if words else 'ID'} --from {address}"
