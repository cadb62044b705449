"""Reads StableHLO: jaxlib parses and verifies it, and `to_xdsl.py` converts jaxlib's objects to xDSL.

Only these two, `legalise.py`, which rewrites ops without a row, `outlined.py` and `on_mesh.py` import jaxlib.mlir. The
door reads text, bytecode and portable artifacts, and keeps the functions that calls and composites name.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache
from typing import Any

import jaxlib.mlir.ir as mlir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, stablehlo
from jaxlib.mlir.dialects import sdy as shardy
from xdsl.dialects import builtin as b

from opscope.base.mesh.placement import Placement
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.ir import on_mesh, outlined
from opscope.compiler.ir.legalise import legalised
from opscope.compiler.ir.to_xdsl import Conversion


@cache
def context() -> mlir.Context:
    """The one context of this process, with every dialect that a module may have."""
    registry = mlir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    ctx = mlir.Context()
    # A module is parsed by one thread anyway, and a fork (guard.py) would wait for threads that it lacks.
    ctx.enable_multithreading(False)
    # tt-mlir's attributes (`#ttcore.argument_type<input>`) are of a dialect that jaxlib lacks. An op of one is refused.
    ctx.allow_unregistered_dialects = True
    ctx.append_dialect_registry(registry)
    ctx.load_all_available_dialects()
    stablehlo.register_dialect(ctx)
    chlo.register_dialect(ctx)
    shardy.register_dialect(ctx)
    stablehlo.register_stablehlo_passes()
    # Nothing in jaxlib registers the dialect of quantised types, but its artifact reader loads it.
    with ctx:
        empty = stablehlo.serialize_portable_artifact(mlir.Module.parse("module {}"), stablehlo.get_minimum_version())
    stablehlo.deserialize_portable_artifact(ctx, empty)
    return ctx


def prepare() -> None:
    """Loads what reading needs; `read` does so where this was not called."""
    context()


def bytecode(source: str) -> bytes:
    """Returns the MLIR bytecode of a StableHLO module in generic text. Raises CompilerInputError if it is not one."""
    ctx = context()
    with ctx, mlir.Location.unknown():
        data = io.BytesIO()
        parse(ctx, source).operation.write_bytecode(data)
    return data.getvalue()


def read(module: bytes | str, every: bool = False, quantised: bool = False) -> b.ModuleOp:
    """Reads a StableHLO module as xDSL ops: a function `main`, and the functions that it calls as private ones.

    `every` keeps each public function under its own name, for inspecting passes rather than running a program; modules
    inside the module stay modules. With `quantised`, quantised types are kept. Raises CompilerInputError if the input
    is not StableHLO, StageFailure if it holds an op of another dialect.
    """
    ctx = context()
    with ctx, mlir.Location.unknown():
        parsed = legalised(parse(ctx, module), quantised)
        inner = [op.operation for op in parsed.body.operations if op.operation.name == "builtin.module"]
        if every and inner:
            return b.ModuleOp([Conversion(each).module(every) for each in inner])
        return Conversion(parsed.operation).module(every)


def rewritten(module: bytes | str, names: Sequence[str]) -> str:
    """Returns a module's text after passes of `outlined.py`. Raises CompilerInputError if it is not StableHLO."""
    ctx = context()
    with ctx, mlir.Location.unknown():
        return outlined.rewritten(parse(ctx, module), names)


def placed_results(source: str) -> tuple[str, on_mesh.Axes, list[str]] | None:
    """Name and mesh of a module that is split over several devices, and the types of its entry's results; None if
    nothing is split.

    Raises CompilerInputError if there is no one mesh.
    """
    ctx = context()
    with ctx, mlir.Location.unknown():
        module = parse(ctx, source)
        if not on_mesh.sharded(module):
            return None
        return on_mesh.name_of(module), on_mesh.mesh_of(module), on_mesh.entry_types(module)


def joined(local: bytes, name: str, mesh: on_mesh.Axes, placements: Sequence[Placement], wholes: Sequence[str]) -> str:
    """The text of each device's program, of this name, whose results are joined to tensors of these types."""
    ctx = context()
    with ctx, mlir.Location.unknown():
        module = parse(ctx, local)
        on_mesh.join_results(module, mesh, placements, [mlir.Type.parse(kind) for kind in wholes])
        if name:
            module.operation.attributes["sym_name"] = mlir.StringAttr.get(name)
        return str(module.operation.get_asm(enable_debug_info=False)) + "\n"


def portable(module: bytes | str) -> bytes:
    """Returns a module as a portable artifact of the oldest version that still has all its ops, or else as bytecode.

    Ops have their names and no places in sources. Ops of other dialects, such as chlo, have no portable form. Raises
    CompilerInputError if it is not StableHLO.
    """
    ctx = context()
    with ctx, mlir.Location.unknown():
        parsed = parse(ctx, module)
        parsed.operation.walk(_forget_place)
        # What has no portable form is no error here, and is not printed.
        silence: Any = ctx.attach_diagnostic_handler(lambda diagnostic: True)
        try:
            return stablehlo.serialize_portable_artifact(parsed, stablehlo.get_minimum_version())
        except (mlir.MLIRError, ValueError):
            data = io.BytesIO()
            parsed.operation.write_bytecode(data)
            return data.getvalue()
        finally:
            silence.detach()


def _forget_place(op: Any) -> mlir.WalkResult:
    loc = op.location
    op.location = mlir.Location.name(loc.name_str) if isinstance(loc, mlir.NameLoc) else mlir.Location.unknown()
    return mlir.WalkResult.ADVANCE


def parse(ctx: mlir.Context, module: bytes | str) -> mlir.Module:
    """Parses text, bytecode or a portable artifact. Raises CompilerInputError for anything else."""
    if not module:
        raise CompilerInputError("module: expected StableHLO, got nothing; try a .mlir or .mlirbc file")
    try:
        if isinstance(module, bytes) and module[:4] == b"ML\xefR" and b"StableHLO_v" in module[:64]:
            return stablehlo.deserialize_portable_artifact(ctx, module)
        return mlir.Module.parse(module)
    except (mlir.MLIRError, ValueError, UnicodeDecodeError) as error:
        raise CompilerInputError(
            f"module: expected StableHLO text, bytecode or portable artifact, got: {_first_line(error)}"
        ) from error


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("error:")]
    return (errors or lines or [type(error).__name__])[0].removeprefix("error:").strip()[:300]
