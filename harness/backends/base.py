"""What a backend is: a name, its stages, a function that takes a job through one of them, and what else it can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from opscope.harness.record.errors import InputError
from opscope.harness.record.records import TensorDesc
from opscope.harness.record.stages import Stage
from opscope.harness.verdict.target import Target


class StageError(Exception):
    """A stage refused the op: short message for the record, full diagnostic for the artifact."""

    def __init__(self, message: str, diagnostic: str = "", suffix: str = ".txt") -> None:
        super().__init__(message)
        self.message, self.diagnostic, self.suffix = message, diagnostic, suffix


class StageCrashError(StageError):
    """A program that a stage started was ended by a signal: the op's record says `crashed` with this kind."""

    def __init__(self, kind: str, message: str, diagnostic: str = "") -> None:
        super().__init__(message, diagnostic)
        self.kind = kind
        """As in a record: `signal SIGSEGV`."""


class Declined(Exception):  # noqa: N818 - it is no error: the op is not for this backend
    """The backend does not take such an op, and says nothing about it: the record says `skipped` and why."""


@dataclass(frozen=True)
class BackendOptions:
    """What the user asked of a backend; None means the backend's default."""

    arch: str = "n150"
    """A board, or an arch (then its default board)."""
    data_format: str | None = None
    """Format the device computes floats in; None: the module's own types."""
    math_fidelity: str | None = None
    keep_ir: bool = False
    unsupported_types: str = "fail"
    """What becomes of ops whose element types the target has not: `fail`, or `fallback` to the host."""
    optimization_level: int = 0
    """What the reference compiler does beyond single ops: 0, 1 or 2."""
    amp_level: int = 0
    """Mixed precision of the reference compiler: 1 has products in block floats, 2 all other floats in 16 bits."""


class Watch(Protocol):
    """Wants to see the values inside a whole model while it runs (harness/verdict/intermediates.py)."""

    @property
    def expected(self) -> Mapping[str, tuple[TensorDesc, ...]]:
        """Path of each op of the program -> types of its results. The op's location begins with that path."""
        ...

    def begin(self, paths: frozenset[str]) -> None:
        """Hears before the run whose results it will see."""
        ...

    def seen(self, path: str, fetch: Callable[[], Sequence[np.ndarray]]) -> None:
        """Hears that the results of the op at `path` are there."""
        ...


@dataclass
class Job:
    """One op on its way up the ladder. Stages read what earlier ones left in `state`."""

    op_id: str
    module: bytes
    """Single-op StableHLO module, MLIR bytecode."""
    inputs: list[np.ndarray]
    """Fresh copies: a backend that writes to them harms nobody. Filled just before `run`, empty in earlier stages."""
    options: BackendOptions
    results: tuple[TensorDesc, ...] = ()
    """Shapes and types of the results, as the module declares them."""
    argument_types: tuple[str, ...] = ()
    """`input` or `parameter` per argument of a whole model; empty: all are inputs."""
    ir_dir: Path | None = None
    """Where to dump each stage's IR when `keep_ir` is set."""
    state: dict[Stage, Any] = field(default_factory=dict)
    # filled by the stages
    outputs: list[np.ndarray] = field(default_factory=list)
    inputs_after: list[np.ndarray] | None = None
    """What the device's copies of the inputs held after the run; None: `inputs` themselves are what it worked on."""
    input_descs: list[TensorDesc] = field(default_factory=list)
    """With the layout, buffer and grid that the compiler chose."""
    output_descs: list[TensorDesc] = field(default_factory=list)
    ran_on: str = "none"
    cycles: int | None = None
    device_ns: float | None = None
    l1_peak_bytes: int | None = None
    dram_peak_bytes: int | None = None
    pipeline: str = ""
    watch: Watch | None = None
    """Of a model as one program: who wants to see its values. A backend that shows none leaves it alone."""


