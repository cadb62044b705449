"""Convolutions by their names, with weights O, I, window and a number for each dim of the image."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from xdsl.ir import SSAValue

from opscope.compiler.ops.shapes import shape_of, window
from opscope.compiler.passes.stablehlo_to_ttir.dynamic_slice import cut
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit, named
from opscope.compiler.passes.stablehlo_to_ttir.named.known import maker

SPATIAL = {2: ("height", "width"), 3: ("depth", "height", "width")}


@dataclass(frozen=True)
class _Conv:
    """The attributes of one convolution; dims count in the operands and the result as StableHLO has them."""

    image: tuple[int, ...]
    """Batch, spatial dims, channels."""
    weight: tuple[int, ...]
    """Output channels, input channels, spatial dims."""
    result: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    base: tuple[int, ...]
    groups: int
    turned: tuple[int, ...]
    """Spatial dims along which the kernel is reversed."""


@named("stablehlo.convolution")
def convolution(e: Emit) -> SSAValue:
    """Emits conv1d, conv2d, conv3d or conv_transpose2d. Raises StageFailure for others."""
    c = _read(e)
    rank = len(c.stride)
    if rank > 3:
        raise e.refuse(f"expected at most 3 spatial dims, got {rank}")
    image, weight = (e.typecast(v, e.result_type.element_type) for v in e.operands)
    (batches,) = e.ints("batch_group_count", [1])
    if batches == 1:
        return _one(e, c, image, weight, e.result_shape)
    # Each group of the batch meets its own output channels.
    size, out = shape_of(image)[c.image[0]] // batches, shape_of(weight)[c.weight[0]] // batches
    images = [cut(e, image, c.image[0], at * size, size) for at in range(batches)]
    weights = [cut(e, weight, c.weight[0], at * out, out) for at in range(batches)]
    channel = c.result[-1]
    shape = tuple(out if d == channel else n for d, n in enumerate(e.result_shape))
    parts = [_one(e, c, *pair, shape) for pair in zip(images, weights, strict=True)]
    return e.emit("concat", parts, e.result_type, dim=channel)


def _read(e: Emit) -> _Conv:
    numbers = e.spec("dimension_numbers")
    spatial, kernel = (numbers.ints(f"{side}_spatial_dimensions") for side in ("input", "kernel"))
    rank = len(spatial)
    ones = [1] * rank
    turned = e.ints("window_reversal", [0] * rank)
    return _Conv(
        (numbers.int("input_batch_dimension"), *spatial, numbers.int("input_feature_dimension")),
        (numbers.int("kernel_output_feature_dimension"), numbers.int("kernel_input_feature_dimension"), *kernel),
        (
            numbers.int("output_batch_dimension"),
            *numbers.ints("output_spatial_dimensions"),
            numbers.int("output_feature_dimension"),
        ),
        e.ints("window_strides", ones),
        e.ints("padding", [0] * (2 * rank)),
        e.ints("rhs_dilation", ones),
        e.ints("lhs_dilation", ones),
        e.ints("feature_group_count", [1])[0],
        tuple(i for i in range(rank) if turned[i]),
    )


def _one(e: Emit, c: _Conv, image: SSAValue, weight: SSAValue, shape: tuple[int, ...]) -> SSAValue:
    transposed = any(step != 1 for step in c.base)
    if transposed:
        if len(c.stride) > 2:
            raise e.refuse("expected a transposed convolution of 1 or 2 dims, got another")
        if any(step != 1 for step in c.stride):
            return _every(e, c, image, weight, shape)
        if len(c.stride) == 1:
            return e.reshape(_transposed(e, *_widened(e, c, image, weight), (*shape, 1)), shape)
        return _transposed(e, c, image, weight, shape)
    if c.turned:
        weight = e.emit("reverse", [weight], weight.type, dimensions=sorted(c.weight[2 + i] for i in c.turned))
    if (line := _line(c, image, weight)) is not None:
        return _conv1d(e, c, image, weight, shape, line)
    rank = len(c.stride)
    names = ("batch", *SPATIAL[rank], "channel")
    straight = c.image == c.result
    if not straight:  # tt-mlir numbers image and result alike
        image = e.permute(image, list(c.image))
        place = list(range(rank + 2))
    else:
        place = list(c.image)
    made = shape if straight else tuple(shape[d] for d in c.result)
    padding, mode = (_one_edge(c.padding), "zeros") if rank == 3 else (c.padding, None)
    result = e.emit(
        f"conv{rank}d",
        [image, e.permute(weight, c.weight)],
        e.like(image, made),
        stride=c.stride,
        padding=padding,
        padding_mode=mode,
        dilation=c.dilation,
        groups=c.groups,
        **{f"{name}_dim": place[at] for at, name in enumerate(names)},
    )
    return result if straight else e.permute(result, [c.result.index(d) for d in range(rank + 2)])


def _one_edge(padding: tuple[int, ...]) -> tuple[int, ...]:
    """One number a dim where its two edges are equal in all dims, as tt-mlir's conv3d has it; else all edges."""
    low, high = padding[::2], padding[1::2]
    return low if low == high else padding


