"""Fused ops: several elementwise steps that the cores of one op compute, micro block by micro block.

The result of a step stays in Dst for the next one (`dest`) or goes to a small buffer (`intermed0` and so on); only the
last step's result (`output`) leaves the cores. Names and limits are TT-Buda's (tt-budabackend: src/net2hlks/README.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from opscope.compiler.buda.graph import BudaGraph, Edge, Node, OpSpec, TensorShape, Tm, apply_tms
from opscope.compiler.buda.graph_builder import Operand, reduced_elements, result_shape
from opscope.compiler.errors import CompilerInputError

DEST, OUTPUT = "dest", "output"
MOST_INPUTS = 8
"""Most operands of a fused op, since a core has that many input buffers."""


@dataclass(frozen=True)
class Step:
    """One step of a fused op."""

    name: str
    """Its type with a count: `add.0`."""
    spec: OpSpec
    inputs: tuple[str, ...]
    """`input0` and so on: the fused op's operands; `intermed0` and so on; or `dest`."""
    output: str
    """`dest`, `intermed0` and so on, or `output`."""
    tms: tuple[tuple[Tm, ...], ...] = ()
    """TMs of each input on the way into the step; empty if no input has any."""
    pop: tuple[str, ...] = ()
    """Buffers of intermediate results that no later step reads."""
    elements: tuple[int, int, int] | None = None
    """Elements of its result, if they do not fill the tiles."""
    origin: str = field(default="", compare=False)
    """The op of the graph that became this step."""

    def tms_of(self, operand: int) -> tuple[Tm, ...]:
        """Returns the TMs of an input."""
        return self.tms[operand] if self.tms else ()


@dataclass(frozen=True)
class Fused:
    """The work of a fused op: schedules of steps; Dst is kept within each."""

    inputs: int
    intermediates: int
    """Number of buffers for intermediate results, a micro block each."""
    schedules: tuple[tuple[Step, ...], ...]

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps, in order."""
        return tuple(step for schedule in self.schedules for step in schedule)

    def __str__(self) -> str:
        return ", ".join(step.spec.type for step in self.steps)


def fused_type(spec: OpSpec) -> str:
    """Describes for people what an op computes: its type, or the types of a fused op's steps."""
    return f"{spec.type} ({spec.fused})" if spec.fused is not None else spec.type


def types_of(spec: OpSpec) -> tuple[str, ...]:
    """Returns the types of a fused op's steps, or an op's own type."""
    return tuple(step.spec.type for step in spec.fused.steps) if spec.fused is not None else (spec.type,)


def step_nodes(
    node: Node, operands: Iterable[Operand], shapes: Iterable[TensorShape]
) -> Iterator[tuple[Node, list[Edge]]]:
    """Returns a fused op's steps as nodes, each with its edges; the last one has the op's own name.

    `operands` are the fused op's, `shapes` theirs in tiles after their TMs. Results that stay in Dst have its format.
    Raises CompilerInputError if shapes do not fit together.
    """
    fused = node.spec.fused
    assert fused is not None
    values = {f"input{i}": pair for i, pair in enumerate(zip(operands, shapes, strict=True))}
    for step in fused.steps:
        last = step.output == OUTPUT
        inputs, seen = [], []
        for i, key in enumerate(step.inputs):
            operand, shape = values[key]
            inputs.append(Operand(operand.producer, (*operand.tms, *step.tms_of(i))))
            seen.append(apply_tms(shape, step.tms_of(i)))
        shape = result_shape(step.name, step.spec, seen)
        step_node = Node(
            node.name if last else f"{node.name}.{step.name}",
            node.kind,
            shape,
            node.data_format if last else _held_as(node, step),
            replace(step.spec, epoch_type=node.spec.epoch_type),
            (node.elements if last else step.elements) or reduced_elements(step.spec, shape),
        )
        yield step_node, [Edge(o.producer, step_node.name, i, o.tms) for i, o in enumerate(inputs)]
        values[step.output] = Operand(step_node.name), step_node.shape


def _held_as(node: Node, step: Step) -> str:
    return node.spec.acc_format if step.output == DEST else node.spec.intermediate_format or node.data_format


def without_fused(graph: BudaGraph) -> BudaGraph:
    """Returns the graph with each fused op split into its steps. Raises CompilerInputError if shapes do not match."""
    if all(node.spec.fused is None for node in graph.ops):
        return graph
    nodes: list[Node] = []
    edges = [e for e in graph.edges if _fused_of(graph, e.consumer) is None]
    for node in graph.nodes:
        if node.op is None or node.op.fused is None:
            nodes.append(node)
            continue
        into = graph.operands(node.name)
        operands = [Operand(edge.producer, edge.tms) for edge in into]
        for step_node, step_edges in step_nodes(node, operands, [graph.operand_shape(edge) for edge in into]):
            nodes.append(step_node)
            edges += step_edges
    return BudaGraph(graph.name, tuple(nodes), tuple(edges))


def _fused_of(graph: BudaGraph, name: str) -> Fused | None:
    op = graph.node(name).op
    return op.fused if op is not None else None


def inside(graph: BudaGraph, name: str) -> str:
    """Returns the fused op of which the op `name` has become a step; empty if it is not a step."""
    for node in graph.ops:
        if node.spec.fused is not None and any(step.origin == name for step in node.spec.fused.steps):
            return node.name
    return ""


def op_named(graph: BudaGraph, name: str) -> Node:
    """Returns the node `name`. Raises CompilerInputError, naming the fused op that contains it or all known names."""
    fused = inside(graph, name)
    if fused:
        raise CompilerInputError(
            f"op: expected an op of {graph.name}, got {name!r}, a step of {fused}; try {fused}, or "
            f"--set enable_auto_fusing=false"
        )
    return graph.node(name)
