"""`pybuda.tvm_to_python`: JAX traces the modules of frameworks here, so that none becomes Python source by TVM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from opscope.simulator.host.errors import NoMeaningHere
from opscope.simulator.host.modules.module import Module


def generate_pybuda_module(
    framework_mod: Module, inputs: Sequence[Any], *_: Any, **__: Any
) -> tuple[list[Module], list[str], Sequence[Any]]:
    """Returns modules that compute a framework's, the kinds of their devices, and their inputs: it and its own."""
    return [framework_mod], ["TTDevice"], inputs


def compile_tvm_to_python(*_: Any, **__: Any) -> NoReturn:
    """Raises NoMeaningHere."""
    raise NoMeaningHere(
        "compile_tvm_to_python: expected a function that has a meaning here, got one that writes the Python source "
        "that TVM makes of a model; try placing the model's module on a device"
    )
