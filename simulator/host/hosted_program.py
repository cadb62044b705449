"""A placed program with the host's parts around it: what runs for one input, and nothing of the compiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from opscope.compiler.target.formats import host_dtype
from opscope.compiler.target.queue_content import QueueContent
from opscope.simulator.device import Device, Executable
from opscope.simulator.profile import Profile

HOST_BOARD = "n150"
"""The board whose formats hold what the host computes: float32 and integers."""
HOST_MEMORY = 1 << 46
"""Bytes that its tensors may take. Theirs is the machine's memory, where no matrix is padded to tiles."""
Described = tuple[str, tuple[int, ...], str]
"""Name, shape and MLIR's element type."""


def host_device(board: str = HOST_BOARD) -> Device:
    """Returns what computes the host's parts: like a card of `board`, without the limit of its DRAM.

    PyTorch's weights [O, I, 1, 1] would take a tile for each element there. Raises ValueError for an unknown board.
    """
    host = Device(board)
    host.profile = replace(host.profile, dram_channel_bytes=HOST_MEMORY)
    return host


@dataclass(frozen=True)
class HostedProgram:
    """The binaries of a program in the order in which they run, and what leads from one to the next."""

    name: str
    board: str
    arguments: tuple[str, ...]
    """The names of the arguments, in order."""
    is_input: tuple[bool, ...]
    """Of each argument, whether each run is given it; the others stay from run to run."""
    once: bytes
    """What the host computes of parameters and constants alone; empty if `each` does that as well."""
    each: bytes
    """What the host computes for each input."""
    device: bytes
    rest: bytes
    """What the host computes after the device, of the arguments and of `rest_inputs`; empty if there is nothing."""
    once_contents: tuple[QueueContent, ...]
    each_contents: tuple[QueueContent, ...]
    """What the first results of `once` and `each` are in the device's queues."""
    each_results: tuple[int, ...]
    """The numbers of the program's results that the other results of `each` are."""
    sources: tuple[str, ...]
    """The queues that are the device's inputs, in order."""
    outputs: tuple[str, ...]
    """The names of the device's outputs, in order."""
    results: tuple[Described, ...]
    """Each result of the program: the device's output that holds it ('' if the host computes it), shape, MLIR type."""
    rest_results: tuple[int, ...]
    """The numbers of the program's results that `rest` computes, in order."""
    rest_inputs: tuple[Described, ...]
    """Outputs of the device that `rest` takes."""

    def load(self) -> LoadedProgram:
        """Loads the binaries. Raises DeviceError if the board cannot run them."""
        return LoadedProgram(self)


@dataclass(frozen=True)
class XlaProgram:
    """A module that XLA computes on the CPU."""

    name: str
    arguments: tuple[str, ...]
    is_input: tuple[bool, ...]
    module: bytes
    """StableHLO."""

    def load(self) -> LoadedXla:
        """Returns it ready to run; XLA compiles it in its first run."""
        return LoadedXla(self)


class Sendable(Protocol):
    """What another process can run in place of this one: a program, and the values of its arguments that stay."""

    @property
    def hosted(self) -> HostedProgram | XlaProgram:
        """The program."""
        ...

    @property
    def values(self) -> Mapping[str, np.ndarray]:
        """The values now, by name; another array is another value."""
        ...

    profile: Profile | None
    """The cost of its last run, where that was asked for."""


def in_order(
    program: HostedProgram | XlaProgram, inputs: Sequence[np.ndarray], values: Mapping[str, np.ndarray]
) -> list[np.ndarray]:
    """Returns all arguments in their order: inputs, and those that stay from `values`."""
    left = iter(inputs)
    return [
        next(left) if is_input else values[name]
        for name, is_input in zip(program.arguments, program.is_input, strict=True)
    ]


class LoadedProgram:
    """A program on its device; it can run any number of times."""

    def __init__(
        self, program: HostedProgram, device: Executable | None = None, each: Executable | None = None
    ) -> None:
        """`device` and `each` are these two parts of it where they are loaded already."""
        host = host_device()
        self.program = program
        self.device = device or Device(program.board).load(program.device)
        self._once = host.load(program.once) if program.once else None
        self._each = each or host.load(program.each)
        self._rest = host.load(program.rest) if program.rest else None
        self._resident: dict[str, np.ndarray] | None = None
        self.profile: Profile | None = None
        """The cost of the device's part of the last run."""

    def forget_values(self) -> None:
        """Has the next run compute again what follows from arguments that stay."""
        self._resident = None

    def queues(self, arguments: Sequence[np.ndarray]) -> tuple[dict[str, np.ndarray], dict[int, np.ndarray]]:
        """Returns what the host makes before the device runs: contents of queues, and results of the program."""
        program = self.program
        if self._resident is None:
            made = self._once.run(arguments).outputs if self._once is not None else []
            self._resident = _laid_out(program.once_contents, made)
        outputs = self._each.run(arguments).outputs
        results = dict(zip(program.each_results, outputs[len(program.each_contents) :], strict=True))
        return self._resident | _laid_out(program.each_contents, outputs), results

    def run(self, arguments: Sequence[np.ndarray], *, per_core: bool = False) -> list[np.ndarray]:
        """Returns the results of the program, in order. Raises DeviceError.

        `per_core`: the device computes each of its results block by block, as its cores would.
        """
        queues, by_number = self.push(arguments)
        done = self.device.run(queues, per_core=per_core)
        self.profile = done.profile
        return self.pop(arguments, by_number, done.outputs)

    def push(self, arguments: Sequence[np.ndarray]) -> tuple[list[np.ndarray], dict[int, np.ndarray]]:
        """Returns what the device reads, in order, and the results that the host has made before it, by number."""
        filled, by_number = self.queues(arguments)
        return [np.ascontiguousarray(filled[name], np.float32) for name in self.program.sources], by_number

    def pop(
        self, arguments: Sequence[np.ndarray], by_number: dict[int, np.ndarray], outputs: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Returns the results of the program, in order, from those of the host before the device, and of the device."""
        program = self.program
        made = dict(zip(program.outputs, outputs, strict=True))

        def shaped(name: str, shape: tuple[int, ...], kind: str) -> np.ndarray:
            return made[name].reshape(shape).astype(host_dtype(kind))

        if self._rest is not None:
            taken = [shaped(*described) for described in program.rest_inputs]
            by_number = by_number | dict(
                zip(program.rest_results, self._rest.run([*arguments, *taken]).outputs, strict=True)
            )
        return [
            shaped(name, shape, kind) if name else np.asarray(by_number[number]).reshape(shape).astype(host_dtype(kind))
            for number, (name, shape, kind) in enumerate(program.results)
        ]


class LoadedXla:
    """A module on XLA's CPU."""

    profile = None
    """What it costs: nothing is known of it."""

    def __init__(self, program: XlaProgram) -> None:
        self.program = program

    def forget_values(self) -> None:
        """Does nothing: nothing follows from values alone."""

    def run(self, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Returns the results of the module. Raises HostOpError, which is a DeviceError."""
        from opscope.simulator.host_ops import run

        return list(run(self.program.module, list(arguments)))


def _laid_out(contents: Sequence[QueueContent], results: Sequence[Any]) -> dict[str, np.ndarray]:
    return {content.name: content.laid_out(value) for content, value in zip(contents, results, strict=False)}
