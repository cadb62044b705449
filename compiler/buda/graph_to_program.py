"""Turns a Buda graph into the program that a device runs: for each op the TMs of its operands, then its kernel.

Inputs of the program are the contents of the graph's sources as (z, rows, columns) of float32; outputs likewise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from opscope.compiler.buda.composed_ops import INTEGERS, RAW, composed_op, params_relu, relu_kernel
from opscope.compiler.buda.graph import BudaGraph, Edge, Node, NodeKind, Tm
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.target.formats import TILE
from opscope.compiler.target.program import (
    ConcatParams,
    EltwiseParams,
    LayoutParams,
    MatmulParams,
    Numerics,
    Operation,
    Params,
    Program,
    ReduceParams,
    ReshapeParams,
    SliceParams,
    SparseMatmulParams,
    TensorDesc,
    TmsParams,
)

KERNELS = {
    "abs": "abs",
    "add": "add",
    "cosine": "cos",
    "erf": "erf",
    "exp": "exp",
    "gelu": "gelu",
    "log": "log",
    "maximum": "maximum",
    "multiply": "multiply",
    "nop": "typecast",
    "reciprocal": "reciprocal",
    "sigmoid": "sigmoid",
    "sine": "sin",
    "sqrt": "sqrt",
    "square": "square",
    "subtract": "subtract",
    "tanh": "tanh",
    "tilizer": "typecast",
    "lrelu": "leaky_relu",
    "power": "pow_scalar",
    "gelu_derivative": "gelu_derivative",
}
"""Buda's elementwise op -> kernel. A nop with relu is the kernel relu."""
REDUCED = {"z": 0, "r": 1, "c": 2}

Elements = tuple[int, int, int]


