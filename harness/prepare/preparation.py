"""What is to be prepared: a request, and the models that its words name, each with the folder of its export.

Nothing is imported or evaluated here: files are only read, for their digests.
"""

from __future__ import annotations

import glob
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from opscope.base.digest import file_digest, words_digest
from opscope.base.file_names import label, resolved
from opscope.base.slots import SlotAddress
from opscope.harness.cache import export_folder, upkeep
from opscope.harness.cache.made_of import new_run
from opscope.harness.prepare import argument_files, file_models, interpreters, user_files
from opscope.harness.prepare.allowance import SECONDS, Allowance
from opscope.harness.prepare.authorities import golden_author
from opscope.harness.prepare.exporting import Export
from opscope.harness.prepare.onnx_suite import node_tests
from opscope.harness.record.errors import InputError
from opscope.harness.record.result_options import DRAWN, DTYPES, INPUTS
from opscope.harness.record.signature import shorten
from opscope.models import frontends, input_classes, registry
from opscope.models.frontends.base import Source

_OWN_NAME = re.compile(r"\w[\w.+-]*(/\w[\w.+-]*)*")
"""What `--model NAME=FILE` may call a file's model: `Qwen/Qwen3-0.6B`, but no path such as `../net`, nor a flag."""


@dataclass(frozen=True)
class Preparation:
    """What to prepare."""

    models: tuple[str, ...]
    """Names, globs, `all`, paths or globs of StableHLO files (text, bytecode, portable artifact), Python files; a file
    also as `NAME=PATH`."""
    dtype: str = "float32"
    inputs: str = "captured"
    """`captured`, `random`, `classes`, or an .npz file with values of the model's inputs."""
    weights: str | None = None
    """A safetensors file with values of the model's weights."""
    shape: str | None = None
    """Sizes for dimensions that a model's file leaves open: `arg0=4x16,batch=4`."""
    mesh: str | None = None
    """The devices that a model is split over: `2x4`."""
    export_python: str | None = None
    """The interpreters that export models: `PATH`, `GLOB=PATH` (`interpreters.py`); None for this one."""
    torch_by: str | None = None
    """What exports models of PyTorch, `torchax` or `torch-mlir`; None for what fits the installed PyTorch."""
    goldens_by: str | None = None
    """The release that makes goldens, `jaxlib@0.10.2`; None for the installed one (authorities/golden_author.py)."""
    seed: int = 0
    cache_dir: str | None = None
    """If None, OPSCOPE_CACHE_DIR or else the user's cache folder."""
    max_cache: int = upkeep.MAX_CACHE
    """Limit in bytes for all caches together."""
    folders: tuple[str, ...] = ()
    """Folders with models besides our own."""
    training: bool = False
    """Whether to prepare each model's training step instead of its forward pass."""
    dead_ops: bool = False
    """Whether ops are prepared that no result of their model needs."""
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
    run: str = field(default_factory=new_run)
    """The name of the run that makes what no list in the cache allows to use again (harness/cache/made_of.py)."""
    until: float | None = None
    """The time (time.time) at which the run's budget ends: after it, no model is prepared."""

    def allowance(
        self, check: Callable[[], None] = lambda: None, spent: float = 0.0, slots: SlotAddress | None = None
    ) -> Allowance:
        """The time and memory of one model, of whose time seconds are `spent`; `check` may end what is under way. Its
        processes work in `slots`."""
        return Allowance(self.seconds, self.memory, self.until, check, spent, slots)


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
    request: Preparation
    unreadable: tuple[str, str] | None = None
    """What was expected of its file and what it is, if it cannot be read."""
    entry: str = ""
    """The model within a StableHLO file that holds several."""
    asked: str = ""
    """A digest of all that its folder depends on besides its export; empty for a StableHLO file."""
    kept: str = ""
    """The file in which its split is kept for the process that walks it (`kept_split.py`), if its ops are announced
    while goldens are made (`cache/growing_export.py`); empty for none."""

    def folder_of(self, export: str) -> Path:
        """The export folder that the model would have by another export, of the same request."""
        return _folder(self.asked, export, self.request)


def _folder(asked: str, export: str, request: Preparation) -> Path:
    exports = Path(str(request.cache_dir)) / "exports"
    return upkeep.of_run(exports / words_digest(asked, export, digits=20), request.run)


def request_of(values: Mapping[str, Any]) -> Preparation:
    """A request from its JSON."""
    return Preparation(**{**values, **{name: tuple(values[name]) for name in ("models", "folders") if name in values}})


