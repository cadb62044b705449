"""The rows that each tap of a window reads, for any number of images, dilated inputs and negative padding.

Rows are the pixels of all images, one after another (`Layout(image, 0, 3)`).
"""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.ir import Operation

from opscope.compiler.buda.graph import Tm
from opscope.compiler.buda.graph_builder import Operand
from opscope.compiler.translations.ttir_to_graph.attributes import ints
from opscope.compiler.translations.ttir_to_graph.layout import Dims
from opscope.compiler.translations.ttir_to_graph.moves import row_product, whole
from opscope.compiler.translations.ttir_to_graph.state import State


def taps(image: Dims, kernel: Dims, op: Operation, out: Dims) -> np.ndarray:
    """Returns the row that each tap reads for each result pixel, (taps, pixels of all results); -1 outside the image.

    `image` and `out` are N, H, W, C. Stride, padding and both dilations are the op's.
    """
    stride, dilation = ints(op.properties["stride"]), ints(op.properties["dilation"])
    low = ints(op.properties["padding"])[:2]
    spread = ints(op.properties["input_dilation"]) if "input_dilation" in op.properties else (1, 1)
    lines = []
    for axis in range(2):
        to, tap = np.arange(out[1 + axis]), np.arange(kernel[axis])
        at = tap[:, None] * dilation[axis] + to[None, :] * stride[axis] - low[axis]
        inside = (at >= 0) & (at % spread[axis] == 0) & (at // spread[axis] < image[1 + axis])
        lines.append(np.where(inside, at // spread[axis], -1))
    y, x = lines[0][:, None, None, :, None], lines[1][None, :, None, None, :]
    images = np.arange(image[0])[None, None, :, None, None]
    rows = np.where((y < 0) | (x < 0), -1, (images * image[1] + y) * image[2] + x)
    return rows.reshape(prod(kernel), prod(out[:3]))


def gathered(lowering: State, source: Operand, image: Dims, rows: np.ndarray) -> Operand:
    """Returns the rows of each tap, one below the other, each of whole tiles; the source itself if nothing moves."""
    count, pixels = rows.shape
    if count == 1 and np.array_equal(rows[0], np.arange(prod(image[:3]))):
        return source
    if count > 1:
        rows = np.pad(rows, [(0, 0), (0, whole(pixels) - pixels)], constant_values=-1)
    return row_product(lowering, source, prod(image[:3]), rows.ravel(), image[3], count)


def apart(operand: Operand, count: int, *more: Tm) -> Operand:
    """Returns the taps along z, after which `more` may follow."""
    tms = (Tm("vslice", count), *more) if count > 1 else ()
    return Operand(operand.producer, (*operand.tms, *tms))
