"""Ops of the back end that take several kernels: sums over z, blocks, tops, embeddings, and arithmetic of integers.

The last of their operations is the one that the plan places. Integers are held in 8 or 32 bits and computed in a Dst
of 32; where they are packed to 8, they saturate at 127 (tt-isa-documentation, FloatBitPatterns.md: sign and size).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from opscope.compiler.buda.graph import BudaGraph, Edge, Node, Tm
from opscope.compiler.buda.op_options import OpOptions
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.target.formats import TILE
from opscope.compiler.target.program import (
    ConcatParams,
    ConstantParams,
    EltwiseParams,
    GatherParams,
    MatmulParams,
    Numerics,
    Operation,
    PadParams,
    Params,
    PermuteParams,
    ReduceParams,
    ReshapeParams,
    SliceParams,
    TensorDesc,
)
from opscope.compiler.target.region_params import IndexedRowsParams, TopkParams

Elements = tuple[int, int, int]
INTEGERS: Mapping[str, str] = {
    "Int8": "i8",
    "Int32": "i32",
    "UInt8": "ui8",
    "UInt16": "ui16",
    "UInt32": "ui32",
    "RawUInt8": "ui8",
    "RawUInt16": "ui16",
    "RawUInt32": "ui32",
}
"""Format of integers -> element type."""
RAW: Mapping[str, str] = {"UInt32": "UInt32", "RawUInt8": "UInt8", "RawUInt16": "UInt16", "RawUInt32": "UInt32"}
"""Format that float32 does not hold -> format in which the host gives it."""
RANGES: Mapping[str, tuple[float, float]] = {"Int8": (-127, 127), "UInt8": (0, 255), "UInt16": (0, 65535)}
"""Format -> what the packer saturates at."""
ON_INTEGERS: Mapping[str, str] = {
    "add": "add",
    "subtract": "subtract",
    "multiply": "multiply",
    "maximum": "maximum",
    "nop": "typecast",
    "abs": "abs",
}
"""Op -> kernel that computes it on 32-bit integers."""
SCALED = {"quantization": "requantization", "requantization": "requantization", "dequantization": "dequantization"}
WIDE = Numerics(dst_format="Float32")


class Builder(Protocol):
    """What adds operations to a program."""

    @property
    def graph(self) -> BudaGraph:
        """The graph whose program it is."""
        ...

    @property
    def tensors(self) -> list[TensorDesc]:
        """The tensors so far."""
        ...

    @property
    def operations(self) -> list[Operation]:
        """The operations so far."""
        ...

    @property
    def operation(self) -> dict[str, int]:
        """Op -> the operation that the plan places."""
        ...

    def operand(self, edge: Edge, wanted: Elements) -> int:
        """Returns an operand's tensor as its consumer reads it."""
        ...

    def add(self, desc: TensorDesc) -> int:
        """Returns a new tensor."""
        ...

    def on_device(self, elements: tuple[int, ...], data_format: str) -> int:
        """Returns a new tensor in DRAM."""
        ...

    def cast(self, tensor: int, elements: tuple[int, ...], data_format: str, where: str) -> int:
        """Returns a tensor in another format."""
        ...

    def call(
        self, kernel: str, inputs: list[int], output: int, params: Params, where: str, numerics: Numerics | None = None
    ) -> int:
        """Adds an operation, and returns its result."""
        ...

    def product(self, node: Node, edges: Sequence[Edge], numerics: Numerics) -> int:
        """Returns the result of a product of other edges than the graph's."""
        ...


def relu_kernel(options: OpOptions) -> tuple[str, Params]:
    """Returns the kernel of the packer's relu, and its parameters."""
    if options.relu_mode == "max":
        return "clamp_scalar", EltwiseParams((0.0, options.relu_threshold))
    if options.relu_threshold:
        return "threshold_relu", EltwiseParams((options.relu_threshold,))
    return "relu", EltwiseParams()


def params_relu(params: Params) -> bool:
    """Whether a product applies relu itself."""
    return isinstance(params, MatmulParams) and params.activation == "relu"


