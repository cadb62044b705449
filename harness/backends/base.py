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
from opscope.harness.record.result_options import ResultOptions, flag
from opscope.harness.record.stages import Stage
from opscope.harness.verdict.target import Target


class StageError(Exception):
    """A stage refused the op: short message for the record, full diagnostic for the artifact."""

    def __init__(self, message: str, diagnostic: str = "", suffix: str = ".txt") -> None:
        super().__init__(message)
        self.message, self.diagnostic, self.suffix = message, diagnostic, suffix


class StageCrashError(StageError):
    """A signal ended a program that a stage started: the op's record says `crashed` with this kind."""

    def __init__(self, kind: str, message: str, diagnostic: str = "") -> None:
        super().__init__(message, diagnostic)
        self.kind = kind
        """As in a record: `signal SIGSEGV`."""


class Declined(Exception):  # noqa: N818 - it is no error: the op is not for this backend
    """The backend does not take such an op: its record says `skipped` and why."""


class Watch(Protocol):
    """Receives the values inside a whole model while it runs (harness/verdict/intermediates.py)."""

    @property
    def expected(self) -> Mapping[str, tuple[TensorDesc, ...]]:
        """Path of each op of the program -> types of its results. The op's location begins with that path."""
        ...

    def begin(self, paths: frozenset[str]) -> None:
        """Called before the run with the paths of the ops whose results will come."""
        ...

    def seen(self, path: str, fetch: Callable[[], Sequence[np.ndarray]]) -> None:
        """Called when the results of the op at `path` are available; `fetch` returns them."""
        ...


@dataclass
class Job:
    """One op on its way up the ladder. Stages read what earlier ones left in `state`."""

    op_id: str
    module: bytes
    """Single-op StableHLO module, MLIR bytecode."""
    inputs: list[np.ndarray]
    """Fresh copies: a backend that writes to them harms nobody. Filled just before `run`, empty in earlier stages."""
    options: ResultOptions
    """What the user asked for; None means the backend's default."""
    results: tuple[TensorDesc, ...] = ()
    """Shapes and types of the results, as the module declares them."""
    argument_types: tuple[str, ...] = ()
    """`input` or `parameter` per argument of a whole model; empty: all are inputs."""
    ir_dir: Path | None = None
    """Where to dump each stage's IR with `--keep-ir`; None without."""
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
    """Receives the values inside a model as one program. A backend that shows none ignores it."""


def refuse(backend: str, options: ResultOptions, *names: str) -> None:
    """Raises InputError where an option is asked of a backend that cannot do it."""
    usual = ResultOptions()
    for name in names:
        value, without = getattr(options, name), getattr(usual, name)
        if value != without:
            expected = "none" if without is None else str(without)
            raise InputError(flag(name), f"{expected} with --backend {backend}", repr(value), "--backend reference")


def exact_host(backend: str, options: ResultOptions) -> Target:
    """The host in exact IEEE arithmetic. Raises InputError where a device's numbers are asked for."""
    refuse(backend, options, "data_format", "math_fidelity", "amp_level")
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
    def target(self, options: ResultOptions) -> Target:
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

    def take_apart(self, module: bytes, options: ResultOptions, argument_types: tuple[str, ...] = ()) -> Apart:
        """Compiles a module whole and hands over its ops. Raises StageError where a stage refuses it.

        `argument_types` are those of `Job`: which arguments of a whole model stay from run to run.
        """
        raise NotImplementedError(f"backend {self.name} does not hand over its program")
