"""Batch normalisation by its name."""

from __future__ import annotations

from xdsl.ir import SSAValue

from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.passes.stablehlo_to_ttir.batch_norm import attributes
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit, named


@named("stablehlo.batch_norm_inference")
def batch_norm_inference(e: Emit) -> SSAValue:
    """Keeps the operands' order."""
    feature, epsilon = attributes(e)
    return e.emit("batch_norm_inference", e.operands, e.result_type, dimension=feature, epsilon=epsilon)


@named("stablehlo.batch_norm_training")
def batch_norm_training(e: Emit) -> list[SSAValue]:
    """Running values that start at 0 and 1 and are replaced at once, by a momentum of 1, are those of the batch."""
    feature, epsilon = attributes(e)
    value, scale, offset = e.operands
    shape = shape_of(scale)
    running = [e.emit(name, [], scale.type, shape=shape) for name in ("zeros", "ones")]
    return e.emit_all(
        "batch_norm_training",
        [value, scale, offset, *running],
        e.result_types,
        dimension=feature,
        epsilon=epsilon,
        momentum=1.0,
    )
