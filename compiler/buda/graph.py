"""The Buda graph: the form of a program that the balancer and the placer work on. Frozen dataclasses, no IR.

A tensor has four dimensions `w, z, r, c`, the last two counted in 32x32 tiles. An op computes; whatever only moves
data (slice, stack, transpose, broadcast, pad) is a *TM* on the edge from producer to consumer, done by the network
on the way. Nodes are listed producers first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from opscope.compiler.buda.op_options import OpOptions
from opscope.compiler.buda.sparse_pattern import SparsePattern
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.target.formats import TILE, number_format

if TYPE_CHECKING:
    from opscope.compiler.buda.fused import Fused

FIDELITIES = {"LoFi": 1, "HiFi2": 2, "HiFi2_B": 2, "HiFi3": 3, "HiFi4": 4}
"""Math fidelity -> phases of the matrix unit; of HiFi2_B the first and the third."""
MATMULS = frozenset({"matmul", "sparse_matmul", "depthwise"})


@dataclass(frozen=True)
class TensorShape:
    """A shape in tiles."""

    w: int
    z: int
    rt: int
    ct: int

    @classmethod
    def of(cls, dims: Sequence[int]) -> TensorShape:
        """Returns the tiles of a tensor of `dims` elements: up to four dims, the last two padded to whole tiles."""
        if len(dims) > 4:
            raise CompilerInputError(f"shape {tuple(dims)}: expected at most 4 dimensions, got {len(dims)}")
        w, z, r, c = (1,) * (4 - len(dims)) + tuple(dims)
        return cls(w, z, -(-r // TILE), -(-c // TILE))

    @property
    def tiles(self) -> int:
        """Number of tiles."""
        return self.w * self.z * self.rt * self.ct

    def __str__(self) -> str:
        lead = f"{self.z}x" if self.w == 1 else f"{self.w}x{self.z}x"
        return f"{lead}{self.rt}x{self.ct} tiles"


MOST_TILES = 1 << 36
"""Tiles of one tensor: a hundred times what all DRAM of a card holds. The grids of more would be searched for ever."""

_AXIS = {"h": "ct", "v": "rt"}
_BROADCAST = {"r": "rt", "c": "ct", "z": "z"}
_TM = re.compile(r"(\w+)(?:\(([\w, .+-]*)\))?")


@dataclass(frozen=True)
class Tm:
    """A tensor manipulation: `hslice(n)`, `vstack(n)`, `transpose`, `broadcast(r, n)`, `buda_pad(rt, ct)` and so on."""

    name: str
    factor: int = 1
    dim: str = ""
    """Dimension of a broadcast: r, c or z."""
    rt: int = 0
    ct: int = 0
    """Number of tiles of a pad or unpad; rows and columns of the tiles that expand, crop and clear are about."""
    value: float = 0.0
    """What a pad fills in."""

    @classmethod
    def parse(cls, text: str) -> Tm:
        """Parses a TM in its printed form. Raises CompilerInputError."""
        parsed = _TM.fullmatch(text.strip())
        args = [a.strip() for a in (parsed[2] or "").split(",") if a.strip()] if parsed else []
        try:
            match (parsed[1] if parsed else "", args):
                case ("hslice" | "vslice" | "hstack" | "vstack") as name, [n]:
                    return cls(name, int(n))
                case "transpose", []:
                    return cls("transpose")
                case "broadcast", [("r" | "c" | "z") as dim, n]:
                    return cls("broadcast", int(n), dim)
                case "tile_broadcast", [("r" | "c") as dim]:
                    return cls("tile_broadcast", dim=dim)
                case ("buda_pad" | "buda_unpad" | "expand" | "crop" | "clear") as name, [rt, ct]:
                    return cls(name, rt=int(rt), ct=int(ct))
                case "buda_pad", [rt, ct, value]:
                    return cls("buda_pad", rt=int(rt), ct=int(ct), value=float(value))
        except ValueError:
            pass
        raise CompilerInputError(
            f"TM: expected hslice(n), vslice(n), hstack(n), vstack(n), transpose, broadcast(r|c|z, n), "
            f"tile_broadcast(r|c), buda_pad(rt, ct) or buda_unpad(rt, ct), got {text!r}"
        )

    def __str__(self) -> str:
        match self.name:
            case "transpose":
                return self.name
            case "broadcast":
                return f"broadcast({self.dim}, {self.factor})"
            case "tile_broadcast":
                return f"tile_broadcast({self.dim})"
            case "buda_pad" if self.value:
                return f"{self.name}({self.rt}, {self.ct}, {self.value})"
            case "buda_pad" | "buda_unpad" | "expand" | "crop" | "clear":
                return f"{self.name}({self.rt}, {self.ct})"
        return f"{self.name}({self.factor})"

    @property
    def is_slice(self) -> bool:
        """Whether it cuts rows or columns into z."""
        return self.name in ("hslice", "vslice")

    @property
    def is_stack(self) -> bool:
        """Whether it places z along rows or columns."""
        return self.name in ("hstack", "vstack")

    @lru_cache(maxsize=4096)  # noqa: B019 - few and small; the legalizer asks for each candidate of each op
    def apply(self, shape: TensorShape) -> TensorShape:
        """Returns the shape after the TM. Raises CompilerInputError if the shape does not divide."""
        if self.is_slice or self.is_stack:
            axis = _AXIS[self.name[0]]
            size = getattr(shape, axis)
            cut = size if self.is_slice else shape.z
            if cut % self.factor:
                raise CompilerInputError(
                    f"{self}: expected {axis if self.is_slice else 'z'} divisible by {self.factor}, got {shape}"
                )
            if self.is_slice:
                return replace(shape, z=shape.z * self.factor, **{axis: size // self.factor})
            return replace(shape, z=shape.z // self.factor, **{axis: size * self.factor})
        if self.name == "transpose":
            return replace(shape, rt=shape.ct, ct=shape.rt)
        if self.name == "broadcast":
            axis = _BROADCAST[self.dim]
            return replace(shape, **{axis: getattr(shape, axis) * self.factor})
        sign = {"buda_pad": 1, "buda_unpad": -1}.get(self.name, 0)
        after = replace(shape, rt=shape.rt + sign * self.rt, ct=shape.ct + sign * self.ct)
        if after.rt < 1 or after.ct < 1:
            raise CompilerInputError(f"{self}: expected to leave at least one tile, got {shape}")
        return after


def apply_tms(shape: TensorShape, tms: Iterable[Tm]) -> TensorShape:
    """Returns the shape after all TMs."""
    for tm in tms:
        shape = tm.apply(shape)
    return shape


class NodeKind(StrEnum):
    """The kind of a node."""

    INPUT = "input"
    PARAMETER = "parameter"
    CONSTANT = "constant"
    OP = "op"
    QUEUE = "queue"
    OUTPUT = "output"

    @property
    def is_resident(self) -> bool:
        """Whether its data stays the same from one input to the next."""
        return self in (NodeKind.PARAMETER, NodeKind.CONSTANT)


@dataclass(frozen=True)
class Slices:
    """The elements that a splice takes of its operand, which is viewed as an array of `dims`."""

    dims: tuple[int, ...]
    begins: tuple[int, ...]
    ends: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True)
class OpSpec:
    """The computation of an op node and its precision."""

    type: str
    """Buda's name: matmul, sparse_matmul, depthwise, reduce, splice, add, exp and so on."""
    math_fidelity: str = "HiFi3"
    acc_format: str = "Float16_b"
    intermediate_format: str = ""
    """Format of intermediate results; empty for the output's format."""
    reduce_dim: str = ""
    """Dimension of a reduce: r, c or z."""
    reduce_type: str = "sum"
    """Type of a reduce: sum, mean or max."""
    relu: bool = False
    """Whether negative results become zero while they are packed."""
    slices: Slices | None = None
    """The elements that a splice takes of its one operand; None for one that puts whole tiles of several together."""
    stacked: str = ""
    """Dimension along which a splice puts its operands one after another: r, c or z."""
    scalar: float | None = None
    """The number that a lrelu (slope) or a power (exponent) takes; None for other ops."""
    activation: str = ""
    """Kernel that a product's results pass before they leave Dst; empty: none."""
    approximate: bool = False
    vector: str = ""
    """Part of each tile that an SFPU op works on: one row (r) or column (c); empty for the whole tile."""
    l1_acc: bool = False
    gradient: bool = False
    """Whether it accumulates over a batch, so that its output is held whole in L1."""
    padding_nop: bool = False
    sparse: SparsePattern | None = None
    """The left operand of a sparse matmul."""
    epoch_type: str = "forward"
    fused: Fused | None = None
    """The steps of a fused_op."""
    options: OpOptions = field(default_factory=OpOptions)
    """What a netlist of the real back end may ask of it besides."""

    @property
    def is_matmul(self) -> bool:
        """Whether it contracts, including sparse and depthwise ones."""
        return self.type in MATMULS

    @property
    def pattern(self) -> SparsePattern:
        """The left operand of a sparse matmul, and only of that."""
        if self.sparse is None:
            raise CompilerInputError(f"{self.type}: expected a sparse matmul, got an op without a pattern")
        return self.sparse