def whole(size: int) -> int:
    """Returns the elements of the tiles that hold `size` elements."""
    return -(-size // TILE) * TILE


def elements_after(elements: Elements, tms: tuple[Tm, ...]) -> Elements:
    """Returns elements along z, rows and columns after TMs, which work on whole tiles of what they cut or join."""
    z, r, c = elements
    for tm in tms:
        match tm.name:
            case "hslice":
                z, c = z * tm.factor, whole(c) // tm.factor
            case "vslice":
                z, r = z * tm.factor, whole(r) // tm.factor
            case "hstack":
                z, c = z // tm.factor, whole(c) * tm.factor
            case "vstack":
                z, r = z // tm.factor, whole(r) * tm.factor
            case "transpose":
                r, c = c, r
            case "broadcast" if tm.dim == "z":
                z *= tm.factor
            case "broadcast" | "tile_broadcast":
                r, c = (whole(r) * tm.factor, c) if tm.dim == "r" else (r, whole(c) * tm.factor)
            case "expand":
                r, c = r // tm.rt * TILE, c // tm.ct * TILE
            case "crop":
                r, c = whole(r) // TILE * tm.rt, whole(c) // TILE * tm.ct
            case "clear":
                r, c = whole(r), whole(c)
            case "buda_pad":
                r, c = whole(r) + tm.rt * TILE, whole(c) + tm.ct * TILE
            case "buda_unpad":
                r, c = whole(r) - tm.rt * TILE, whole(c) - tm.ct * TILE
    return z, r, c


@dataclass(frozen=True)
class GraphProgram:
    """A graph's program, and the places of its parts."""

    program: Program
    sources: tuple[str, ...]
    """Nodes whose contents are the inputs, in order. A convolution's picker is not one: its kernel makes it."""
    outputs: tuple[str, ...]
    operation: Mapping[str, int]
    """Op -> index of its kernel's operation. A fused op has its steps as `op.step` and its last step as `op`."""
    tensor: Mapping[str, int]
    """Node -> its tensor on the device; for an output, on the host."""

    def operations_of(self, node: Node) -> tuple[int, ...]:
        """Indices of the operations of an op: one per step of a fused op, in order; otherwise one."""
        if node.spec.fused is None:
            return (self.operation[node.name],)
        steps = node.spec.fused.steps[:-1]
        return (*(self.operation[f"{node.name}.{step.name}"] for step in steps), self.operation[node.name])


def to_program(graph: BudaGraph, u_kt: Mapping[str, int] | None = None) -> GraphProgram:
    """Returns the program of a graph.

    Products add up their inner dimension in steps of `u_kt` tiles if it names the op, else all at once. Raises
    CompilerInputError for an op without a kernel.
    """
    from opscope.compiler.buda.fused import without_fused

    return _Builder(without_fused(graph), u_kt or {}).build()


@dataclass
class _Builder:
    graph: BudaGraph
    u_kt: Mapping[str, int]
    tensors: list[TensorDesc] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    tensor: dict[str, int] = field(default_factory=dict)
    operation: dict[str, int] = field(default_factory=dict)

    def build(self) -> GraphProgram:
        inputs, outputs, sources, results = [], [], [], []
        for node in self.graph.nodes:
            if node.kind is NodeKind.OP:
                self.tensor[node.name] = self.op(node)
            elif node.kind is NodeKind.OUTPUT:
                (edge,) = self.graph.operands(node.name)
                value = self.as_float(self.operand(edge, node.extent), node.extent, node.name)
                outputs.append(self.add(TensorDesc(node.extent, "f32", "Float32", "row_major", "system_memory")))
                self.call("from_device", [value], outputs[-1], LayoutParams(), node.name)
                self.tensor[node.name] = outputs[-1]
                results.append(node.name)
            elif not self.is_picker(node):
                inputs.append(self.source(node))
                sources.append(node.name)
        program = Program("main", tuple(self.tensors), tuple(inputs), tuple(outputs), tuple(self.operations))
        return GraphProgram(program, tuple(sources), tuple(results), self.operation, self.tensor)

    def is_picker(self, node: Node) -> bool:
        users = self.graph.users(node.name)
        return bool(users) and all(
            edge.operand == 0 and self.graph.node(edge.consumer).op is not None and self._sparse(edge.consumer)
            for edge in users
        )

    def _sparse(self, name: str) -> bool:
        return self.graph.node(name).spec.sparse is not None

    def add(self, desc: TensorDesc) -> int:
        self.tensors.append(desc)
        return len(self.tensors) - 1

    def on_device(self, elements: tuple[int, ...], data_format: str) -> int:
        """Returns a new tensor in DRAM."""
        return self.add(TensorDesc(elements, INTEGERS.get(data_format, "f32"), data_format, "tile", "dram"))

    def source(self, node: Node) -> int:
        """Returns the program's input for a source, and adds what takes it over.

        The host gives it as float32; bits that nothing converts, and 32-bit integers without sign, as what they are.
        """
        if node.data_format in RAW:
            kind = INTEGERS[node.data_format]
            source = self.add(TensorDesc(node.extent, kind, RAW[node.data_format], "row_major", "system_memory"))
            self.tensor[node.name] = self.on_device(node.extent, node.data_format)
            self.call("to_device", [source], self.tensor[node.name], LayoutParams(), node.name)
            return source
        source = self.add(TensorDesc(node.extent, "f32", "Float32", "row_major", "system_memory"))
        whole = node.data_format in INTEGERS
        target = self.on_device(node.extent, "Float32" if whole else node.data_format)
        self.call("to_device", [source], target, LayoutParams(), node.name)
        self.tensor[node.name] = self.cast(target, node.extent, node.data_format, node.name) if whole else target
        return source

    def cast(self, tensor: int, elements: tuple[int, ...], data_format: str, where: str) -> int:
        """Returns a tensor in another format; itself if it has that format."""
        if self.tensors[tensor].data_format == data_format:
            return tensor
        return self.call("typecast", [tensor], self.on_device(elements, data_format), EltwiseParams(), where)

    def as_float(self, tensor: int, elements: tuple[int, ...], where: str) -> int:
        """Returns a tensor as float32 if it has integers, else as it is."""
        whole = self.tensors[tensor].data_format in INTEGERS
        return self.cast(tensor, elements, "Float32", where) if whole else tensor

    def call(
        self, kernel: str, inputs: list[int], output: int, params: Params, where: str, numerics: Numerics | None = None
    ) -> int:
        self.operations.append(Operation(kernel, tuple(inputs), (output,), params, numerics or Numerics(), where))
        return output

    def operand(self, edge: Edge, wanted: Elements) -> int:
        """Returns the operand's tensor as its consumer reads it."""
        producer = self.graph.node(edge.producer)
        edge_tensor = self.tensor[edge.producer]
        if not edge.tms and producer.extent == wanted:
            return edge_tensor
        tensor = self.on_device(wanted, producer.data_format)
        params = TmsParams(tuple(str(tm) for tm in edge.tms), wanted)
        return self.call("tms", [edge_tensor], tensor, params, f"{edge.consumer}.input_{edge.operand}_tms")

    def op(self, node: Node) -> int:
        """Returns the op's result."""
        spec, edges = node.spec, self.graph.operands(node.name)
        seen = [elements_after(self.graph.node(edge.producer).extent, edge.tms) for edge in edges]
        numerics = Numerics(
            spec.math_fidelity,
            spec.acc_format,
            {"matmul": self.u_kt.get(node.name, 0), "depthwise": 1}.get(spec.type, 0),
            spec.intermediate_format or node.data_format,
            spec.approximate,
        )
        if spec.stacked:
            return self.stack(node, edges, seen, numerics)
        if composed := composed_op(self, node, edges, seen, numerics):
            return self.finished(node, composed)
        if spec.type == "splice":
            return self.splice(node, edges[0], seen[0], numerics)
        return self.single(node, edges, seen, numerics)

    def product(self, node: Node, edges: Sequence[Edge], numerics: Numerics) -> int:
        """Returns the result of a product of other edges than the graph's."""
        seen = [elements_after(self.graph.node(edge.producer).extent, edge.tms) for edge in edges]
        return self.single(node, edges, seen, numerics)

    def single(self, node: Node, edges: Sequence[Edge], seen: list[Elements], numerics: Numerics) -> int:
        """Returns the result of an op of one kernel."""
        spec = node.spec
        if spec.type == "matmul" and len(edges) == 3 and spec.options.bias:
            # A bias is one row of each tile, which the unpacker repeats.
            edges = [*edges[:2], replace(edges[2], tms=(*edges[2].tms, Tm("tile_broadcast", dim="r")))]
        kernel, params, wanted = self.kernel(node, seen)
        edges = edges[1:] if spec.sparse is not None else edges
        operands = [self.operand(edge, elements) for edge, elements in zip(edges, wanted, strict=True)]
        out = self.on_device(node.extent, node.data_format)
        self.operation[node.name] = len(self.operations)
        self.call(kernel, operands, out, params, node.name, numerics)
        if spec.relu and kernel != "relu" and not (spec.is_matmul and params_relu(params)):
            packed = self.on_device(node.extent, node.data_format)
            relu, own = relu_kernel(spec.options)
            out = self.call(relu, [out], packed, own, f"{node.name}.relu", numerics)
        return self.finished(node, out)

    def finished(self, node: Node, out: int) -> int:
        """Returns an op's result with zeros where its tiles end."""
        height, width = node.spec.options.tile
        if (height, width) == (TILE, TILE):
            return out
        cleared = self.on_device(node.extent, node.data_format)
        params = TmsParams((f"clear({height}, {width})",), node.extent)
        return self.call("tms", [out], cleared, params, f"{node.name}.tile_dim")

    def kernel(self, node: Node, seen: list[Elements]) -> tuple[str, Params, list[Elements]]:
        """Returns the op's kernel, its parameters, and the elements that it reads of each operand."""
        spec, (_, rows, cols) = node.spec, node.extent
        if spec.type == "matmul" and len(seen) in (2, 3):
            left, right, *bias = seen
            inner = left[2] if left[2] == right[1] else whole(max(left[2], right[1]))
            wanted = [(left[0], rows, inner), (right[0], inner, cols), *(node.extent for _ in bias)]
            plain = spec.relu and not spec.activation and relu_kernel(spec.options)[0] == "relu"
            params = MatmulParams(activation="relu" if plain else spec.activation)
            return "linear" if bias else "matmul", params, wanted
        if spec.type == "depthwise" and len(seen) == 2:
            taps = self.graph.operand_shape(self.graph.operands(node.name)[1]).rt
            wanted = [(seen[0][0], rows, taps * whole(cols)), (seen[1][0], taps * TILE, cols)]
            plain = spec.relu and not spec.activation and relu_kernel(spec.options)[0] == "relu"
            return "depthwise", MatmulParams(activation="relu" if plain else spec.activation), wanted
        if spec.sparse is not None and spec.sparse.windows is not None:
            w = spec.sparse.windows
            params = SparseMatmulParams(w.size, w.kernel, w.stride, (*w.padding[0], *w.padding[1]), w.dilation)
            return "sparse_matmul", params, [(1, w.size[0] * w.size[1], cols)]
        if spec.sparse is not None and spec.sparse.runs:
            return "sparse_matmul", SparseMatmulParams(runs=spec.sparse.runs), [(1, spec.sparse.cols * TILE, cols)]
        if spec.type == "reduce":
            dim = REDUCED[spec.reduce_dim]
            wanted = tuple(seen[0][d] if d == dim else node.extent[d] for d in range(3))
            return spec.reduce_type, ReduceParams((dim,), True), [(wanted[0], wanted[1], wanted[2])]
        if spec.type in KERNELS:
            plain = spec.relu and spec.type == "nop" and relu_kernel(spec.options)[0] == "relu"
            kernel = "relu" if plain else KERNELS[spec.type]
            scalars = () if spec.scalar is None else (spec.scalar,)
            return kernel, EltwiseParams(scalars), [node.extent] * len(seen)
        raise CompilerInputError(
            f"{node.name}: expected an op that the device runs ({', '.join(sorted(KERNELS))}, matmul, reduce, splice, "
            f"a convolution's sparse_matmul), got {spec.type}; try opscope plan, which only plans"
        )

    def stack(self, node: Node, edges: tuple[Edge, ...], seen: list[Elements], numerics: Numerics) -> int:
        """Adds a splice that puts whole tiles of its operands one after another along one dimension."""
        axis = REDUCED[node.spec.stacked]
        parts = []
        for edge, (z, r, c) in zip(edges, seen, strict=True):
            extent = [z, node.extent[1], node.extent[2]]
            if axis:
                extent[axis] = whole((z, r, c)[axis])
            parts.append(self.operand(edge, (extent[0], extent[1], extent[2])))
        shapes = [self.tensors[part].shape for part in parts]
        full = tuple(sum(h[d] for h in shapes) if d == axis else shapes[0][d] for d in range(3))
        out = self.on_device(full, node.data_format)
        self.operation[node.name] = len(self.operations)
        return self.call("concat", parts, out, ConcatParams(axis), node.name, numerics)

    def splice(self, node: Node, edge: Edge, seen: Elements, numerics: Numerics) -> int:
        """Adds a splice: views the operand as an array of its own dims, cuts it, and restores z, rows, columns."""
        taken = node.spec.slices
        if taken is None:
            raise CompilerInputError(f"{node.name}: expected a splice that says what it takes, got none")
        operand = self.operand(edge, seen)
        producer = self.graph.node(edge.producer)
        apart = self.on_device(taken.dims, producer.data_format)
        self.call("reshape", [operand], apart, ReshapeParams(taken.dims), node.name)
        bounds = zip(taken.begins, taken.ends, taken.steps, strict=True)
        cut = self.on_device(tuple(-(-(e - b) // s) for b, e, s in bounds), node.data_format)
        self.operation[node.name] = len(self.operations)
        params = SliceParams(taken.begins, taken.ends, taken.steps)
        self.call("slice_static", [apart], cut, params, node.name, numerics)
        out = self.on_device(node.extent, node.data_format)
        return self.call("reshape", [cut], out, ReshapeParams(node.extent), node.name)
