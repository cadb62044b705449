"""Parent side of preparing a run: models in, manifest out; all heavy work happens in child processes.

`prepare` finds each model's export folder in the cache, or has an exporter make the StableHLO
(`opscope.harness.prepare.exporting`) and a child the rest (split, golden walk). This file imports neither jax nor
numpy: pytest processes call it.
"""

from __future__ import annotations

import contextlib
import glob
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from opscope.base import damage, stored
from opscope.base.children.call import Outcome, call
from opscope.base.children.ending import Cause, ChildEnded, Ending
from opscope.base.damage import Damaged
from opscope.base.digest import file_digest
from opscope.base.file_names import as_text, label
from opscope.harness.cache import export_folder, upkeep
from opscope.harness.cache.claims import Claims, alone_in
from opscope.harness.cache.export_folder import JOURNAL
from opscope.harness.prepare import argument_files, exporting, user_files
from opscope.harness.prepare.allowance import EXPORT, SECONDS, Allowance, BudgetSpent, ModelRefused
from opscope.harness.prepare.exporting import Export, ExportFailed
from opscope.harness.prepare.whole_manifest import whole_rows
from opscope.harness.record import store
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import ManifestHeader, ModelFailure, OpRow
from opscope.harness.record.result_options import DTYPES, INPUTS
from opscope.harness.record.stages import ModelStatus
from opscope.models import frontends, registry
from opscope.models.frontends.base import Source

Event = dict[str, Any]
"""`{"event": "stage", "model", "stage": "export" | "split" | "golden", "done", "total"}` while it works,
`{"event": "done", "model", "export_dir", "cached"}` or `{"event": "failed", "model", "status", "error"}` per model."""

CACHE = "cache folder"
"""Where an error is that no model is to blame for."""

MAX_CRASHES = 20
"""How many ops of one model may crash the child before the model counts as failed."""


@dataclass(frozen=True)
class Request:
    """What to prepare."""

    models: tuple[str, ...]
    """Names, globs, `all`, paths or globs of StableHLO files (text, bytecode, portable artifact), Python files."""
    dtype: str = "float32"
    inputs: str = "captured"
    """`captured`, `random`, or an .npz file with values of the model's inputs."""
    weights: str | None = None
    """A safetensors file with values of the model's weights."""
    seed: int = 0
    cache_dir: str | None = None
    """If None, OPSCOPE_CACHE_DIR or else the user's cache folder."""
    max_cache: int = upkeep.MAX_CACHE
    """Limit in bytes for all caches together."""
    folders: tuple[str, ...] = ()
    """Folders with models besides our own."""
    training: bool = False
    """Whether to prepare each model's training step instead of its forward pass."""
    max_tensor_bytes: int = 2 << 30
    """Limit in bytes of one captured value. Above it, the value's users get random inputs and its op gets no golden."""
    max_live_bytes: int = 8 << 30
    """Limit in bytes of the values that are alive at once in the walk."""
    op_seconds: float = 300.0
    """A single op of the walk that takes longer has no golden (a loop that does not end on its inputs)."""
    seconds: float = SECONDS
    """Time limit of all steps of one model together."""
    memory: int | None = None
    """Bytes that a model's exporter, and then its child, may hold; None means three quarters of the machine's."""
    until: float | None = None
    """The time (time.time) at which the run's budget ends: after it, no model is prepared."""


@dataclass(frozen=True)
class Task:
    """One model of a request: what the child gets."""

    name: str
    path: str
    """The model's Python file, or the StableHLO file."""
    export: Export | None
    """The request to its exporter; None for a StableHLO file."""
    missing: str
    """What is missing of its framework, with the line that installs it; empty if nothing is."""
    folder: str
    request: Request
    unreadable: str = ""
    """Why its file cannot be read; empty if it can."""


class Unpreparable(Exception):  # noqa: N818 - the outcome of one model, not an error of ours
    """A model that was exported could not be split or evaluated."""


