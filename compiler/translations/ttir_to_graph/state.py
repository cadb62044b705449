"""The state of a lowering: the graph so far and the contents of its sources."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from opscope.compiler.buda.graph import OpSpec, TensorShape
from opscope.compiler.buda.graph_builder import GraphBuilder, Operand
from opscope.compiler.dialects.epoch_types import EPOCH_TYPES
from opscope.compiler.translations.ttir_to_graph.contents import Content
from opscope.compiler.translations.ttir_to_graph.layout import Dims

Sources = dict[tuple[str, Dims, tuple[int, int, int]], Operand]


@dataclass
class State:
    """What the lowerings of ops add to."""

    builder: GraphBuilder
    fidelity: str
    acc_format: str
    epoch_type: str = EPOCH_TYPES[0]
    """The epoch type of the op that is being lowered."""
    contents: dict[str, Content] = field(default_factory=dict)
    """Source of the graph -> its contents."""
    sources: Sources = field(default_factory=dict)
    """Name, dims and elements of a value of the host -> the source that has it."""
    user_name: str = ""
    """The name that the program gives to the op that is being lowered."""
    named: dict[str, int] = field(default_factory=dict)
    """Such a name -> how many nodes have it."""
    reserved: frozenset[str] = frozenset()
    """Names that the program gives to ops and inputs."""
    _count: dict[str, int] = field(default_factory=dict)

    def snapshot(self) -> tuple[int, int, dict[str, Content], Sources]:
        """Returns what `undo` needs."""
        return len(self.builder.nodes), len(self.builder.edges), dict(self.contents), dict(self.sources)

    def undo(self, nodes: int, edges: int, contents: dict[str, Content], sources: Sources) -> None:
        """Removes what an op added to the graph before it was refused."""
        for added in list(self.builder.nodes)[nodes:]:
            del self.builder.nodes[added]
        del self.builder.edges[edges:]
        self.contents, self.sources = contents, sources

    def fresh(self, kind: str) -> str:
        """Returns a new name for a node: its kind and a number."""
        self._count[kind] = self._count.get(kind, 0) + 1
        name = f"{kind}_{self._count[kind] - 1}"
        return name if name not in self.reserved else self.fresh(kind)

    def named_node(self, kind: str) -> str:
        """Returns a new name for an op's node.

        An op that the program names gives its name to its first node, and to all others that it is decomposed into as
        TT-Buda does: `NAME.dc.KIND.NUMBER`.
        """
        if self.user_name:
            number = self.named[self.user_name] = self.named.get(self.user_name, -1) + 1
            name = f"{self.user_name}.dc.{kind}.{number}" if number else self.user_name
            if name not in self.builder.nodes:
                return name
        return self.fresh(kind)

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
        return self.builder.op(self.named_node(kind), OpSpec(kind, **options), operands, shape=shape, elements=elements)
