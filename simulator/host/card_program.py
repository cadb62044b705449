"""A module that is compiled for a card: the host's parts, the placed program, and a run of them one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from opscope.base.inner_path import inside
from opscope.compiler.api import (
    Compilation,
    CompilerInputError,
    Configuration,
    PlannedParts,
    StageFailure,
    compile_to,
    planned_module,
    planned_parts,
)
from opscope.compiler.target.formats import host_dtype
from opscope.simulator.api import Device, DeviceError, Executable, Profile
from opscope.simulator.host.compiled_module import CompiledModule
from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.exported import Exported
from opscope.simulator.host.tensor import array_of

HOST_BOARD = "n150"
"""The board whose formats hold what the host computes: float32 and integers."""


class CardProgram:
    """One module, planned and placed. Raises PyBudaError if the compiler refuses it."""

    def __init__(
        self,
        exported: Exported,
        board: str,
        configuration: Configuration,
        chip_ids: Sequence[int] = (0,),
        epoch_type: str = "",
    ) -> None:
        """`board`: a board or an architecture, which means its default board.

        `epoch_type` is `forward`, `backward` or `optimizer` where the program is one pass of training.
        """
        self.exported = exported
        self.values: dict[str, np.ndarray] = dict(exported.values)
        self._held = dict(exported.held)
        self.compilation = Compilation(
            exported.bytecode, board, configuration, exported.name,
            parameters=exported.parameters, fallback=True, chip_ids=tuple(chip_ids), epoch_type=epoch_type,
        )  # fmt: skip
        try:
            compile_to(self.compilation)
            self.parts: PlannedParts = planned_parts(self.compilation)
        except StageFailure as failure:
            hint = "; try a CPUDevice" if failure.kind == "host" else ""
            raise PyBudaError(f"{exported.name}: {failure.op}: {failure.message}{hint}") from failure
        except (CompilerInputError, ValueError) as error:
            raise PyBudaError(f"{exported.name}: {' '.join(str(error).split())}") from error
        self.profile: Profile | None = None
        """The cost of the device's part of the last run."""
        self._resident: dict[str, np.ndarray] | None = None

    @cached_property
    def device(self) -> Executable:
        """The placed program on its card."""
        return Device(self.compilation.board).load(self.parts.device)

    @cached_property
    def _host(self) -> tuple[Executable, Executable, Executable | None]:
        card = Device(HOST_BOARD)
        rest = card.load(self.parts.rest) if self.parts.rest is not None else None
        return card.load(self.parts.once), card.load(self.parts.each), rest

    def follow(self, held: Mapping[str, Any]) -> None:
        """Takes over values that the module holds now and did not when it was last asked. Raises PyBudaError."""
        changed = {name: value for name, value in held.items() if self._held.get(name) is not value}
        if changed:
            self.update({name: array_of(value) for name, value in changed.items()})
            self._held |= changed

    def update(self, values: Mapping[str, np.ndarray]) -> None:
        """Replaces parameters. Raises PyBudaError for one that is not there, or of another shape."""
        for name, value in values.items():
            old = self.values.get(name)
            if old is None or old.shape != np.shape(value):
                wanted = f"shape {list(old.shape)}" if old is not None else f"one of {', '.join(self.values) or 'none'}"
                got = list(np.shape(value)) if old is not None else "no parameter of that name"
                raise PyBudaError(f"{self.exported.name}.{name}: expected {wanted}, got {got}")
            self.values[name] = np.asarray(value, old.dtype)
        self._resident = None

    def for_image(self) -> CompiledModule:
        """Returns it as an image holds it. Raises PyBudaError where the host computes something after the device."""
        refused = sorted({op.name for op in self.compilation.lowering.refused})
        if refused:
            raise PyBudaError(
                f"{self.exported.name}: expected ops that a card or the host before it computes, got "
                f"{', '.join(refused)} after it, which no image holds"
            )
        if self.exported.taps:
            raise PyBudaError(
                f"{self.exported.name}: expected no tapped ops in an image, got {self.exported.taps[0][0]}"
            )
        named = [(spec.name, spec.role) for spec in self.exported.arguments]
        return CompiledModule.of(planned_module(self.compilation), named)

    def write_backend_output(self, folder: Path) -> None:
        """Writes what TT-Buda's back end would: netlist, kernels, pipes and epochs. Raises OSError."""
        for name, text in planned_module(self.compilation).backend_files.items():
            path = inside(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    @staticmethod
    def result_type(kind: str) -> np.dtype:
        """Returns NumPy's type of a result, whose type MLIR names."""
        return host_dtype(kind)

    def run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Returns the results for inputs that fit (`fitting`). Raises PyBudaError."""
        try:
            return self._run(self.exported.in_order(inputs, self.values))
        except DeviceError as error:
            raise PyBudaError(f"{self.exported.name}: {error}") from error

    def queues(self, arguments: Sequence[np.ndarray]) -> tuple[dict[str, np.ndarray], dict[int, np.ndarray]]:
        """Returns what the host makes before the device runs: contents of queues, and results of the program."""
        parts, (once, each, _) = self.parts, self._host
        if self._resident is None:
            self._resident = parts.fill_once.queues(once.run(arguments).outputs)
        held = each.run(arguments).outputs
        return self._resident | parts.fill_each.queues(held), parts.fill_each.results(held)

    def _run(self, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
        parts, rest = self.parts, self._host[2]
        filled, by_number = self.queues(arguments)
        result = self.device.run([np.ascontiguousarray(filled[name], np.float32) for name in parts.sources])
        self.profile = result.profile
        made = dict(zip(parts.outputs, result.outputs, strict=True))

        def shaped(name: str, shape: tuple[int, ...], kind: str) -> np.ndarray:
            return made[name].reshape(shape).astype(host_dtype(kind))

        if rest is not None:
            taken = [shaped(*described) for described in parts.rest_inputs]
            by_number |= dict(zip(parts.rest_results, rest.run([*arguments, *taken]).outputs, strict=True))
        return [
            shaped(name, shape, kind) if name else by_number[number].reshape(shape).astype(host_dtype(kind))
            for number, (name, shape, kind) in enumerate(parts.results)
        ]


def fitting(where: str, given: Sequence[np.ndarray], exported: Exported) -> list[np.ndarray]:
    """Returns inputs in the types that a module takes. Raises PyBudaError for a wrong number, shape or type."""
    wanted = exported.inputs
    if len(given) != len(wanted):
        raise PyBudaError(f"{where}: expected {len(wanted)} inputs, got {len(given)}")
    fits = []
    for number, (array, spec) in enumerate(zip(given, wanted, strict=True)):
        if array.shape != spec.shape:
            raise PyBudaError(f"{where}: input {number}: expected shape {list(spec.shape)}, got {list(array.shape)}")
        fits.append(of_type(f"{where}: input {number}", array, spec.dtype))
    return fits


def of_type(where: str, array: np.ndarray, name: str) -> np.ndarray:
    """Returns an array in another type of the same kind: floats, integers or booleans. Raises PyBudaError."""
    wanted = host_dtype_of(name)
    if array.dtype == wanted:
        return array
    if _kind(array.dtype) != _kind(wanted):
        raise PyBudaError(f"{where}: expected {wanted}, got {array.dtype}")
    made = array.astype(wanted)
    if wanted.kind in "iu" and not np.array_equal(made, array):
        raise PyBudaError(f"{where}: expected numbers that {wanted} holds, got {array.min()} to {array.max()}")
    return made


def host_dtype_of(name: str) -> np.dtype:
    """Returns the type that NumPy or ml_dtypes calls `name`."""
    if name in ("bfloat16",) or name.startswith("float8"):
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))
    return np.dtype(name)


def _kind(dtype: np.dtype) -> str:
    return {"u": "i", "V": "f"}.get(dtype.kind, dtype.kind)
