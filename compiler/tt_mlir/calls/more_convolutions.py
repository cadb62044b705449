"""Convolutions that tt-metal has besides the one over images: transposed, over lines and over volumes."""

from __future__ import annotations

import math
from dataclasses import replace

from opscope.compiler.target.numerics import ALL_BITS
from opscope.compiler.target.program import Conv2dParams, Conv3dParams, PadParams, PermuteParams, ReverseParams
from opscope.compiler.tt_mlir.calls.call import Emit, emits
from opscope.compiler.tt_mlir.calls.products import conv_activation, of_products

_CONFIG_3D = frozenset(
    {
        "weights_dtype",
        "t_out_block",
        "w_out_block",
        "h_out_block",
        "c_out_block",
        "c_in_block",
        "compute_with_storage_grid_size",
    }
)
"""Fields of a configuration of conv3d; only `c_in_block` says in which order the weights are."""


def _on_device(emit: Emit, weight: int, shape: tuple[int, ...], permutation: tuple[int, ...]) -> int:
    """Weights in another order and in tiles, as a convolution takes them."""
    made = emit.tensor(replace(emit.desc(weight), shape=shape, layout="tile", buffer_type="dram"))
    emit.call("prepare_conv2d_weights", [weight], [made], PermuteParams(permutation))
    return made


@emits("conv_transpose2d")
def conv_transpose2d(emit: Emit) -> None:
    """The transpose of a convolution: one of the input with gaps, by weights (I, O, KH, KW) turned by half a circle."""
    attributes, (result,) = emit.attributes, emit.results
    x, weight, *bias = emit.inputs
    n, h, w, into, out = (
        attributes[name] for name in ("batch_size", "input_height", "input_width", "in_channels", "out_channels")
    )
    window, stride, dilation, more = (
        attributes["kernel_size"],
        attributes["stride"],
        attributes["dilation"],
        attributes["output_padding"],
    )
    sides = attributes["padding"]
    top, left, bottom, right = sides if len(sides) == 4 else (*sides, *sides)
    emit.only(attributes["groups"] == 1, f"expected one group, got {attributes['groups']}")
    expected = (into, out, *window)
    emit.only(emit.desc(weight).shape == expected, f"expected weights {expected}, got {emit.desc(weight).shape}")
    numerics, named = emit.numerics(ALL_BITS), conv_activation(emit)
    reach = [d * (k - 1) for d, k in zip(dilation, window, strict=True)]
    padding = (reach[0] - top, reach[0] - bottom + more[0], reach[1] - left, reach[1] - right + more[1])
    rows = (h - 1) * stride[0] - top - bottom + reach[0] + more[0] + 1
    columns = (w - 1) * stride[1] - left - right + reach[1] + more[1] + 1
    shape = (1, 1, n * rows * columns, out)
    emit.only(emit.desc(result).shape == shape, f"expected a result of {shape}, got {emit.desc(result).shape}")
    turned = emit.tensor(emit.desc(weight))
    emit.call("reverse", [weight], [turned], ReverseParams((2, 3)))
    made = _on_device(emit, turned, (*window, into, out), (2, 3, 0, 1))
    image = emit.view(x, (n, h, w, into))
    target = emit.tensor(replace(emit.desc(result), shape=(n, rows, columns, out)))
    params = Conv2dParams((1, 1), padding, dilation, input_dilation=stride, activation=named)
    emit.call("conv2d", [image, made, *bias], [target], params, numerics)
    emit.onto(target, result)