@dataclass(frozen=True)
class Node:
    """A node: an op, or the start or end of data."""

    name: str
    kind: NodeKind
    shape: TensorShape
    data_format: str = "Float16_b"
    op: OpSpec | None = None
    elements: tuple[int, int, int] | None = None
    """Elements along z, rows and columns, if these do not fill the tiles."""

    @property
    def extent(self) -> tuple[int, int, int]:
        """Elements along z (including w), rows and columns."""
        return self.elements or (self.shape.w * self.shape.z, self.shape.rt * TILE, self.shape.ct * TILE)

    @property
    def spec(self) -> OpSpec:
        """The specification of an op node, and only of that."""
        if self.op is None:
            raise CompilerInputError(f"{self.name}: expected an op, got a node of kind {self.kind}")
        return self.op

    @property
    def tile_bytes(self) -> int:
        """Bytes of one tile of its output, including the header."""
        return number_format(self.data_format).buda_tile_bytes


@dataclass(frozen=True)
class Edge:
    """Operand `operand` of `consumer` is the output of `producer` after `tms`."""

    producer: str
    consumer: str
    operand: int = 0
    tms: tuple[Tm, ...] = ()

    def has_tm(self, name: str) -> bool:
        """Whether a TM of that name is on it."""
        return any(tm.name == name for tm in self.tms)


