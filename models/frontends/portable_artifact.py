"""StableHLO for a reader that may have another version of it than the JAX that is here."""

from __future__ import annotations

from bisect import bisect_left
from importlib import metadata
from itertools import product
from typing import Any

from opscope.base.xla.xla_releases import number

_OWN = ("stablehlo.", "func.", "builtin.")
"""Dialects that portable artifacts have a form of their own for."""


def of(bytecode: bytes, reader: str) -> bytes:
    """A module as a portable artifact of the oldest version that has its ops, for a `reader`, a release of jaxlib.

    As text for an older reader where ops of other dialects have attributes: releases write these into bytecode each in
    its own way (`chlo.top_k` of jaxlib 0.11 is none that 0.10.2 reads), which no artifact changes. As it is where there
    is no JAX here that could write one.
    """
    try:
        from jax.interpreters import mlir
        from jaxlib.mlir import ir
        from jaxlib.mlir.dialects import stablehlo

        context: Any = mlir.make_ir_context()
        versions = _versions(stablehlo.get_minimum_version(), stablehlo.get_current_version())
    except (ImportError, AttributeError):
        return bytecode
    artifacts: dict[str, bytes] = {}
    with context:
        module: Any = ir.Module.parse(bytecode)
        if number(metadata.version("jaxlib")) > number(reader) and _has_foreign_attributes(module):
            return module.operation.get_asm(print_generic_op_form=True, enable_debug_info=True).encode()

        def has_its_ops(version: str) -> bool:
            for more in ({"allow_other_dialects": True}, {}):
                try:
                    artifacts[version] = stablehlo.serialize_portable_artifact(module, version, **more)
                    return True
                except (TypeError, ValueError):  # a newer op; or JAX before 0.5, which keeps no ops of `chlo`
                    continue
            return False

        place = bisect_left(versions, True, key=has_its_ops)
    return artifacts[versions[place]] if place < len(versions) else bytecode


def _has_foreign_attributes(module: Any) -> bool:
    """Whether an op has attributes that no version of StableHLO fixes."""
    from jaxlib.mlir import ir

    has_attributes = False

    def look(operation: Any) -> Any:
        nonlocal has_attributes
        has_attributes = len(operation.attributes) > 0 and not operation.name.startswith(_OWN)
        return ir.WalkResult.INTERRUPT if has_attributes else ir.WalkResult.ADVANCE

    module.operation.walk(look)
    return has_attributes


def _versions(first: str, last: str) -> list[str]:
    """The versions from the first to the last, in their order, without those that only mend; 1.0 came after 0.20."""
    (one, two), (three, four) = (map(int, text.split(".")[:2]) for text in (first, last))
    numbers = [pair for pair in product(range(one, three + 1), range(100)) if (one, two) < pair < (three, four)]
    return [first, *(f"{major}.{minor}.0" for major, minor in numbers if major or minor <= 20), last]
