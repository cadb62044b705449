"""Window reductions over at most two dims, brought to NHWC pooling."""

from __future__ import annotations

from math import prod
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from compiler.ops.shapes import shape_of
from compiler.passes.stablehlo_to_ttir.body import is_identity, recognise
from compiler.passes.stablehlo_to_ttir.emit import Emit, lowers

POOLS = {"max": "max_pool2d", "min": "min_pool2d", "sum": "sum_pool2d"}


@lowers("stablehlo.reduce_window")
def reduce_window(e: Emit) -> SSAValue:
    """Window dims become H and W, the last other dim C, all others N."""
    fold = recognise(e)
    value, start = e.operands
    element: Any = e.result_type.element_type
    if fold.kernel not in POOLS:
        raise e.refuse(f"expected max, min or sum, got {fold.kernel} of {element}")
    shape = shape_of(value)
    rank = len(shape)
    window = e.ints("window_dimensions")
    stride = e.ints("window_strides", [1] * rank)
    dilation = e.ints("window_dilations", [1] * rank)
    if any(n != 1 for n in e.ints("base_dilations", [1] * rank)):
        raise e.refuse("base_dilations: expected ones, got holes between elements")
    flat = e.ints("padding", [0] * (2 * rank))
    padding = [(flat[2 * i], flat[2 * i + 1]) for i in range(rank)]
    identity = is_identity(fold, start, element)
    if fold.kernel == "sum" and not identity:
        raise e.refuse(
            "expected start value 0 of a window sum, got another, which would be added once per padded place"
        )
    moving = [i for i in range(rank) if window[i] != 1 or stride[i] != 1 or padding[i] != (0, 0)]
    if len(moving) > 2:
        raise e.refuse(f"expected a window over at most 2 dims, got {len(moving)}")
    others = [i for i in range(rank) if i not in moving]
    outer, channel = others[:-1], others[-1:]
    order = [*outer, *moving, *channel]
    extra = [1] * (2 - len(moving))

    def numbers(per_dim: tuple[int, ...]) -> list[int]:
        return [*extra, *(per_dim[i] for i in moving)]

    out = [e.result_shape[i] for i in moving]
    n, c = prod(shape[i] for i in outer), prod(shape[i] for i in channel)
    value = e.permute(value, order)
    value = e.reshape(value, [n, *extra, *(shape[i] for i in moving), c])
    value = e.emit(
        POOLS[fold.kernel],
        [value],
        TensorType(element, [n, *extra, *out, c]),
        kernel=numbers(window),
        stride=numbers(stride),
        dilation=numbers(dilation),
        padding=[*[0] * (2 * len(extra)), *(edge for i in moving for edge in padding[i])],
    )
    value = e.reshape(value, [e.result_shape[i] for i in order])
    value = e.permute(value, [order.index(i) for i in range(rank)])
    return value if identity else e.emit(fold.combine, [value, start], e.result_type)
