"""StableHLO for a reader that may have another version of it than the JAX that is here."""

from __future__ import annotations

from bisect import bisect_left
from itertools import product
from typing import Any


def of(bytecode: bytes) -> bytes:
    """A module as a portable artifact of the oldest version that has its ops.

    As it is where there is no JAX here that could write one.
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


def _versions(first: str, last: str) -> list[str]:
    """The versions from the first to the last, in their order, without those that only mend; 1.0 came after 0.20."""
    (one, two), (three, four) = (map(int, text.split(".")[:2]) for text in (first, last))
    numbers = [pair for pair in product(range(one, three + 1), range(100)) if (one, two) < pair < (three, four)]
    return [first, *(f"{major}.{minor}.0" for major, minor in numbers if major or minor <= 20), last]
