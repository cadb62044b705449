"""`conv2d` as im2col and the matrix unit's product: windows in SrcB, weights in SrcA."""

from __future__ import annotations

import numpy as np

from opscope.compiler.target.formats import TILE
from opscope.compiler.target.program import Conv2dParams
from opscope.compiler.target.rounding import quantise
from opscope.simulator.kernels.addition_order import window_product
from opscope.simulator.kernels.matmul import PHASES, activated, as_left, product_of, with_bias
from opscope.simulator.kernels.registry import Call, Images, kernel, params_of
from opscope.simulator.kernels.windows import dilate, pad_crop, windows

CHUNK_BYTES = 64 * 2**20
"""Largest im2col matrix made at once."""


@kernel("conv2d", Conv2dParams, unit="matrix", arity=(2, 3))
def conv2d(images: Images, call: Call) -> np.ndarray:
    """Cross-correlation of NHWC input and HWIO weight; NHWC. A bias (C) and an activation join in Dst, if given."""
    params = params_of(call, Conv2dParams)
    x, weight = images[:2]
    x = pad_crop(dilate(as_left(x), params.input_dilation), params.padding, 0)
    *window, _, out_channels = weight.shape
    groups = params.groups if params.batch_groups == 1 else params.batch_groups
    # (groups, KH * KW * I, O / groups)
    kernel_matrix = weight.reshape(-1, groups, out_channels // groups).transpose(1, 0, 2)
    view = windows(x, (window[0], window[1]), params.stride, params.dilation)
    product = _by_batch if params.batch_groups > 1 else _by_channel
    result = product(view, kernel_matrix, call)
    if len(images) > 2:
        if _passes_by_rows(call) and window != [1, 1]:
            result = quantise(result, call.outputs[0].data_format)
        result = with_bias(result, images[2].reshape(-1), call)
    return activated(result, params.activation, call)


CHANNELS = 8
"""To a multiple of which ttnn fills up the channels of an image."""
COLUMNS = 13
"""Of a p150's cores."""
MANY_CHANNELS = 64
"""From which on ttnn was seen to deal channels and not pixels alone to cores. It takes what needs less of L1."""


def _dealt(channels: int, pixels: int) -> int:
    """How many channels of an image one core has: all, or a part where ttnn has as many parts as columns of cores."""
    whole = -(-channels // CHANNELS) * CHANNELS
    part = -(-channels // (COLUMNS * CHANNELS)) * CHANNELS
    cores = -(-channels // part) * -(-pixels // TILE)
    return part if channels >= MANY_CHANNELS and cores >= COLUMNS else whole


def _passes_by_rows(call: Call) -> bool:
    """Whether sums are added as ttnn adds them: in exact order, of formats of which that was seen."""
    formats = {desc.data_format for desc in (*call.inputs[:2], *call.outputs)}
    return call.arithmetic.exact_order and formats <= {"Float32", "Float16_b"}


def _by_channel(view: np.ndarray, kernel_matrix: np.ndarray, call: Call) -> np.ndarray:
    n, oh, ow, kh, kw, c = view.shape
    groups, _, per_out = kernel_matrix.shape
    rows = max(1, CHUNK_BYTES // max(1, ow * kh * kw * c * view.itemsize))
    parts: list[np.ndarray] = []
    for image in range(n):
        for start in range(0, max(oh, 1), rows):
            block = view[image, start : start + rows]
            height = block.shape[0]
            if groups == 1 and _passes_by_rows(call):
                split = (block.reshape(height * ow, kh, kw, c), kernel_matrix[0].reshape(kh, kw, c, per_out))
                dst, result = call.numerics.dst_format, call.outputs[0].data_format
                dealt = _dealt(c, n * oh * ow) if kh * kw > 1 else c  # windows of one pixel are rows of a matrix
                product = window_product(*split, PHASES[call.numerics.fidelity], dst, result, CHANNELS, dealt)
            elif groups == 1:
                product = product_of(block.reshape(height * ow, kh * kw * c), kernel_matrix[0], call, is_left=True)
            else:
                split = block.reshape(height, ow, kh, kw, groups, c // groups).transpose(4, 0, 1, 2, 3, 5)
                product = product_of(split.reshape(groups, height * ow, -1), kernel_matrix, call, is_left=True)
                product = product.transpose(1, 0, 2)
            parts.append(product.reshape(height * ow, groups * per_out) if groups > 1 else product)
    joined = np.concatenate(parts) if len(parts) != 1 else parts[0]
    return _shaped(joined, (n, oh, ow, groups * per_out))


def _shaped(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A result that nobody else has, in another shape: itself where it can be, since a view is copied for the host."""
    if not x.flags.owndata or not x.flags.c_contiguous:
        return x.reshape(shape)
    x.resize(shape, refcheck=False)  # of as many elements, so that none moves
    return x


def _by_batch(view: np.ndarray, kernel_matrix: np.ndarray, call: Call) -> np.ndarray:
    n, oh, ow = view.shape[:3]
    groups, depth, per_out = kernel_matrix.shape
    left = view.reshape(groups, n // groups * oh * ow, depth)
    product = product_of(left, kernel_matrix, call, is_left=True)
    return (
        product.reshape(groups, n // groups, oh, ow, per_out)
        .transpose(1, 2, 3, 0, 4)
        .reshape(n // groups, oh, ow, groups * per_out)
    )
