"""The exporter for JAX: `jax.jit(...).lower(...)` on shapes alone, so that no weight is ever allocated."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opscope.base.plugins import version
from opscope.base.stablehlo.python_calls import why_not_run
from opscope.base.xla import xla_releases
from opscope.models.arguments import Built
from opscope.models.frontends import installed
from opscope.models.frontends.base import ExportResult, Frontend, Source

if TYPE_CHECKING:
    import jax

LARGE = 1 << 20
"""Bytes of constants from which on a user is told of them."""


@dataclass(frozen=True)
class Jax(Frontend):
    """The exporter of models that are functions of named arrays."""

    name: str = "jax"
    packages: tuple[str, ...] = ("jax", "jaxlib")
    forkable_packages: tuple[str, ...] = ("jax",)
    recorded_packages: tuple[str, ...] = ("jax",)
    """The packages whose versions records show."""

    def export(self, built: Built, source: Source) -> ExportResult:
        """Exports the forward pass, or a whole training step."""
        if source.training:
            from opscope.models.training import step

            built = step(built)
        return exported(built, source.name, package_versions(self.recorded_packages), {})

    def results(self, built: Built, source: Source, values: Mapping[str, Any]) -> tuple[str, Sequence[Any]]:
        """The whole model, compiled by JAX."""
        return compiled_results(built, source, values)


def compiled_results(built: Built, source: Source, values: Mapping[str, Any]) -> tuple[str, list[Any]]:
    """What JAX computes of a whole model, or of its training step, compiled as one program."""
    import jax
    import numpy as np

    if source.training:
        from opscope.models.training import step

        built = step(built)
    if values.keys() - {spec.name for spec in built.arguments}:
        from opscope.models.frontends import python_calls

        built = python_calls.with_results(built, values)
    # It runs once: XLA takes 0.7 s of processor time to make resnet50 fast, 0.25 s so, and 0.3 s to run it.
    options = {"xla_backend_optimization_level": 0, **xla_releases.quick_options()}
    whole = jax.jit(built.forward, compiler_options=options)
    results = whole({spec.name: values[spec.name] for spec in built.arguments})
    return package_versions(("jax",)), [np.asarray(leaf) for leaf in jax.tree.leaves(results)]


def package_versions(packages: tuple[str, ...], either: tuple[str, ...] = ()) -> str:
    """Returns the first of `either` that is installed, and the packages, with their versions, as records show them."""
    first = [*filter(installed, either), *either][:1]
    return ", ".join(f"{package} {version(package)}" for package in (*first, *packages))


def exported(built: Built, name: str, frontend: str, values: Mapping[str, Any]) -> ExportResult:
    """A model that JAX can trace, with the values that its file holds. What calls Python for a result is
    evaluated (python_calls.py)."""
    bytecode, notes = lower(built, name), ()
    if why_not_run(bytecode):
        from opscope.models.frontends import python_calls

        if (settled := python_calls.settled(built, values)) is not None:
            built, values, notes = settled.built, {**values, **settled.values}, settled.notes
            bytecode = lower(built, name)
    return ExportResult(
        bytecode, built.arguments, frontend, values, notes=(*notes, *_held(bytecode), *_missing(bytecode, built.ops))
    )


def _missing(bytecode: bytes, ops: tuple[str, ...]) -> tuple[str, ...]:
    """The line about ops that a program is to hold and does not."""
    if not ops:
        return ()
    from jax.extend.mlir import ir
    from jax.interpreters import mlir

    there: set[str] = set()

    def look(op: Any) -> Any:
        there.add(op.name)
        return ir.WalkResult.ADVANCE

    with mlir.make_ir_context():
        ir.Module.parse(bytecode).operation.walk(look)
    missing = ", ".join(op for op in ops if op not in there)
    return (f"no case reaches {missing}",) if missing else ()


def _held(bytecode: bytes) -> tuple[str, ...]:
    """The line about arrays that are constants of a program, where these are large."""
    if len(bytecode) <= LARGE:
        return ()
    from jax.extend.mlir import ir
    from jax.interpreters import mlir

    sizes: list[tuple[int, str]] = []

    def look(op: Any) -> Any:
        if op.name == "stablehlo.constant":
            try:
                value: Any = op.attributes["value"]
            except TypeError:  # a complex constant, which the bindings cannot hand out
                return ir.WalkResult.ADVANCE
            if isinstance(value, ir.DenseElementsAttr) and not value.is_splat:
                kind: Any = value.type
                sizes.append((len(value) * kind.element_type.width // 8, str(kind)))
        return ir.WalkResult.ADVANCE

    with mlir.make_ir_context():
        ir.Module.parse(bytecode).operation.walk(look)
    if (total := sum(size for size, _ in sizes)) <= LARGE:
        return ()
    said = f"{total / LARGE:.1f} MiB of arrays are constants of the program and no arguments"
    return (f"{said}, the largest {max(sizes)[1]}; try them as example inputs, or as fields of a module",)


def lower(built: Built, name: str) -> bytes:
    """Returns the bytecode of a model that JAX can trace.

    `keep_unused` keeps the arguments of the module in the order of the specs. Raises what the model raises.
    """
    import jax

    from opscope.models.seeding import dtype_of

    names = [spec.name for spec in built.arguments]

    def entry(*arrays: jax.Array) -> object:
        return built.forward(dict(zip(names, arrays, strict=True)))

    entry.__name__ = entry.__qualname__ = name
    structs = [jax.ShapeDtypeStruct(spec.shape, dtype_of(spec.dtype)) for spec in built.arguments]
    module = jax.jit(entry, keep_unused=True).lower(*structs).compiler_ir("stablehlo")
    assert module is not None
    file = io.BytesIO()
    module.operation.write_bytecode(file)
    return file.getvalue()


FRONTEND = Jax()
