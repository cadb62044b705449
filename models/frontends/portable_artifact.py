"""StableHLO for a reader that may have another version of it than the JAX that is here."""

from __future__ import annotations

from itertools import product
from typing import Any


def of(bytecode: bytes) -> bytes:
    """A module as a portable artifact: of the oldest version that this StableHLO writes, or of its own where the module
    has newer ops. As it is where there is no JAX here that could write one."""
    try:
        from jax.interpreters import mlir
        from jaxlib.mlir import ir
        from jaxlib.mlir.dialects import stablehlo

        context: Any = mlir.make_ir_context()
        versions = stablehlo.get_minimum_version(), stablehlo.get_current_version()
    except (ImportError, AttributeError):
        return bytecode
    with context:
        module: Any = ir.Module.parse(bytecode)
        for version, more in product(versions, ({"allow_other_dialects": True}, {})):
            try:
                return stablehlo.serialize_portable_artifact(module, version, **more)
            except (TypeError, ValueError):  # a newer op; or JAX before 0.5, which keeps no ops of `chlo`
                continue
    return bytecode
