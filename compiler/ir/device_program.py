"""tt-mlir's `stablehlo-pipeline`: what each device of a mesh runs, with what its results are parts of."""

from __future__ import annotations

import math
import re

from opscope.base.mesh import partition
from opscope.base.mesh.placement import placement
from opscope.compiler.errors import CompilerInputError, StageFailure
from opscope.compiler.ir import guard

NAME = "stablehlo-pipeline"
STAGE = "stablehlo-to-ttir"
MANUAL = b"manual_computation"
"""What the bytes of a module hold, text or bytecode, if it has one."""


def device_program(source: bytes) -> bytes:
    """The program of one device as StableHLO text; a module without shardings is returned as it is.

    Manual computations over all of their mesh are inlined, anything else is split by XLA's partitioner. Raises
    StageFailure if that refuses it, CompilerInputError for a module that cannot be read or has no one mesh.
    """
    from opscope.compiler.ir import door

    text = guard.rewritten(source, [NAME])
    placed = door.placed_results(text)
    if placed is None:
        return text.encode() if "sdy." in text else source
    name, mesh, wholes = placed
    devices = math.prod(size for _, size in mesh)
    try:
        local = partition.partitioned(text, devices)
        shapes = [[int(n) for n in re.findall(r"(\d+)x", kind)] for kind in wholes]
        results = list(local.results) or ["{replicated}"] * len(wholes)
        places = [placement(result, shape, devices) for result, shape in zip(results, shapes, strict=True)]
    except (partition.WrongInput, ValueError) as error:
        raise CompilerInputError(str(error)) from None
    except partition.NotPartitioned as error:
        raise StageFailure(STAGE, "module", str(error)[:300], kind="notimpl", diagnostic=str(error)) from error
    return door.joined(local.bytecode, name, mesh, places, wholes).encode()
