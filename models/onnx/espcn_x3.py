"""ESPCN (Shi et al. 2016), super-resolution by three, as an ONNX graph: sub-pixel convolution, 22,729 parameters.

Reduced: a patch of 72x72 pixels in place of a frame; a bicubic enlargement is added, as later networks do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opscope.models.registry import model

if TYPE_CHECKING:
    from opscope.models.frontends.through_onnx.built import OnnxBuilt

SIDE, FACTOR = 72, 3


@model(name="espcn_onnx", family="super_resolution", framework="onnx", size="reduced", trainable=False)
def build(dtype: str) -> OnnxBuilt:
    """The luminance of a patch, (1, 1, 216, 216)."""
    from opscope.models.onnx.graph import Graph

    g = Graph("espcn", dtype)
    patch = g.input("luminance", (1, 1, SIDE, SIDE), "uniform:0:1")
    x = g.op("Tanh", g.conv("conv1", patch, (64, 1, 5, 5), pads=[2] * 4))
    x = g.op("Tanh", g.conv("conv2", x, (32, 64, 3, 3), gain=1, pads=[1] * 4))
    x = g.conv("conv3", x, (FACTOR**2, 32, 3, 3), gain=1, pads=[1] * 4)
    detail = g.op("DepthToSpace", x, blocksize=FACTOR, mode="CRD", name="shuffle")
    sizes = g.constant([1, 1, SIDE * FACTOR, SIDE * FACTOR])
    base = g.op("Resize", patch, "", "", sizes, mode="cubic", name="bicubic")
    return g.finish(g.op("Add", detail, base))
