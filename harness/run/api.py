"""The harness without pytest: split a module into single ops, or take every op of a model up a backend's ladder.

    from opscope import run_op_by_op
    tests = run_op_by_op(f, x)
    print({test.op_name: test.status for test in tests})

Both take a StableHLO module: lowered by JAX, an MLIR module object, text, bytecode, or the path of a file.
`run_op_by_op` also takes a model's name, and a function or a framework's module with example inputs.
"""

from __future__ import annotations

import inspect
import io
import uuid
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from pydantic import ValidationError

from opscope.base import damage
from opscope.base.live import progress
from opscope.base.live.notebook import in_notebook, shown
from opscope.base.results_folder import make_folder
from opscope.base.visible_text import counted
from opscope.harness.backends import compiler_commits, compiler_options, registry
from opscope.harness.cache import export_folder
from opscope.harness.cache.claims import Claims
from opscope.harness.cache.conditions import conditions
from opscope.harness.climb.reruns import Reruns
from opscope.harness.climb.result_cache import ResultCache
from opscope.harness.engine.climber import Climber, Terms
from opscope.harness.engine.engine import Done, Engine, OpJob
from opscope.harness.engine.import_checks import import_check
from opscope.harness.engine.local import LocalEngine
from opscope.harness.engine.model_jobs import Event, Means, prepare
from opscope.harness.lanes import scratch
from opscope.harness.lanes.lane import Lane, LaneConfig
from opscope.harness.limitations import limitation_file
from opscope.harness.prepare.preparation import Preparation, Task, tasks
from opscope.harness.record import run_folders, store
from opscope.harness.record.errors import InputError, closest
from opscope.harness.record.manifests import Manifest
from opscope.harness.record.optest import DEFAULT_BACKEND, RunContext, backend_label, now
from opscope.harness.record.option_types import input_error
from opscope.harness.record.origin import CONDITIONS, FOLDER, origin
from opscope.harness.record.records import ManifestHeader, OpRow, OpTest, RunRecord
from opscope.harness.record.result_options import Decides, ResultOptions
from opscope.harness.run import live_models, own_mesh
from opscope.harness.run.op_tests import OpTests
from opscope.harness.run.plan import mender
from opscope.harness.settings.settings import BY_NAME
from opscope.harness.triage import after_run

if TYPE_CHECKING:
    from opscope.harness.prepare.program import SingleOp
    from opscope.models.frontends.base import ExportResult

__all__ = ["OpTest", "run_op_by_op", "split"]


def split(module: object, *, timeout: float = 900.0) -> list[SingleOp]:
    """Returns a single-op module for each unique op of a StableHLO module, with all its uses, in order of first use.

    What comes as text, bytes or a path is split in a fork, because a parser that crashes would end this process.
    Raises InputError if `module` is not StableHLO, or if the parser crashes on it or has no result after `timeout`
    seconds.
    """
    if isinstance(module, str | bytes | Path):
        from opscope.harness.prepare.split_guard import split_bytes

        source = Path(module) if isinstance(module, str) and not _is_text(module) else module
        return split_bytes(source, timeout)
    from opscope.harness.prepare.split import split_module

    return list(split_module(_source(module)).ops.values())


MODULE = "module"
"""What a module is called that has no file."""
OPTIONS = tuple(name for name in ResultOptions.model_fields if name != "workflow")
"""Options of a run that `run_op_by_op` takes as keywords; its workflow is always `split`."""
SETTINGS = frozenset(
    {
        "keep_ir",
        "dump_tensors",
        "op_timeout",
        "op_memory",
        "golden_memory",
        "prepare_timeout",
        "prepare_memory",
        "cache_dir",
        "no_cache",
        "limitations",
        "reruns",
        "repro_size",
    }
)
"""Its keywords that are settings of a run, by their names on the command line: the run's record has them."""