def prepare(
    request: Request | Mapping[str, Any],
    on_event: Callable[[Event], None] | None = None,
    claims: Claims | None = None,
    artifacts: Path | None = None,
) -> tuple[ManifestHeader, list[OpRow]]:
    """Prepares all models of the request and merges their manifests by op id.

    A row that several models share keeps the files and the chosen use of the first; uses are joined. The export folders
    stay for as long as `claims` holds them. A model that is not prepared is in the header's `failed`, its traceback in
    a file below `artifacts`. Raises InputError for an unknown model, a single file that is no StableHLO, a request of
    which no model has its framework here, a cache that cannot be written.
    """
    request = request if isinstance(request, Request) else request_of(request)
    report = on_event or (lambda event: None)
    claims = claims or Claims()
    requested = [_writable(task, claims) for task in tasks(request)]
    if all(task.missing for task in requested):
        missing, _, hint = requested[0].missing.partition("; try ")
        raise InputError(f"--model {requested[0].name}", "its framework to be installed", missing, hint)
    manifests: list[tuple[ManifestHeader, list[OpRow]]] = []
    failed: list[ModelFailure] = []
    for task in requested:
        folder = Path(task.folder)
        cached = _claimed(folder, claims)
        allowance = Allowance(request.seconds, request.memory, request.until)
        try:
            if task.missing:
                raise ExportFailed("", task.missing, "")
            manifest = _manifest(task, claims, allowance, report)
        except ExportFailed as error:
            status = ModelStatus(f"{error.stage}_failed") if error.stage else ModelStatus.FRAMEWORK_MISSING
            failed.append(_failure(task, status, error.error, error.trace, artifacts))
        except Unpreparable as error:
            failed.append(_failure(task, ModelStatus.PREPARE_FAILED, str(error), "", artifacts))
        except BudgetSpent as error:
            reason = f"budget: it was at {error} when the time of --budget was over"
            failed.append(_failure(task, ModelStatus.NOT_RUN, reason, "", artifacts))
        except ModelRefused as error:
            if len(requested) == 1:
                raise
            status = ModelStatus.EXPORT_FAILED if allowance.step == EXPORT else ModelStatus.PREPARE_FAILED
            failed.append(_failure(task, status, str(error), "", artifacts))
        else:
            export_folder.mark_used(folder)
            manifests.append(manifest)
            report({"event": "done", "model": task.name, "export_dir": task.folder, "cached": cached})
            continue
        report({"event": "failed", "model": task.name, "status": failed[-1].status.value, "error": failed[-1].error})
    header, rows = merge(manifests)
    return header.model_copy(update={"failed": tuple(failed)}), rows


def request_of(values: Mapping[str, Any]) -> Request:
    """A request from its JSON."""
    return Request(**{**values, **{name: tuple(values[name]) for name in ("models", "folders") if name in values}})


def _failure(task: Task, status: ModelStatus, error: str, trace: str, artifacts: Path | None) -> ModelFailure:
    """The row of a model that was not prepared; its traceback becomes a file where there is one and a place for it."""
    artifact = None
    if trace and artifacts is not None:
        path = artifacts / store.MODELS_DIR / f"{store.file_name(task.name)}.txt"
        store.write_whole(path, trace)
        artifact = path.relative_to(artifacts.parent).as_posix()
    framework = task.export.framework if task.export else ""
    return ModelFailure(model=task.name, framework=framework, status=status, error=as_text(error), artifact=artifact)


def _claimed(folder: Path, claims: Claims | None) -> bool:
    """Whether an export folder is complete, and now claimed. A damaged one is removed."""
    if not export_folder.complete(folder):
        return False
    if claims is not None:
        claims.hold(folder)
    return export_folder.intact(folder)


def _writable(task: Task, claims: Claims) -> Task:
    """The task, with a folder that its claims hold if a read-only cache lacks the model or has it damaged."""
    cache = Path(str(task.request.cache_dir))
    if not export_folder.read_only(cache):
        return task
    damage.say(f"{cache} is read-only: nothing is kept in it")
    folder = Path(task.folder)
    try:
        stored.check_sizes(folder)
        export_folder.read_manifest(folder)
        return task
    except Damaged as error:
        if export_folder.complete(folder):
            damage.say(f"{error.where}: damaged ({error.got}); {task.name} is prepared for this run alone")
    return replace(task, folder=str(claims.temporary() / "exports" / folder.name))


def _manifest(
    task: Task, claims: Claims | None, allowance: Allowance, report: Callable[[Event], None]
) -> tuple[ManifestHeader, list[OpRow]]:
    """The manifest of one model, whose export folder is made if it does not exist or is damaged."""
    folder = Path(task.folder)
    while True:
        while not _claimed(folder, claims):  # again where somebody clears up just now
            _make(task, allowance, report)
        try:
            manifest = export_folder.read_manifest(folder)
            whole_rows([folder])  # workflow `full` reads them later
            return manifest
        except Damaged as error:
            export_folder.discard(folder, error)


