"""Single ops of StableHLO as ONNX graphs, for compilers that read ONNX: a row for each op that ONNX can say.

What ONNX has no op for, or says with another meaning, is declined with the reason. A graph has the op's arguments as
its inputs, in their order, and its results as outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, defs, helper, numpy_helper

from opscope.harness.backends.base import Declined
from opscope.harness.backends.translated.single_op import SingleOp, read
from opscope.harness.prepare.mlir import variant

OPSET, IR_VERSION = 18, 8
"""Of ONNX 1.13: what every release of these compilers from 2023 on reads."""
ELEMENTS = {
    "i1": "bool",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "ui8": "uint8",
    "ui16": "uint16",
    "ui32": "uint32",
    "ui64": "uint64",
    "f16": "float16",
    "f32": "float",
    "f64": "double",
}
"""Element types that NumPy has itself, as ONNX calls them; tensors of others cannot be handed over from Python."""


@dataclass
class _Graph:
    """The op, and the nodes that say the same."""

    op: SingleOp
    form: variant.Form
    inputs: list[str]
    """The name of each operand."""
    nodes: list[NodeProto] = field(default_factory=list)
    initial: list[TensorProto] = field(default_factory=list)

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Adds a node with one result; returns its name."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(self, value: np.ndarray) -> str:
        """The name of a constant."""
        name = f"c{len(self.initial)}"
        self.initial.append(numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape), name))
        return name

    def ints(self, values: Sequence[int]) -> str:
        """The name of a constant list of whole numbers."""
        return self.constant(np.array(values, np.int64))


Row = Callable[[_Graph], str]


def graph_of(module: bytes) -> bytes:
    """The ONNX model of a single-op module. Raises Declined for an op that ONNX cannot say."""
    op = read(module, "ONNX graph", ELEMENTS)
    form = op.form
    row = ROWS.get(form.name)
    if row is None or len(form.results) != 1:
        raise Declined(f"no op of ONNX computes {form.name}{' of several results' if row is not None else ''}")
    graph = _Graph(op, form, [f"a{argument}" for argument in form.arguments])
    for number, value in op.constants.items():
        graph.inputs[number] = graph.constant(value)
    result = row(graph)
    _check_types(graph)
    count = 1 + max(form.arguments, default=-1)
    arguments = {argument: number for number, argument in enumerate(form.arguments) if argument >= 0}
    takes = [_value(f"a{n}", form.types[arguments[n]], form.operands[arguments[n]]) for n in range(count)]
    gives = [_value(result, form.result_types[0], form.results[0])]
    whole = helper.make_graph(graph.nodes, "op", takes, gives, graph.initial)
    model = helper.make_model(whole, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    return model.SerializeToString()


def _number(kind: str) -> int:
    """ONNX's number of an element type."""
    return TensorProto.DataType.Value(ELEMENTS[kind].upper())


def _value(name: str, kind: str, shape: Sequence[int]) -> Any:
    return helper.make_tensor_value_info(name, _number(kind), list(shape))


def _check_types(graph: _Graph) -> None:
    """Raises Declined where ONNX has an op, but not for the type of an operand."""
    kinds = dict(zip(graph.inputs, graph.form.types, strict=True))
    for node in graph.nodes:
        formal = defs.get_schema(node.op_type, OPSET).inputs
        for place, name in enumerate(node.input):
            takes = formal[min(place, len(formal) - 1)].types
            if name in kinds and f"tensor({ELEMENTS[kinds[name]]})" not in takes:
                raise Declined(f"ONNX's {node.op_type} takes no {kinds[name]}")


# --- the rows


def _same(kind: str, **attributes: Any) -> Row:
    """An op that ONNX has with this name."""
    return lambda graph: graph.node(kind, *graph.inputs, **attributes)


def _bits(of_booleans: str, of_integers: str) -> Row:
    return lambda graph: graph.node(of_booleans if graph.form.types[0] == "i1" else of_integers, *graph.inputs)


def _compare(graph: _Graph) -> str:
    direction = graph.op.direction()
    if direction == "TOTALORDER":
        raise Declined("ONNX compares floats in IEEE's order alone")
    if direction == "NE":
        return graph.node("Not", graph.node("Equal", *graph.inputs))
    names = {"EQ": "Equal", "LT": "Less", "LE": "LessOrEqual", "GT": "Greater", "GE": "GreaterOrEqual"}
    return graph.node(names[direction], *graph.inputs)