@dataclass(frozen=True)
class BudaGraph:
    """Nodes, producers first, and edges. Checked when built: raises CompilerInputError."""

    name: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...] = field(default=())

    def __post_init__(self) -> None:
        place = {node.name: i for i, node in enumerate(self.nodes)}
        if len(place) != len(self.nodes):
            twice = next(n.name for i, n in enumerate(self.nodes) if place[n.name] != i)
            raise CompilerInputError(f"graph {self.name}: expected unique names, got {twice} twice")
        for edge in self.edges:
            for end in (edge.producer, edge.consumer):
                if end not in place:
                    raise CompilerInputError(f"graph {self.name}: expected a node of the graph, got {end!r}")
            into_source = self.node(edge.consumer).kind in (NodeKind.INPUT, NodeKind.PARAMETER)
            if place[edge.producer] >= place[edge.consumer] and not into_source:
                raise CompilerInputError(
                    f"graph {self.name}: expected {edge.producer} before {edge.consumer}, got it after"
                )
            apply_tms(self.node(edge.producer).shape, edge.tms)
        for node in self.nodes:
            if node.shape.tiles > MOST_TILES:
                raise CompilerInputError(f"{node.name}: expected at most {MOST_TILES} tiles, got {node.shape}")
            if node.op is not None:
                self._check_op(node)

    def _check_op(self, node: Node) -> None:
        spec = node.spec
        operands = self.operands(node.name)
        if [edge.operand for edge in operands] != list(range(len(operands))) or not operands:
            got = ", ".join(str(edge.operand) for edge in operands) or "none"
            raise CompilerInputError(f"{node.name}: expected operands 0, 1, ... once each, got {got}")
        if spec.math_fidelity not in FIDELITIES:
            raise CompilerInputError(
                f"{node.name}: expected math fidelity {', '.join(FIDELITIES)}, got {spec.math_fidelity!r}"
            )
        shapes = [self.operand_shape(edge) for edge in operands]
        if (spec.type == "sparse_matmul") != (spec.sparse is not None):
            raise CompilerInputError(f"{node.name}: expected a pattern for a sparse_matmul and for it alone")
        if spec.type in ("matmul", "sparse_matmul"):
            if spec.sparse is not None and (shapes[0].rt, shapes[0].ct) != (spec.sparse.rows, spec.sparse.cols):
                raise CompilerInputError(
                    f"{node.name}: expected a left operand of {spec.sparse.rows}x{spec.sparse.cols} tiles, "
                    f"got {shapes[0]}"
                )
            if len(shapes) < 2 or shapes[0].ct != shapes[1].rt:
                got = " and ".join(str(shape) for shape in shapes)
                raise CompilerInputError(f"{node.name}: expected operands RxK and KxC, got {got}")
            wanted = (shapes[0].rt, shapes[1].ct)
            if (node.shape.rt, node.shape.ct) != wanted:
                raise CompilerInputError(
                    f"{node.name}: expected an output of {wanted[0]}x{wanted[1]} tiles, got {node.shape}"
                )
        elif spec.type == "reduce":
            if spec.reduce_dim not in ("r", "c", "z"):
                raise CompilerInputError(f"{node.name}: expected reduce_dim r, c or z, got {spec.reduce_dim!r}")
        elif spec.fused is not None and len(shapes) != spec.fused.inputs:
            raise CompilerInputError(f"{node.name}: expected {spec.fused.inputs} operands, got {len(shapes)}")
        elif spec.stacked:
            axis = {"r": "rt", "c": "ct", "z": "z"}.get(spec.stacked, "")
            if spec.type != "splice" or not axis:
                raise CompilerInputError(f"{node.name}: expected a splice along r, c or z, got {spec.stacked!r}")
            sections = {replace(shape, **{axis: 1}) for shape in shapes}
            length = sum(getattr(shape, axis) for shape in shapes)
            if len(sections) > 1 or replace(shapes[0], **{axis: length}) != node.shape:
                got = " and ".join(str(shape) for shape in shapes)
                raise CompilerInputError(f"{node.name}: expected operands that make up {node.shape}, got {got}")
        elif spec.type not in ("depthwise", "splice", "fused_op", "topk", "embedding", "encoded_matmul"):
            for edge, shape in zip(operands, shapes, strict=True):
                if shape != node.shape:
                    raise CompilerInputError(
                        f"{node.name}: expected operand {edge.operand} of {node.shape}, got {shape}; try a broadcast TM"
                    )

    @cached_property
    def _nodes(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def _operands(self) -> dict[str, tuple[Edge, ...]]:
        return _group(sorted(self.edges, key=lambda edge: edge.operand), "consumer")

    @cached_property
    def _users(self) -> dict[str, tuple[Edge, ...]]:
        return _group(self.edges, "producer")

    @cached_property
    def ublock_orders(self) -> dict[str, str]:
        """Node -> order (`r` or `c`) in which it writes its ublocks, which is the order in which its first user reads.

        A matmul reads its left operand by columns and its right one by rows; an elementwise op reads in the order
        in which it writes; a transpose swaps the order.
        """
        orders: dict[str, str] = {}
        for node in reversed(self.nodes):
            edges = [e for e in self.users(node.name) if self.node(e.consumer).op is not None]
            orders[node.name] = self._written_for(edges[0], orders) if edges else "r"
        return orders

    def _written_for(self, edge: Edge, orders: dict[str, str]) -> str:
        order = self._read_order(edge, orders)
        turned = sum(tm.name == "transpose" for tm in edge.tms) % 2
        return ("c" if order == "r" else "r") if turned else order

    def _read_order(self, edge: Edge, orders: dict[str, str]) -> str:
        consumer = self.node(edge.consumer)
        if consumer.op is not None and consumer.spec.is_matmul:
            return "c" if edge.operand == 0 else "r"
        return orders.get(edge.consumer, "r")

    def read_order(self, edge: Edge) -> str:
        """Returns the order in which the edge's consumer reads ublocks."""
        return self._read_order(edge, self.ublock_orders)

    def node(self, name: str) -> Node:
        """Returns the node called `name`. Raises CompilerInputError with all known names."""
        if name not in self._nodes:
            import difflib

            near = difflib.get_close_matches(name, self._nodes, n=3, cutoff=0.4) or list(self._nodes)[:3]
            hint = f"try {', '.join(near)}" if near else "it has none"
            raise CompilerInputError(f"op: expected a node of {self.name}, got {name!r}; {hint}")
        return self._nodes[name]

    @cached_property
    def ops(self) -> tuple[Node, ...]:
        """The op nodes, producers first."""
        return tuple(node for node in self.nodes if node.kind is NodeKind.OP)

    def operands(self, name: str) -> tuple[Edge, ...]:
        """Returns the edges into a node, by operand."""
        return self._operands.get(name, ())

    def users(self, name: str) -> tuple[Edge, ...]:
        """Returns the edges out of a node, in the graph's order."""
        return self._users.get(name, ())

    def operand_shape(self, edge: Edge) -> TensorShape:
        """Returns the shape of the operand after the edge's TMs, as the consumer reads it."""
        return apply_tms(self.node(edge.producer).shape, edge.tms)


def _group(edges: Iterable[Edge], end: str) -> dict[str, tuple[Edge, ...]]:
    groups: dict[str, list[Edge]] = {}
    for edge in edges:
        groups.setdefault(getattr(edge, end), []).append(edge)
    return {name: tuple(group) for name, group in groups.items()}
