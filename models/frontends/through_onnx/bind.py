"""Makes constants of the graph inputs whose values decide the program: a shape, an axis, a count, a padding.

StableHLO has fixed shapes, so such an input cannot be an argument. Its value is bound before the graph is lowered.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import ModelProto, NodeProto, numpy_helper

DECIDES: dict[str, tuple[int, ...]] = {
    "AffineGrid": (1,),
    "BlackmanWindow": (0,),
    "CenterCropPad": (1,),
    "Clip": (1, 2),
    "Col2Im": (1, 2),
    "ConstantOfShape": (0,),
    "CumProd": (1,),
    "CumSum": (1,),
    "DFT": (1, 2),
    "DequantizeLinear": (1, 2),
    "Dropout": (1, 2),
    "Expand": (1,),
    "HammingWindow": (0,),
    "HannWindow": (0,),
    "If": (0,),
    "Loop": (0, 1),
    "MaxUnpool": (2,),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
    "NonMaxSuppression": (2, 3, 4),
    "OneHot": (1, 2),
    "Pad": (1, 2, 3),
    "QuantizeLinear": (1, 2),
    "Range": (0, 1, 2),
    "ReduceL1": (1,),
    "ReduceL2": (1,),
    "ReduceLogSum": (1,),
    "ReduceLogSumExp": (1,),
    "ReduceMax": (1,),
    "ReduceMean": (1,),
    "ReduceMin": (1,),
    "ReduceProd": (1,),
    "ReduceSum": (1,),
    "ReduceSumSquare": (1,),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "STFT": (1, 3),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "SplitToSequence": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Trilu": (1,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
}
"""Op type -> inputs whose value decides shapes or the form of the program."""


def deciding(model: ModelProto) -> list[str]:
    """Returns the graph inputs that decide the program, in the graph's order."""
    initializers = {tensor.name for tensor in model.graph.initializer}
    names = {name for node in model.graph.node for name in _of(node)}
    return [info.name for info in model.graph.input if info.name in names - initializers]


def _of(node: NodeProto) -> list[str]:
    if node.domain not in ("", "ai.onnx"):
        return []
    return [node.input[i] for i in DECIDES.get(node.op_type, ()) if i < len(node.input)]


def bind(model: ModelProto, values: Mapping[str, np.ndarray]) -> ModelProto:
    """Returns `model` with the values of those of its inputs that decide the program as initialisers."""
    names = [name for name in deciding(model) if name in values]
    if not names:
        return model
    out = ModelProto()
    out.CopyFrom(model)
    del out.graph.input[:]
    out.graph.input.extend(info for info in model.graph.input if info.name not in names)
    out.graph.initializer.extend(numpy_helper.from_array(np.asarray(values[name]), name) for name in names)
    return out
