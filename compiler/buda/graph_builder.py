"""Builds a Buda graph node by node and computes its shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from opscope.compiler.buda.graph import BudaGraph, Edge, Node, NodeKind, OpSpec, TensorShape, Tm, apply_tms
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.target.formats import TILE


@dataclass(frozen=True)
class Operand:
    """A node's output after TMs."""

    producer: str
    tms: tuple[Tm, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Operand:
        """Parses `name | tm | tm`. Raises CompilerInputError."""
        name, *tms = (part.strip() for part in text.split("|"))
        return cls(name, tuple(Tm.parse(tm) for tm in tms))


@dataclass
class GraphBuilder:
    """A graph under construction."""

    name: str
    data_format: str = "Float16_b"
    nodes: dict[str, Node] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)

    def source(
        self,
        name: str,
        kind: NodeKind,
        shape: TensorShape,
        data_format: str = "",
        elements: tuple[int, int, int] | None = None,
    ) -> Operand:
        """Adds an input, parameter or constant."""
        self._add(Node(name, kind, shape, data_format or self.data_format, elements=elements))
        return Operand(name)

    def op(
        self,
        name: str,
        spec: OpSpec,
        operands: Sequence[Operand],
        data_format: str = "",
        shape: TensorShape | None = None,
        elements: tuple[int, int, int] | None = None,
    ) -> Operand:
        """Adds an op; its shape follows from its operands unless it is given. Raises CompilerInputError."""
        shape = shape or result_shape(name, spec, [self.shape(operand) for operand in operands])
        self._add(Node(name, NodeKind.OP, shape, data_format or self.data_format, spec, elements))
        self.edges += [Edge(operand.producer, name, i, operand.tms) for i, operand in enumerate(operands)]
        return Operand(name)

    def output(self, name: str, operand: Operand, elements: tuple[int, int, int] | None = None) -> None:
        """Adds an output."""
        data_format = self.nodes[operand.producer].data_format
        self._add(Node(name, NodeKind.OUTPUT, self.shape(operand), data_format, elements=elements))
        self.edges.append(Edge(operand.producer, name, 0, operand.tms))

    def shape(self, operand: Operand) -> TensorShape:
        """Returns the shape of an operand after its TMs. Raises CompilerInputError for an unknown node."""
        if operand.producer not in self.nodes:
            raise CompilerInputError(
                f"graph {self.name}: expected a node named before, got {operand.producer!r}; "
                f"try {', '.join(list(self.nodes)[-3:]) or 'an input'}"
            )
        return apply_tms(self.nodes[operand.producer].shape, operand.tms)

    def graph(self) -> BudaGraph:
        """Returns the checked graph. Raises CompilerInputError."""
        return BudaGraph(self.name, tuple(self.nodes.values()), tuple(self.edges))

    def _add(self, node: Node) -> None:
        if node.name in self.nodes:
            raise CompilerInputError(f"graph {self.name}: expected unique names, got {node.name} twice")
        self.nodes[node.name] = node


def result_shape(name: str, spec: OpSpec, shapes: Sequence[TensorShape]) -> TensorShape:
    """Returns the shape of an op's result for operands of these shapes. Raises CompilerInputError."""
    if not shapes:
        raise CompilerInputError(f"{name}: expected operands, got none")
    first = shapes[0]
    if spec.is_matmul:
        if len(shapes) < 2:
            raise CompilerInputError(f"{name}: expected two operands, got one")
        return replace(first, ct=shapes[1].ct)
    if spec.type == "reduce":
        axis = {"r": "rt", "c": "ct", "z": "z"}.get(spec.reduce_dim)
        if axis is None:
            raise CompilerInputError(f"{name}: expected reduce_dim r, c or z, got {spec.reduce_dim!r}")
        return replace(first, **{axis: 1})
    return first


def reduced_elements(spec: OpSpec, shape: TensorShape) -> tuple[int, int, int] | None:
    """Returns the elements (z, rows, columns) of a result of whole tiles: one row or column of tiles that a reduction
    leaves. None for every other op, and for a reduction along z."""
    if spec.type != "reduce" or spec.reduce_dim not in ("r", "c"):
        return None
    rows, cols = shape.rt * TILE, shape.ct * TILE
    return (shape.z, 1, cols) if spec.reduce_dim == "r" else (shape.z, rows, 1)