def no_mixed_precision(backend: str, options: BackendOptions) -> None:
    """Raises InputError where mixed precision is asked of a backend that has none."""
    if options.amp_level:
        raise InputError("--amp-level", f"0 with --backend {backend}", f"{options.amp_level}", "--backend reference")


def exact_host(backend: str, options: BackendOptions) -> Target:
    """The host in exact IEEE arithmetic. Raises InputError where a device's format, fidelity or mixed precision is
    asked for."""
    for flag, value in (("--data-format", options.data_format), ("--math-fidelity", options.math_fidelity)):
        if value is not None:
            raise InputError(flag, f"none with --backend {backend}", f"'{value}'", "--backend reference")
    no_mixed_precision(backend, options)
    return Target(card_type="host", float_format=None, math_fidelity="exact")


@dataclass(frozen=True)
class Piece:
    """One op of the program that a backend compiled."""

    program: int
    """The program that it stands in; 0 is the entry."""
    op_id: str
    op_name: str
    text: str
    """The op as a module of its own, which the backend's later stages take."""
    inputs: tuple[TensorDesc, ...]
    outputs: tuple[TensorDesc, ...]
    location: str
    """Begins with the path of the op that it was made for."""
    attributes: dict[str, str]
    held_to: str
    """The StableHLO op whose tolerance applies; empty where none is known."""
    combines: dict[str, str]
    meaning: str
    """StableHLO text that computes the same from the same operands; empty where no single op does."""


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
        """Number of ops that only move data and are therefore no piece."""
        ...

    def run(self, inputs: Sequence[np.ndarray], on_piece: OnPiece) -> None:
        """Runs the whole program and calls `on_piece` after each piece. Raises StageError where the device refuses."""
        ...


class Backend(ABC):
    """A compiler and what it runs on. One file each in harness/backends/, or entry point `opscope.backends`.

    Attributes with a value are abilities that a backend may declare, and their defaults: the rest of the harness asks
    for these, never for a backend's name. A flag is written as `flag = True` in the class body: pytest processes read
    it from the source (`registry.declares`), because importing a compiler takes seconds.
    """

    name: str
    """What records and `--backend` call it; a class attribute where the file decides it."""
    stages: tuple[Stage, ...]
    """In climbing order, without `split` and `compare`, which are the harness's own. The last one is `run`."""
    lasting: bool = False
    """Whether fingerprint and target follow from this project's sources and the installed packages alone. A run whose
    verdicts are all kept then need not start the backend."""
    compile_depths: Mapping[Stage, str] = MappingProxyType({})
    """The compiler's own name of the depth that an op has reached with each stage, for a record's `compile_depth`."""
    takes_apart: bool = False
    """Whether `take_apart` hands over the compiled program: the workflows that run its ops need that."""
    in_op_table: bool = False
    """Whether `opscope ops` shows this backend's expected failures: its ops are those of the op table."""

    @abstractmethod
    def target(self, options: BackendOptions) -> Target:
        """What `options` asks for. Raises InputError where there is no such board or format."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Changes whenever a result could: versions and sources of the compiler and of what runs its output."""

    @abstractmethod
    def climb(self, stage: Stage, job: Job) -> None:
        """Takes `job` through `stage`. Raises StageError where the stage refuses it, Declined for an op not for it."""

    @abstractmethod
    def available(self) -> str | None:
        """None where usable on this machine, else the line that makes it so."""

    def warm_up(self) -> None:  # noqa: B027 - most backends have nothing to prepare
        """Called once, before the first op's clock runs. Whatever it raises is only logged."""

    def take_apart(self, module: bytes, options: BackendOptions, argument_types: tuple[str, ...] = ()) -> Apart:
        """Compiles a module whole and hands over its ops. Raises StageError where a stage refuses it.

        `argument_types` tell which arguments of a whole model stay from run to run, as `Job` has them.
        """
        raise NotImplementedError(f"backend {self.name} does not hand over its program")
