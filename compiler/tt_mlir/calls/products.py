"""Ops of the matrix unit: products and convolutions."""

from __future__ import annotations

from dataclasses import replace

from opscope.compiler.target.numerics import ALL_BITS, product_fidelity
from opscope.compiler.target.program import Conv2dParams, MatmulParams, Numerics, PermuteParams
from opscope.compiler.tt_mlir.calls.call import Emit, activation, emits
from opscope.compiler.tt_mlir.values import fields

_PROGRAM = frozenset(
    {
        "compute_with_storage_grid_size",
        "in0_block_w",
        "out_subblock_h",
        "out_subblock_w",
        "out_block_h",
        "out_block_w",
        "per_core_m",
        "per_core_n",
        "fuse_batch",
        "mcast_in0",
        "gather_in0",
        "hop_cores",
        "num_global_cb_receivers",
        "untilize_out",
        "transpose_mcast",
        "fused_activation",
    }
)
_CONV_CONFIG = frozenset(
    {
        "weights_dtype",
        "activation",
        "deallocate_activation",
        "reallocate_halo_output",
        "act_block_h_override",
        "act_block_w_div",
        "reshard_if_not_optimal",
        "override_sharding_config",
        "shard_layout",
        "core_grid",
        "transpose_shards",
        "output_layout",
        "enable_act_double_buffer",
        "enable_weights_double_buffer",
        "enable_kernel_stride_folding",
        "config_tensors_in_dram",
        "in_place",
    }
)
"""Fields of a convolution's configuration: all but the first two say where and how fast, not what."""


def of_products(emit: Emit) -> Numerics:
    """How a product computes; without a configuration as ttnn chooses by its operands' format."""
    return emit.numerics(product_fidelity([emit.desc(operand).data_format for operand in emit.inputs[:2]]))


@emits("matmul", "linear")
def matmul(emit: Emit) -> None:
    """Batched product of the last two dims; `linear` adds a bias, if it has one."""
    attributes = emit.attributes
    numerics, named = of_products(emit), attributes.get("activation", "")
    program = attributes.get("matmul_program_config")
    if program is not None:
        emit.only(set(program) <= _PROGRAM, f"expected a program configuration that is known, got {sorted(program)}")
        fused = program.get("fused_activation", "none")
        if fused not in ("none", ""):
            kernel = activation(fields(fused))
            emit.only(kernel is not None and named in ("", kernel), f"expected one activation, got {fused} and {named}")
            named = kernel or ""
        width = numerics.dst_format
        numerics = replace(numerics, k_block=int(program["in0_block_w"]), intermediate=width)
    kernel = "linear" if len(emit.inputs) > 2 else "matmul"
    params = MatmulParams(attributes["transpose_a"], attributes["transpose_b"], named)
    emit.call(kernel, emit.inputs, emit.results, params, numerics)


def conv_activation(emit: Emit) -> str:
    """The activation of a convolution's configuration; its other fields say where and how fast."""
    config = emit.attributes.get("conv2d_config") or {}
    emit.only(set(config) <= _CONV_CONFIG, f"expected a configuration that is known, got {sorted(config)}")
    emit.attributes.skip("conv2d_slice_config")  # in how many parts
    function = config.get("activation", "")
    if not function:
        return ""
    kernel = activation(fields(function))
    emit.only(kernel is not None, f"expected an activation that a kernel has, got {function}")
    return kernel or ""