def mend(request: Request, row: OpRow, error: Damaged, claims: Claims | None = None) -> OpRow:
    """The row of an op of which a lane found a file damaged, once its model has been prepared again.

    Of several processes that find damage in a cache, one after the other mends it. Raises Damaged if that cannot be
    done.
    """
    task = next((task for task in tasks(request) if task.name == row.uses[0].model), None)
    if task is None or not Path(error.where).is_relative_to(task.folder):
        raise error  # its sources have changed since, so another folder would be made
    folder = Path(task.folder)
    with alone_in(folder.parent):
        try:
            try:
                if export_folder.intact(folder):
                    for path in export_folder.files_of(row):
                        stored.checked(folder, path)
            except Damaged as still:
                export_folder.discard(folder, still)
            allowance = Allowance(request.seconds, request.memory, request.until)
            _, rows = _manifest(task, claims, allowance, lambda event: None)
        except (ExportFailed, Unpreparable, BudgetSpent, InputError) as failed:
            raise Damaged(error.where, f"{error.got}, and {task.name} cannot be prepared again: {failed}") from None
    mended = next((other for other in rows if other.op_id == row.op_id), None)
    if mended is None:
        raise error
    # A model's own row lists its own uses; those in other models stay.
    return mended.model_copy(update={"uses": row.uses})


def tasks(request: Request) -> list[Task]:
    """The models that the request names, each with its export folder; every model once, in the order of first naming.

    Raises InputError for what names no model or asks for an unknown type or kind of inputs.
    """
    if request.dtype not in DTYPES:
        raise InputError("--dtype", " or ".join(sorted(set(DTYPES.values()))), repr(request.dtype), "float32")
    brought = argument_files.files(request.inputs, request.weights)
    if request.inputs not in INPUTS and "--inputs" not in brought:
        raise InputError("--inputs", f"{' or '.join(INPUTS)}, or an .npz file", repr(request.inputs), "captured")
    if request.weights and request.inputs == "random":
        raise InputError("--weights", "--inputs captured with --weights", "--inputs random")
    if not isinstance(request.seed, int):
        raise InputError("--seed", "an integer", repr(request.seed), "0")
    request = replace(request, dtype=DTYPES[request.dtype])
    cache = export_folder.cache_dir(request.cache_dir)
    request = replace(request, cache_dir=str(cache))
    task_of_name: dict[str, Task] = {}
    sources = export_folder.sources_digest()
    for word in request.models:
        for named in _resolve(word, request):
            name, path = named.name, named.path
            earlier = task_of_name.get(name)
            if earlier is not None:
                if earlier.path != str(path):
                    raise InputError("--model", "models with different names", f"two named {name!r}", "renaming a file")
                continue
            task_of_name[name] = _task(named, request, cache, sources)
    if not task_of_name:
        raise InputError("--model", "at least one model", "none", ", ".join(registry.names(request.folders)))
    if brought and len(task_of_name) > 1:
        raise InputError(next(iter(brought)), "one model with a file of values", f"{len(task_of_name)} models")
    return list(task_of_name.values())


def _task(named: Named, request: Request, cache: Path, sources: str) -> Task:
    """The task of one model; `sources` is the digest of what makes export folders."""
    brought = argument_files.files(request.inputs, request.weights)
    if named.giant and brought:
        raise InputError(next(iter(brought)), "a model whose values fit in memory", named.name)
    request = replace(request, inputs="random" if named.giant else request.inputs)
    settings: dict[str, object] = {
        "name": named.name,
        # A file by what is in it, and not by its place.
        "inputs": "captured" if "--inputs" in brought else request.inputs,
        **{option: file_digest(Path(path)) for option, path in brought.items()},
        "seed": request.seed,
        "limits": (request.max_tensor_bytes, request.max_live_bytes),
    }
    if not named.framework:  # a file has its own types
        try:
            key = export_folder.key([named.path], settings, sources)
        except OSError as error:
            return _unreadable(named, error, cache, request)
        return Task(named.name, str(named.path), None, "", str(cache / "exports" / key), request)
    shapes = argument_files.shapes(request.inputs) if named.users and "--inputs" in brought else ()
    bound = request.inputs if shapes and named.framework == "onnx" else ""
    source = Source(named.name, str(named.path), request.dtype, request.training, named.entry, shapes, bound)
    export = Export(named.framework, source, (*map(str, named.files), *filter(None, [bound])))
    try:
        key = export_folder.key([], {**settings, "export": export.key()}, sources)
    except OSError as error:
        return _unreadable(named, error, cache, request)
    missing = frontends.missing(named.framework)
    return Task(named.name, str(named.path), export, missing, str(cache / "exports" / key), request)


def _unreadable(named: Named, error: OSError, cache: Path, request: Request) -> Task:
    """The task of a model whose file cannot be read; it fails."""
    folder = str(cache / "exports" / "unreadable")
    return Task(named.name, str(named.path), None, "", folder, request, error.strerror or str(error))