def tasks(request: Preparation) -> list[Task]:
    """The models that the request names, each with its export folder; every model once, in the order of first naming.

    Raises InputError for what names no model or asks for an unknown type or kind of inputs.
    """
    if request.dtype not in DTYPES:
        raise InputError("--dtype", " or ".join(sorted(set(DTYPES.values()))), repr(request.dtype), "float32")
    brought = argument_files.files(request.inputs, request.weights)
    if request.inputs not in INPUTS and "--inputs" not in brought:
        raise InputError("--inputs", f"{', '.join(INPUTS)} or an .npz file", repr(request.inputs), "captured")
    if request.weights and request.inputs in DRAWN:
        raise InputError("--weights", "--inputs captured with --weights", f"--inputs {request.inputs}")
    if request.mesh and request.inputs in DRAWN:
        raise InputError("--mesh", "--inputs captured with --mesh", f"--inputs {request.inputs}")
    if not isinstance(request.seed, int):
        raise InputError("--seed", "an integer", repr(request.seed), "0")
    request = replace(request, dtype=DTYPES[request.dtype])
    cache = export_folder.cache_dir(request.cache_dir)
    request = replace(request, cache_dir=str(cache))
    task_of_name: dict[str, Task] = {}
    export_folder.recall_sources(cache)
    sources = export_folder.sources_digest()
    for named in _with_names_apart([named for word in request.models for named in _named_by(word, request)]):
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


def _task(named: Named, request: Preparation, cache: Path, sources: str) -> Task:
    """The task of one model; `sources` is the digest of what makes export folders."""
    if named.unreadable is not None:
        return _unreadable(named, named.unreadable, cache, request)
    if named.values and request.inputs == "captured":
        request = replace(request, inputs=named.values)
    brought = argument_files.files(request.inputs, request.weights)
    if named.giant and brought:
        raise InputError(next(iter(brought)), "a model whose values fit in memory", named.name)
    if request.shape and named.framework and not (named.users and named.framework in user_files.OPEN_SHAPES):
        hint = "example inputs of that shape in the file" if named.users else "leaving it out"
        raise InputError("--shape", "a model file that leaves sizes open", f"the model {named.name}", hint)
    if request.torch_by and named.framework not in ("torch", "python"):
        got = f"{named.name}, of {named.framework or 'StableHLO'}"
        raise InputError(f"--torch-by {request.torch_by}", "a model of PyTorch", got, "leaving it out")
    if request.mesh and named.giant:
        raise InputError(f"--mesh {request.mesh}", "a model whose values fit in memory", named.name)
    request = replace(request, inputs="random" if named.giant and request.inputs not in DRAWN else request.inputs)
    settings: dict[str, object] = {
        "name": named.name,
        # A file by what is in it, and not by its place.
        "inputs": "captured" if "--inputs" in brought else request.inputs,
        **{option: file_digest(Path(path)) for option, path in brought.items()},
        "shape": request.shape,
        **({"mesh": request.mesh} if request.mesh else {}),
        **golden_author.key(request.goldens_by),
        **({"dead_ops": True} if request.dead_ops else {}),
        **({"classes": input_classes.TABLES} if request.inputs == "classes" else {}),
        "seed": request.seed,
        "limits": (request.max_tensor_bytes, request.max_live_bytes),
    }
    if not named.framework:  # a file has its own types
        try:
            key = export_folder.key([named.path], settings, sources)
        except OSError as error:
            return _unreadable(named, _system_error(error), cache, request)
        folder = upkeep.of_run(cache / "exports" / key, request.run)
        return Task(named.name, str(named.path), None, "", str(folder), request, entry=named.entry)
    shapes = argument_files.shapes(request.inputs) if (named.users or named.values) and "--inputs" in brought else ()
    bound = named.values or (request.inputs if shapes and named.framework == "onnx" else "")
    sizes = request.shape or ""
    how = {"dtype": request.dtype, "training": request.training, "torch_by": request.torch_by or ""}
    source = Source(named.name, str(named.path), entry=named.entry, shapes=shapes, sizes=sizes, inputs=bound, **how)
    python = interpreters.of(request.export_python, named.name)
    reader = golden_author.release(request.goldens_by) if python is not None or request.goldens_by else ""
    export = Export(
        named.framework, source, (*map(str, named.files), *filter(None, [bound])), python, reader, request.run
    )
    try:
        name = export.key(cache)
    except OSError as error:
        return _unreadable(named, _system_error(error), cache, request)
    asked = export_folder.key([], settings, sources)
    missing = frontends.missing(named.framework, named.path, **interpreters.installed_in(python))
    folder = _folder(asked, name, request)
    return Task(named.name, str(named.path), export, missing, str(folder), request, asked=asked)


