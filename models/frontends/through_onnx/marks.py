"""What StableHLO has and torch-mlir does not write: numbers of 8, 4 and 2 bits, reinterpreted bits, reducing scatters.

`marked` writes a graph that torch-mlir lowers, with ops whose names say what they stand for; `restored` writes that in
the StableHLO that was made of it. Narrow values lie in a wider type that holds each of them, so that ops that move
them need no lowering of their own; the entry function gets its own types back.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper, shape_inference

TYPES = {
    TensorProto.FLOAT8E4M3FN: "f8E4M3FN",
    TensorProto.FLOAT8E4M3FNUZ: "f8E4M3FNUZ",
    TensorProto.FLOAT8E5M2: "f8E5M2",
    TensorProto.FLOAT8E5M2FNUZ: "f8E5M2FNUZ",
    TensorProto.FLOAT8E8M0: "f8E8M0FNU",
    TensorProto.FLOAT4E2M1: "f4E2M1FN",
    TensorProto.INT4: "i4",
    TensorProto.UINT4: "ui4",
    TensorProto.INT2: "i2",
    TensorProto.UINT2: "ui2",
}
"""ONNX's narrow types -> MLIR's names of them."""
SHORT = {TensorProto.INT16: "i16", TensorProto.UINT16: "ui16"}
"""Integers that torch-mlir computes with and converts nothing to: carried where a graph only moves them."""
_MOVES = (
    "BitCast Cast CastLike Compress Concat Expand Flatten Gather GatherElements GatherND Identity Pad Reshape Shape "
    "Size Slice Split Squeeze Tile Transpose Unsqueeze Where"
)
MOVES = frozenset(_MOVES.split())
POWERS = "f8E8M0FNU"
TO_POWER = {"up": 0x7FFFFF, "nearest": 0x400000, "down": 0}
"""Rounding of a float32 to a power of two -> what is added to its bits before all but the exponent is dropped."""
_MARK = "opscope narrow "
_BITS = "opscope bits "
_REDUCES = "opscope reduces "
REDUCTIONS = {"add": "add", "mul": "multiply", "max": "maximum", "min": "minimum"}
"""`reduction` of a scatter -> the op of StableHLO that joins an element and an update."""


@dataclass(frozen=True)
class _Types:
    """The element types of a graph's values, and which of them are carried in another."""

    of: Mapping[str, int]
    narrow: Mapping[int, str]

    def carrier(self, kind: int) -> int:
        """The type that holds the values of a narrow type; any other type is its own."""
        if kind not in self.narrow:
            return kind
        integers = TensorProto.INT32 if kind in SHORT else TensorProto.INT8
        return integers if "i" in self.narrow[kind] else TensorProto.FLOAT


def _types(graph: GraphProto) -> _Types:
    values = (*graph.input, *graph.value_info, *graph.output)
    of = {t.name: t.data_type for t in graph.initializer}
    of |= {info.name: info.type.tensor_type.elem_type for info in values}
    touched = {n.op_type for n in graph.node if any(of.get(name) in SHORT for name in (*n.input, *n.output))}
    moved = touched <= MOVES and touched & {"Cast", "CastLike", "BitCast"}
    return _Types(of, {**TYPES, **SHORT} if moved else TYPES)


def marked(model: ModelProto) -> ModelProto:
    """The graph without what is marked, itself if there is nothing. Its types must be inferred, its nodes named."""
    out = ModelProto()
    out.CopyFrom(model)
    _carry(out.graph, _types(model.graph))
    return shape_inference.infer_shapes(out) if out != model else model


def _carry(graph: GraphProto, types: _Types) -> None:
    for info in (*graph.input, *graph.output, *graph.value_info):
        tensor_type = info.type.tensor_type
        tensor_type.elem_type = types.carrier(tensor_type.elem_type)
    for tensor in graph.initializer:
        _widen(tensor, types)
    nodes = list(graph.node)
    del graph.node[:]
    for node in nodes:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                _carry(attribute.g, types)
            elif attribute.type == AttributeProto.TENSOR:
                _widen(attribute.t, types)
        graph.node.extend(_written(node, types))