@dataclass(frozen=True)
class Named:
    """One model that a word of the request names."""

    name: str
    """Its name in records."""
    path: Path
    framework: str = ""
    """The framework whose exporter takes it; empty for a StableHLO file."""
    files: tuple[Path, ...] = ()
    """What its program depends on."""
    entry: str = ""
    giant: bool = False
    users: bool = False
    """Whether it is a file of the user's, in which shapes may be left open."""


def _resolve(word: str, request: Request) -> list[Named]:
    """The models that `word` names. Raises InputError if it names none."""
    users = user_files.named(word)
    if users is None and not Path(word).exists() and Path(word).suffix in user_files.FORMATS:
        files = sorted(map(Path, glob.glob(word)))  # noqa: PTH207 - Path.glob takes no absolute pattern
        return [named for file in files for named in _resolve(str(file), request)]
    if users is not None and not (users.framework == "python" and registered_in(users.path)):
        name = users.name + (registry.TRAINING if request.training else "")
        return [Named(name, users.path, users.framework, users.files, entry=users.entry, users=True)]
    path = Path(word)
    looks_like_path = "/" in word or path.suffix in {".mlir", ".mlirbc", ".stablehlo", ".bc", ".vhlo"}
    if path.suffix == ".py":
        return _models_in(path, request.training)
    if looks_like_path or (path.is_file() and word not in registry.names(request.folders)):
        # A file whose own name holds a bracket or a star is that file, not a pattern.
        globbed = [] if path.is_file() else glob.glob(word)  # noqa: PTH207 - Path.glob takes no absolute pattern
        paths = [path] if path.is_file() else sorted(file for file in map(Path, globbed) if file.is_file())
        if not paths:
            raise InputError("--model", "the path of a StableHLO file", f"{word!r}, which is not a file")
        if request.training:
            raise InputError("--training", "a model that can be trained", f"{word!r}, a StableHLO file")
        return [Named(label(file.stem), file.absolute()) for file in paths]
    try:
        models = registry.match(word, request.folders)
    except ValueError as error:
        raise _as_input_error(error) from None
    declared = [(m.path, registry.Declared(m.name, m.framework, m.giant, m.trainable)) for m in models]
    return _named(declared, word, request.training)


def registered_in(path: Path) -> bool:
    """Whether a Python file holds models of the registry. An unreadable file counts too, so that it is reported."""
    try:
        return bool(registry.declared(path))
    except (ValueError, OSError):
        return True


def _models_in(path: Path, training: bool) -> list[Named]:
    """The models in a Python file, without importing it here."""
    path = path.resolve()
    try:
        declared = registry.declared(path)
    except FileNotFoundError:
        raise InputError("--model", "the path of a Python file", f"{str(path)!r}, which is not a file") from None
    except (ValueError, OSError) as error:
        raise _as_input_error(error) from None
    if not declared:
        raise InputError("--model", "a Python file with a function that has the decorator @model", str(path))
    return _named([(path, model) for model in declared], str(path), training)


def _named(declared: Sequence[tuple[Path, registry.Declared]], word: str, training: bool) -> list[Named]:
    """Registered models, for their forward pass or for `training`. Raises InputError if none can be trained."""
    chosen = [(path, model) for path, model in declared if model.trainable or not training]
    if not chosen:
        raise InputError("--training", "a model that can be trained", repr(word))
    return [
        Named(
            model.name + (registry.TRAINING if training else ""),
            path,
            model.framework,
            tuple(registry.sources_of(path, model.framework)),
            entry=model.name,
            giant=model.giant,
        )
        for path, model in chosen
    ]


def _as_input_error(error: Exception) -> InputError:
    """The InputError with the text of another room's error."""
    where, _, rest = str(error).partition(": expected ")
    expected, _, rest = rest.partition(", got ")
    got, _, hint = rest.partition("; try ")
    return InputError(where, expected, got, hint) if got else InputError("--model", "a model", str(error))


def merge(manifests: Sequence[tuple[ManifestHeader, list[OpRow]]]) -> tuple[ManifestHeader, list[OpRow]]:
    """One manifest of several: rows in order of first appearance, uses of equal ops joined."""
    rows: dict[str, OpRow] = {}
    for _, of_model in manifests:
        for row in of_model:
            earlier = rows.get(row.op_id)
            rows[row.op_id] = row if earlier is None else earlier.model_copy(update={"uses": earlier.uses + row.uses})
    headers = [header for header, _ in manifests]
    header = ManifestHeader(
        models=tuple(m for h in headers for m in h.models),
        export_dirs=tuple(d for h in headers for d in h.export_dirs),
        module_ops={m: n for h in headers for m, n in h.module_ops.items()},
        structural={m: n for h in headers for m, n in h.structural.items()},
    )
    return header, list(rows.values())


