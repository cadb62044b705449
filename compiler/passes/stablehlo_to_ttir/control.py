"""Control flow: every region a function, called by one op that says which."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit, lowers
from opscope.compiler.passes.stablehlo_to_ttir.regions import captured, elementwise


def _call(e: Emit, name: str, operands: Sequence[SSAValue]) -> list[SSAValue]:
    """One op `name` whose programs are the op's regions; what they read from outside comes last."""
    assert e.functions is not None
    outside = captured(e.op.regions)
    programs = [e.functions.program(e, region, outside) for region in e.op.regions]
    return e.emit_all(name, [*operands, *(e.values[v] for v in outside)], e.result_types, programs=programs)


@lowers("stablehlo.if")
def if_(e: Emit) -> list[SSAValue]:
    """The predicate, then what the branches read."""
    return _call(e, "if", e.operands)


@lowers("stablehlo.case")
def case(e: Emit) -> list[SSAValue]:
    """The index, then what the branches read; outside of [0, branches) the last branch runs."""
    return _call(e, "case", e.operands)


@lowers("stablehlo.while")
def while_(e: Emit) -> list[SSAValue]:
    """The values that go round, then what condition and body read besides."""
    return _call(e, "while", e.operands)


@lowers("stablehlo.map")
def map_(e: Emit) -> list[SSAValue]:
    """The body's ops on whole tensors: it is elementwise by definition."""
    return elementwise(e, e.op.regions[0], e.operands)


@lowers("stablehlo.composite")
def composite(e: Emit) -> list[SSAValue]:
    """None is left where this pass is run as `opscope compile` runs it."""
    raise e.refuse("expected no composite here, got one; try legalize-stablehlo-composite-to-ttir before", "error")
