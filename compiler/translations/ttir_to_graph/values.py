"""TTIR values during lowering: on the host, or an operand of the graph with a layout."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from opscope.compiler.buda.graph import NodeKind
from opscope.compiler.buda.graph_builder import Operand
from opscope.compiler.translations.ttir_to_graph.layout import Dims, Layout


@dataclass(frozen=True)
class HostValue:
    """A value that the host has before the device runs: a parameter, a constant, an input, or a result of these.

    As in TT-Buda, a result of parameters alone is computed once.
    """

    kind: NodeKind
    name: str
    dims: Dims
    source: Dims
    """Dims before broadcasts, 1 where the value repeats."""
    full: SSAValue
    """The value in TTIR."""
    origin: SSAValue
    """The value before broadcasts."""
    inverted: bool = False
    """Whether the graph uses its reciprocal."""


@dataclass(frozen=True)
class DeviceValue:
    """A node's output after TMs."""

    operand: Operand
    layout: Layout


Value = HostValue | DeviceValue

RANK = {NodeKind.CONSTANT: 0, NodeKind.PARAMETER: 1, NodeKind.INPUT: 2}
"""How often a value changes; a result changes as often as the operand that changes most."""


def folded(operands: list[HostValue], name: str, dims: Dims, result: SSAValue) -> HostValue:
    """Returns the host's result of `operands`."""
    kind = max((value.kind for value in operands), key=lambda kind: RANK[kind], default=NodeKind.CONSTANT)
    return HostValue(kind, name, dims, dims, result, result)