def _widen(tensor: TensorProto, types: _Types) -> None:
    if tensor.data_type in types.narrow:
        wide = helper.tensor_dtype_to_np_dtype(types.carrier(tensor.data_type))
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(wide), tensor.name))


def _written(node: NodeProto, types: _Types) -> Iterator[NodeProto]:
    """The nodes that stand for one; what becomes narrow is an op of its own, whose name says so."""
    given = {a.name: helper.get_attribute_value(a) for a in node.attribute if a.name in ("to", "round_mode")}
    to, x = given.get("to"), node.input[0] if node.input else ""
    source = types.of.get(x, TensorProto.FLOAT)
    bits = node.op_type == "BitCast"
    if node.op_type in ("ScatterElements", "ScatterND"):
        how = next((a.s.decode() for a in node.attribute if a.name == "reduction"), "none")
        if how in REDUCTIONS:
            rest = [a for a in node.attribute if a.name != "reduction"]
            del node.attribute[:]
            node.attribute.extend(rest)
            node.name = f"{_REDUCES}{how} {node.name}"
        yield node
    elif node.op_type not in ("BitCast", "Cast") or (bits and not _castable(source, to, types)):
        yield node
    elif bits and source == to:
        yield helper.make_node("Identity", [x], node.output, name=node.name)
    elif to not in types.narrow:
        mark = _BITS if bits and TensorProto.BOOL not in (source, to) else ""
        yield helper.make_node("Cast", [x], node.output, name=f"{mark}{node.name}", to=to)
    else:
        kind, wide = types.narrow[to], types.carrier(to)
        mark = f"{_MARK}{kind} {given.get('round_mode', b'up').decode()} {node.name}"
        op = "Sin" if wide == TensorProto.FLOAT else "BitwiseNot"
        steps = [("Cast", node.name, {"to": wide}), (op, mark, {})]
        if source == TensorProto.DOUBLE and op == "Sin" and kind != POWERS:  # a number is rounded once
            steps.reverse()
        between = f"{node.output[0]}/wide"
        for (step, name, how), ends in zip(steps, ((x, between), (between, node.output[0])), strict=True):
            yield helper.make_node(step, [ends[0]], [ends[1]], name=name, **how)


def _castable(source: int, to: int, types: _Types) -> bool:
    """Whether the bits of one type as another are a conversion of the values that carry them: of integers they are."""
    return all(kind not in types.narrow or "i" in types.narrow[kind] for kind in (source, to)) and (
        (source in types.narrow) == (to in types.narrow)
    )


def restored(bytecode: bytes, model: ModelProto) -> bytes:
    """The StableHLO of `marked(model)` with what the marks stand for, and main's types those of `model`."""
    from jax.extend.mlir import ir
    from jax.interpreters import mlir

    from opscope.base.quantised.dequantised import ops_of

    with mlir.make_ir_context(), ir.Location.unknown():
        module = ir.Module.parse(bytecode)
        for op in ops_of(module.operation):
            _restore(op)
        for function in module.body.operations:
            if function.operation.name == "func.func" and function.operation.attributes["sym_name"].value == "main":
                _own_types(function, model.graph)
        module.operation.verify()
        file = io.BytesIO()
        module.operation.write_bytecode(file)
    return file.getvalue()