def composed_op(
    builder: Builder, node: Node, edges: Sequence[Edge], seen: Sequence[Elements], numerics: Numerics
) -> int | None:
    """Adds an op of several kernels, and returns its result; None for an op of one."""
    spec, options = node.spec, node.spec.options
    if spec.type == "matmul" and options.z:
        # Matrices side by side times those below each other: their products are added up.
        hstack, vstack = Tm("hstack", options.z), Tm("vstack", options.z)
        first, second, *more = edges
        stacked = [replace(first, tms=(*first.tms, hstack)), replace(second, tms=(*second.tms, vstack)), *more]
        whole = replace(node, op=replace(spec, options=replace(options, z=0)))
        return builder.product(whole, stacked, numerics)
    if spec.type in SCALED or (spec.type != "splice" and _has_integers(builder, node, edges)):
        return _Integers(builder, node, edges, numerics).result()
    match spec.type:
        case "reduce" if spec.reduce_dim == "z" and options.z not in (0, seen[0][0]):
            return _reduce_z(builder, node, edges[0], seen[0], numerics)
        case "encoded_matmul" if options.encoding is not None:
            return _encoded(builder, node, edges, seen, numerics)
        case "depthwise" if options.bias or _has_integer_operands(builder, edges):
            return _depthwise(builder, node, edges, seen, numerics)
        case "splice" if options.tiles:
            return _splice(builder, node, edges, seen)
        case "topk":
            return _topk(builder, node, edges, seen, numerics)
        case "embedding":
            return _embedding(builder, node, edges, seen)
    return None


def _has_integers(builder: Builder, node: Node, edges: Sequence[Edge]) -> bool:
    formats = [builder.graph.node(edge.producer).data_format for edge in edges]
    if node.spec.type in ("topk", "embedding", "encoded_matmul", "depthwise") or node.spec.sparse is not None:
        return False
    return node.data_format in INTEGERS or any(name in INTEGERS for name in formats)


def _has_integer_operands(builder: Builder, edges: Sequence[Edge]) -> bool:
    return any(builder.graph.node(edge.producer).data_format in INTEGERS for edge in edges)


class _Integers:
    """Adds an op with integers among its operands or as its result."""

    def __init__(self, builder: Builder, node: Node, edges: Sequence[Edge], numerics: Numerics) -> None:
        self.builder, self.node, self.numerics = builder, node, numerics
        self.edges = list(edges)
        self.kinds = [builder.graph.node(edge.producer).data_format for edge in edges]

    def result(self) -> int:
        """Returns the op's result in its own format."""
        spec = self.node.spec
        if spec.type in SCALED:
            return self.packed(self.scaled(self.operand(0), self.operand(1), SCALED[spec.type]))
        if spec.type == "matmul":
            return self.product()
        if spec.type not in ON_INTEGERS or not all(kind in INTEGERS for kind in self.kinds):
            raise CompilerInputError(
                f"{self.node.name}: expected floats, or integers alone in {', '.join(ON_INTEGERS)}, matmul and "
                f"{', '.join(SCALED)}, got {', '.join(self.kinds)} in {spec.type}"
            )
        operands = [self.wide(number) for number in range(len(self.edges))]
        return self.packed(self.add(ON_INTEGERS[spec.type], operands, "Int32", EltwiseParams()))

    def operand(self, number: int) -> int:
        return self.builder.operand(self.edges[number], self.node.extent)

    def wide(self, number: int) -> int:
        """Returns an operand in 32 bits."""
        return self.builder.cast(self.operand(number), self.node.extent, "Int32", self.node.name)

    def add(self, kernel: str, inputs: list[int], data_format: str, params: Params) -> int:
        numerics = replace(self.numerics, dst_format="Float32") if data_format == "Float32" else self.numerics
        self.builder.operation[self.node.name] = len(self.builder.operations)
        out = self.builder.on_device(self.node.extent, data_format)
        return self.builder.call(kernel, inputs, out, params, self.node.name, numerics)

    def scaled(self, one: int, two: int, kernel: str) -> int:
        """Adds a change of scale, in float32; of a dequantization the integers come first."""
        kinds = [self.builder.tensors[tensor].data_format in INTEGERS for tensor in (one, two)]
        if kernel == "dequantization" and kinds == [False, True]:
            one, two = two, one
        floats = [self.builder.cast(t, self.node.extent, "Float32", self.node.name) for t in (one, two)]
        return self.add(kernel, floats, "Float32", EltwiseParams((self.node.spec.options.zero_point,)))

    def product(self) -> int:
        """Adds a product of integers, with its bias and its change of scale."""
        options, node, builder = self.node.spec.options, self.node, self.builder
        if not all(kind in INTEGERS for kind in self.kinds[:2]):
            raise CompilerInputError(f"{node.name}: expected integers or floats alone, got {', '.join(self.kinds)}")
        (_, rows, cols), shapes = node.extent, [builder.graph.operand_shape(edge) for edge in self.edges]
        inner = shapes[0].ct * TILE
        left = builder.operand(self.edges[0], (shapes[0].z, rows, inner))
        right = builder.operand(self.edges[1], (shapes[1].z, inner, cols))
        out = self.add("matmul", [left, right], "Int32", MatmulParams())
        more = list(range(2, len(self.edges)))
        if options.bias:
            out = self.plain("add", [out, self.wide(more.pop(0))], "Int32", EltwiseParams())
        if options.scaling:
            kernel = {"requant": "requantization", "dequant": "dequantization"}[options.scaling]
            before = builder.operation[node.name]
            out = self.scaled(out, self.operand(more.pop(0)), kernel)
            builder.operation[node.name] = before
        return self.packed(out)

    def plain(self, kernel: str, inputs: list[int], data_format: str, params: Params) -> int:
        out = self.builder.on_device(self.node.extent, data_format)
        return self.builder.call(kernel, inputs, out, params, self.node.name, self.numerics)

    def packed(self, tensor: int) -> int:
        """Returns a result behind the packer's relu, saturated, in the op's format."""
        spec, builder = self.node.spec, self.builder
        data_format = builder.tensors[tensor].data_format
        if spec.relu:
            kernel, params = relu_kernel(spec.options)
            tensor = self.plain(kernel, [tensor], data_format, params)
        wanted = self.node.data_format
        if wanted in RANGES and data_format != wanted:
            tensor = self.plain("clamp_scalar", [tensor], data_format, EltwiseParams(RANGES[wanted]))
        if wanted not in INTEGERS and data_format in INTEGERS:
            tensor = builder.cast(tensor, self.node.extent, "Float32", self.node.name)
        return builder.cast(tensor, self.node.extent, wanted, self.node.name)


