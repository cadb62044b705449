"""Window reductions: NHWC pooling if they are over at most two dims, otherwise a kernel that applies their body."""

from __future__ import annotations

from math import prod
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.passes.stablehlo_to_ttir.body import is_identity, recognise
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit, lowers
from opscope.compiler.passes.stablehlo_to_ttir.regions import lowered, read_around

POOLS = {"max": "max_pool2d", "min": "min_pool2d", "sum": "sum_pool2d"}


@lowers("stablehlo.reduce_window")
def reduce_window(e: Emit) -> SSAValue | list[SSAValue]:
    """Emits pooling if the device has it, else a kernel that applies the body to every window."""
    return _pool(e) or _by_body(e)


def _by_body(e: Emit) -> list[SSAValue]:
    assert e.functions is not None
    rank = len(shape_of(e.operands[0]))
    outside = read_around(e, e.op.regions)
    return e.emit_all(
        "reduce_window_body",
        [*e.operands, *lowered(e, outside)],
        e.result_types,
        window=e.ints("window_dimensions"),
        stride=e.ints("window_strides", [1] * rank),
        padding=e.ints("padding", [0] * (2 * rank)),
        dilation=e.ints("window_dilations", [1] * rank),
        base_dilation=e.ints("base_dilations", [1] * rank),
        programs=[e.functions.scalar(e, e.op.regions[0], outside)],
    )


def _pool(e: Emit) -> SSAValue | None:
    """Maps window dims to H and W, the last other dim to C and the rest to N; None if the op is not such a pooling."""
    element: Any = e.result_type.element_type
    fold = recognise(e.op.regions[0], element) if len(e.operands) == 2 else None
    value, start = e.operands[0], e.operands[-1]
    if fold is None or fold.kernel not in POOLS:
        return None
    shape = shape_of(value)
    rank = len(shape)
    window = e.ints("window_dimensions")
    stride = e.ints("window_strides", [1] * rank)
    dilation = e.ints("window_dilations", [1] * rank)
    flat = e.ints("padding", [0] * (2 * rank))
    padding = [(flat[2 * i], flat[2 * i + 1]) for i in range(rank)]
    identity = is_identity(fold, start, element)
    holes = any(n != 1 for n in e.ints("base_dilations", [1] * rank))
    # A window sum would add a start value other than 0 once per padded place.
    if holes or (fold.kernel == "sum" and not identity):
        return None
    moving = [i for i in range(rank) if window[i] != 1 or stride[i] != 1 or padding[i] != (0, 0)]
    if len(moving) > 2:
        return None
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
        ceil_mode=False,
    )
    value = e.reshape(value, [e.result_shape[i] for i in order])
    value = e.permute(value, [order.index(i) for i in range(rank)])
    return value if identity else e.emit(fold.combine, [value, start], e.result_type)