def _restore(op: Any) -> None:
    """Writes what the name of a marked op stands for; other ops stay."""
    from jax.extend.mlir import ir

    name = _name_of(op.location)
    if name.startswith(_REDUCES) and op.name == "stablehlo.scatter":
        _reduce(op, name.removeprefix(_REDUCES).split(" ", 1)[0])
        return
    if name.startswith(_BITS) and op.name == "stablehlo.convert":
        with ir.InsertionPoint(op), ir.Location.name(name.removeprefix(_BITS)):
            made = _of_type(op.operands[0], str(op.results[0].type.element_type), "bitcast_convert")
    elif name.startswith(_MARK) and op.name in ("stablehlo.sine", "stablehlo.not"):
        element, how, name = name.removeprefix(_MARK).split(" ", 2)
        with ir.InsertionPoint(op), ir.Location.name(name):
            made = _power(op.operands[0], how) if element == POWERS else _of_type(op.operands[0], element)
            made = _of_type(made, str(op.results[0].type.element_type))
    else:
        return
    op.results[0].replace_all_uses_with(made)
    op.erase()


def _reduce(scatter: Any, how: str) -> None:
    """Joins each update to the element in its place; several may have one place."""
    from jax.extend.mlir import ir

    block = scatter.regions[0].blocks[0]
    ends = block.operations[len(block.operations) - 1]
    old, new = block.arguments
    with ir.InsertionPoint(ends), ends.location:
        made = ir.Operation.create(f"stablehlo.{REDUCTIONS[how]}", [old.type], [old, new])
    ends.operation.operands[0] = made.results[0]
    scatter.attributes["unique_indices"] = ir.BoolAttr.get(value=False)


def _power(value: Any, how: str) -> Any:
    """float32 as powers of two in 8 bits: the exponent of its rounded bits. StableHLO's conversion has no direction."""
    from jax.extend.mlir import ir

    def number(value: int) -> Any:
        kind = ir.RankedTensorType.get(bits.type.shape, ir.Type.parse("i32"))
        element = ir.IntegerAttr.get(kind.element_type, value)
        same = {"value": ir.DenseElementsAttr.get_splat(kind, element)}
        return ir.Operation.create("stablehlo.constant", [kind], [], same).results[0]

    def both(op: str, x: Any, y: Any) -> Any:
        return ir.Operation.create(f"stablehlo.{op}", [x.type], [x, y]).results[0]

    bits = _of_type(value, "i32", "bitcast_convert")
    exponent = both("shift_right_logical", both("add", bits, number(TO_POWER[how])), number(23))
    return _of_type(_of_type(both("minimum", exponent, number(255)), "ui8"), POWERS, "bitcast_convert")


def _of_type(value: Any, element: str, op: str = "convert") -> Any:
    """A conversion of a tensor to an element type, where the insertion point is."""
    from jax.extend.mlir import ir

    kind = ir.RankedTensorType.get(value.type.shape, ir.Type.parse(element))
    return ir.Operation.create(f"stablehlo.{op}", [kind], [value]).results[0]


def _name_of(location: Any) -> str:
    """The text of a location that is a name; empty for another."""
    text = str(location)
    return text.removeprefix('loc("').split('"', 1)[0] if text.startswith('loc("') else ""


def _own_types(function: Any, graph: GraphProto) -> None:
    """Gives the arguments and results of a function the types of the graph's inputs and outputs."""
    from jax.extend.mlir import ir

    block = function.regions[0].blocks[0]
    given = {t.name for t in graph.initializer}
    inputs = [info for info in graph.input if info.name not in given]
    narrow = _types(graph).narrow
    for argument, info in zip(block.arguments, inputs, strict=True):
        if (element := narrow.get(info.type.tensor_type.elem_type)) is not None:
            wide = str(argument.type.element_type)
            argument.set_type(ir.RankedTensorType.get(argument.type.shape, ir.Type.parse(element)))
            with ir.InsertionPoint.at_block_begin(block), argument.location:
                made = _of_type(argument, wide)
            argument.replace_all_uses_except(made, [made.owner.operation])
    ends = block.operations[len(block.operations) - 1]
    for index, info in enumerate(graph.output):
        if (element := narrow.get(info.type.tensor_type.elem_type)) is not None:
            with ir.InsertionPoint(ends), ends.location:
                ends.operation.operands[index] = _of_type(ends.operation.operands[index], element)
    kinds = [value.type for value in block.arguments], [value.type for value in ends.operation.operands]
    function.operation.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*kinds))