def _encoded(builder: Builder, node: Node, edges: Sequence[Edge], seen: Sequence[Elements], numerics: Numerics) -> int:
    """Sparse tiles times activations, placed by an encoding."""
    encoding = node.spec.options.encoding
    assert encoding is not None
    operands = [builder.operand(edge, elements) for edge, elements in zip(edges[:3], seen, strict=False)]
    builder.operation[node.name] = len(builder.operations)
    out = builder.on_device(node.extent, node.data_format)
    out = builder.call("encoded_matmul", operands, out, encoding, node.name, numerics)
    return _with_bias_and_relu(builder, node, out, edges[3:], numerics)


def _with_bias_and_relu(builder: Builder, node: Node, out: int, bias: Sequence[Edge], numerics: Numerics) -> int:
    """Returns a product with its bias, if it has one, and what the packer's relu leaves of it."""
    if bias:
        row = builder.operand(_row_of_tiles(bias[0]), node.extent)
        out = builder.call(
            "add", [out, row], builder.on_device(node.extent, node.data_format), EltwiseParams(), node.name, numerics
        )
    if node.spec.relu:
        kernel, params = relu_kernel(node.spec.options)
        packed = builder.on_device(node.extent, node.data_format)
        out = builder.call(kernel, [out], packed, params, f"{node.name}.relu", numerics)
    return out


def _moved(builder: Builder, tensor: int, shape: tuple[int, ...], where: str, permutation: Sequence[int] = ()) -> int:
    """Returns a tensor in another shape, or with its dims in another order."""
    desc = builder.tensors[tensor]
    out = builder.add(replace(desc, shape=shape))
    if permutation:
        return builder.call("permute", [tensor], out, PermuteParams(tuple(permutation)), where)
    return builder.call("reshape", [tensor], out, ReshapeParams(shape), where)


def _last(builder: Builder, node: Node, tensor: int) -> int:
    """Returns a tensor as the op's result: its last operation is the one that the plan places."""
    builder.operation[node.name] = len(builder.operations)
    return _moved(builder, tensor, node.extent, node.name)


