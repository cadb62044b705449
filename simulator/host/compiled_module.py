"""A module that the compiler has planned: what a device needs to run it, and nothing of the compiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from opscope.compiler.target.binary import BinaryError, read
from opscope.compiler.target.formats import host_dtype
from opscope.compiler.target.program import Binary, TensorDesc
from opscope.compiler.target.queue_content import QueueContent
from opscope.simulator.device import Device, Executable
from opscope.simulator.host.errors import ImageError
from opscope.simulator.host.hosted_program import HostedProgram, LoadedProgram, host_device
from opscope.simulator.profile import Profile

if TYPE_CHECKING:
    from opscope.compiler.api import PlannedModule

ROLES = ("input", "target", "parameter", "state")
"""What an argument is: an input or target that each run is given, or a value that stays from run to run."""
GIVEN = ("input", "target")
"""Roles of arguments that each run is given."""


@dataclass(frozen=True)
class Value:
    """An argument or a result of a module."""

    name: str
    shape: tuple[int, ...]
    element_type: str
    """MLIR's name: f32, bf16, i64, ..."""
    role: str = ""
    """Of an argument: one of `ROLES`."""


@dataclass(frozen=True)
class CompiledModule:
    """One planned program of a module: its forward pass, or one of the three passes of training."""

    name: str
    kind: str
    """`forward`, `backward`, `optimizer`, or `training` for all three in one program."""
    host: bytes
    """The binary of the host's part: from the arguments to the contents of queues, then `host_results`."""
    program: bytes
    """The binary of the placed program: from the contents of `queues` to the results of the device."""
    arguments: tuple[Value, ...]
    results: tuple[Value, ...]
    contents: tuple[QueueContent, ...]
    """What the results of the host's part are in queues, in order."""
    queues: tuple[str, ...]
    """The queues that are the inputs of the placed program, in order."""
    device_results: tuple[int, ...]
    """The numbers of the results that the device computes, in the order of its outputs."""
    host_results: tuple[int, ...]
    """The numbers of the results that the host's part computes, in order."""
    netlist: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The compile options that were set."""
    stablehlo: bytes = b""
    backend_files: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        planned: PlannedModule,
        arguments: Sequence[tuple[str, str]],
        *,
        kind: str = "forward",
        results: Sequence[str] = (),
    ) -> CompiledModule:
        """Returns a planned module whose arguments have these names and roles, in order.

        `results` are names of its results, in order; without any they are `output_0` and so on. Those of ops that
        `op_intermediates_to_save` adds have their own. Raises ImageError for
        another number of either, names that are not different, or an unknown role.
        """
        own = len(planned.results) - len(planned.saved)
        names = [*(results or [f"output_{i}" for i in range(own)]), *planned.saved]
        for what, got, described in (
            ("arguments", [name for name, _ in arguments], planned.arguments),
            ("results", names, planned.results),
        ):
            if len(got) != len(described) or len(set(got)) < len(got):
                raise ImageError(
                    f"{planned.name}.{what}: expected {len(described)} different names, got {', '.join(got[:8])}"
                )
        if unknown := [role for _, role in arguments if role not in ROLES]:
            raise ImageError(f"{planned.name}.arguments: expected a role of {', '.join(ROLES)}, got {unknown[0]!r}")
        return cls(
            planned.name,
            kind,
            planned.host,
            planned.program,
            tuple(Value(n, *d, role) for (n, role), d in zip(arguments, planned.arguments, strict=True)),
            tuple(Value(name, *described) for name, described in zip(names, planned.results, strict=True)),
            planned.contents,
            planned.queues,
            planned.device_results,
            planned.host_results,
            planned.netlist,
            planned.options,
            planned.stablehlo,
            planned.backend_files,
        )

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The arguments that each run is given, in order."""
        return tuple(argument for argument in self.arguments if argument.role in GIVEN)

    @property
    def kept(self) -> tuple[Value, ...]:
        """The arguments that stay from run to run, in order."""
        return tuple(argument for argument in self.arguments if argument.role not in GIVEN)

    def load(self, board: str = "") -> LoadedModule:
        """Loads both binaries, the placed one on `board` or on the board that it was compiled for.

        Raises DeviceError if that board cannot run it, ImageError if the parts do not fit together.
        """
        try:
            return LoadedModule(self, read(self.host), read(self.program), board)
        except BinaryError as error:
            raise ImageError(f"{self.name}: {error}") from error


