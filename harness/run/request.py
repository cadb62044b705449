"""The request of one `pytest --op-by-op`: reads the command line and checks it before anything starts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from opscope.base.file_names import resolved
from opscope.harness.backends import compiler_options, registry
from opscope.harness.cache.made_of import new_run
from opscope.harness.limitations import limitation_file
from opscope.harness.programs import derived_exports
from opscope.harness.record.errors import InputError
from opscope.harness.record.result_options import DRAWN, Decides, ResultOptions
from opscope.harness.record.workflows import SPLIT, workflow
from opscope.harness.run import own_mesh
from opscope.harness.settings import foreign_options
from opscope.harness.settings.settings import SETTINGS, Resolved, project_folder, resolve

if TYPE_CHECKING:
    from opscope.harness.prepare.preparation import Preparation, Task


@dataclass(frozen=True)
class Request:
    """The request of the user."""

    models: tuple[str, ...]
    ops: tuple[str, ...]
    """Globs over op names and families; empty means all ops."""
    op_ids: tuple[str, ...]
    """Ids of ops of an earlier run; empty means all ops."""
    nodeids: tuple[str, ...]
    """Tests named on the command line; empty means all."""
    resume: Path | None
    """The run to continue."""
    run_dir: Path | None
    """The folder to write the run to."""
    settings: Resolved
    folder: Path
    """The folder in which pytest was called, which contains .opscope."""
    named: Sequence[Task] = ()
    """The models of a new run, as they were when the command line was read."""
    run: str = field(default_factory=new_run)
    """The name under which exports are made that no list in the cache allows to use again."""
    earlier: str = ""
    """Without models, the earlier run as `--run-dir` names it (run/ops_again.py); empty for the newest."""
    notes: tuple[str, ...] = ()
    """Lines that the user gets to see: what was decided for them."""

    @property
    def again(self) -> bool:
        """Whether ops of an earlier run are run again, without exporting anything."""
        return not self.models and self.resume is None


KEY = pytest.StashKey[Request]()

SELECTING = ("-k", "-m", "--deselect", "--lf", "--last-failed", "--ff", "--sw", "--stepwise")
"""pytest's own options that select tests."""


def read(config: pytest.Config) -> Request:
    """Reads the request from the command line. Raises InputError for all that is wrong before a model is exported."""
    option = config.option
    values = {s.name: getattr(option, s.dest, None) for s in SETTINGS}
    values |= {
        name: value for name in foreign_options.OWNERS if (value := foreign_options.take(name, config)) is not None
    }
    settings = resolve(values, project_folder(config.invocation_params.dir))
    paths = [str(arg) for arg in option.file_or_dir or ()]
    for path in paths:
        if "::" not in path:
            raise InputError("command line", "no test files with --op-by-op", repr(path), "--model")
    if option.opscope_op and option.opscope_model:
        raise InputError("--op", "--op without --model", "both", "--ops GLOB")
    folder = config.invocation_params.dir
    _check_resume(option)
    if settings["cluster"] is not None and (getattr(option, "numprocesses", None) or getattr(option, "tx", None)):
        raise InputError(
            "--cluster", "--cluster without -n: each device of the cluster is a lane", "both", "--cluster alone"
        )
    if option.opscope_shard and not (option.opscope_model or option.opscope_resume):
        raise InputError("--shard", "--shard with --model", "--op of an earlier run")
    # The record's command line must work from any folder, also with a backend's file.
    settings.values["backend"] = ",".join(
        str(resolved(folder / name)) if name.endswith(registry.FILES) else registry.absolute(name, folder)
        for name in registry.split_names(settings["backend"])
    )
    _find_limitations(settings, folder)
    _check_workflow(settings)
    run_dir = option.opscope_run_dir or ""
    request = Request(
        models=tuple(option.opscope_model or ()),
        ops=tuple(option.opscope_ops or ()),
        op_ids=tuple(option.opscope_op or ()),
        nodeids=tuple(paths),
        resume=None if option.opscope_resume is None else resolved(folder / option.opscope_resume),
        run_dir=resolved(folder / run_dir) if run_dir and option.opscope_model else None,
        settings=settings,
        folder=folder,
        earlier="" if option.opscope_model else run_dir,
    )
    return _with_own_mesh(replace(request, named=_models(request))) if request.models else request


def _with_own_mesh(request: Request) -> Request:
    """The request with the mesh of its models' own files, if it names none and they have one (own_mesh.py)."""
    settings = request.settings
    backends = registry.split_names(settings["backend"])
    on_fail = bool(settings["op_by_op_on_fail"])
    own = own_mesh.of_files(request.named, settings.options, backends, settings.is_set("arch"), on_fail)
    if own is None:
        own_mesh.check(request.named, settings.options, backends)
        return request
    settings.values.update(mesh=own.mesh, arch=own.board)
    own_mesh.check(request.named, settings.options, backends)
    settings.sources["mesh"] = "the model's file"
    return replace(request, named=_models(request), notes=(own.line,))