def _reduce_z(builder: Builder, node: Node, edge: Edge, seen: Elements, numerics: Numerics) -> int:
    """Each `z` matrices become one."""
    count, (z, rows, cols) = node.spec.options.z, seen
    if z % count:
        raise CompilerInputError(f"{node.name}.attributes.z: expected a divisor of {z}, got {count}")
    apart = _moved(builder, builder.operand(edge, seen), (z // count, count, rows, cols), node.name)
    builder.operation[node.name] = len(builder.operations)
    out = builder.on_device(node.extent, node.data_format)
    return builder.call(node.spec.reduce_type, [apart], out, ReduceParams((1,)), node.name, numerics)


def _depthwise(
    builder: Builder, node: Node, edges: Sequence[Edge], seen: Sequence[Elements], numerics: Numerics
) -> int:
    """Blocks of columns, each times its own tile of the right operand, added up: a product for each column of tiles."""
    z, rows, cols = node.extent
    whole = _has_integer_operands(builder, edges)
    kept = "Int32" if whole else node.data_format
    blocks, wide = node.spec.options.blocks, cols // TILE
    left, right = seen[:2]
    if left[2] != blocks * cols or right[1] != blocks * TILE or right[2] != cols or len({z, left[0], right[0]}) != 1:
        raise CompilerInputError(
            f"{node.name}: expected {blocks} blocks of columns and as many rows of tiles, got {left} and {right}"
        )
    one = _moved(builder, builder.operand(edges[0], left), (z, rows, blocks, wide, TILE), node.name)
    one = _moved(builder, one, (z, wide, rows, blocks, TILE), node.name, (0, 3, 1, 2, 4))
    one = _moved(builder, one, (z * wide, rows, blocks * TILE), node.name)
    two = _moved(builder, builder.operand(edges[1], right), (z, blocks * TILE, wide, TILE), node.name)
    two = _moved(builder, two, (z, wide, blocks * TILE, TILE), node.name, (0, 2, 1, 3))
    two = _moved(builder, two, (z * wide, blocks * TILE, TILE), node.name)
    product = builder.on_device((z * wide, rows, TILE), kept)
    by_block = replace(numerics, k_block=1)
    builder.call("matmul", [one, two], product, MatmulParams(), node.name, by_block)
    value = _moved(builder, product, (z, wide, rows, TILE), node.name)
    value = _moved(builder, value, (z, rows, wide, TILE), node.name, (0, 2, 1, 3))
    out = _last(builder, node, value)
    if whole:
        placed = builder.operation[node.name]
        integers = _Integers(builder, node, edges, numerics)
        if node.spec.options.bias:
            out = integers.plain("add", [out, integers.wide(2)], "Int32", EltwiseParams())
        out = integers.packed(out)
        builder.operation[node.name] = placed
        return out
    return _with_bias_and_relu(builder, node, out, edges[2:3] if node.spec.options.bias else (), numerics)


def _row_of_tiles(edge: Edge) -> Edge:
    """Returns the edge of a bias, of which each tile's first row counts."""
    return replace(edge, tms=(*edge.tms, Tm("tile_broadcast", dim="r")))


def _tile_list(builder: Builder, tensor: int, elements: Elements, where: str) -> int:
    """Returns a tensor with a row per tile, row by row."""
    z, rows, cols = elements
    split = _moved(builder, tensor, (z, rows // TILE, TILE, cols // TILE, TILE), where)
    split = _moved(builder, split, (z, rows // TILE, cols // TILE, TILE, TILE), where, (0, 1, 3, 2, 4))
    return _moved(builder, split, (z * rows // TILE * cols // TILE, TILE * TILE), where)


def _picked(builder: Builder, table: int, rows: np.ndarray, where: str) -> int:
    """Returns rows of a table, whose numbers the program has as a constant."""
    numbers = builder.add(TensorDesc(rows.shape, "i32", "Int32", "row_major", "dram"))
    data = np.ascontiguousarray(rows, dtype="<i4").tobytes()
    builder.call("constant", [], numbers, ConstantParams(rows.shape, data), where)
    desc = builder.tensors[table]
    out = builder.add(replace(desc, shape=(*rows.shape, desc.shape[1])))
    return builder.call("embedding", [numbers, table], out, GatherParams(), where)


def _splice(builder: Builder, node: Node, edges: Sequence[Edge], seen: Sequence[Elements]) -> int:
    """Tiles of the operands in another order."""
    lists = [
        _tile_list(builder, builder.operand(edge, elements), elements, node.name)
        for edge, elements in zip(edges, seen, strict=True)
    ]
    counts = [builder.tensors[tensor].shape[0] for tensor in lists]
    starts = np.concatenate([[0], np.cumsum(counts)])
    formats = {builder.tensors[tensor].data_format for tensor in lists}
    if len(formats) > 1:
        lists = [builder.cast(t, builder.tensors[t].shape, node.data_format, node.name) for t in lists]
    table = lists[0]
    if len(lists) > 1:
        joined = builder.add(replace(builder.tensors[table], shape=(int(starts[-1]), TILE * TILE)))
        table = builder.call("concat", lists, joined, ConcatParams(0), node.name)
    rows = np.array([starts[operand] + tile for operand, tile in node.spec.options.tiles])
    picked = _picked(builder, table, rows, node.name)
    z, height, width = node.extent
    value = _moved(builder, picked, (z, height // TILE, width // TILE, TILE, TILE), node.name)
    value = _moved(builder, value, (z, height // TILE, TILE, width // TILE, TILE), node.name, (0, 1, 3, 2, 4))
    out = _last(builder, node, value)
    return builder.cast(out, node.extent, node.data_format, node.name)


def _topk(builder: Builder, node: Node, edges: Sequence[Edge], seen: Sequence[Elements], numerics: Numerics) -> int:
    """The largest of each row, on each column of cores, in falling order, or what the other operand has there."""
    (z, rows, cols), (_, parts), k = seen[0], node.spec.options.cores, node.spec.options.k
    if not 0 < k <= cols // parts:
        raise CompilerInputError(f"{node.name}.attributes.k: expected 1 to {cols // parts}, got {k}")
    table = _moved(builder, builder.operand(edges[0], seen[0]), (z, rows, parts, cols // parts), node.name)
    desc = builder.tensors[table]
    values = builder.add(replace(desc, shape=(z, rows, parts, k)))
    places = builder.add(TensorDesc((z, rows, parts, k), "i32", "Int32", "tile", "dram"))
    builder.operations.append(Operation("topk", (table,), (values, places), TopkParams(k), numerics, node.name))
    if node.spec.options.indices:
        if seen[1] != seen[0]:
            raise CompilerInputError(f"{node.name}: expected as many indices as numbers, got {seen[1]} and {seen[0]}")
        batches = z * rows * parts
        own = _moved(builder, builder.operand(edges[1], seen[1]), (batches, cols // parts, 1), node.name)
        places = _moved(builder, places, (batches, 1, k), node.name)
        taken = builder.add(replace(builder.tensors[own], shape=(batches, k, 1)))
        params = IndexedRowsParams((cols // parts,), (1,))
        values = _moved(
            builder,
            builder.call("rows_gather", [own, places], taken, params, node.name),
            (z, rows, parts, k),
            node.name,
        )
        desc = builder.tensors[values]
    filled = -(-k // TILE) * TILE
    if filled != k:
        wide = builder.add(replace(desc, shape=(z, rows, parts, filled)))
        params = PadParams((0, 0, 0, 0), (0, 0, 0, filled - k), (0, 0, 0, 0))
        values = builder.call("pad", [values], wide, params, node.name)
    return builder.cast(_last(builder, node, values), node.extent, node.data_format, node.name)


def _embedding(builder: Builder, node: Node, edges: Sequence[Edge], seen: Sequence[Elements]) -> int:
    """Rows of a table; each row of cores has its own indices, in the order of its elements."""
    count, (parts, _) = node.spec.options.num_indices, node.spec.options.cores
    table, (_, rows, cols) = seen[0], seen[1]
    if table[0] != 1 or seen[1][0] != 1 or not 0 < count <= rows // parts * cols:
        raise CompilerInputError(
            f"{node.name}: expected a table and {parts} times {count} indices, got {table} and {seen[1]}"
        )
    numbers = _moved(builder, builder.operand(edges[1], seen[1]), (parts, rows // parts * cols), node.name)
    own = builder.add(replace(builder.tensors[numbers], shape=(parts, count)))
    builder.call("slice_static", [numbers], own, SliceParams((0, 0), (parts, count), (1, 1)), node.name)
    lines = _moved(builder, builder.operand(edges[0], table), table[1:], node.name)
    taken = builder.add(replace(builder.tensors[lines], shape=(parts, count, table[2])))
    builder.call("embedding", [own, lines], taken, GatherParams(), node.name)
    filled = -(-count // TILE) * TILE
    if filled != count:
        wide = builder.add(replace(builder.tensors[taken], shape=(parts, filled, table[2])))
        params = PadParams((0, 0, 0), (0, filled - count, 0), (0, 0, 0))
        taken = builder.call("pad", [taken], wide, params, node.name)
    return builder.cast(_last(builder, node, taken), node.extent, node.data_format, node.name)


__all__ = ["INTEGERS", "composed_op", "params_relu", "relu_kernel"]