class LoadedModule:
    """A compiled module on its device; it can run any number of times."""

    def __init__(self, module: CompiledModule, host: Binary, program: Binary, board: str = "") -> None:
        self.module, self.binary = module, program
        try:
            self.device = Device(board or program.board)
            self.host = host_device(host.board).load_decoded(host)
        except ValueError as error:
            raise ImageError(f"{module.name}: {error}") from error
        self.program = self.device.load_decoded(program)
        self._check()
        self.runner = LoadedProgram(self.hosted, self.program, self.host)
        """What runs it: the same as for a module that was compiled in this process."""

    @property
    def hosted(self) -> HostedProgram:
        """It as a process of its own runs it."""
        module = self.module
        device = {number: f"{place}" for place, number in enumerate(module.device_results)}
        results = tuple((device.get(i, ""), r.shape, r.element_type) for i, r in enumerate(module.results))
        return HostedProgram(
            module.name,
            self.device.system.board,
            tuple(argument.name for argument in module.arguments),
            tuple(argument.role in GIVEN for argument in module.arguments),
            b"",
            module.host,
            module.program,
            b"",
            (),
            module.contents,
            module.host_results,
            module.queues,
            tuple(device.values()),
            results,
            (),
            (),
        )

    @property
    def needs_jaxlib(self) -> bool:
        """Whether the host's part has operations that the device has not, which XLA computes."""
        return needs_jaxlib(self.host)

    def run(self, values: Mapping[str, np.ndarray], *, per_core: bool = False) -> list[np.ndarray]:
        """Returns the results of the module, in order, for the values of all its arguments by name.

        Raises BadInput for a value of another shape or type, ImageError for one that is missing, DeviceError.
        """
        module = self.module
        missing = [argument.name for argument in module.arguments if argument.name not in values]
        if missing:
            raise ImageError(
                f"{module.name}: expected a value of {missing[0]}, got none; try {', '.join(values)[:200]}"
            )
        return self.runner.run(self.in_order(values), per_core=per_core)

    def in_order(self, values: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Returns the values of all arguments in their order."""
        return [np.asarray(values[argument.name]) for argument in self.module.arguments]

    @property
    def profile(self) -> Profile | None:
        """The cost of the last run on the device."""
        return self.runner.profile

    def _check(self) -> None:
        """Checks that names, shapes and numbers of the parts fit together. Raises ImageError."""
        module = self.module
        _same(f"{module.name}.arguments", module.arguments, _tensors(self.host, self.host.program.inputs))
        outputs = _tensors(self.host, self.host.program.outputs)
        if len(outputs) != len(module.contents) + len(module.host_results):
            raise ImageError(
                f"{module.name}.contents: expected {len(outputs)} with the results of the host's part, "
                f"got {len(module.contents)} and {len(module.host_results)}"
            )
        _same(
            f"{module.name}.host_results",
            [_result(module, i) for i in module.host_results],
            outputs[len(module.contents) :],
        )
        for content, desc in zip(module.contents, outputs, strict=False):
            if not content.holds(desc.shape):
                raise ImageError(
                    f"{module.name}.contents.{content.name}: expected a layout of {list(desc.shape)}, got {content}"
                )
        for result in module.results:
            try:
                host_dtype(result.element_type)
            except ValueError as error:
                raise ImageError(f"{module.name}.results.{result.name}: {error}") from error
        wanted = {content.name: content.elements for content in module.contents}
        read_from = _tensors(self.program, self.program.program.inputs)
        if [wanted.get(name) for name in module.queues] != [desc.shape for desc in read_from]:
            raise ImageError(f"{module.name}.queues: expected the shapes of the program's inputs, got others")
        made = _tensors(self.program, self.program.program.outputs)
        numbers = sorted((*module.device_results, *module.host_results))
        if len(made) != len(module.device_results) or numbers != list(range(len(module.results))):
            raise ImageError(
                f"{module.name}.results: expected each result once, on the device or the host, got {numbers}"
            )
        for desc, number in zip(made, module.device_results, strict=True):
            if np.prod(desc.shape, dtype=object) != np.prod(_result(module, number).shape, dtype=object):
                raise ImageError(
                    f"{module.name}.results[{number}]: expected {list(desc.shape)} elements, "
                    f"got {list(_result(module, number).shape)}"
                )


def needs_jaxlib(host: Executable) -> bool:
    """Whether a program has operations that XLA computes on the host."""
    return any(op.kernel == "host_op" for program in host.programs.values() for op in program.operations)


def _result(module: CompiledModule, number: int) -> Value:
    if not 0 <= number < len(module.results):
        raise ImageError(f"{module.name}.results: expected numbers below {len(module.results)}, got {number}")
    return module.results[number]


def _tensors(executable: Executable, numbers: Sequence[int]) -> list[TensorDesc]:
    return [executable.program.tensors[number] for number in numbers]


def _same(where: str, values: Sequence[Value], descs: Sequence[TensorDesc]) -> None:
    """Raises ImageError if values are not what a program declares for them."""
    got = [(value.shape, value.element_type) for value in values]
    wanted = [(desc.shape, desc.element_type) for desc in descs]
    if got != wanted:
        number = next(
            (i for i, (a, b) in enumerate(zip(got, wanted, strict=False)) if a != b), min(len(got), len(wanted))
        )
        shown = [
            f"{list(row[number][0])} of {row[number][1]}" if number < len(row) else "none" for row in (wanted, got)
        ]
        raise ImageError(f"{where}[{number}]: expected {shown[0]}, got {shown[1]}")