def _unreadable(named: Named, reason: tuple[str, str], cache: Path, request: Preparation) -> Task:
    """The task of a model whose file cannot be read; it fails."""
    folder = str(cache / "exports" / "unreadable")
    return Task(named.name, str(named.path), None, "", folder, request, reason)


def _system_error(error: OSError) -> tuple[str, str]:
    return "a readable file", error.strerror or str(error)


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
    values: str = ""
    """An .npz file with the values of its inputs, where it comes with some."""
    unreadable: tuple[str, str] | None = None
    """What was expected of its file, one of several that a pattern finds, and what it is, if no model is in it."""


def _with_names_apart(models: Sequence[Named]) -> list[Named]:
    """The models, where files of the user's in different folders have one name, with names that tell them apart."""
    paths: dict[str, dict[Path, str]] = {}
    for named in models:
        if not named.framework or named.users:
            paths.setdefault(named.name, {})[named.path] = named.name
    new = {name: user_files.apart(files) for name, files in paths.items() if len(files) > 1}
    return [replace(named, name=label(new.get(named.name, {}).get(named.path, named.name))) for named in models]


def _called(named: Named, old: str, new: str) -> Named:
    """A model of the user's with another name of its file in its own; one of the registry as it is."""
    return replace(named, name=new + named.name.removeprefix(old)) if named.users else named


def _named_by(word: str, request: Preparation) -> list[Named]:
    """The models that a word of the request names. Raises InputError if it names none, or is too long for a path."""
    try:
        return _resolve(word, request)
    except OSError as error:
        raise InputError("--model", "a model's name or file", f"{shorten(word, 60)!r}: {error.strerror}") from None


def _resolve(word: str, request: Preparation) -> list[Named]:
    """The models that `word` names. Raises InputError if it names none."""
    if (pattern := node_tests.pattern(word)) is not None:
        return _node_tests(pattern, request)
    own, _, file = word.partition("=")
    if file and _OWN_NAME.fullmatch(own) and not Path(word).exists():
        return _under_name(own, file, request)
    if own and Path(file).is_file() and not Path(word).exists():
        form = "a name of letters, digits, `_`, `.`, `+`, `-` and `/`, each part begun by one of the first three"
        raise InputError(f"--model {own}=", form, repr(own), f"{Path(file).stem}={file}")
    if not Path(word).exists() and Path(word).suffix in user_files.FORMATS:
        files = user_files.found(word)
        if files:
            names = user_files.stems(word, files)
            return [
                _called(named, label(file.stem), label(names[file]))
                for file in files
                for named in _one_of_several(file, request)
            ]
    users = user_files.named(word)
    if users is not None and users.framework == "python" and registered_in(users.path):
        return _models_in(users.path, request.training, users.entry)
    if users is not None:
        name = users.name + (registry.TRAINING if request.training else "")
        return [Named(name, users.path, users.framework, users.files, entry=users.entry, users=True)]
    path = Path(word)
    if (of_file := file_models.file_and_model(word)) is not None:
        return _of_stablehlo(*of_file, request)
    looks_like_path = "/" in word or path.suffix in file_models.SUFFIXES
    if looks_like_path or (path.is_file() and word not in (registry.ALL, *registry.names(request.folders))):
        # A file whose own name holds a bracket or a star is that file, not a pattern.
        paths = [path] if path.is_file() else user_files.found(word)
        if not paths:
            hint = "a glob in quotes, or --model once for each" if "," in word else ""
            raise InputError("--model", "the path of a StableHLO file", f"{word!r}, which is not a file", hint)
        names = {path: path.stem} if path.is_file() else user_files.stems(word, paths)
        return [named for file in paths for named in _of_stablehlo(file, "", request, names[file])]
    try:
        declared = _matching(word, request.folders)
    except ValueError as error:
        if glob.has_magic(word) and (files := user_files.found(word)):  # `*.mlir*`
            return [named for file in files for named in _one_of_several(file, request)]
        raise _as_input_error(error) from None
    return _named(declared, word, request.training)


