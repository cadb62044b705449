"""Formats and fidelity of single ops (tt-buda: configure_mixed_precision, csrc/passes/amp.cpp)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from opscope.compiler.buda.graph import FIDELITIES, BudaGraph, Node, NodeKind, OpSpec
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.target.formats import number_format

EPOCH_TYPES = ("forward", "backward", "optimizer")


@dataclass(frozen=True)
class OpPrecision:
    """Which ops, and what they get; empty leaves something as it is. Later ones win over earlier ones."""

    op_type: str = ""
    epoch_type: str = ""
    name_regex: str = ""
    """Matches the whole name."""
    is_gradient_op: bool | None = None
    """Whether only ops that add up gradients are meant, or only others."""
    output_df: str = ""
    intermediate_df: str = ""
    accumulate_df: str = ""
    math_fidelity: str = ""
    input_df: Mapping[int, str] = field(default_factory=dict)
    """Operand -> format of the queue that it is read from; operands that are results keep theirs."""

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> OpPrecision:
        """Reads settings, of which None means unset. Raises CompilerInputError for a wrong name or value."""
        read: dict[str, Any] = {}
        for name, value in settings.items():
            if name not in cls.__dataclass_fields__:
                raise CompilerInputError(f"precision: expected {', '.join(cls.__dataclass_fields__)}, got {name!r}")
            if value is None:
                continue
            word = str(value).rpartition(".")[2]
            if name == "input_df":
                read[name] = {int(k): _float(name, str(v).rpartition(".")[2]) for k, v in value.items()}
            elif name.endswith("_df"):
                read[name] = _float(name, word)
            elif name == "math_fidelity":
                read[name] = _one_of(name, word, FIDELITIES)
            elif name == "epoch_type":
                read[name] = _one_of(name, word.lower(), EPOCH_TYPES)
            elif name == "name_regex":
                try:
                    re.compile(value)
                except (re.error, TypeError) as error:
                    raise CompilerInputError(f"name_regex: expected a regular expression, got {value!r}") from error
                read[name] = value
            else:
                read[name] = value
        return cls(**read)

    def means(self, node: Node) -> bool:
        """Whether an op is meant; one whose results are integers never is."""
        spec = node.spec
        return (
            number_format(node.data_format).is_float
            and (not self.op_type or spec.type == self.op_type)
            and (not self.epoch_type or spec.epoch_type == self.epoch_type)
            and (not self.name_regex or re.fullmatch(self.name_regex, node.name) is not None)
            and (self.is_gradient_op is None or spec.gradient == self.is_gradient_op)
        )

    def applied(self, graph: BudaGraph) -> BudaGraph:
        """Returns the graph with the formats of the ops that are meant."""
        meant = {node.name for node in graph.ops if self.means(node)}
        read_as: dict[str, str] = {}
        for name in meant:
            for edge in graph.operands(name):
                producer = graph.node(edge.producer)
                if edge.operand in self.input_df and producer.op is None:
                    read_as[producer.name] = self.input_df[edge.operand]
        if self.output_df:
            for edge in graph.edges:
                if edge.producer in meant and graph.node(edge.consumer).kind is NodeKind.OUTPUT:
                    read_as[edge.consumer] = self.output_df
        nodes = []
        for node in graph.nodes:
            if node.name in read_as:
                node = replace(node, data_format=read_as[node.name])
            elif node.name in meant:
                node = replace(node, data_format=self.output_df or node.data_format, op=self._op(node.spec))
            nodes.append(node)
        return BudaGraph(graph.name, tuple(nodes), graph.edges)

    def _op(self, spec: OpSpec) -> OpSpec:
        # A convolution's gather only moves data and keeps its fidelity.
        fidelity = "" if spec.sparse is not None else self.math_fidelity
        return replace(
            spec,
            acc_format=self.accumulate_df or spec.acc_format,
            intermediate_format=self.intermediate_df or spec.intermediate_format,
            math_fidelity=fidelity or spec.math_fidelity,
        )


def _float(name: str, word: str) -> str:
    try:
        number = number_format(word)
    except ValueError as error:
        raise CompilerInputError(f"{name}: expected a number format, got {word!r}") from error
    if not number.is_float:
        raise CompilerInputError(f"{name}: expected a format of floats, got {word}")
    return number.name


def _one_of(name: str, word: str, words: Collection[str]) -> str:
    if word not in words:
        raise CompilerInputError(f"{name}: expected {', '.join(words)}, got {word!r}")
    return word