def _line(c: _Conv, image: SSAValue, weight: SSAValue) -> int | None:
    """Returns the only spatial dim, or the only one that is not 1 everywhere."""
    rank = len(c.stride)
    if rank == 1:
        return 0
    if rank != 2:
        return None
    flat = [
        shape_of(image)[c.image[1 + i]] == shape_of(weight)[c.weight[2 + i]] == c.stride[i] == c.dilation[i] == 1
        and c.padding[2 * i : 2 * i + 2] == (0, 0)
        for i in range(2)
    ]
    return flat.index(False) if sum(flat) == 1 else None


def _conv1d(e: Emit, c: _Conv, image: SSAValue, weight: SSAValue, shape: tuple[int, ...], line: int) -> SSAValue:
    moved = e.permute(image, c.image)
    n, channels = shape_of(moved)[0], shape_of(moved)[-1]
    moved = e.reshape(moved, [n, shape_of(moved)[1 + line], channels])
    kernel = e.permute(weight, c.weight)
    kernel = e.reshape(kernel, [*shape_of(kernel)[:2], shape_of(kernel)[2 + line]])
    wide = tuple(shape[d] for d in c.result)
    result = e.emit(
        "conv1d",
        [moved, kernel],
        e.like(image, (wide[0], wide[1 + line], wide[-1])),
        stride=c.stride[line],
        padding=c.padding[2 * line : 2 * line + 2],
        dilation=c.dilation[line],
        groups=c.groups,
        batch_dim=0,
        length_dim=1,
        channel_dim=2,
    )
    return e.permute(e.reshape(result, wide), [c.result.index(d) for d in range(len(shape))])


def _widened(e: Emit, c: _Conv, image: SSAValue, weight: SSAValue) -> tuple[_Conv, SSAValue, SSAValue]:
    """Returns a convolution of one dim as one of two, the second of size 1 and last."""
    image, weight = (e.reshape(v, [*shape_of(v), 1]) for v in (image, weight))
    wide = replace(
        c,
        image=(*c.image[:2], 3, c.image[2]),
        weight=(*c.weight, 3),
        result=(*c.result[:2], 3, c.result[2]),
        stride=(*c.stride, 1),
        padding=(*c.padding, 0, 0),
        dilation=(*c.dilation, 1),
        base=(*c.base, 1),
    )
    return wide, image, weight


def _transposed(e: Emit, c: _Conv, image: SSAValue, weight: SSAValue, shape: tuple[int, ...]) -> SSAValue:
    """An image with holes is a stride, and the kernel is turned around in each spatial dim."""
    weight = _turned(e, c, weight)
    o, i, h, w = (shape_of(weight)[d] for d in c.weight)
    kernel = e.permute(weight, [c.weight[1], c.weight[0], *c.weight[2:]])
    if c.groups > 1:
        kernel = e.reshape(kernel, [i, c.groups, o // c.groups, h, w])
        kernel = e.reshape(e.permute(kernel, [1, 0, 2, 3, 4]), [c.groups * i, o // c.groups, h, w])
    reach = [(size - 1) * hole for size, hole in zip((h, w), c.dilation, strict=True)]
    low = [reach[at] - c.padding[2 * at] for at in range(2)]
    high = [reach[at] - c.padding[2 * at + 1] for at in range(2)]
    extra = [max(0, -edge) for edge in high]
    straight = c.image == c.result
    image = image if straight else e.permute(image, c.image)
    place = c.image if straight else tuple(range(4))
    names = ("batch", *SPATIAL[2], "channel")
    result = e.emit(
        "conv_transpose2d",
        [image, kernel],
        e.like(image, shape if straight else tuple(shape[d] for d in c.result)),
        stride=c.base,
        padding=[low[0], high[0] + extra[0], low[1], high[1] + extra[1]],
        output_padding=extra,
        dilation=c.dilation,
        groups=c.groups,
        **{f"{name}_dim": place[at] for at, name in enumerate(names)},
    )
    return result if straight else e.permute(result, [c.result.index(d) for d in range(4)])


def _every(e: Emit, c: _Conv, image: SSAValue, weight: SSAValue, shape: tuple[int, ...]) -> SSAValue:
    """A transposed convolution knows no strides of its windows: of one without, every so manieth element."""
    whole, steps = list(shape), [1] * len(shape)
    for at, step in enumerate(c.stride):
        into, size = shape_of(image)[c.image[1 + at]], shape_of(weight)[c.weight[2 + at]]
        low, high = c.padding[2 * at : 2 * at + 2]
        whole[c.result[1 + at]] = window(into, size, 1, low, high, c.dilation[at], c.base[at])
        steps[c.result[1 + at]] = step
    made = _one(e, replace(c, stride=(1,) * len(c.stride)), image, weight, tuple(whole))
    return e.emit("slice_static", [made], e.like(made, shape), begins=[0] * len(shape), ends=whole, step=steps)


def _turned(e: Emit, c: _Conv, weight: SSAValue) -> SSAValue:
    """Reverses the kernel's spatial dims, unless the module has done so, which then is undone."""
    spatial = {d for at, d in enumerate(c.weight[2:]) if at not in c.turned}
    spatial = {d for d in spatial if shape_of(weight)[d] > 1}
    source = maker(e.op.operands[1], "stablehlo.reverse")
    if source is not None and weight is e.operands[1]:
        dimensions: Any = source.attributes["dimensions"]
        done = {int(d) for d in dimensions.get_values()}
        weight = e.values[source.operands[0]]
        spatial ^= {d for d in done if shape_of(weight)[d] > 1}
    return e.emit("reverse", [weight], weight.type, dimensions=sorted(spatial)) if spatial else weight
