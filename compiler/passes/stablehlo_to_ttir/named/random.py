"""Random numbers by their name."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerType, TensorType, f32
from xdsl.ir import SSAValue

from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit, named
from opscope.compiler.passes.stablehlo_to_ttir.named.known import splat


@named("stablehlo.rng")
def rng(e: Emit) -> SSAValue | None:
    """A uniform distribution between known numbers."""
    low, high = splat(e.op.operands[0]), splat(e.op.operands[1])
    element = e.result_type.element_type
    if low is None or high is None or isinstance(element, IntegerType):
        return None
    if e.spec("rng_distribution").value != "UNIFORM":
        return None
    return e.emit("rand", [], e.result_type, size=e.result_shape, low=low, high=high, seed=0)


@named("stablehlo.rng_bit_generator")
def rng_bit_generator(e: Emit) -> list[SSAValue] | None:
    """tt-mlir draws floats over the range of the integers, and hands the state on."""
    state, _ = e.op.results
    element = e.result_types[1].element_type
    if not isinstance(element, IntegerType) or e.operands[0].type != state.type:
        return None
    shape = e.result_types[1].get_shape()
    drawn = TensorType(f32, shape)
    high = float(2**element.width.data)
    made = e.emit("rand", [], drawn, size=shape, low=0.0, high=high, seed=0)
    return [e.operands[0], e.typecast(made, element)]
