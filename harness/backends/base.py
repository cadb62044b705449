"""What a backend is: a name, the stages it has, and a function that takes a job through one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
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


class Backend(Protocol):
    """A compiler and what it runs on. One file each in harness/backends/, or entry point `opscope.backends`.

    It may also have `warm_up() -> None`: called once, before the first op's clock runs, no error if it raises; and
    `lasting = True`, where fingerprint and target follow from this project's sources and the installed packages alone,
    so that a run whose verdicts are all kept need not ask for them.
    """

    @property
    def name(self) -> str:
        """What records and `--backend` call it; a class attribute where the file decides it."""
        ...

    @property
    def stages(self) -> tuple[Stage, ...]:
        """In climbing order, without `split` and `compare`, which are the harness's own. The last one is `run`."""
        ...

    def target(self, options: BackendOptions) -> Target:
        """What `options` asks for. Raises InputError where there is no such board or format."""
        ...

    def fingerprint(self) -> str:
        """Changes whenever a result could: versions and sources of the compiler and of what runs its output."""
        ...

    def climb(self, stage: Stage, job: Job) -> None:
        """Takes `job` through `stage`. Raises StageError where the stage refuses it, Declined for an op not for it."""
        ...

    def available(self) -> str | None:
        """None where usable on this machine, else the line that makes it so."""
        ...