def _remainder(graph: _Graph) -> str:
    return graph.node("Mod", *graph.inputs, fmod=1)


def _convert(graph: _Graph) -> str:
    return graph.node("Cast", *graph.inputs, to=_number(graph.form.result_types[0]))


def _clamp(graph: _Graph) -> str:
    low, value, high = graph.inputs
    return graph.node("Min", graph.node("Max", value, low), high)


def _reshape(graph: _Graph) -> str:
    return graph.node("Reshape", graph.inputs[0], graph.ints(graph.form.results[0]))


def _transpose(graph: _Graph) -> str:
    return graph.node("Transpose", *graph.inputs, perm=list(graph.op.numbers("permutation", 0, 0)))


def _broadcast(graph: _Graph) -> str:
    shape = [1] * len(graph.form.results[0])
    for size, dim in zip(graph.form.operands[0], graph.op.numbers("broadcast_dimensions", 0, 0), strict=True):
        shape[dim] = size
    placed = graph.node("Reshape", graph.inputs[0], graph.ints(shape))
    if tuple(shape) == graph.form.results[0]:
        return placed
    return graph.node("Expand", placed, graph.ints(graph.form.results[0]))


def _concatenate(graph: _Graph) -> str:
    return graph.node("Concat", *graph.inputs, axis=graph.op.numbers("dimension", 0, 1)[0])


def _slice(graph: _Graph) -> str:
    rank = len(graph.form.operands[0])
    starts, ends, steps = (graph.op.numbers(name, 1, rank) for name in ("start_indices", "limit_indices", "strides"))
    bounds = (graph.ints(numbers) for numbers in (starts, ends, range(rank), steps))
    return graph.node("Slice", graph.inputs[0], *bounds)


def _reverse(graph: _Graph) -> str:
    dims = graph.op.numbers("dimensions", 0, 0)
    ends = np.iinfo(np.int64).min
    bounds = [[-1] * len(dims), [ends] * len(dims), dims, [-1] * len(dims)]
    return graph.node("Slice", graph.inputs[0], *map(graph.ints, bounds))


def _pad(graph: _Graph) -> str:
    rank = len(graph.form.operands[0])
    low, high, inside = (
        graph.op.numbers(name, 0, rank) for name in ("edge_padding_low", "edge_padding_high", "interior_padding")
    )
    if any(inside) or min((*low, *high), default=0) < 0:
        raise Declined("ONNX's Pad pads neither between elements nor by less than nothing")
    return graph.node("Pad", graph.inputs[0], graph.ints([*low, *high]), graph.inputs[1], mode="constant")


def _dot_general(graph: _Graph) -> str:
    if len({*graph.form.types, *graph.form.result_types}) > 1:
        raise Declined("ONNX's products have the type of their operands")
    left, right, batch, summed = graph.op.product()
    free = "".join(letter for letter in left + right if letter not in batch + summed)
    if (len(free), len(summed)) == (2, 1) and (left, right) == (batch + free[0] + summed, batch + summed + free[1]):
        return graph.node("MatMul", *graph.inputs)
    return graph.node("Einsum", *graph.inputs, equation=f"{left},{right}->{batch}{free}")


_REDUCTIONS = {
    "stablehlo.add": ("ReduceSum", 0),
    "stablehlo.multiply": ("ReduceProd", 1),
    "stablehlo.maximum": ("ReduceMax", None),
    "stablehlo.minimum": ("ReduceMin", None),
}
"""What a body returns -> the op of ONNX, and where it begins; None: at the lowest or highest value."""


def _reduce(graph: _Graph) -> str:
    kind, begin = _REDUCTIONS.get(graph.op.kinds[0] if graph.op.kinds else "", ("", None))
    start = graph.op.constants.get(1)
    if not kind or graph.form.region_ops != 1 or start is None or not _begins(start, kind, begin):
        raise Declined("ONNX reduces by sum, product, largest or smallest, from their own beginning")
    axes = graph.op.numbers("dimensions", 0, 0)
    return graph.node(kind, graph.inputs[0], graph.ints(axes), keepdims=0)


