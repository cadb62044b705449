"""Control flow: each region becomes a function, and one op calls them."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit, lowers
from opscope.compiler.passes.stablehlo_to_ttir.regions import captured, elementwise


def _call(e: Emit, name: str, operands: Sequence[SSAValue]) -> list[SSAValue]:
    """Emits the op `name`, whose programs are the op's regions; its last operands are what they read from outside."""
    assert e.functions is not None
    outside = captured(e.op.regions)
    programs = [e.functions.program(e, region, outside) for region in e.op.regions]
    return e.emit_all(name, [*operands, *(e.values[v] for v in outside)], e.result_types, programs=programs)


@lowers("stablehlo.if")
def if_(e: Emit) -> list[SSAValue]:
    """Emits an `if`; its operands are the predicate, then what the branches read."""
    return _call(e, "if", e.operands)


@lowers("stablehlo.case")
def case(e: Emit) -> list[SSAValue]:
    """Emits a `case`; its operands are the index, then what the branches read. Other indices run the last branch."""
    return _call(e, "case", e.operands)


@lowers("stablehlo.while")
def while_(e: Emit) -> list[SSAValue]:
    """Emits a `while`; its operands are the loop values, then what condition and body read from outside."""
    return _call(e, "while", e.operands)


@lowers("stablehlo.map")
def map_(e: Emit) -> list[SSAValue]:
    """Applies the body's ops to whole tensors, since it is elementwise by definition."""
    return elementwise(e, e.op.regions[0], e.operands)


@lowers("stablehlo.composite")
def composite(e: Emit) -> list[SSAValue]:
    """Refuses a composite; none is left if this pass runs as in `opscope compile`."""
    raise e.refuse("expected no composite here, got one; try legalize-stablehlo-composite-to-ttir before", "error")