def padded_sides(padding: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Top, bottom, left, right of two or four numbers."""
    if len(padding) == 2:
        return padding[0], padding[0], padding[1], padding[1]
    top, bottom, left, right = padding
    return top, bottom, left, right


_OF_THE_CONVOLUTION = (
    "batch_size",
    "compute_config",
    "dilation",
    "has_bias",
    "in_channels",
    "input_dtype",
    "input_height",
    "input_width",
    "input_memory_config",
    "input_tensor_layout",
    "kernel_size",
    "out_channels",
    "output_dtype",
    "padding",
    "stride",
)
"""What a convolution's weights and bias are prepared for: the convolution says it again."""


@emits("prepare_conv2d_bias")
def prepare_bias(emit: Emit) -> None:
    """A bias (1, 1, 1, O) in tiles, in the format of its result."""
    emit.only(emit.attributes["groups"] == 1, f"expected one group, got {emit.attributes['groups']}")
    conv_activation(emit)
    emit.attributes.skip(*_OF_THE_CONVOLUTION)
    shapes = [emit.desc(tensor).shape for tensor in (emit.inputs[0], emit.results[0])]
    emit.only(shapes[0] == shapes[1] and len(shapes[0]) == 4, f"expected a bias of {shapes[1]}, got {shapes[0]}")
    emit.call("prepare_conv2d_weights", emit.inputs, emit.results, PermuteParams((0, 1, 2, 3)))


@emits("prepare_conv2d_weights")
def prepare_weights(emit: Emit) -> None:
    """Weights (O, I, KH, KW) as rows (KH KW I, O)."""
    attributes, (weight,), (result,) = emit.attributes, emit.inputs, emit.results
    emit.only(attributes["weights_format"] == "OIHW", f"expected weights OIHW, got {attributes['weights_format']}")
    emit.only(attributes["groups"] == 1, f"expected one group, got {attributes['groups']}")
    conv_activation(emit)
    attributes.skip(*_OF_THE_CONVOLUTION)
    out, into, high, wide = emit.desc(weight).shape
    made = emit.tensor(replace(emit.desc(result), shape=(high, wide, into, out)))
    emit.call("prepare_conv2d_weights", [weight], [made], PermuteParams((2, 3, 1, 0)))
    emit.onto(made, result)


@emits("conv2d")
def conv2d(emit: Emit) -> None:
    """Input (1, 1, N H W, C), weights (O, I, KH, KW) or as `prepare_conv2d_weights` made them, perhaps a bias."""
    attributes, (result,) = emit.attributes, emit.results
    x, weight, *bias = emit.inputs
    n, h, w = attributes["batch_size"], attributes["input_height"], attributes["input_width"]
    into, out, groups = attributes["in_channels"], attributes["out_channels"], attributes["groups"]
    (high, wide), stride, dilation = attributes["kernel_size"], attributes["stride"], attributes["dilation"]
    padding = padded_sides(attributes["padding"])
    numerics, named = emit.numerics(ALL_BITS), conv_activation(emit)
    image = emit.view(x, (n, h, w, into))
    shape = (high, wide, into // groups, out)
    desc = emit.desc(weight)
    if desc.shape == (out, into // groups, high, wide):
        made = emit.tensor(replace(desc, shape=shape, layout="tile", buffer_type="dram", data_format=desc.data_format))
        emit.call("prepare_conv2d_weights", [weight], [made], PermuteParams((2, 3, 1, 0)))
    else:
        prepared = (1, 1, high * wide * into, out)
        emit.only(groups == 1 and desc.shape == prepared, f"expected weights OIHW or prepared, got {desc.shape}")
        made = emit.view(weight, shape)
    oh, ow = (
        (size + low + top - (d * (k - 1) + 1)) // s + 1
        for size, low, top, k, s, d in zip(
            (h, w), padding[0::2], padding[1::2], (high, wide), stride, dilation, strict=True
        )
    )
    images = emit.desc(result).shape
    emit.only(images == (1, 1, n * oh * ow, out), f"expected a result of {(1, 1, n * oh * ow, out)}, got {images}")
    target = emit.tensor(replace(emit.desc(result), shape=(n, oh, ow, out)))
    params = Conv2dParams(stride, padding, dilation, groups=groups, activation=named)
    emit.call("conv2d", [image, made, *bias], [target], params, numerics)
    emit.onto(target, result)