def _check_workflow(settings: Resolved) -> None:
    """Raises InputError if two options name different workflows."""
    if settings["op_by_op_on_fail"] and settings["workflow"] != SPLIT:
        got = f"--workflow {settings['workflow']}"
        raise InputError("--op-by-op-on-fail", f"--workflow {SPLIT}", got, "one of the two options")
    if settings["mesh"] and (settings["workflow"] != SPLIT or settings["op_by_op_on_fail"]):
        flag = "--op-by-op-on-fail" if settings["op_by_op_on_fail"] else f"--workflow {settings['workflow']}"
        raise InputError("--mesh", f"--workflow {SPLIT} with --mesh", flag)
    if workflow(settings["workflow"]).of_ttnn:
        derived_exports.check(settings["workflow"], settings["backend"])
    if workflow(settings["workflow"]).of_pieces and settings["inputs"] in DRAWN:
        where = f"--workflow {settings['workflow']}"
        raise InputError(
            where, "--inputs captured or a file", f"--inputs {settings['inputs']}", "the model's own values"
        )


def _find_limitations(settings: Resolved, folder: Path) -> None:
    """Makes the path of the user's expected failures absolute.

    Raises InputError if the user's file, or the project's own, is invalid, because once ops run it would be too late.
    """
    if settings["limitations"] is not None:
        source = Path(settings.sources["limitations"])
        base = source.parent if source.name == "pyproject.toml" else folder
        settings.values["limitations"] = str(resolved(base / settings["limitations"]))
    limitation_file.all_rows(settings["limitations"])


def _check_resume(option: Any) -> None:
    """Raises InputError if `--resume` comes with an option that the run has already fixed."""
    if option.opscope_resume is None:
        return
    for flag, value in (
        ("--model", option.opscope_model),
        ("--op", option.opscope_op),
        ("--ops", option.opscope_ops),
        ("--run-dir", option.opscope_run_dir),
        ("a test's name", option.file_or_dir),
    ):
        if value:
            raise InputError(
                "--resume", "--resume alone, since the run folder has all other options", f"{flag} as well"
            )


def _models(request: Request) -> Sequence[Task]:
    """The models of a request. Raises InputError for one or a backend that does not exist, before any work starts."""
    from opscope.harness.prepare.preparation import tasks

    names = registry.split_names(request.settings["backend"])
    for backend in names:
        registry.check_name(backend)
    compiler_options.check(names, ResultOptions.of(request.settings.values))
    return tasks(to_prepare(request, started=time.time()))


def to_prepare(
    request: Request,
    settings: Mapping[str, Any] | None = None,
    models: Sequence[str] = (),
    started: float | None = None,
    run: str | None = None,
) -> Preparation:
    """The part of the request that `opscope.harness.engine.model_jobs` prepares.

    If settings and models of another run are given, they replace those of the request. The budget counts from
    `started` (time.time), if it is given. `run` is that of an earlier run which goes on.
    """
    from opscope.harness.prepare.preparation import Preparation

    settings = settings or request.settings.values
    return Preparation(
        models=tuple(models) or request.models,
        **ResultOptions.of(settings).values(Decides.PROGRAM),
        run=request.run if run is None else run,
        cache_dir=settings["cache_dir"],
        max_tensor_bytes=settings["golden_memory"],
        max_cache=settings["max_cache"],
        seconds=settings["prepare_timeout"],
        memory=settings["prepare_memory"],
        until=None if started is None or settings["budget"] is None else started + settings["budget"],
    )


def refuse_without_model(config: pytest.Config) -> None:
    """Raises InputError if a command line that names no model asks for more than the list of models.

    What is in an ini file's `addopts` does not count: that is no request of this command line.
    """
    words = {str(word).partition("=")[0] for word in config.invocation_params.args}
    flags = ("--ops", *SELECTING, *(setting.flag for setting in SETTINGS if setting.option))
    asked = [*(config.option.file_or_dir or ()), *(flag for flag in flags if flag in words)]
    if asked:
        named = next(iter(config.option.file_or_dir or ()), "NAME")
        raise InputError(
            "command line",
            "--model, --op or --resume with --op-by-op",
            f"{asked[0]!r} without them",
            f"--model {named}, or --op-by-op alone, which lists the models",
        )


def model_list() -> str:
    """The text that `--op-by-op` alone prints."""
    from opscope.models import registry as zoo

    models = [zoo.get(name) for name in zoo.names()]
    width = max((len(m.name) for m in models), default=0)
    lines = [f"  {m.name:<{width}}  {m.family}, {m.framework}" for m in models]
    return "\n".join(["models for --model (or the path of a model file):", *lines, ""])
