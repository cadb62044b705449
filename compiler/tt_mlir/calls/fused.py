"""Ops that do what several do: softmax and norms."""

from __future__ import annotations

import math
from dataclasses import replace

from opscope.compiler.target.fused_params import NormParams, SoftmaxParams
from opscope.compiler.target.program import EltwiseParams, Params, PermuteParams, ReshapeParams
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


@emits("group_norm")
def group_norm(emit: Emit) -> None:
    """Of (N, 1, H W, C) by groups of channels: a layer norm of each group, then weights and bias of a channel."""
    attributes, (result,) = emit.attributes, emit.results
    sizes = tuple(attributes.get("operandSegmentSizes", (1,) * len(emit.inputs)))
    x, *vectors = emit.inputs
    emit.only(len(sizes) < 2 or not sizes[1], "expected no mask of groups, got one")
    emit.only(sizes[2:] in ((), (0, 0), (1, 0), (1, 1)), f"expected no bias without a weight, got {sizes}")
    (n, one, positions, channels), groups = emit.desc(x).shape, attributes["num_groups"]
    emit.only(
        one == 1 and channels % groups == 0, f"expected (N, 1, H W, C) in {groups} groups, got {emit.desc(x).shape}"
    )
    emit.attributes.skip("core_grid", "inplace")  # where it lies
    numerics, desc = emit.numerics(), emit.desc(x)

    def made(kernel: str, inputs: list[int], shape: tuple[int, ...], params: Params) -> int:
        tensor = emit.tensor(replace(desc, shape=shape))
        emit.call(kernel, inputs, [tensor], params, numerics)
        return tensor

    width = channels // groups
    cut = made("reshape", [x], (n, positions, groups, width), ReshapeParams((n, positions, groups, width)))
    turned = made("permute", [cut], (n, groups, positions, width), PermuteParams((0, 2, 1, 3)))
    rows = made(
        "reshape", [turned], (n, 1, groups, positions * width), ReshapeParams((n, 1, groups, positions * width))
    )
    normed = made("layer_norm", [rows], (n, 1, groups, positions * width), NormParams(attributes["epsilon"]))
    back = made("reshape", [normed], (n, groups, positions, width), ReshapeParams((n, groups, positions, width)))
    value = made("permute", [back], (n, positions, groups, width), PermuteParams((0, 2, 1, 3)))
    value = made("reshape", [value], desc.shape, ReshapeParams(desc.shape))
    for kernel, vector in zip(("multiply", "add"), vectors, strict=False):
        emit.only(math.prod(emit.desc(vector).shape) == channels, f"expected {channels} numbers of a channel each")
        row = emit.tensor(replace(emit.desc(vector), shape=(1, 1, 1, channels)))
        emit.call("reshape", [vector], [row], ReshapeParams((1, 1, 1, channels)))
        value = made(kernel, [value, row], desc.shape, EltwiseParams())
    emit.call("reshape", [value], [result], ReshapeParams(desc.shape))