def _with_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options that a function takes as `**options` to its signature."""
    own = inspect.signature(function)
    usual = ResultOptions()
    keywords = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=getattr(usual, name), annotation=kind)
        for name, kind in get_type_hints(ResultOptions).items()
        if name in OPTIONS
    ]
    first, inputs, *rest = [parameter for parameter in own.parameters.values() if parameter.name != "options"]
    function.__signature__ = own.replace(parameters=[first, inputs, *keywords, *rest])  # type: ignore[attr-defined]
    return function


@_with_options
def run_op_by_op(
    module_or_path: object,
    *example_inputs: object,
    backend: str = DEFAULT_BACKEND,
    backends: Sequence[str] = (),
    keep_ir: bool = False,
    dump_tensors: str = "none",
    op_timeout: float = 120.0,
    op_memory: int | None = None,
    golden_memory: int = 2 << 30,
    prepare_timeout: float = 900.0,
    prepare_memory: int | None = None,
    cache_dir: str | Path | None = None,
    no_cache: bool = False,
    limitations: str | Path | None = None,
    reruns: int = 2,
    repro_size: int = 256 << 20,
    run_dir: str | Path | None = None,
    name: str = MODULE,
    on_test: Callable[[OpTest], None] | None = None,
    **options: Any,
) -> OpTests:
    """Takes every unique op through the stages of a backend, each in a child process; returns one record per op.

    Besides StableHLO and names of models, it takes a model of this process, with example inputs: a function of JAX, a
    module of PyTorch, Keras, Flax (nnx) or Equinox, `jax.export` and `torch.export` programs. Its ops run on the values
    that they have for these inputs. The answer is a list, and shows itself as the run's page in a notebook. There, an
    interrupt ends the lanes and returns what is finished; in a program it is raised.

    The run folder (default: a new one below ./.opscope/runs) holds the same files as a run of the pytest plugin:
    `opscope show` and `opscope publish` read it. `name` is the name of a module that has no file. `on_test` is called
    with each record as it is made. `dump_tensors` (`failing`, `all`) keeps inputs, results and goldens of ops. If an
    earlier run kept a verdict for the same op, it is reused unless `no_cache` is set. A failed op is run again `reruns`
    times, for the label `stability`. `limitations` is a file of expected failures (docs/triage.md). Failures leave
    repro folders, with values of at most `repro_size` bytes.
    Export, split and goldens take at most `prepare_timeout` seconds. `op_memory`, `golden_memory` and `prepare_memory`
    are bytes. With several `backends`, each op is run on each of them, in their order.
    `options` are those that affect results (harness/record/result_options.py), named as on the command line: `arch`,
    `data_format`, `dtype`, `inputs`, ... Ops that fail give records, not exceptions. Raises InputError if an argument
    is wrong.
    """
    settings = {
        name: str(value) if isinstance(value, Path) else value for name, value in locals().items() if name in SETTINGS
    }
    called = _Called(module_or_path, example_inputs, name)
    run = _Run(called, tuple(backends) or (backend,), settings, options, run_dir)
    tests = OpTests((), run.folder)
    run.add_records(tests, on_test)
    return tests


@dataclass(frozen=True)
class _Called:
    """What a call gives as its model."""

    module: object
    inputs: Sequence[object]
    name: str

    def source(self) -> _Subject:
        """Exports a model of this process. Raises InputError for example inputs of anything else."""
        live = live_models.is_live(self.module)
        if self.inputs and not live:
            got = f"example inputs of {type(self.module).__name__}"
            raise InputError("run_op_by_op", "a function or a framework's module before them", got, live_models.CALL)
        if not live:
            return _Subject(self.name, _source(self.module))
        name = (self.name == MODULE and live_models.name_of(self.module)) or self.name
        exported = live_models.exported(self.module, self.inputs, name)
        return _Subject(name, exported.bytecode, exported)


@dataclass(frozen=True)
class _Subject:
    """The StableHLO of a run, or where it comes from."""

    name: str
    """Of a module that has no file."""
    content: str | bytes | Path
    """A path, a model's name, MLIR text or bytecode."""
    exported: ExportResult | None = None
    """A model of this process, with the values of its arguments."""

    @property
    def in_memory(self) -> bool:
        """Whether it has no file yet."""
        return isinstance(self.content, bytes) or _is_text(self.content)

    @property
    def label(self) -> str:
        """What the run folder is called by."""
        return self.name if self.in_memory else str(self.content)

    def kept(self, folder: Path) -> str:
        """What `--model` takes: a module from memory is written to the run folder, so that it can be prepared again."""
        if not self.in_memory:
            return str(self.content)
        data = self.content if isinstance(self.content, bytes) else str(self.content).encode()
        return self._written(folder, ".mlir", lambda path: path.write_bytes(data))

    def kept_values(self, folder: Path) -> str | None:
        """Writes the values of a model of this process to the run folder; None for anything else."""
        exported = self.exported
        if exported is None:
            return None
        return self._written(folder, ".npz", lambda path: live_models.save_values(exported, path))

    def _written(self, folder: Path, suffix: str, write: Callable[[Path], object]) -> str:
        path = folder / "modules" / f"{self.name}{suffix}"
        try:
            make_folder(path.parent)
            write(path)
        except OSError as error:
            raise store.refused(path, error) from error
        return str(path)


