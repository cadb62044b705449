"""From a registered model, or a file, to a StableHLO module as bytecode with locations. No weight is made."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

from models.arguments import ArgSpec
from models.registry import Model
from models.seeding import dtype_of


@dataclass(frozen=True)
class Exported:
    """A model as StableHLO."""

    bytecode: bytes
    arguments: tuple[ArgSpec, ...]
    """One per argument of the module's entry function; none for a file, whose arguments have no law."""
    frontend: str
    """Who exported it, with its version: `jax 0.10.2`; `file` for a StableHLO file."""


def export_model(model: Model, dtype: str = "float32") -> Exported:
    """Traces a registered model with `jax.jit(...).lower(...)` on shapes alone.

    `keep_unused` keeps the arguments of the module in the order of the specs. Raises what the model raises.
    """
    import jax

    built = model.build(dtype)
    names = [spec.name for spec in built.arguments]

    def entry(*arrays: jax.Array) -> object:
        return built.forward(dict(zip(names, arrays, strict=True)))

    entry.__name__ = entry.__qualname__ = model.name
    structs = [jax.ShapeDtypeStruct(spec.shape, dtype_of(spec.dtype)) for spec in built.arguments]
    module = jax.jit(entry, keep_unused=True).lower(*structs).compiler_ir("stablehlo")
    assert module is not None
    file = io.BytesIO()
    module.operation.write_bytecode(file)
    return Exported(file.getvalue(), built.arguments, f"jax {jax.__version__}")


def export_file(path: Path) -> Exported:
    """Reads a StableHLO file (text, bytecode or portable artifact). Raises InputError where it is none of these."""
    from harness import mlir

    return Exported(mlir.to_bytecode(mlir.load(path)), (), "file")