def _begins(start: np.ndarray, kind: str, begin: int | None) -> bool:
    """Whether a start value changes nothing."""
    value = start.reshape(-1)[0]
    if begin is not None:
        return bool(value == begin)
    if start.dtype.kind == "f":
        return bool(value == (-np.inf if kind == "ReduceMax" else np.inf))
    if start.dtype.kind == "b":
        return False
    limits = np.iinfo(start.dtype)
    return bool(value == (limits.min if kind == "ReduceMax" else limits.max))


def _convolution(graph: _Graph) -> str:
    image, kernel, result = graph.op.convolved()
    spatial = len(image) - 2
    whole = range(spatial)
    if {*graph.op.numbers("lhs_dilation", 1, spatial), *graph.op.numbers("batch_group_count", 1, 1)} != {1}:
        raise Declined("ONNX's Conv has neither a dilated image nor groups of its batch")
    if "true" in graph.op.text("window_reversal"):
        raise Declined("ONNX's Conv does not reverse its window")
    padding = graph.op.numbers("padding", 0, 2 * spatial)
    if min(padding, default=0) < 0:
        raise Declined("ONNX's Conv does not cut its image")
    if len({*graph.form.types, *graph.form.result_types}) > 1:
        raise Declined("ONNX's products have the type of their operands")
    data = _turned(graph, graph.inputs[0], image, ["b", "f", *map(str, whole)])
    weights = _turned(graph, graph.inputs[1], kernel, ["o", "i", *map(str, whole)])
    sizes = [graph.form.operands[1][kernel.index(str(dim))] for dim in whole]
    made = graph.node(
        "Conv",
        data,
        weights,
        kernel_shape=sizes,
        strides=list(graph.op.numbers("window_strides", 1, spatial)),
        dilations=list(graph.op.numbers("rhs_dilation", 1, spatial)),
        pads=[*padding[::2], *padding[1::2]],
        group=graph.op.numbers("feature_group_count", 1, 1)[0],
    )
    return _turned(graph, made, ["b", "f", *map(str, whole)], result)


def _turned(graph: _Graph, value: str, have: Sequence[str], want: Sequence[str]) -> str:
    """A value whose dimensions are called `have`, in the order of `want`."""
    order = [have.index(name) for name in want]
    return value if order == sorted(order) else graph.node("Transpose", value, perm=order)


ROWS: Mapping[str, Row] = {
    **{
        f"{dialect}.{ours}": _same(theirs)
        for dialect, names in {
            "stablehlo": {
                "abs": "Abs",
                "add": "Add",
                "divide": "Div",
                "maximum": "Max",
                "minimum": "Min",
                "multiply": "Mul",
                "negate": "Neg",
                "power": "Pow",
                "select": "Where",
                "sign": "Sign",
                "subtract": "Sub",
                "ceil": "Ceil",
                "cosine": "Cos",
                "exponential": "Exp",
                "floor": "Floor",
                "log": "Log",
                "logistic": "Sigmoid",
                "round_nearest_even": "Round",
                "sine": "Sin",
                "sqrt": "Sqrt",
                "tan": "Tan",
                "tanh": "Tanh",
            },
            "chlo": {
                "acos": "Acos",
                "acosh": "Acosh",
                "asin": "Asin",
                "asinh": "Asinh",
                "atan": "Atan",
                "atanh": "Atanh",
                "cosh": "Cosh",
                "erf": "Erf",
                "sinh": "Sinh",
                "tan": "Tan",
            },
        }.items()
        for ours, theirs in names.items()
    },
    "stablehlo.and": _bits("And", "BitwiseAnd"),
    "stablehlo.or": _bits("Or", "BitwiseOr"),
    "stablehlo.xor": _bits("Xor", "BitwiseXor"),
    "stablehlo.not": _bits("Not", "BitwiseNot"),
    "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.clamp": _clamp,
    "stablehlo.compare": _compare,
    "stablehlo.concatenate": _concatenate,
    "stablehlo.convert": _convert,
    "stablehlo.convolution": _convolution,
    "stablehlo.dot_general": _dot_general,
    "stablehlo.pad": _pad,
    "stablehlo.reduce": _reduce,
    "stablehlo.remainder": _remainder,
    "stablehlo.reshape": _reshape,
    "stablehlo.reverse": _reverse,
    "stablehlo.shift_left": _same("BitShift", direction="LEFT"),
    "stablehlo.shift_right_logical": _same("BitShift", direction="RIGHT"),
    "stablehlo.slice": _slice,
    "stablehlo.transpose": _transpose,
}
