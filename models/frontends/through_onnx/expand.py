"""Rewrites ONNX ops that torch-mlir cannot lower to StableHLO, or lowers wrongly, as ops that it lowers correctly.

There are two tables: `EXPANSIONS` has rewrites of opscope, `BY_THE_STANDARD` ops whose body the ONNX standard defines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from onnx import (
    ModelProto,
    NodeProto,
    TensorProto,
    helper,
    inliner,
    numpy_helper,
    shape_inference,
    version_converter,
)

from opscope.models.frontends.through_onnx import (
    arithmetic,
    composed,
    fourier,
    grid_sample,
    pools,
    quantize,
    recurrent,
    resample,
    standard_body,
    unrolled,
)
from opscope.models.frontends.through_onnx.decided_ifs import without_decided_ifs
from opscope.models.frontends.through_onnx.fold import constant_value, fold
from opscope.models.frontends.through_onnx.writer import Scope, Writer


def _rms_norm(write: Writer) -> None:
    """x / sqrt(mean(x * x) + epsilon) * scale over the axes from `axis` on."""
    node, rank = write.attributes(), len(write.shape(0))
    axes = write.ints(list(range(int(node.get("axis", -1)) % rank, rank)))
    x = write.input(0)
    mean = write.op("ReduceMean", write.op("Mul", x, x), axes, keepdims=1)
    epsilon = write.constant(np.asarray(node.get("epsilon", 1e-5)), write.element(0))
    root = write.op("Sqrt", write.op("Add", mean, epsilon))
    write.finish(0, write.op("Mul", write.op("Div", x, root), write.input(1)))


def _depth_to_space(write: Writer) -> None:
    """Blocks of channels as blocks of pixels (torch-mlir's own lowering of mode CRD gives other values)."""
    node = write.attributes()
    n, c, h, w = write.shape(0)
    b = int(node["blocksize"])
    if node.get("mode", "DCR") == "CRD":
        split, perm = (n, c // (b * b), b, b, h, w), [0, 1, 4, 2, 5, 3]
    else:
        split, perm = (n, b, b, c // (b * b), h, w), [0, 3, 4, 1, 5, 2]
    x = write.op("Transpose", write.op("Reshape", write.input(0), write.ints(split)), perm=perm)
    write.finish(0, write.op("Reshape", x, write.ints((n, c // (b * b), h * b, w * b))))


Expansion = Callable[[Writer], None]

EXPANSIONS: dict[str, Expansion] = {
    "LSTM": recurrent.expand,
    "GRU": recurrent.expand,
    "RNN": recurrent.expand,
    "Resize": resample.resize,
    "Upsample": resample.upsample,
    "Pad": resample.pad,
    "DequantizeLinear": quantize.dequantize,
    "QuantizeLinear": quantize.quantize,
    "RMSNormalization": _rms_norm,
    "DepthToSpace": _depth_to_space,
    "Mod": arithmetic.mod,
    "ReduceMax": arithmetic.reduce_bool,
    "ReduceMin": arithmetic.reduce_bool,
    "LpNormalization": arithmetic.lp_normalization,
    "Cast": arithmetic.cast,
    "CastLike": arithmetic.cast,
    "Hardmax": composed.hardmax,
    "CumProd": composed.cumulative_product,
    "ReverseSequence": composed.reverse_sequence,
    "AveragePool": pools.average_pool,
    "LpPool": pools.lp_pool,
    "MaxPool": pools.max_pool,
    "ConvInteger": composed.product_of_integers,
    "TopK": arithmetic.top_k,
    "Einsum": composed.einsum,
    "DFT": fourier.dft,
    "STFT": fourier.stft,
    "GridSample": grid_sample.grid_sample,
    "QLinearConv": composed.quantised_product,
    "QLinearMatMul": composed.quantised_product,
    **dict.fromkeys(("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"), arithmetic.compare),
}
"""Op type -> the function that writes its nodes; if it writes none, the node stays as it is."""

BY_THE_STANDARD = (
    "Attention",
    "CausalConvWithState",
    "CenterCropPad",
    "DynamicQuantizeLinear",
    "GroupNormalization",
    "MeanVarianceNormalization",
    "NegativeLogLikelihoodLoss",
    "RotaryEmbedding",
    "SoftmaxCrossEntropyLoss",
    "SpaceToDepth",
    "SwiGLU",
    "Swish",
)
"""Ops that are inlined by the standard's own function bodies."""

CONSTANT_INPUTS = {
    "Resize": (1, 2, 3),
    "Upsample": (1,),
    "Pad": (2,),
    "QuantizeLinear": (1, 2),
    "DequantizeLinear": (1, 2),
    "Clip": (1, 2),
    "Range": (0, 1, 2),
    "OneHot": (2,),
    "Dropout": (1,),
    "CumProd": (1,),
}
"""op type -> inputs whose value decides the program, so that a float initialiser there is not a weight."""


def expand(model: ModelProto) -> ModelProto:
    """Returns `model` with local functions and the ops of both tables expanded, and shapes inferred again.

    Raises ValueError, naming the node, for an unsupported form of an op.
    """
    model = inliner.inline_local_functions(model)
    model.ir_version = max(model.ir_version, 4)  # below, inference takes constants that are no inputs for scalars
    kinds = {node.op_type for node in model.graph.node}
    if kinds & {"If", *unrolled.KINDS}:
        model = _folded(model)
    if kinds.intersection(unrolled.KINDS):  # the converter leaves bodies as they are, but not what was written of them
        model = converted(model) or model
    kinds = {node.op_type for node in model.graph.node}
    while kinds.intersection(BY_THE_STANDARD):
        inlined = standard_body.inline(_inferred(model), BY_THE_STANDARD)
        if inlined is model:
            break
        model, kinds = inlined, {node.op_type for node in inlined.graph.node}
    model = _folded(model)
    if not kinds & EXPANSIONS.keys():
        return model
    out = ModelProto()
    out.CopyFrom(model)
    del out.graph.node[:]
    scope = _scope(model)
    for node in model.graph.node:
        out.graph.node.extend(_expanded(node, scope, out.graph.initializer))
    return _folded(out)


NEWER = 18
"""The version of the standard to which older graphs are converted; from there on, ops have their sizes as inputs."""


def converted(model: ModelProto) -> ModelProto | None:
    """The model in a newer version of the standard; None if its own is as new, or the standard's converter refuses."""
    if _opset(model) >= NEWER:
        return None
    try:
        return version_converter.convert_version(model, NEWER)
    except Exception:  # noqa: BLE001 - the converter raises RuntimeError and protobuf's own errors
        return None


def _opset(model: ModelProto) -> int:
    return next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 1)


def _folded(model: ModelProto) -> ModelProto:
    """Returns `model` with folded constants; these make more shapes known, and those more constants."""
    before: list[str] = [""]
    while (kinds := [node.op_type for node in model.graph.node]) != before:
        before = kinds
        model = _inferred(model)
        scope = _scope(model)
        model = without_decided_ifs(unrolled.without_loops(model, scope), scope)
        model = fold(model, scope)
    return model


def _expanded(node: NodeProto, scope: Scope, constants: Iterable[TensorProto]) -> Iterable[NodeProto]:
    """Returns the nodes that replace `node`, and adds their constants to `constants`."""
    expansion = EXPANSIONS.get(node.op_type)
    if expansion is None or node.domain not in ("", "ai.onnx"):
        return [node]
    writer = Writer(node, scope)
    expansion(writer)
    constants.extend(writer.constants)
    return writer.nodes or [node]


def _inferred(model: ModelProto) -> ModelProto:
    return shape_inference.infer_shapes(model, data_prop=True)


def _scope(model: ModelProto) -> Scope:
    """Shapes, types and constants of a graph; a value whose shape is not fixed is left out."""
    graph = model.graph
    shapes: dict[str, tuple[int, ...]] = {}
    types: dict[str, int] = {}
    for info in (*graph.input, *graph.value_info, *graph.output):
        tensor = info.type.tensor_type
        types[info.name] = tensor.elem_type
        if tensor.HasField("shape") and all(d.HasField("dim_value") for d in tensor.shape.dim):
            shapes[info.name] = tuple(d.dim_value for d in tensor.shape.dim)
    constants = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name.startswith("value"):
            constants[node.output[0]] = constant_value(node)
    for name, value in constants.items():
        shapes.setdefault(name, value.shape)
        types.setdefault(name, helper.np_dtype_to_tensor_dtype(value.dtype))
    return Scope(shapes, types, constants, _opset(model))
