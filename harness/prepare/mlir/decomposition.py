"""A module of a composite, with the call of its decomposition in the composite's place."""

from __future__ import annotations

import functools

from jaxlib.mlir.dialects import stablehlo
from jaxlib.mlir.passmanager import PassManager

from opscope.harness.prepare.mlir.door import context, load, to_bytecode


@functools.cache
def _registered() -> None:
    stablehlo.register_stablehlo_passes()


def decomposed(module: bytes) -> bytes:
    """The module with calls in place of composites. chlo ops stay."""
    _registered()
    loaded = load(module)
    with context():
        PassManager.parse("builtin.module(func.func(stablehlo-legalize-composite-to-call))").run(loaded.operation)
    return to_bytecode(loaded)