class _Run:
    """A run that a call asks for."""

    def __init__(
        self,
        called: _Called,
        backends: tuple[str, ...],
        settings: dict[str, Any],
        options: dict[str, Any],
        run_dir: str | Path | None,
    ) -> None:
        """Raises InputError for what is wrong in the call, TypeError for an option that there is none of."""
        self._backends, self._settings, self._options = backends, settings, _options(options)
        BY_NAME["dump_tensors"].read("dump_tensors", settings["dump_tensors"])
        for backend in backends:
            registry.check_name(backend)
        compiler_options.check(backends, self._options)
        self._expected = limitation_file.all_rows(settings["limitations"])
        self._started = now()
        source = called.source()
        self._label = source.label
        self.folder = Path(run_dir) if run_dir is not None else run_folders.make_run_dir([self._label], self._started)
        if "inputs" not in options and (values := source.kept_values(self.folder)) is not None:
            self._options = self._options.changed(inputs=values)
        self._request = Preparation(
            (source.kept(self.folder),),
            **self._options.values(Decides.PROGRAM),
            cache_dir=settings["cache_dir"],
            max_tensor_bytes=settings["golden_memory"],
            seconds=settings["prepare_timeout"],
            memory=settings["prepare_memory"],
        )
        self._named = self._models(board_is_named="arch" in options)
        self._folders = {task.name: task.folder for task in self._named}
        self._caches = export_folder.cache_dir(settings["cache_dir"])
        self._id = f"{self._started:%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:8]}"
        self._contexts = [
            RunContext(
                self._id,
                str(self.folder.absolute()),
                backend,
                self._options,
                settings["keep_ir"],
                settings["dump_tensors"],
            )
            for backend in backends
        ]

    def add_records(self, tests: OpTests, on_test: Callable[[OpTest], None] | None) -> None:
        """Runs all ops, and adds their records to `tests`."""
        with ExitStack() as stack:
            stack.enter_context(shown("run_op_by_op"))
            stack.enter_context(scratch.for_a_run())
            claims = stack.enter_context(Claims())
            lanes = self.lanes(stack)
            header, rows = self.prepared(lanes, claims)
            record = self.begun(header, rows, lanes)
            outcome = "interrupted"
            try:
                for test in _records(self.engine(lanes, stack), rows, self.tags):
                    tests.append(test)
                    if on_test is not None:
                        on_test(test)
                outcome = "complete"
            except KeyboardInterrupt:
                if not in_notebook():
                    raise
                damage.say(f"interrupted after {counted(len(tests), 'op')}; {self.folder} has what is finished")
            finally:
                store.write_run(self.folder, record.model_copy(update={"ended": now(), "outcome": outcome}))
            after_run.leave(self.folder, self._settings["repro_size"])

    def _models(self, *, board_is_named: bool) -> Sequence[Task]:
        """The models, with the mesh that a file names for itself. Raises InputError for one that no board has."""
        named = tasks(self._request)
        own = own_mesh.of_files(named, self._options, self._backends, board_is_named)
        if own is not None:
            damage.say(own.line)
            self._options = self._options.changed(mesh=own.mesh, arch=own.board)
            self._request = replace(self._request, mesh=own.mesh)
            named = tasks(self._request)
        own_mesh.check(named, self._options, self._backends)
        return named

    def _writer(self, context: RunContext) -> str:
        """Who writes the records of a backend: the name of its journal and of its log."""
        return f"main-{backend_label(context.backend)}" if len(self._contexts) > 1 else "main"

    def lanes(self, stack: ExitStack) -> list[Lane]:
        """A lane of each backend, whose imports overlap with the export: `prepared` notices what one refuses."""
        limits = self._settings["op_timeout"], self._settings["op_memory"]
        mend = mender(self._request, self._folders)
        lanes = []
        for context in self._contexts:
            log = self.folder / "logs" / f"{self._writer(context)}.txt"
            lanes.append(stack.enter_context(Lane(LaneConfig(context, self._folders, *limits, log=log, mend=mend))))
        for lane in lanes:
            lane.start()
        return lanes

    def prepared(self, lanes: Sequence[Lane], claims: Claims) -> Manifest:
        """The ops, with their goldens. Raises InputError for a module that cannot be exported or split."""
        means = Means(claims, self.folder / store.ARTIFACT_DIR, check=import_check(claims, self._expected))
        header, rows = prepare(self._request, _loaded(lanes), means, self._named)
        for failure in header.failed:
            raise InputError(
                f"--model {failure.model}", "a model that can be exported", f"{failure.status.value}: {failure.error}"
            )
        for check in header.imports:
            if check.fails_run:
                warnings.warn(f"{check.model}: {check.text}", stacklevel=3)
        return header, rows

    def begun(self, header: ManifestHeader, rows: Sequence[OpRow], lanes: Sequence[Lane]) -> RunRecord:
        """The record of the run, which is in its folder now, and so is the manifest."""
        asked = {**self._options.model_dump(), **self._settings, "backend": ",".join(self._backends)}
        commits = {name: lane.ready().commit for name, lane in zip(self._backends, lanes, strict=True)}
        record = RunRecord(
            run_id=self._id,
            models=header.models,
            backend=",".join(map(backend_label, self._backends)),
            arch=self._options.arch,
            started=self._started,
            origin=origin(
                ("opscope.harness.run.api.run_op_by_op", self._label),
                {
                    **asked,
                    "models": list(self._request.models),
                    FOLDER: str(self.folder.absolute()),
                    CONDITIONS: conditions(lane.ready().blas for lane in lanes),
                },
                compilers=compiler_commits.commits(commits, Path.cwd()),
            ),
        )
        store.write_manifest(self.folder, export_folder.below(self._caches, header), rows)
        store.write_run(self.folder, record)
        return record

    @property
    def tags(self) -> list[str]:
        """The names of the backends."""
        return [backend_label(context.backend) for context in self._contexts]

    def engine(self, lanes: Sequence[Lane], stack: ExitStack) -> LocalEngine:
        """What takes the ops up the ladder of each backend, with the verdicts that were kept."""
        journals = [stack.enter_context(store.Journal(self.folder, self._writer(each))) for each in self._contexts]

        def climbers(lane: int, check: Callable[[], None], on_lane: Callable[[], None]) -> dict[str, Climber]:
            made = {}
            for context, own, journal in zip(self._contexts, lanes, journals, strict=True):
                ready = None if self._settings["no_cache"] else own.ready()
                kept = ResultCache(self._caches, context, ready, self._folders)
                own.config = replace(own.config, check=check)
                terms = Terms(
                    kept, limitations=self._expected, reruns=Reruns(self._settings["reruns"]), on_lane=on_lane
                )
                made[backend_label(context.backend)] = Climber(context, own, journal, terms)
            return made

        engine = LocalEngine(climbers)
        stack.callback(engine.close)
        return engine


