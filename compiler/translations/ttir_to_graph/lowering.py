"""Lowers TTIR ops, in order, to host work, TMs or graph nodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from opscope.compiler.buda.graph import NodeKind, Tm
from opscope.compiler.buda.graph_builder import GraphBuilder, Operand
from opscope.compiler.dialects.buda import PATCHES, PatchesOp
from opscope.compiler.dialects.epoch_types import epoch_type
from opscope.compiler.dialects.locations import name_of
from opscope.compiler.errors import CompilerInputError, StageFailure
from opscope.compiler.translations.ttir_to_graph import grouped, movements, pools, reductions, windows
from opscope.compiler.translations.ttir_to_graph.arguments import parameters
from opscope.compiler.translations.ttir_to_graph.attributes import ints
from opscope.compiler.translations.ttir_to_graph.contents import Content
from opscope.compiler.translations.ttir_to_graph.hosts import host_ops
from opscope.compiler.translations.ttir_to_graph.layout import Dims, Layout
from opscope.compiler.translations.ttir_to_graph.names import BINARY, MOVES, REDUCE, UNARY
from opscope.compiler.translations.ttir_to_graph.on_device import dims_of, on_device
from opscope.compiler.translations.ttir_to_graph.rest import rest_needs
from opscope.compiler.translations.ttir_to_graph.state import State
from opscope.compiler.translations.ttir_to_graph.values import DeviceValue, HostValue, Value, folded

_NAME = re.compile(r"(?:^|/)buda\.op=([^/]+)")


def op_name(op: Operation) -> str:
    """Returns the name that the program gives to an op; of names within names, the inner one; '' if there is none."""
    names = _NAME.findall(name_of(op))
    return names[-1] if names else ""


STAGE = "ttir-to-graph"
OWN_NAME = re.compile(r"(arg|output)\d+(\..*)?")
"""Names that a graph gives to arguments and outputs itself."""


def lowered(
    module: ModuleOp,
    name: str,
    fidelity: str = "HiFi3",
    acc_format: str = "Float16_b",
    all_inputs: bool = False,
    fallback: bool = False,
    input_names: Sequence[str] = (),
) -> Lowering:
    """Lowers a TTIR module's entry function to a graph and the contents of its sources. Raises StageFailure.

    With `all_inputs` no argument counts as a parameter. Inputs have `input_names` in their order, where no op has that
    name; the others and parameters have the numbers of their arguments. With `fallback` an op that cannot be lowered,
    and what needs its result, is left to the host.
    """
    entry = next((op for op in module.body.block.ops if isinstance(op, FuncOp)), None)
    if entry is None:
        raise CompilerInputError(f"{name}: expected a function, got none")
    block = entry.body.block
    weights = parameters(block, all_inputs)
    lowering = Lowering(GraphBuilder(name, "Float16_b"), fidelity, acc_format, host_ops(block, weights), fallback)
    given = dict(zip((i for i in range(len(block.args)) if i not in weights), input_names, strict=False))
    of_ops = {op_name(op) for op in block.ops}
    called = {i: each for i, each in given.items() if each not in of_ops and not OWN_NAME.fullmatch(each)}
    lowering.state.reserved = frozenset({*called.values(), *of_ops})
    for i, arg in enumerate(block.args):
        kind = NodeKind.PARAMETER if i in weights else NodeKind.INPUT
        lowering.values[arg] = HostValue(kind, called.get(i, f"arg{i}"), dims_of(arg), dims_of(arg), arg, arg)
    for op in block.ops:
        if op.name == "func.return":
            lowering.finish(list(op.operands))
        else:
            lowering.op(op)
    return lowering


def _only_moved(value: SSAValue) -> bool:
    """Whether floats are made of arguments and constants by moves alone."""
    owner = value.owner
    if "f" not in str(value.type).rpartition("x")[2]:
        return False
    if not isinstance(owner, Operation) or not owner.operands:
        return True
    return owner.name.removeprefix("ttir.") in MOVES and all(_only_moved(operand) for operand in owner.operands)


class Lowering:
    """A lowering: its state, and the value of each TTIR value in the graph."""

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
        self.state = State(builder, fidelity, acc_format)
        self.results: list[tuple[int, str, Dims]] = []
        """The results that the device computes: number, name of the output, dims."""
        self.host_results: dict[int, SSAValue] = {}
        """The results that the host already has, by number."""
        self.values: dict[SSAValue, Value] = {}
        self.idle = True
        """Whether the device has nothing to do."""
        self.rest: set[SSAValue] = set()
        """What the host computes after the device has run: results of ops that were refused, and what needs them."""
        self.refused: dict[Operation, StageFailure] = {}
        """The first of these ops, and why."""
        self.rest_results: list[int] = []
        """The results that the host computes afterwards, by number."""
        self.rest_inputs: dict[SSAValue, str] = {}
        """Values of the device that the host needs for it -> name of the output."""

    @property
    def builder(self) -> GraphBuilder:
        """The graph so far."""
        return self.state.builder

    @property
    def contents(self) -> dict[str, Content]:
        """Source of the graph -> its contents."""
        return self.state.contents

    def op(self, op: Operation) -> None:
        """Lowers one op. Raises StageFailure."""
        name = op.name.removeprefix("ttir.")
        self.state.epoch_type = epoch_type(op)
        self.state.user_name = op_name(op)
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
                self.values[other] = folded(hosts, self.state.fresh("host"), dims_of(other), other)
            return
        maker = self._maker(name)
        before = self.state.snapshot()
        try:
            if maker is None:
                raise StageFailure(STAGE, op.name, "TT-Buda's planner has no op for it here", kind="notimpl")
            self.values[result] = maker(op, name, operands, dims)
        except StageFailure as failure:
            if not self.fallback or failure.kind == "error":
                raise
            self.state.undo(*before)
            self.refused[op] = failure
            self.rest.update(op.results)

    def finish(self, results: list[SSAValue]) -> None:
        """Adds the outputs; results that the host already has, or computes after the device has run, stay there.

        With `fallback` a device that has nothing else to do moves those that it can hold.
        """
        self.idle = all(node.op is None for node in self.builder.nodes.values())
        if self.rest:
            for value in rest_needs(results, self.rest):
                made = self._made(value)
                if made is not None:
                    self.rest_inputs[value] = f"rest{len(self.rest_inputs)}"
                    self.builder.output(self.rest_inputs[value], made.operand, made.layout.sizes)
        for i, value in enumerate(results):
            if self.idle and self.fallback:
                self._give(value)
            result = self._made(value)
            if result is not None:
                self.builder.output(f"output{i}", result.operand, result.layout.sizes)
                self.results.append((i, f"output{i}", dims_of(value)))
            elif value in self.rest:
                self.rest_results.append(i)
            else:
                self.host_results[i] = value

    def _give(self, value: SSAValue) -> None:
        """Gives floats that the host has only moved to the device."""
        held = self.values.get(value)
        if isinstance(held, HostValue) and _only_moved(value):
            self.values[value] = movements.device_value(self.state, held)

    def _made(self, value: SSAValue) -> DeviceValue | None:
        """Returns a value that the device has, of an op: one that no op has changed is moved by one."""
        made = self.values.get(value)
        if not isinstance(made, DeviceValue):
            return None
        if self.builder.nodes[made.operand.producer].op is None and (self.fallback or not self.idle):
            self.state.user_name = op_name(value.owner) if isinstance(value.owner, Operation) else ""
            made = DeviceValue(self.state.node("nop", [made.operand], made.layout.sizes), made.layout)
            self.values[value] = made
        return made

    def _on_host(self, op: Operation, name: str, hosts: list[HostValue], dims: Dims) -> HostValue:
        if name == "broadcast":
            (value,) = hosts
            if value.dims == value.source or len(value.dims) == len(dims):
                return HostValue(value.kind, value.name, dims, value.source, op.results[0], value.origin)
        if name == "reshape" and hosts[0].dims == hosts[0].source:
            return HostValue(hosts[0].kind, hosts[0].name, dims, dims, op.results[0], op.results[0])
        return folded(hosts, self.state.fresh("host"), dims, op.results[0])

    def _maker(self, name: str) -> Callable[[Operation, str, list[Value], Dims], Value] | None:
        if name in UNARY:
            return self._unary
        if name in BINARY:
            return self._binary
        if name in REDUCE:
            return self._reduce
        makers = {
            "matmul": self._matmul,
            "conv2d": self._window,
            PATCHES: self._patches,
            **dict.fromkeys(pools.POOLS, self._window),
        }
        if name in movements.LOWERINGS:
            return partial(_lowered_by, self.state)
        return makers.get(name)

    def _unary(self, op: Operation, name: str, operands: list[Value], dims: Dims) -> Value:
        layout = self._common(operands, dims)
        operand = on_device(self.state, operands[0], layout)
        for kind in UNARY[name]:
            operand = self.state.node(kind, [operand], layout.sizes, relu=name == "relu")
        return DeviceValue(operand, layout)

    def _binary(self, op: Operation, name: str, operands: list[Value], dims: Dims) -> Value:
        layout = self._common(operands, dims)
        first, second = operands
        if name == "div":  # The host inverts it, once.
            assert isinstance(second, HostValue), "ttir-decompose-buda leaves no other"
            second = replace(second, name=f"{second.name}.reciprocal", inverted=True)
        left, right = on_device(self.state, first, layout), on_device(self.state, second, layout)
        return DeviceValue(self.state.node(BINARY[name], [left, right], layout.sizes), layout)

    def _common(self, operands: list[Value], dims: Dims) -> Layout:
        """Returns the layout, of those that operands have, that takes fewest tiles."""
        layouts = [value.layout for value in operands if isinstance(value, DeviceValue)]
        return min(layouts, key=lambda layout: layout.tiles.tiles, default=Layout.matrix(dims))

    def _matmul(self, op: Operation, name: str, operands: list[Value], dims: Dims) -> Value:
        factors = []
        for value, key in zip(operands, ("transpose_a", "transpose_b"), strict=True):
            source = value.layout.dims if isinstance(value, DeviceValue) else value.dims
            operand = on_device(self.state, value, Layout.matrix(source))
            turned = op.properties.get(key)
            if isinstance(turned, IntegerAttr) and turned.value.data:
                operand = Operand(operand.producer, (*operand.tms, Tm("transpose")))
            factors.append(operand)
        layout = Layout.matrix(dims)
        return DeviceValue(self.state.node("matmul", factors, layout.sizes), layout)

    def _reduce(self, op: Operation, name: str, operands: list[Value], dims: Dims) -> Value:
        layout = self._common(operands, dims_of(op.operands[0]))
        value = DeviceValue(on_device(self.state, operands[0], layout), layout)
        reduced = frozenset(d % max(1, len(layout.dims)) for d in ints(op.properties["dim_arg"]))
        value = reductions.reduced(self.state, value, reduced, name)
        after = value.layout if len(dims) == len(layout.dims) else value.layout.reshaped(dims)
        assert after is not None
        return DeviceValue(value.operand, after)

    def _patches(self, op: Operation, name: str, operands: list[Value], dims: Dims) -> Value:
        assert isinstance(op, PatchesOp)
        image = dims_of(op.image)
        source = on_device(self.state, operands[0], Layout(image, 0, 3))
        return DeviceValue(windows.patches(self.state, op, image, source), Layout.matrix(dims))

    def _window(self, op: Operation, name: str, operands: list[Value], dims: Dims) -> Value:
        image, layout = dims_of(op.operands[0]), Layout(dims, 0, 3)
        source = on_device(self.state, operands[0], Layout(image, 0, 3))
        if name in pools.POOLS:
            return DeviceValue(pools.pool(self.state, op, image, source, dims), layout)
        weights = operands[1]
        if not isinstance(weights, HostValue):
            raise StageFailure(STAGE, op.name, "weights that the device makes", kind="notimpl")
        make = windows.convolution if grouped.is_plain(op, image) else grouped.convolution
        return DeviceValue(make(self.state, op, image, source, weights, dims), layout)


def _lowered_by(lowering: State, op: Operation, name: str, operands: list[Value], dims: Dims) -> Value:
    return movements.LOWERINGS[name](lowering, op, operands, dims)
