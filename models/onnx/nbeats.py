"""N-BEATS (Oreshkin et al. 2020), a forecaster, as an ONNX graph: two stacks, trend and seasonality.

Reduced: 2 blocks per stack of width 128; 48 values in, 12 out; a batch of 16 series.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opscope.models.registry import model

if TYPE_CHECKING:
    import numpy as np

    from opscope.models.frontends.through_onnx.built import OnnxBuilt
    from opscope.models.onnx.graph import Graph

BATCH, PAST, FUTURE, WIDTH, BLOCKS, DEGREE = 16, 48, 12, 128, 2, 4


@model(name="nbeats_onnx", family="time_series", framework="onnx", size="reduced", trainable=False)
def build(dtype: str) -> OnnxBuilt:
    """The forecast of each series, (16, 12)."""
    import numpy as np

    from opscope.models.onnx.graph import Graph

    g = Graph("nbeats", dtype)
    series = g.input("series", (BATCH, PAST), "normal:3:1")
    level = g.op("ReduceMean", series, g.constant([1]), keepdims=1, name="level")
    rest = g.op("Sub", series, level)
    ahead = np.arange(PAST + FUTURE) / (PAST + FUTURE)
    trend = np.stack([ahead**k for k in range(DEGREE)])
    waves = [f(2 * np.pi * k * ahead) for k in range(1, 4) for f in (np.cos, np.sin)]
    forecast = ""
    for stack, basis in (("trend", trend), ("season", np.stack(waves))):
        for i in range(BLOCKS):
            past, future = _block(g, f"{stack}.{i}", rest, basis)
            rest = g.op("Sub", rest, past, name=f"{stack}.{i}.rest")
            forecast = g.op("Add", forecast, future) if forecast else future
    return g.finish(g.op("Add", forecast, level))


def _block(g: Graph, name: str, x: str, basis: np.ndarray) -> tuple[str, str]:
    """What the block explains of the past, and its share of the future."""
    y, inputs = x, PAST
    for k in range(4):
        weight = g.weight(f"{name}.{k}.weight", (WIDTH, inputs), f"normal:{(2 / inputs) ** 0.5:.6g}")
        y = g.op("Relu", g.op("Gemm", y, weight, g.weight(f"{name}.{k}.bias", (WIDTH,), "normal:0.02"), transB=1))
        inputs = WIDTH
    rows = len(basis)
    shares = []
    for part, span in (("past", basis[:, :PAST]), ("future", basis[:, PAST:])):
        factors = g.op("MatMul", y, g.weight(f"{name}.{part}.weight", (WIDTH, rows), f"normal:{0.3 * WIDTH**-0.5:.6g}"))
        shares.append(g.op("MatMul", factors, g.constant(span, "float"), name=f"{name}.{part}"))
    return shares[0], shares[1]
