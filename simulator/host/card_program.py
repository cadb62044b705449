"""A module that is compiled for a card: the host's parts, the placed program, and a run of them one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from opscope.base.inner_path import inside
from opscope.compiler.api import (
    Compilation,
    CompileDepth,
    CompilerInputError,
    Configuration,
    PlannedParts,
    StageFailure,
    compile_to,
    planned_module,
    planned_parts,
    result_types,
)
from opscope.compiler.target.formats import host_dtype
from opscope.simulator.api import DeviceError, Profile
from opscope.simulator.host.compiled_module import CompiledModule
from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.exported import Exported
from opscope.simulator.host.hosted_program import HostedProgram, LoadedProgram, in_order
from opscope.simulator.host.settings.options import compile_depth
from opscope.simulator.host.tensor import array_of


class CardProgram:
    """One module, planned and placed. Raises PyBudaError if the compiler refuses it."""

    def __init__(
        self,
        exported: Exported,
        board: str,
        configuration: Configuration,
        chip_ids: Sequence[int] = (0,),
        epoch_type: str = "",
        *,
        microbatch: int = 1,
    ) -> None:
        """`board`: a board or an architecture, which means its default board.

        One execution of its netlist takes `microbatch` inputs; `run` is given one of them.
        `epoch_type` is `forward`, `backward` or `optimizer` where the program is one pass of training.
        """
        self.exported = exported
        self.made_from = _made_from(exported, board, configuration, chip_ids, epoch_type)
        """What it was compiled from: a program of equal parts need not be compiled again."""
        self.values: dict[str, np.ndarray] = dict(exported.values)
        self._held = dict(exported.objects)
        self.compilation = Compilation(
            exported.bytecode,
            board,
            configuration,
            exported.name,
            parameters=exported.parameters,
            fallback=True,
            chip_ids=tuple(chip_ids),
            epoch_type=epoch_type,
            microbatch=microbatch,
        )
        depth = compile_depth()
        try:
            compile_to(self.compilation, min(depth, CompileDepth.GENERATE_NETLIST))
            whole = self.compilation.program is not None and depth >= CompileDepth.BACKEND_GOLDEN_VERIFY
            self._parts: PlannedParts | None = planned_parts(self.compilation) if whole else None
        except StageFailure as failure:
            hint = "; try a CPUDevice" if failure.kind == "host" else ""
            raise PyBudaError(f"{exported.name}: {failure.op}: {failure.message}{hint}") from failure
        except (CompilerInputError, ValueError) as error:
            raise PyBudaError(f"{exported.name}: {' '.join(str(error).split())}") from error
        self.profile: Profile | None = None
        """The cost of the device's part of the last run."""
        self._stale = False

    @classmethod
    def of(
        cls,
        before: CardProgram | None,
        exported: Exported,
        board: str,
        configuration: Configuration,
        chip_ids: Sequence[int],
        epoch_type: str,
    ) -> CardProgram:
        """Returns the program of `before` if it was compiled from the same, else a new one. Raises PyBudaError."""
        if before is not None and before.made_from == _made_from(exported, board, configuration, chip_ids, epoch_type):
            return before
        return cls(exported, board, configuration, chip_ids, epoch_type)

    @property
    def parts(self) -> PlannedParts:
        """Its binaries and what is known of them. Raises PyBudaError if `compile_depth` ended before them."""
        if self._parts is None:
            reached = self.compilation.reached
            raise PyBudaError(
                f"{self.exported.name}: expected a program that was compiled all the way, got one to "
                f"{reached.name if reached is not None else 'nowhere'}; try compile_depth CompileDepth.FULL"
            )
        return self._parts

    @property
    def hosted(self) -> HostedProgram:
        """Its binaries, and what leads from one to the next."""
        return self._hosted

    @property
    def outputs(self) -> tuple[tuple[str, tuple[int, ...], str], ...]:
        """The module's own results: those of tapped and of saved ops follow them."""
        if self._parts is None:
            results = [("", *described) for described in result_types(self.exported.bytecode)]
            return tuple(results[: len(results) - len(self.exported.taps)])
        return self.parts.results[: len(self.parts.results) - self.parts.saved - len(self.exported.taps)]

    @cached_property
    def _hosted(self) -> HostedProgram:
        parts, exported = self.parts, self.exported
        return HostedProgram(
            exported.name,
            self.compilation.board,
            tuple(spec.name for spec in exported.arguments),
            tuple(spec.role == "input" for spec in exported.arguments),
            parts.once,
            parts.each,
            parts.device,
            parts.rest or b"",
            tuple(content.layout for content in parts.fill_once.contents),
            tuple(content.layout for content in parts.fill_each.contents),
            parts.fill_each.outputs,
            parts.sources,
            parts.outputs,
            parts.results,
            parts.rest_results,
            parts.rest_inputs,
        )

    @cached_property
    def loaded(self) -> LoadedProgram:
        """The program on its card, in this process."""
        return self.hosted.load()

    def follow(self, objects: Mapping[str, Any]) -> None:
        """Takes over values that the module holds now and did not when it was last asked. Raises PyBudaError."""
        changed = {name: value for name, value in objects.items() if self._held.get(name) is not value}
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
        self._stale = True

    def for_image(
        self, name: str, kind: str = "forward", roles: Sequence[tuple[str, str]] = (), results: Sequence[str] = ()
    ) -> CompiledModule:
        """Returns it as an image holds it, by the name of its module.

        Raises PyBudaError where the host computes something after the device.
        """
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
        named = list(roles) or [(spec.name, spec.role) for spec in self.exported.arguments]
        module = CompiledModule.of(planned_module(self.compilation), named, kind=kind, results=results)
        return replace(module, name=name)

    def write_backend_output(self, folder: Path, prefix: str = "") -> None:
        """Writes what TT-Buda's back end would: netlist, kernels, pipes and epochs. Raises OSError.

        `prefix` comes before each path in the folder.
        """
        for name, text in planned_module(self.compilation).backend_files.items():
            path = inside(folder, prefix + name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    @staticmethod
    def result_type(kind: str) -> np.dtype:
        """Returns NumPy's type of a result, whose type MLIR names."""
        return host_dtype(kind)

    def run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Returns the results for inputs that fit (`fitting`), computed in this process. Raises PyBudaError."""
        try:
            if self._stale:
                self.loaded.forget_values()
                self._stale = False
            results = self.loaded.run(in_order(self.hosted, inputs, self.values))
        except DeviceError as error:
            raise PyBudaError(f"{self.exported.name}: {error}") from error
        self.profile = self.loaded.profile
        return results


def _made_from(exported: Exported, board: str, configuration: Configuration, chips: Sequence[int], kind: str) -> object:
    options = configuration.copy(), compile_depth()
    return exported.bytecode, exported.name, exported.arguments, board, options, tuple(chips), kind
