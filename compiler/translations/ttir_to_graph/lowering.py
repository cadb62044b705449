"""Lowers TTIR ops, in order, to host work, TMs or graph nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from opscope.compiler.buda.graph import NodeKind, OpSpec, Slices, TensorShape, Tm
from opscope.compiler.buda.graph_builder import GraphBuilder, Operand
from opscope.compiler.dialects.epoch_types import EPOCH_TYPES, epoch_type
from opscope.compiler.errors import CompilerInputError, StageFailure
from opscope.compiler.translations.ttir_to_graph import windows
from opscope.compiler.translations.ttir_to_graph.arguments import parameters
from opscope.compiler.translations.ttir_to_graph.contents import Content
from opscope.compiler.translations.ttir_to_graph.given_names import op_name
from opscope.compiler.translations.ttir_to_graph.hosts import host_ops
from opscope.compiler.translations.ttir_to_graph.layout import Dims, Layout, broadcast, permuted, regrouped
from opscope.compiler.translations.ttir_to_graph.names import BINARY, REDUCE, UNARY
from opscope.compiler.translations.ttir_to_graph.rest import rest_needs
from opscope.compiler.translations.ttir_to_graph.values import DeviceValue, HostValue, Value, folded

STAGE = "ttir-to-graph"


def lowered(
    module: ModuleOp,
    name: str,
    fidelity: str = "HiFi3",
    data_format: str = "Float16_b",
    acc_format: str = "Float16_b",
    all_inputs: bool = False,
    weights: frozenset[int] | None = None,
    fallback: bool = False,
) -> Lowering:
    """Lowers a TTIR module's entry function to a graph and the contents of its sources. Raises StageFailure.

    With `all_inputs` no argument counts as a parameter; `weights` are the arguments that do, where that is known. With
    `fallback` an op that cannot be lowered, and what needs its result, is left to the host.
    """
    entry = next((op for op in module.body.block.ops if isinstance(op, FuncOp)), None)
    if entry is None:
        raise CompilerInputError(f"{name}: expected a function, got none")
    block = entry.body.block
    if weights is None:
        weights = frozenset() if all_inputs else parameters(block)
    lowering = Lowering(GraphBuilder(name, data_format), fidelity, acc_format, host_ops(block, weights), fallback)
    for i, arg in enumerate(block.args):
        kind = NodeKind.PARAMETER if i in weights else NodeKind.INPUT
        lowering.values[arg] = HostValue(kind, f"arg{i}", dims_of(arg), dims_of(arg), arg, arg)
    for op in block.ops:
        if op.name == "func.return":
            lowering.finish(list(op.operands))
        else:
            lowering.op(op)
    return lowering


def dims_of(value: SSAValue) -> Dims:
    """Returns the dims of a tensor value."""
    assert isinstance(value.type, TensorType)
    return tuple(value.type.get_shape())


def ints(attr: Attribute) -> tuple[int, ...]:
    """Returns the integers of an attribute."""
    if isinstance(attr, DenseArrayBase):
        return tuple(int(v) for v in attr.get_values())
    return tuple(int(v.value.data) for v in attr)  # type: ignore[attr-defined]


class Lowering:
    """The state of a lowering: the graph so far, and the value of each TTIR value in it."""

    def __init__(
        self,
        builder: GraphBuilder,
        fidelity: str,
        acc_format: str,
        on_host: dict[Operation, NodeKind],
        fallback: bool = False,
    ) -> None:
        self.on_host = on_host
        self.fallback = fallback
        self.builder, self.fidelity, self.acc_format = builder, fidelity, acc_format
        self.epoch_type = EPOCH_TYPES[0]
        """The epoch type of the op that is being lowered."""
        self.contents: dict[str, Content] = {}
        """Source of the graph -> its contents."""
        self.results: list[tuple[int, str, Dims]] = []
        """The results that the device computes: number, name of the output, dims."""
        self.host_results: dict[int, SSAValue] = {}
        """The results that the host already has, by number."""
        self.values: dict[SSAValue, Value] = {}
        self.rest: set[SSAValue] = set()
        """What the host computes after the device has run: results of ops that were refused, and what needs them."""
        self.refused: dict[Operation, StageFailure] = {}
        """The first of these ops, and why."""
        self.rest_results: list[int] = []
        """The results that the host computes afterwards, by number."""
        self.rest_inputs: dict[SSAValue, str] = {}
        """Values of the device that the host needs for it -> name of the output."""
        self._given_name, self._named = "", 0
        """The name that the program gives to the op that is being lowered, and how many nodes have it."""
        self._sources: dict[tuple[str, Dims, tuple[int, int, int]], Operand] = {}
        self._count: dict[str, int] = {}

    def op(self, op: Operation) -> None:
        """Lowers one op. Raises StageFailure."""
        name = op.name.removeprefix("ttir.")
        self.epoch_type = epoch_type(op)
        self._given_name, self._named = op_name(op), 0
        if any(operand in self.rest for operand in op.operands):
            self.rest.update(op.results)
            return
        operands = [self.values[operand] for operand in op.operands]
        result = op.results[0]
        dims = dims_of(result)
        hosts = [value for value in operands if isinstance(value, HostValue)]
        if op in self.on_host:
            self.values[result] = self._on_host(op, name, hosts, dims)
            for other in op.results[1:]:
                self.values[other] = folded(hosts, self.fresh("host"), dims_of(other), other)
            return
        maker = self._maker(name)
        before = len(self.builder.nodes), len(self.builder.edges), dict(self.contents), dict(self._sources)
        try:
            if maker is None:
                raise StageFailure(STAGE, op.name, "TT-Buda's planner has no op for it here", kind="notimpl")
            self.values[result] = maker(op, name, operands, dims)
        except StageFailure as failure:
            if not self.fallback or failure.kind == "error":
                raise
            self._undo(*before)
            self.refused[op] = failure
            self.rest.update(op.results)

    def _undo(self, nodes: int, edges: int, contents: dict[str, Content], sources: dict[Any, Operand]) -> None:
        """Removes what an op added to the graph before it was refused."""
        for added in list(self.builder.nodes)[nodes:]:
            del self.builder.nodes[added]
        del self.builder.edges[edges:]
        self.contents, self._sources = contents, sources

    def finish(self, results: list[SSAValue]) -> None:
        """Adds the outputs; results that the host already has, or computes after the device has run, stay there."""
        if self.rest:
            for value in rest_needs(results, self.rest):
                made = self.values.get(value)
                if isinstance(made, DeviceValue):
                    self.rest_inputs[value] = f"rest{len(self.rest_inputs)}"
                    self.builder.output(self.rest_inputs[value], made.operand, made.layout.sizes)
        for i, value in enumerate(results):
            result = self.values.get(value)
            if isinstance(result, DeviceValue):
                self.builder.output(f"output{i}", result.operand, result.layout.sizes)
                self.results.append((i, f"output{i}", dims_of(value)))
            elif value in self.rest:
                self.rest_results.append(i)
            else:
                self.host_results[i] = value

    def fresh(self, kind: str) -> str:
        """Returns a new name for a node: its kind and a number.

        An op that the program names gives its name to its first node, and to the others as TT-Buda does:
        `NAME.dc.KIND.NUMBER`.
        """
        if self._given_name:
            self._named += 1
            name = self._given_name if self._named == 1 else f"{self._given_name}.dc.{kind}.{self._named - 1}"
            if name not in self.builder.nodes:
                return name
        self._count[kind] = self._count.get(kind, 0) + 1
        return f"{kind}_{self._count[kind] - 1}"

    def node(
        self,
        kind: str,
        operands: list[Operand],
        elements: tuple[int, int, int],
        shape: TensorShape | None = None,
        **spec: Any,
    ) -> Operand:
        """Adds an op node with the given elements along z, rows and columns."""
        options = {"math_fidelity": self.fidelity, "acc_format": self.acc_format, "epoch_type": self.epoch_type, **spec}
        return self.builder.op(self.fresh(kind), OpSpec(kind, **options), operands, shape=shape, elements=elements)

    def on_device(self, value: Value, layout: Layout) -> Operand:
        """Returns the value as an operand of that layout. Raises StageFailure if no TM leads to it."""
        if isinstance(value, DeviceValue):
            tms = regrouped(value.layout.sizes, layout.sizes)
            if tms is None:
                raise StageFailure(
                    STAGE,
                    "layout",
                    f"no TM takes {value.layout.sizes} to {layout.sizes} (z, rows, columns)",
                    kind="notimpl",
                )
            return Operand(value.operand.producer, (*value.operand.tms, *tms))
        source = layout.like(value.source) if value.dims == layout.dims else None
        tms = broadcast(source, layout) if source is not None else None
        held = value.origin
        if source is None or tms is None:
            source, tms, held = layout, (), value.full
        if prod(dims_of(held)) != prod(source.sizes):
            raise StageFailure(STAGE, "layout", f"no TM repeats {dims_of(held)} to {layout.dims}", kind="notimpl")
        key = (value.name, source.dims, source.sizes)
        if key not in self._sources:
            name = value.name if value.name not in self.builder.nodes else self.fresh(value.name)
            self._sources[key] = self.builder.source(name, value.kind, source.tiles, elements=source.sizes)
            self.contents[name] = Content(name, held, source.sizes, value.inverted)
        return Operand(self._sources[key].producer, tms)

    def _on_host(self, op: Operation, name: str, hosts: list[HostValue], dims: Dims) -> HostValue:
        if name == "broadcast":
            (value,) = hosts
            if value.dims == value.source or len(value.dims) == len(dims):
                return HostValue(value.kind, value.name, dims, value.source, op.results[0], value.origin)
        if name == "reshape" and hosts[0].dims == hosts[0].source:
            return HostValue(hosts[0].kind, hosts[0].name, dims, dims, op.results[0], op.results[0])
        return folded(hosts, self.fresh("host"), dims, op.results[0])

    def _maker(self, name: str) -> Callable[[Operation, str, list[Value], Dims], Value] | None:
        if name in UNARY:
            return self._unary
        if name in BINARY:
            return self._binary
        if name in REDUCE:
            return self._reduce
        makers = {
            "matmul": self._matmul,
            "reshape": self._reshape,
            "permute": self._permute,
            "broadcast": self._broadcast,
            "slice_static": self._slice,
            "conv2d": self._window,
            "max_pool2d": self._window,
        }
        return makers.get(name)

    def _unary(self, op: Operation, name: str, operands: list[Value], dims: Dims) -> Value:
        layout = self._common(operands, dims)
        operand = self.on_device(operands[0], layout)
        for kind in UNARY[name]:
            operand = self.node(kind, [operand], layout.sizes, relu=name == "relu")
        return DeviceValue(operand, layout)

    def _binary(self, op: Operation, name: str, operands: list[Value], dims: Dims) -> Value:
        layout = self._common(operands, dims)
        first, second = operands
        if name == "div":  # The host inverts it, once.
            assert isinstance(second, HostValue), "ttir-decompose-buda leaves no other"
            second = replace(second, name=f"{second.name}.reciprocal", inverted=True)
        left, right = self.on_device(first, layout), self.on_device(second, layout)
        return DeviceValue(self.node(BINARY[name], [left, right], layout.sizes), layout)

    def _common(self, operands: list[Value], dims: Dims) -> Layout:
        layouts = [value.layout for value in operands if isinstance(value, DeviceValue)]
        return layouts[0] if layouts else Layout.matrix(dims)

    def _matmul(self, op: Operation, name: str, operands: list[Value], dims: Dims) -> Value:
        factors = []
        for value, key in zip(operands, ("transpose_a", "transpose_b"), strict=True):
            source = value.layout.dims if isinstance(value, DeviceValue) else value.dims
            operand = self.on_device(value, Layout.matrix(source))
            turned = op.properties.get(key)
            if isinstance(turned, IntegerAttr) and turned.value.data:
                operand = Operand(operand.producer, (*operand.tms, Tm("transpose")))
            factors.append(operand)
        layout = Layout.matrix(dims)
        return DeviceValue(self.node("matmul", factors, layout.sizes), layout)

    def _reduce(self, op: Operation, name: str, operands: list[Value], dims: Dims) -> Value:
        layout = self._common(operands, dims_of(op.operands[0]))
        operand = self.on_device(operands[0], layout)
        reduced = [d for d in range(len(layout.dims)) if d in ints(op.properties["dim_arg"])]
        rest = [d for d in range(len(layout.dims)) if d not in reduced]
        kept = Layout(tuple(1 if d in reduced else n for d, n in enumerate(layout.dims)), layout.rows, layout.cols)
        sizes = list(layout.sizes)
        for group in "rcz":
            dims_of_group = [d for d in reduced if layout.group(d) == group and layout.dims[d] > 1]
            if not dims_of_group:
                continue
            if any(layout.group(d) == group and layout.dims[d] > 1 for d in rest):
                raise StageFailure(
                    STAGE, op.name, f"dims {reduced} of {layout.dims} are part of a group", kind="notimpl"
                )
            sizes["zrc".index(group)] = 1
            elements = (sizes[0], sizes[1], sizes[2])
            operand = self.node("reduce", [operand], elements, reduce_dim=group, reduce_type=name)
        after = kept if len(dims) == len(layout.dims) else kept.reshaped(dims)
        assert after is not None
        return DeviceValue(operand, after)

    def _reshape(self, op: Operation, name: str, operands: list[Value], dims: Dims) -> Value:
        (value,) = operands
        assert isinstance(value, DeviceValue)
        layout = value.layout.reshaped(dims)
        if layout is not None:
            return DeviceValue(value.operand, layout)
        layout = Layout.matrix(dims)
        tms = regrouped(value.layout.sizes, layout.sizes)
        if tms is None:
            raise StageFailure(
                STAGE, op.name, f"{value.layout.dims} to {dims} moves data between tiles", kind="notimpl"
            )
        return DeviceValue(Operand(value.operand.producer, (*value.operand.tms, *tms)), layout)

    def _permute(self, op: Operation, name: str, operands: list[Value], dims: Dims) -> Value:
        (value,) = operands
        assert isinstance(value, DeviceValue)
        permutation = permuted(value.layout, ints(op.properties["permutation"]))
        if permutation is None:
            raise StageFailure(STAGE, op.name, f"no TM takes {value.layout.dims} to {dims}", kind="notimpl")
        layout, tms = permutation
        return DeviceValue(Operand(value.operand.producer, (*value.operand.tms, *tms)), layout)

    def _broadcast(self, op: Operation, name: str, operands: list[Value], dims: Dims) -> Value:
        (value,) = operands
        assert isinstance(value, DeviceValue)
        layout = value.layout.like(dims)
        tms = broadcast(value.layout, layout) if len(dims) == len(value.layout.dims) else None
        if tms is None:
            raise StageFailure(STAGE, op.name, f"no TM repeats {value.layout.dims} to {dims}", kind="notimpl")
        return DeviceValue(Operand(value.operand.producer, (*value.operand.tms, *tms)), layout)

    def _slice(self, op: Operation, name: str, operands: list[Value], dims: Dims) -> Value:
        (value,) = operands
        assert isinstance(value, DeviceValue)
        layout = value.layout.like(dims)
        taken = (ints(op.properties[key]) for key in ("begins", "ends", "step"))
        slices = Slices(value.layout.dims, *taken)
        return DeviceValue(
            self.node("splice", [value.operand], layout.sizes, shape=layout.tiles, slices=slices), layout
        )

    def _window(self, op: Operation, name: str, operands: list[Value], dims: Dims) -> Value:
        image = dims_of(op.operands[0])
        source = self.on_device(operands[0], Layout.pixels(image))
        if name == "conv2d":
            weights = operands[1]
            if not isinstance(weights, HostValue):
                raise StageFailure(STAGE, op.name, "weights that the device makes", kind="notimpl")
            operand = windows.convolution(self, op, image, source, weights, dims)
        else:
            operand = windows.max_pool(self, op, image, source, dims)
        return DeviceValue(operand, Layout.pixels(dims))
