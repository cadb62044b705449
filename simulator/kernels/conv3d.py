"""`conv3d` as im2col and the matrix unit's product, one depth slice of one image at a time."""

from __future__ import annotations

import numpy as np

from opscope.compiler.target.program import Conv3dParams
from opscope.simulator.kernels.data_movement import padded
from opscope.simulator.kernels.matmul import product_of
from opscope.simulator.kernels.registry import Call, Images, kernel, params_of
from opscope.simulator.kernels.windows import out_size


@kernel("conv3d", Conv3dParams, unit="matrix", arity=(2, 3))
def conv3d(images: Images, call: Call) -> np.ndarray:
    """Cross-correlation of NDHWC input and DHWIO weight, optional bias (C) added to the result; NDHWC."""
    params = params_of(call, Conv3dParams)
    x, weight = images[:2]
    low, high = (0, *params.padding[0::2], 0), (0, *params.padding[1::2], 0)
    x = padded(x, 0, low, high, (0, *(d - 1 for d in params.input_dilation), 0))
    *window, per_group, out_channels = weight.shape
    groups = max(params.groups, params.batch_groups)
    per_out = out_channels // groups
    # (groups, KD * KH * KW * I, O / groups)
    matrix = weight.reshape(-1, groups, per_out).transpose(1, 0, 2)
    view = _windows(x, tuple(window), params)
    n, depth, height, width = view.shape[:4]
    images_per_group = n // params.batch_groups
    result = np.empty(
        (images_per_group, depth, height, width, out_channels), np.float32 if x.dtype.kind == "f" else np.int64
    )
    for image in range(n):
        group, target = divmod(image, images_per_group)
        for d in range(depth):
            block = view[image, d]
            if groups == 1 or params.batch_groups > 1:
                flat = block.reshape(height * width, -1)
                product = product_of(flat, matrix[group], call)
                place = slice(group * per_out, (group + 1) * per_out)
            else:
                split = block.reshape(height * width, -1, groups, per_group).transpose(2, 0, 1, 3)
                product = product_of(split.reshape(groups, height * width, -1), matrix, call)
                product, place = product.transpose(1, 0, 2), slice(None)
            result[target, d, :, :, place] = product.reshape(height, width, -1)
    return result + images[2].reshape(-1) if len(images) > 2 else result


def _windows(x: np.ndarray, window: tuple[int, ...], params: Conv3dParams) -> np.ndarray:
    """Read-only view (N, OD, OH, OW, KD, KH, KW, C) of all windows of `x` (NDHWC, already padded)."""
    sizes = zip(x.shape[1:4], window, params.stride, params.dilation, strict=True)
    out = tuple(out_size(size, k, s, d) for size, k, s, d in sizes)
    first, *middle, last = x.strides
    steps = [m * s for m, s in zip(middle, params.stride, strict=True)]
    holes = [m * d for m, d in zip(middle, params.dilation, strict=True)]
    return np.lib.stride_tricks.as_strided(
        x, (x.shape[0], *out, *window, x.shape[4]), (first, *steps, *holes, last), writeable=False
    )