def _options(values: dict[str, Any]) -> ResultOptions:
    """The options among a call's keywords. Raises TypeError for an unknown keyword, InputError for a wrong value."""
    for name in values:
        if name not in OPTIONS:
            hint = closest(name, inspect.signature(run_op_by_op).parameters)
            raise TypeError(f"run_op_by_op() got an unexpected keyword argument {name!r}; try {hint}")
    try:
        return ResultOptions(**values)
    except ValidationError as error:
        raise input_error(error, lambda name: name) from None


def _loaded(lanes: Sequence[Lane]) -> Callable[[Event], None]:
    """Returns a listener for events of the export that raises InputError if a backend has refused its options."""

    def check_lanes(event: Event) -> None:
        for lane in lanes:
            lane.ready()

    return check_lanes


def _records(engine: Engine, rows: Sequence[OpRow], tags: Sequence[str]) -> Iterator[OpTest]:
    """Runs all ops that have a module on each backend. Each record is in the journal before the next op starts."""
    jobs = [OpJob(row, tag) for row in rows if row.module is not None for tag in tags]
    done = 0
    for event in engine.records(jobs):
        if isinstance(event, Done):
            done += 1
            progress.step("ops", done, len(jobs))
            yield event.test


def _source(module: object) -> Any:
    """Converts `module` to a path, a model's name, MLIR text or bytecode. Raises InputError for anything else."""
    if isinstance(module, str | bytes | Path):
        return module
    mlir: Any = module
    if hasattr(mlir, "mlir_module_serialized"):  # jax.export.Exported
        return bytes(mlir.mlir_module_serialized)
    if hasattr(mlir, "compiler_ir"):  # jax.stages.Lowered
        mlir = mlir.compiler_ir(dialect="stablehlo")
    if hasattr(mlir, "operation"):  # an MLIR module of any library; its text would lose the locations
        data = io.BytesIO()
        mlir.operation.write_bytecode(data)
        return data.getvalue()
    if isinstance(mlir, Collection) or not _is_text(text := str(mlir)):
        wanted = "a model: a function, a framework's module, StableHLO, or a word as after --model"
        raise InputError("run_op_by_op", wanted, f"{type(mlir).__name__}", "for several one pattern, 'net/*.mlir'")
    return text


def _is_text(source: str | Path) -> bool:
    """Whether a string is MLIR rather than a name or a path."""
    return isinstance(source, str) and ("\n" in source or "{" in source or not source.strip())
