"""A device's own process: `serve` loads programs, keeps the values of their parameters, and runs them.

A command is a JSON object with a key `do`, its answer is one, too; tensors are in memory of both (`shared_arrays`).
The process knows no module, no compiler and no framework; JAX is imported where XLA has to compute something.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from opscope.base import shared_arrays
from opscope.base.children.inside import Parent
from opscope.base.shared_block import MappedBlock, SharedBlock
from opscope.simulator.errors import DeviceError
from opscope.simulator.host.hosted_program import HostedProgram, LoadedProgram, LoadedXla, XlaProgram, in_order
from opscope.simulator.host.processes.signs_of_life import SignsOfLife

KINDS: dict[str, type[HostedProgram | XlaProgram]] = {"HostedProgram": HostedProgram, "XlaProgram": XlaProgram}


def serve(parent: Parent) -> None:
    """Answers commands until the parent closes the connection. What a device refuses is an answer, too."""
    device, signs = _Device(), SignsOfLife(parent)
    while (command := parent.receive()) is not None:
        signs.begin()
        try:
            answer = device.answer(command)
        except DeviceError as error:
            answer = {"refused": " ".join(str(error).split())}
        signs.answer(answer)


class _Device:
    """Programs that were loaded, in order, each with the values of its arguments that stay."""

    def __init__(self) -> None:
        self._programs: list[tuple[LoadedProgram | LoadedXla, dict[str, np.ndarray]]] = []
        self._theirs, self._ours = MappedBlock(), SharedBlock()

    def answer(self, command: dict[str, Any]) -> dict[str, Any]:
        """Does what a command says. Raises DeviceError."""
        arrays = shared_arrays.read(command["tensors"], self._theirs)
        match command["do"]:
            case "load":
                return self._load(command, arrays)
            case "update":
                loaded, values = self._programs[command["program"]]
                values |= dict(zip(command["names"], arrays, strict=True))
                loaded.forget_values()
                return {}
            case "run":
                loaded, values = self._programs[command["program"]]
                results = loaded.run(in_order(loaded.program, arrays, values))
                profile = msgspec.to_builtins(loaded.profile) if command["profile"] else None
                return {"tensors": shared_arrays.write(results, self._ours), "profile": profile}
            case "forget":
                self._programs.clear()
                return {}
            case strange:
                raise ValueError(f"do: expected load, update, run or forget, got {strange!r}")

    def _load(self, command: dict[str, Any], arrays: list[np.ndarray]) -> dict[str, Any]:
        """Loads a program, whose binaries are the last arrays, with the values of `names`, which are the first."""
        names = command["names"]
        binaries = {key: array.tobytes() for key, array in zip(command["binaries"], arrays[len(names) :], strict=True)}
        program = msgspec.convert({**command["program"], **binaries}, KINDS[command["kind"]])
        self._programs.append((program.load(), dict(zip(names, arrays, strict=False))))
        return {"program": len(self._programs) - 1}
