"""Views of windows over H and W of NHWC tensors, shared by convolution and pooling."""

from __future__ import annotations

import numpy as np


def pad_crop(x: np.ndarray, padding: tuple[int, int, int, int], value: float | int) -> np.ndarray:
    """`x` (NHWC) with H and W padded by (top, bottom, left, right); negative amounts crop."""
    top, bottom, left, right = padding
    x = x[:, max(-top, 0) : x.shape[1] - max(-bottom, 0), max(-left, 0) : x.shape[2] - max(-right, 0), :]
    top, bottom, left, right = (max(p, 0) for p in padding)
    if top or bottom or left or right:
        shape = (x.shape[0], x.shape[1] + top + bottom, x.shape[2] + left + right, x.shape[3])
        out = np.full(shape, value, x.dtype)
        out[:, top : top + x.shape[1], left : left + x.shape[2], :] = x
        return out
    return x


def dilate(x: np.ndarray, steps: tuple[int, int]) -> np.ndarray:
    """`x` (NHWC) with steps - 1 zeros between neighbours in H and W."""
    if steps == (1, 1) or 0 in x.shape:
        return x
    n, h, w, c = x.shape
    out = np.zeros((n, (h - 1) * steps[0] + 1, (w - 1) * steps[1] + 1, c), x.dtype)
    out[:, :: steps[0], :: steps[1], :] = x
    return out


def out_size(size: int, window: int, stride: int, dilation: int) -> int:
    """Number of window positions over `size` elements."""
    return max((size - (window - 1) * dilation - 1) // stride + 1, 0)


def windows(x: np.ndarray, window: tuple[int, int], stride: tuple[int, int], dilation: tuple[int, int]) -> np.ndarray:
    """Read-only view (N, OH, OW, KH, KW, C) of all windows of `x` (NHWC, already padded)."""
    n, h, w, c = x.shape
    oh, ow = (out_size(s, k, t, d) for s, k, t, d in zip((h, w), window, stride, dilation, strict=True))
    sn, sh, sw, sc = x.strides
    return np.lib.stride_tricks.as_strided(
        x,
        (n, oh, ow, *window, c),
        (sn, sh * stride[0], sw * stride[1], sh * dilation[0], sw * dilation[1], sc),
        writeable=False,
    )
