"""The interface of a backend: a name, stages, a function that takes a job through one stage, and optional abilities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

import numpy as np

from opscope.harness.record.errors import InputError
from opscope.harness.record.measures import Measures
from opscope.harness.record.records import TensorDesc
from opscope.harness.record.result_options import ResultOptions, flag
from opscope.harness.record.stages import Stage
from opscope.harness.verdict.target import Target


class StageError(Exception):
    """A stage refused the op: short message for the record, full diagnostic for the artifact."""

    of_backend = False
    """Whether every op fails so, because the compiler cannot be loaded: then no op is run again."""

    def __init__(
        self, message: str, diagnostic: str = "", suffix: str = ".txt", files: Mapping[str, str] | None = None
    ) -> None:
        """`files`: further artifacts, by what follows the stage in their names (`.svg`)."""
        super().__init__(message)
        self.message, self.diagnostic, self.suffix, self.files = message, diagnostic, suffix, files or {}


class StageCrashError(StageError):
    """A signal ended a program that a stage started. The op's record gets the status `crashed` and this kind."""

    def __init__(self, kind: str, message: str, diagnostic: str = "") -> None:
        super().__init__(message, diagnostic)
        self.kind = kind
        """`kind` is written as in a record: `signal SIGSEGV`."""


class Declined(Exception):
    """The backend does not take such an op. The op's record gets the status `skipped` and the reason."""


class BackendError(Exception):
    """The backend itself cannot work here: a library is missing or incompatible, a descriptor, or room.

    Raised in `load`, `open`, `target`, `fingerprint`, `warm_up`, or in a stage. The run ends with one line and exit
    code 2; no op gets a verdict from it.
    """

    def __init__(self, got: str, expected: str = "a backend that works here", hint: str = "") -> None:
        """`got` is what was found in place of what is `expected`, `hint` the way out; each part of one line."""
        super().__init__(got)
        self.got, self.expected, self.hint = got, expected, hint


class Watch(Protocol):
    """Receives the values inside a whole model while it runs (harness/verdict/intermediates.py)."""

    @property
    def expected(self) -> Mapping[str, tuple[TensorDesc, ...]]:
        """Returns path of each op of the program -> types of its results. The op's location begins with that path."""
        ...

    def begin(self, paths: frozenset[str]) -> None:
        """Called before the run with the paths of the ops whose results will come."""
        ...

    def seen(self, path: str, fetch: Callable[[], Sequence[np.ndarray]]) -> None:
        """Called when the results of the op at `path` are available; `fetch` returns them."""
        ...


@dataclass
class Job(Measures):
    """One op on its way through the stages, and what was measured. Stages pass values on to later ones in `state`."""

    op_id: str
    module: bytes
    """Single-op StableHLO module, MLIR bytecode."""
    inputs: list[np.ndarray]
    """Fresh copies, so that a backend may write to them. Filled just before `run`, empty in earlier stages."""
    options: ResultOptions
    """The user's options; None means the backend's default."""
    results: tuple[TensorDesc, ...] = ()
    """Shapes and types of the results, as the module declares them."""
    argument_types: tuple[str, ...] = ()
    """`input` or `parameter` for each argument of a whole model. If empty, all are inputs."""
    ir_dir: Path | None = None
    """The folder for each stage's IR: with `--keep-ir`, and of a whole model; otherwise None."""
    state: dict[Stage | str, Any] = field(default_factory=dict)
    devices: tuple[int, ...] = ()
    """With a mesh: the devices whose inputs these are."""
    several_devices: bool = False
    """Whether several devices compute the op together, from `mesh_inputs`."""
    mesh_inputs: list[list[np.ndarray]] = field(default_factory=list)
    """Of such an op: the inputs of each device. Filled just before `run`, when `inputs` stays empty."""
    # filled by the stages
    mesh_outputs: list[list[np.ndarray]] = field(default_factory=list)
    """Of such an op: the results of each device."""
    outputs: list[np.ndarray] = field(default_factory=list)
    inputs_after: list[np.ndarray] | None = None
    """The device's copies of the inputs after the run. None if the device worked on `inputs` themselves."""
    input_descs: list[TensorDesc] = field(default_factory=list)
    """Descriptions with the layout, buffer and grid that the compiler chose."""
    output_descs: list[TensorDesc] = field(default_factory=list)
    ran_on: str = "none"
    target: Target | None = None
    """What the op's own program computes in, where that and not the board decides its tolerance."""
    compiled_by: str = ""
    """Whose program ran, where it is not the backend's: `jax-tt-plugin 0.1.3`."""
    narrowed: tuple[str, ...] = ()
    """Where the compiler made values narrower than the op's types, unasked: `f32 -> bf16 at ttnn.max_pool2d`."""
    stage_seconds: dict[Stage, float] = field(default_factory=dict)
    """Seconds of each stage of a compiler that takes all of them in one call; empty: they are timed one by one."""
    kept_ir: Path | None = None
    """A folder with the IR of each stage that the compiler has written anyway, which a failed op keeps."""
    pipeline: str = ""
    watch: Watch | None = None
    """Receives the values inside a model that runs as one program. A backend that cannot show them ignores it."""


