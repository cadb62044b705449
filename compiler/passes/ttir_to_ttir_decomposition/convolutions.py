"""tt-mlir's convolutions: dims anywhere and weights O, I, window, as NHWC images and weights window, I, O."""

from __future__ import annotations

from typing import Any

from xdsl.ir import SSAValue

from opscope.compiler.ops.shapes import shape_of, window
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit
from opscope.compiler.passes.ttir_to_ttir_decomposition.patterns import decomposes

SPATIAL = {"conv1d": ("length",), "conv2d": ("height", "width"), "conv3d": ("depth", "height", "width")}


def _order(attrs: dict[str, Any], spatial: tuple[str, ...]) -> list[int]:
    """Where batch, spatial dims and channels lie; channels last if nothing is said."""
    names = ("batch", *spatial, "channel")
    return [attrs.get(f"{name}_dim", place) for place, name in enumerate(names)]


def _back(e: Emit, value: SSAValue, order: list[int]) -> SSAValue:
    return e.permute(value, [order.index(i) for i in range(len(order))])


@decomposes("conv2d", "conv3d")
def convolution(e: Emit, attrs: dict[str, Any]) -> SSAValue | None:
    """Moves image, weight and result; the form of this compiler has no `channel_dim`."""
    if "channel_dim" not in attrs:
        return None
    name = e.op.name.removeprefix("ttir.")
    order = _order(attrs, SPATIAL[name])
    image, weight, *bias = e.operands
    rank = len(order)
    weight = e.permute(weight, [*range(2, rank), 1, 0])
    moved = e.permute(image, order)
    shape = [e.result_shape[i] for i in order]
    bias = [e.reshape(each, [1] * (rank - 1) + [shape[-1]]) for each in bias]
    if (mode := attrs.get("padding_mode", "zeros")) != "zeros":
        raise e.refuse(f"expected a padding of zeros, got {mode}")
    kept = {key: value for key, value in attrs.items() if not key.endswith("_dim") and key != "padding_mode"}
    kept["padding"] = _edges(kept["padding"], rank - 2)
    return _back(e, e.emit(name, [moved, weight, *bias], e.like(image, tuple(shape)), **kept), order)


def _edges(padding: tuple[int, ...], dims: int) -> tuple[int, ...]:
    """One number a dim stands for both edges."""
    return padding if len(padding) == 2 * dims else tuple(edge for each in padding for edge in (each, each))


@decomposes("conv1d")
def conv1d(e: Emit, attrs: dict[str, Any]) -> SSAValue:
    """A conv2d of height 1."""
    image, weight, *bias = e.operands
    order = _order(attrs, SPATIAL["conv1d"])
    moved = e.permute(image, order)
    n, length, c = shape_of(moved)
    o, i, w = shape_of(weight)
    low, high = attrs["padding"] if len(attrs["padding"]) == 2 else (attrs["padding"][0],) * 2
    shape = [e.result_shape[d] for d in order]
    result = e.emit(
        "conv2d",
        [
            e.reshape(moved, [n, 1, length, c]),
            e.permute(e.reshape(weight, [o, i, 1, w]), [2, 3, 1, 0]),
            *(e.reshape(each, [1, 1, 1, o]) for each in bias),
        ],
        e.like(image, (shape[0], 1, shape[1], shape[2])),
        stride=(1, attrs["stride"]),
        padding=(0, 0, low, high),
        dilation=(1, attrs["dilation"]),
        groups=attrs["groups"],
    )
    return _back(e, e.reshape(result, shape), order)


@decomposes("conv_transpose2d")
def conv_transpose2d(e: Emit, attrs: dict[str, Any]) -> SSAValue:
    """A conv2d of the image with holes, by the kernel turned around; its weight is I, O, window."""
    image, weight, *bias = e.operands
    order = _order(attrs, SPATIAL["conv2d"])
    groups = attrs["groups"]
    moved = e.permute(image, order)
    turned = e.emit("reverse", [weight], weight.type, dimensions=[2, 3])
    i, o, h, w = shape_of(weight)
    if groups > 1:  # [G, I/G, O/G] -> I/G, G O/G
        turned = e.reshape(turned, [groups, i // groups, o, h, w])
        turned = e.reshape(e.permute(turned, [3, 4, 1, 0, 2]), [h, w, i // groups, groups * o])
    else:
        turned = e.permute(turned, [2, 3, 0, 1])
    top, bottom, left, right = attrs["padding"]
    extra, steps, holes = attrs["output_padding"], attrs["stride"], attrs["dilation"]
    reach = [(size - 1) * hole for size, hole in zip((h, w), holes, strict=True)]
    padding = (reach[0] - top, reach[0] - bottom + extra[0], reach[1] - left, reach[1] - right + extra[1])
    shape = [e.result_shape[d] for d in order]
    sizes = [
        window(n, k, 1, padding[2 * at], padding[2 * at + 1], hole, step)
        for at, (n, k, hole, step) in enumerate(zip(shape_of(moved)[1:3], (h, w), holes, steps, strict=True))
    ]
    if sizes != shape[1:3]:
        raise e.refuse(f"expected a result of {sizes[0]} x {sizes[1]}, got {shape[1]} x {shape[2]}", "error")
    result = e.emit(
        "conv2d",
        [moved, turned, *(e.reshape(each, [1, 1, 1, shape[-1]]) for each in bias)],
        e.like(image, tuple(shape)),
        stride=(1, 1),
        padding=padding,
        dilation=holes,
        input_dilation=steps if any(step != 1 for step in steps) else None,
        groups=groups,
    )
    return _back(e, result, order)