def _under_name(own: str, word: str, request: Preparation) -> list[Named]:
    """The models of one file of the user's, with a name for it in place of its own: `NAME=net.mlir`."""
    models = _resolve(word, request)
    stem = label(models[0].path.stem)
    users = all((model.users or not model.framework) and model.name.startswith(stem) for model in models)
    if not users or len({model.path for model in models}) > 1:
        raise InputError(f"--model {own}=", "the path of one model file", repr(word))
    return [replace(model, name=label(own) + model.name.removeprefix(stem)) for model in models]


def _one_of_several(file: Path, request: Preparation) -> list[Named]:
    """The models in a file that a pattern finds; one that cannot be read is a row, and the others run."""
    try:
        return _resolve(str(file), request)
    except InputError as error:
        reason = (error.expected, error.got)
        return [Named(label(file.stem), file.absolute(), "python", users=True, unreadable=reason)]


def _of_stablehlo(path: Path, model: str, request: Preparation, stem: str = "") -> list[Named]:
    """One model of a StableHLO file, or without a name all of them; `stem` is the file's name in theirs."""
    stem = stem or path.stem
    if request.dtype != Preparation.dtype:
        hint = "leaving it out: the file has its own types"
        raise InputError(
            f"--dtype {request.dtype}", "a model whose type can be chosen", f"{str(path)!r}, a StableHLO file", hint
        )
    if request.training:
        raise InputError("--training", "a model that can be trained", f"{str(path)!r}, a StableHLO file")
    try:
        cache = export_folder.cache_dir(request.cache_dir)
        names = [model] if model else file_models.models(path, cache, listing_seconds(path, request))
    except file_models.Endless as error:
        return [Named(label(stem), path.absolute(), unreadable=("a readable file", str(error)))]
    if not names:
        return [Named(label(stem), path.absolute())]
    return [Named(label(f"{stem}.{name}"), path.absolute(), entry=name) for name in names]


def listing_seconds(path: Path, request: Preparation) -> float:
    """Seconds in which it has to be known which models a file holds."""
    limits = [file_models.reading_seconds(path), request.seconds]
    return min(limits if request.until is None else [*limits, max(0.1, request.until - time.time())])


def _node_tests(pattern: str, request: Preparation) -> list[Named]:
    """The node tests of ONNX; without their packages one model that says what is missing."""
    if request.training:
        raise InputError("--training", "a model that can be trained", f"{node_tests.SUITE}, which is ONNX")
    sources = frontends.sources("onnx")
    if frontends.missing("onnx"):
        return [Named(node_tests.SUITE, Path(node_tests.SUITE), "onnx", sources)]
    return [
        Named(f"{node_tests.SUITE}.{case.name}", case.model, "onnx", (case.model, *sources), values=str(case.inputs))
        for case in node_tests.cases(pattern, export_folder.cache_dir(request.cache_dir), request.max_cache)
    ]


def registered_in(path: Path) -> bool:
    """Whether a Python file holds models of the registry. An unreadable file counts too, so that it is reported."""
    try:
        return bool(registry.declared(path))
    except (ValueError, OSError):
        return True


def _models_in(path: Path, training: bool, name: str = "") -> list[Named]:
    """The models in a Python file, or the one of a name, without importing it here."""
    path = resolved(path)
    try:
        declared = registry.declared(path)
    except FileNotFoundError:
        raise InputError("--model", "the path of a Python file", f"{str(path)!r}, which is not a file") from None
    except (ValueError, OSError) as error:
        raise _as_input_error(error) from None
    if not declared:
        raise InputError("--model", "a Python file with a function that has the decorator @model", str(path))
    if name and name not in {model.name for model in declared}:
        known = ", ".join(model.name for model in declared)
        raise InputError(f"--model {path}", f"a model of this file ({known})", repr(name))
    return _named([(path, model) for model in declared if name in ("", model.name)], str(path), training)


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


def _matching(word: str, folders: Sequence[str]) -> list[tuple[Path, registry.Declared]]:
    """The models of the registry that `word` matches; only those of other `folders` are imported. Raises ValueError."""
    if not folders:
        return registry.match_declared(word)
    models = registry.match(word, folders)
    return [(m.path, registry.Declared(m.name, m.framework, m.giant, m.trainable)) for m in models]


def _as_input_error(error: Exception) -> InputError:
    """The InputError with the text of another room's error."""
    where, _, rest = str(error).partition(": expected ")
    expected, _, rest = rest.partition(", got ")
    got, _, hint = rest.partition("; try ")
    return InputError(where, expected, got, hint) if got else InputError("--model", "a model", str(error))