def refuse(backend: str, options: ResultOptions, *names: str) -> None:
    """Raises InputError if one of the options `names` is set, because the backend does not support it."""
    usual = ResultOptions()
    for name in names:
        value, without = getattr(options, name), getattr(usual, name)
        if value is True:
            raise InputError(flag(name), "a backend that has it", backend, "--backend reference")
        if value != without:
            expected = "none" if without is None else str(without)
            raise InputError(flag(name), f"{expected} with --backend {backend}", repr(value), "--backend reference")


def exact_host(backend: str, options: ResultOptions) -> Target:
    """The host in exact IEEE arithmetic. Raises InputError if the options ask for a device's number formats."""
    refuse(backend, options, "data_format", "math_fidelity", "amp_level", "numerics", "exact_order")
    return Target(card_type="host", float_format=None, math_fidelity="exact", rounds_steps=True)


@dataclass(frozen=True)
class Piece:
    """One op of the program that a backend compiled."""

    program: int
    """The number of its program; 0 is the entry."""
    op_id: str
    op_name: str
    text: str
    """The op as a module of its own, which the backend's later stages take."""
    inputs: tuple[TensorDesc, ...]
    outputs: tuple[TensorDesc, ...]
    location: str
    """The location, which begins with the path of the op that it was compiled from."""
    attributes: dict[str, str]
    held_to: str
    """The StableHLO op whose tolerance applies; empty if none is known."""
    combines: dict[str, str]
    meaning: str
    """StableHLO text that computes the same from the same operands; empty if no single op does."""


OnPiece = Callable[[int, Callable[[], list[np.ndarray]]], "Sequence[np.ndarray] | None"]
"""Receives the number of a piece that has just run and a function that fetches its inputs. Returns the values that
replace its results, or None."""


class Apart(Protocol):
    """A compiled program and the ops that it consists of."""

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """Its ops, in program order."""
        ...

    @property
    def moves(self) -> int:
        """The number of ops that are not pieces because they only move data."""
        ...

    def run(self, inputs: Sequence[np.ndarray], on_piece: OnPiece) -> None:
        """Runs the whole program and calls `on_piece` after each piece. Raises StageError if the device refuses."""
        ...