@emits("conv1d")
def conv1d(emit: Emit) -> None:
    """Input (N, length, C), weights (O, I, K): a convolution of images one column wide."""
    attributes, (result,) = emit.attributes, emit.results
    x, weight, *bias = emit.inputs
    n, length, into, out = (attributes[name] for name in ("batch_size", "input_length", "in_channels", "out_channels"))
    size, stride, dilation, groups = (attributes[name] for name in ("kernel_size", "stride", "dilation", "groups"))
    low, high = attributes["padding"]
    numerics, named = emit.numerics(ALL_BITS), conv_activation(emit)
    expected = (out, into // groups, size)
    emit.only(emit.desc(weight).shape == expected, f"expected weights {expected}, got {emit.desc(weight).shape}")
    count = (length + low + high - (dilation * (size - 1) + 1)) // stride + 1
    shape = emit.desc(result).shape
    emit.only(
        math.prod(shape) == n * count * out and shape[-1] == out, f"expected {n * count} rows of {out}, got {shape}"
    )
    taps = _on_device(emit, weight, (size, into // groups, out), (2, 1, 0))
    made = emit.view(taps, (size, 1, into // groups, out))
    image = emit.view(x, (n, length, 1, into))
    target = emit.tensor(replace(emit.desc(result), shape=(n, count, 1, out)))
    params = Conv2dParams((stride, 1), (low, high, 0, 0), (dilation, 1), groups=groups, activation=named)
    emit.call("conv2d", [image, made, *bias], [target], params, numerics)
    emit.onto(target, result)


@emits("prepare_conv3d_weights")
def prepare_conv3d_weights(emit: Emit) -> None:
    """Weights (O, I, D, H, W) as rows (blocks of I, D, H, W, I within a block), I filled up with zeros."""
    attributes, (weight, *_), (result,) = emit.attributes, emit.inputs, emit.results
    out, into, *window = emit.desc(weight).shape
    block, alignment = attributes["c_in_block"], attributes["alignment"]
    emit.only(attributes["groups"] == 1, f"expected one group, got {attributes['groups']}")
    channels = -(-into // alignment) * alignment
    block = block or channels
    blocks = channels // block
    rows = (blocks * math.prod(window) * block, out)
    emit.only(
        channels % block == 0 and emit.desc(result).shape == rows, f"expected {rows}, got {emit.desc(result).shape}"
    )
    host = emit.desc(weight)
    filled = weight
    if channels > into:
        filled = emit.tensor(replace(host, shape=(out, channels, *window)))
        none = (0,) * 5
        emit.call("pad", [weight], [filled], PadParams(none, (0, channels - into, 0, 0, 0), none))
    cut = emit.view(filled, (out, blocks, block, *window))
    made = emit.tensor(replace(emit.desc(result), shape=(blocks, *window, block, out)))
    emit.call("prepare_conv3d_weights", [cut], [made], PermuteParams((1, 3, 4, 5, 2, 0)))
    emit.onto(made, result)


@emits("conv3d")
def conv3d(emit: Emit) -> None:
    """Input (N, D, H, W, C), weights as `prepare_conv3d_weights` makes them."""
    attributes, (result,) = emit.attributes, emit.results
    x, weight, *bias = emit.inputs
    n, into, out = attributes["batch_size"], attributes["in_channels"], attributes["out_channels"]
    size = tuple(attributes[name] for name in ("input_depth", "input_height", "input_width"))
    window, stride, dilation = attributes["kernel_size"], attributes["stride"], attributes["dilation"]
    config = attributes.get("conv3d_config") or {}
    emit.only(set(config) <= _CONFIG_3D, f"expected a configuration that is known, got {sorted(config)}")
    emit.only(attributes["groups"] == 1, f"expected one group, got {attributes['groups']}")
    mode = attributes.get("padding_mode", "zeros")
    emit.only(mode == "zeros", f"expected padding of zeros, got {mode}")
    emit.only(emit.desc(x).shape == (n, *size, into), f"expected input {(n, *size, into)}, got {emit.desc(x).shape}")
    block = int(config.get("c_in_block", 0)) or into
    rows = (into * math.prod(window), out)
    emit.only(
        emit.desc(weight).shape == rows and into % block == 0,
        f"expected prepared weights {rows}, got {emit.desc(weight).shape}",
    )
    cut = emit.view(weight, (into // block, *window, block, out))
    ordered = emit.tensor(replace(emit.desc(weight), shape=(*window, into // block, block, out)))
    emit.call("permute", [cut], [ordered], PermuteParams((1, 2, 3, 0, 4, 5)))
    made = emit.view(ordered, (*window, into, out))
    padding = tuple(side for side in attributes["padding"] for _ in range(2))
    params = Conv3dParams(stride, padding, dilation)
    emit.call("conv3d", [x, made, *bias], [result], params, of_products(emit))
