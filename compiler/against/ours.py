"""What this compiler makes of a single-op module, in the texts that are compared."""

from __future__ import annotations

from functools import cache
from typing import Any

from opscope.compiler import api
from opscope.compiler.against.one_op import Emission
from opscope.compiler.errors import CompilerInputError, StageFailure

FRONT = "stablehlo-to-ttir-pipeline{enable-aggressive-simplification=true}"
"""The pipeline whose TTIR is compared: tt-mlir's own names and forms, simplified as tt-xla asks for it."""


def emission(module: bytes | str, board: api.SystemDesc) -> Emission:
    """Returns TTIR in tt-mlir's forms, TTNN as it runs here, and where this compiler stops.

    TTIR alone may be missing: some ops have no form of tt-mlir's, and run here in one of this compiler's own.
    """
    from opscope.compiler.ir.text import to_text

    ttir, ttnn = "", ""
    try:
        running = api.stablehlo_to_ttir(module, system_desc=board)
        ttnn_module = api.ttir_to_ttnn(running, board, keep=False)
        ttnn = to_text(ttnn_module, generic=False)
        api.ttnn_to_flatbuffer(ttnn_module, board)
        stage, reason = "", ""
    except StageFailure as failure:
        stage, reason = failure.stage, f"{failure.op}: {failure.message}"
    except CompilerInputError as error:
        stage, reason = api.STAGES[0], str(error)
    try:
        ttir = to_text(_in_their_forms(module), generic=False)
    except (StageFailure, CompilerInputError):
        ttir = ""
    return Emission(ttir, ttnn, stage, reason)


def _in_their_forms(module: bytes | str) -> Any:
    from opscope.compiler.ir import guard
    from opscope.compiler.pipelines.pipeline import run

    parsed = guard.read(module)
    run(_front(), parsed)
    return parsed


@cache
def _front() -> tuple[Any, ...]:
    from opscope.compiler.pipelines.pipeline import parse

    return parse(FRONT)