def _make(task: Task, allowance: Allowance, report: Callable[[Event], None]) -> None:
    """Makes one export folder in child processes, with a new child after each op that killed the last one."""
    if task.unreadable:
        raise ModelRefused(task.path, "a readable file", task.unreadable)
    if not allowance.left():
        raise BudgetSpent("its beginning")
    exports = export_folder.make_dir(Path(task.folder).parent)
    upkeep.trim(exports.parent, task.request.max_cache)
    claims = Claims()
    module = ""
    if task.export is not None:
        report({"event": "stage", "model": task.name, "stage": "export", "done": 0, "total": 1})
        module = str(exporting.exported(task.export, exports.parent, task.request.max_cache, claims, allowance))
    try:
        temporary = Path(tempfile.mkdtemp(prefix=upkeep.UNFINISHED, dir=exports))
    except OSError as error:
        raise export_folder.unwritable("cache folder", exports, error) from None
    fatal_ops: dict[str, str] = {}
    claims.hold(temporary)
    try:
        while True:
            outcome = _run_child(task, module, temporary, fatal_ops, allowance, report)
            # Whole, however its maker ended afterwards.
            if outcome.ending.ok or export_folder.complete(Path(task.folder)):
                return
            if allowance.budget_is_spent:
                raise BudgetSpent("golden" if _evaluating(temporary) else allowance.step)
            op = _evaluating(temporary)
            op_id, _, op_text = op.partition(" ")
            line = outcome.log.last_line()[:200] or "no output"
            if not op or not allowance.left() or op_id in fatal_ops or len(fatal_ops) >= MAX_CRASHES:
                at = f"golden of {op_text}" if op else allowance.step
                raise Unpreparable(allowance.reason(outcome.ending, at, line))
            late = outcome.ending.cause is Cause.TIMEOUT
            how = f"more than {task.request.op_seconds:g} s" if late else outcome.ending.kind
            fatal_ops[op_id] = f"XLA gave no value ({how}): {line}"
    finally:
        claims.close()
        shutil.rmtree(temporary, ignore_errors=True)


def _evaluating(temporary: Path) -> str:
    """The op that the child had begun to evaluate when it died, from its journal: id, name and place."""
    journal = temporary / JOURNAL
    return journal.read_text(encoding="utf-8", errors="replace").strip() if journal.is_file() else ""


def _run_child(
    task: Task, module: str, temporary: Path, fatal_ops: Mapping[str, str], allowance: Allowance,
    report: Callable[[Event], None],
) -> Outcome:  # fmt: skip
    """One child at work until it ends; it is late once one op is under evaluation for more than `op_seconds`, or all
    that the model may take is used up.

    `module` is the exporter's folder, empty for a StableHLO file. Raises InputError or Unpreparable if the child
    reports one.
    """
    error: Event = {}
    journal, seconds = temporary / JOURNAL, task.request.op_seconds
    journal.unlink(missing_ok=True)
    written, since = 0, time.monotonic()

    def take(event: Event) -> None:
        allowance.note(event)
        if event["event"] == "error":
            error.update(event)
        elif event["event"] == "damage":
            damage.say(event["line"])
        else:
            report(event)

    def check_op() -> None:
        nonlocal written, since
        with contextlib.suppress(FileNotFoundError):
            state = journal.stat()
            last = state.st_mtime_ns
            if not state.st_size:  # no op yet: XLA starts, which takes longer where the machine is busy
                return
            if last != written:  # the file's time says whether it was written, not how long ago: clocks are set
                written, since = last, time.monotonic()
            elif time.monotonic() - since > seconds:
                raise ChildEnded(Ending(Cause.TIMEOUT, f"more than {seconds:g} s"))

    if not module:  # the child's own first word comes after seconds of imports
        report({"event": "stage", "model": task.name, "stage": "export", "done": 0, "total": 1})
    arguments = {**asdict(task), "exported": module, "temporary": str(temporary), "fatal_ops": fatal_ops}
    outcome = call(
        "opscope.harness.prepare.prepare_child:prepare", arguments, seconds=allowance.left(), memory=allowance.memory,
        on_message=take, watch=check_op,
    )  # fmt: skip
    if error and "where" not in error:
        raise Unpreparable(error["got"])
    if error:
        refusal = InputError if error["where"] == CACHE else ModelRefused
        raise refusal(error["where"], error["expected"], error["got"], error.get("hint", ""))
    return outcome
