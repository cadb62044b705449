"""Ops that do what several do: softmax and norms."""

from __future__ import annotations

from opscope.compiler.target.fused_params import NormParams, SoftmaxParams
from opscope.compiler.tt_mlir.calls.call import Emit, emits


@emits("softmax")
def softmax(emit: Emit) -> None:
    """Exponentials over their sum."""
    rank = len(emit.desc(emit.inputs[0]).shape)
    params = SoftmaxParams(emit.attributes["dimension"] % rank, emit.attributes.get("numericStable", False))
    emit.call("softmax", emit.inputs, emit.results, params, emit.numerics())


@emits("rms_norm", "layer_norm")
def norm(emit: Emit) -> None:
    """Along the last dim, with weight and bias where there are any."""
    sizes = emit.attributes.get("operandSegmentSizes", (1,) * len(emit.inputs))
    padded = tuple(sizes) + (0,) * (3 - len(sizes))
    emit.only(padded in ((1, 0, 0), (1, 1, 0), (1, 1, 1)), f"expected no bias without a weight, got {sizes}")
    kernel = emit.name.removeprefix("ttnn.")
    emit.call(kernel, emit.inputs, emit.results, NormParams(emit.attributes["epsilon"]), emit.numerics())