class Backend(ABC):
    """A compiler and what it runs on. One file each in harness/backends/, or entry point `opscope.backends`.

    Attributes with a default value are abilities that a backend may declare. The rest of the harness checks these,
    never a backend's name. A flag must be written as `flag = True` in the class body: pytest processes read it from
    the source (`registry.declares`), because importing a compiler takes seconds.
    """

    name: str
    """Its name in records and in `--backend`; a class attribute if the file decides it."""
    stages: tuple[Stage, ...]
    """Its stages in order, without `split` and `compare`, which belong to the harness. The last one is `run`."""
    takes_argument: bool = False
    """Whether it may be named with an argument, `NAME:WHAT`: the name or the file of a plugin, which its constructor is
    given. For the backends of this folder."""
    needs_argument: bool = False
    """Whether there is no such backend without an argument."""
    packages: str = ""
    """Names of the packages, the compiler's own first, of which `NAME@VERSION` has other versions than those that are
    installed, in an environment of its own. For the backends of this folder."""
    beside: str = ""
    """A package of any version that this project's side of such a backend needs, as what writes ONNX graphs."""
    lasting: bool = False
    """Whether fingerprint and target follow from this project's sources and the installed packages alone. A run whose
    verdicts are all kept then need not start the backend."""
    has_levels: bool = False
    """Whether what it compiles depends on `--optimization-level`: a failing piece of several ops whose ops are all
    right alone then runs at the lower levels as well, so that the level where it begins is known."""
    ignores_board: bool = False
    """Whether what it compiles is the same for every `--arch`: nothing then names a board."""
    device_path: str = ""
    """The file or folder that is there if and only if this machine has its device, such as `/dev/tenstorrent`. A report
    that is `lasting` is made anew once the device has come or gone."""
    compile_depths: Mapping[Stage, str] = MappingProxyType({})
    """Stage -> the compiler's own name for the depth that an op has then reached, for a record's `compile_depth`."""
    stage_files: Mapping[Stage, str] = MappingProxyType({})
    """Stage -> pattern of the file, below TMPDIR, that shows that the op in flight has passed it, for compilers that
    take several stages in one call. If they end the process, these tell how far the op came."""
    writes_diagnostics: bool = False
    """Whether what it writes to its outputs while an op fails to compile belongs to the diagnostic of that op."""
    takes_apart: bool = False
    """Whether `take_apart` returns the compiled program, which the workflows that run its ops need."""
    runs_meshes: bool = False
    """Whether stage `run` computes an op that several devices compute together, from `Job.mesh_inputs`. Without it,
    such ops are skipped."""
    refuses_gspmd: bool = False
    """Whether its compiler refuses a model that is sharded in words of GSPMD alone: a run of one is then refused."""
    cheap_ir: bool = False
    """Whether a failed op may be compiled a second time for its IR: that is quick and gives the same as before."""
    revision: str | Callable[[], str] = ""
    """The compiler's own commit, or a method that returns it: nights then carry it in place of the commit of the tested
    folder. `-dirty` or `+` at its end says that files differ from it. It is no part of a verdict's key."""
    repository: str = ""
    """Page of the compiler's repository, `https://host/owner/name`, for links to its commits."""
    of_this_project: bool = False
    """Whether its compiler is this project's, so that its commit is that of this project's checkout."""
    in_op_table: bool = False
    """Whether `opscope ops` shows this backend's expected failures: its ops are those of the op table."""
    acts_elsewhere: bool = False
    """Whether its package, once installed, acts on programs that are not ours: `elsewhere` says how."""

    forkable: bool = False
    """Whether lanes may be forks of a process that has called `load`, once a run. For a backend of this folder without
    `load`, that process also calls `fingerprint` and `warm_up`, which then start no thread. Threads that `load` starts
    do not exist in the lanes: only a backend whose library works without them may say so."""
    compile_only: bool = False
    """Whether no stage computes numbers. Stage `run` is then left out, and nothing is taken for a result."""
    scratch_bytes: int = 0
    """Bytes that `load` writes into TMPDIR, a folder of the run's own. Without that room the run is refused."""

    @abstractmethod
    def target(self, options: ResultOptions) -> Target:
        """Returns the target that `options` ask for. Raises InputError if there is no such board or format."""

    def load(self) -> None:  # noqa: B027 - most backends have nothing to load
        """Loads libraries, and makes nothing that does not survive a fork. If the backend is `forkable`, called once a
        run, in the process that lanes are forks of; otherwise in each lane. Any exception ends the run."""

    def open(self, options: ResultOptions) -> None:  # noqa: B027 - most backends have no client
        """Called in each lane after `load`, with TMPDIR and the working folder the lane's own: makes clients, opens
        devices. Any exception ends the run."""

    repeats: bool = False
    """Whether a passing op runs twice unless `--repeat` says otherwise, so that results whose bits differ are known. On
    silicon every backend's does."""

    made_of: ClassVar[tuple[str, ...]] = ()
    """Patterns, from the folder of its file, of what programs that it starts are made of. A class that starts any and
    does not say so keeps no verdict."""

    def fingerprint(self, options: ResultOptions) -> str:
        """Returns a text that changes whenever a result could for a cause that no file, library or variable of its
        process shows, such as a card's firmware. Called after `open`.

        What the process reads counts by itself (harness/cache/made_of.py); this only adds to it.
        """
        return ""

    def versions(self) -> Mapping[str, str]:
        """Returns name -> version of what the backend consists of: distributions, digests of libraries. Called after
        `open`, for the run's facts; `opscope doctor` shows it."""
        return {}

    def reads_stablehlo(self) -> str:
        """Returns the newest version of StableHLO that its compiler reads, if it says so; at another release, ops are
        then written for that version."""
        return ""

    @abstractmethod
    def climb(self, stage: Stage, job: Job) -> None:
        """Takes `job` through `stage`.

        Raises StageError if the stage refuses it, Declined if the op is not for this backend.
        """

    @abstractmethod
    def available(self) -> str | None:
        """Returns None if the backend is usable on this machine, otherwise the command that makes it usable."""

    def remark(self) -> str:
        """Returns what `opscope doctor` says of the backend on this machine beside its stages; empty for nothing."""
        return ""

    def warm_up(self, options: ResultOptions) -> None:  # noqa: B027 - most backends have nothing to prepare
        """Called after `fingerprint`, before the first op is timed. Any exception but a StageError ends
        the run."""

    def elsewhere(self) -> tuple[str, str] | None:
        """What its package does to other programs of this environment, and the line that helps; None: nothing here."""
        return None

    def close(self) -> None:  # noqa: B027 - most backends end with their process
        """Called when a lane ends or is replaced, unless its process has died. After some seconds it is killed."""

    def program(self, job: Job) -> str:
        """Returns a text that is the same for programs of `job` that compute the same, if what runs them is no part of
        the compiler's release; empty if it is. Called before `run`, once all stages before it have passed."""
        return ""

    def structure(self, job: Job) -> Mapping[str, int]:
        """Returns op -> how many of it the compiled program has, for a compiler whose IR is neither MLIR nor HLO.

        Empty if it is one of these. Called before `run`, or without one at the end, of a whole model and with
        `--keep-ir`.
        """
        return {}

    def repro_lines(self, job: Job) -> Sequence[str]:
        """Returns lines of a shell that show what the backend does with `job.module` without opscope; none if there
        are none. The module is `module.mlir` and `module.mlirbc` in the folder where they run. Called without
        `load` and `open`."""
        return ()

    def repro_files(self, job: Job) -> Mapping[str, bytes]:
        """Returns name -> content of the files that these lines need beside the module. Called like `repro_lines`."""
        return {}

    def build_note(self) -> str:
        """Returns what whoever reads a report of a failure should know of this build; empty for nothing. Called like
        `repro_lines`."""
        return ""

    def check_mesh(self, options: ResultOptions) -> None:  # noqa: B027 - most backends have no boards
        """Raises InputError for a mesh of more devices than the board has chips. Called before anything is prepared."""

    def board_for(self, devices: int, board: str) -> str:
        """Returns the board that a run takes for so many devices where the user names none: `board`, the usual one,
        unless the backend knows that it has fewer chips, and one with enough."""
        return board

    def take_apart(self, module: bytes, options: ResultOptions, argument_types: tuple[str, ...] = ()) -> Apart:
        """Compiles a whole module and returns its ops. Raises StageError if a stage refuses it.

        `argument_types` is as in `Job`: which arguments of a whole model stay the same from run to run.
        """
        raise NotImplementedError(f"backend {self.name} does not hand over its program")


SMALLEST = b"""func.func @main(%a: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0 = stablehlo.negate %a : tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}"""


def climb_smallest(backend: Backend, options: ResultOptions | None = None) -> None:
    """Takes one small op through all stages, so that no op's time includes what a compiler loads and starts first."""
    results = (TensorDesc(shape=(2, 2), data_type="f32"),)
    job = Job("warm-up", SMALLEST, [np.ones((2, 2), np.float32)], options or ResultOptions(), results)
    for stage in backend.stages:
        backend.climb(stage, job)
