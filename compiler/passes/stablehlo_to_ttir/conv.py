"""Convolutions in any dim order, permuted to NHWC x HWIO -> NHWC, or NDHWC x DHWIO -> NDHWC."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit, lowers


@lowers("stablehlo.convolution")
def convolution(e: Emit) -> SSAValue:
    """Lowers up to 3 spatial dims. Missing dims are added with size 1, a reversed kernel is reversed first."""
    numbers = e.spec("dimension_numbers")
    element: Any = e.result_type.element_type
    spatial = numbers.ints("input_spatial_dimensions")
    rank = len(spatial)
    if rank > 3:
        raise e.refuse(f"expected at most 3 spatial dims, got {rank}: there are kernels for 2 and 3")
    extra = max(2 - rank, 0)
    left, right = (e.typecast(v, element) for v in e.operands)
    kernel_spatial = numbers.ints("kernel_spatial_dimensions")
    if any(reversal := e.ints("window_reversal", [0] * rank)):
        dims = [kernel_spatial[i] for i in range(rank) if reversal[i]]
        right = e.emit("reverse", [right], right.type, dimensions=dims)
    image = e.permute(left, [numbers.int("input_batch_dimension"), *spatial, numbers.int("input_feature_dimension")])
    weight = e.permute(
        right,
        [
            *kernel_spatial,
            numbers.int("kernel_input_feature_dimension"),
            numbers.int("kernel_output_feature_dimension"),
        ],
    )
    n, *size, c = shape_of(image)
    *window, i, o = shape_of(weight)
    image = e.reshape(image, [n, *[1] * extra, *size, c])
    weight = e.reshape(weight, [*[1] * extra, *window, i, o])
    padding = e.ints("padding", [0] * (2 * rank))
    strides = e.ints("window_strides", [1] * rank)
    dilation = e.ints("rhs_dilation", [1] * rank)
    base = e.ints("lhs_dilation", [1] * rank)
    (batch_groups,) = e.ints("batch_group_count", [1])
    out_spatial = numbers.ints("output_spatial_dimensions")
    sizes = [e.result_shape[d] for d in out_spatial]
    batch_dim, feature_dim = numbers.int("output_batch_dimension"), numbers.int("output_feature_dimension")
    result = e.emit(
        "conv3d" if rank == 3 else "conv2d",
        [image, weight],
        TensorType(element, [e.result_shape[batch_dim], *[1] * extra, *sizes, e.result_shape[feature_dim]]),
        stride=[1] * extra + list(strides),
        padding=[0] * (2 * extra) + list(padding),
        dilation=[1] * extra + list(dilation),
        input_dilation=[1] * extra + list(base) if any(step != 1 for step in base) else None,
        groups=e.ints("feature_group_count", [1])[0],
        batch_groups=batch_groups if batch_groups > 1 else None,
    )
    result = e.reshape(result, [e.result_shape[batch_dim], *sizes, e.result_shape[feature_dim]])
    order = [batch_dim, *out_spatial, feature_dim]
    return e.permute(result, [order.index(d) for d in range(len(order))])
