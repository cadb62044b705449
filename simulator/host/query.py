"""Predicates on ops, in place of their names: `query.op_type("matmul") & query.name_regex("layer_1.*")`."""

from __future__ import annotations

import json
import re
from enum import Enum
from typing import Any

from opscope.simulator.host.errors import PyBudaError


class NodePredicateType(Enum):
    """Kinds of predicates."""

    Negate = 1
    And = 2
    Or = 3
    NameRegex = 4
    LayerRegex = 5
    OpType = 6


class NodePredicateBuilder:
    """A predicate: of a name, a layer or a type of op, or of other predicates."""

    def __init__(self, ty: NodePredicateType, value: Any) -> None:
        """Raises PyBudaError for a regular expression that is none."""
        self.ty, self.value = ty, value
        if ty in (NodePredicateType.NameRegex, NodePredicateType.LayerRegex):
            try:
                re.compile(value)
            except (re.error, TypeError) as error:
                raise PyBudaError(f"query: expected a regular expression, got {value!r}: {error}") from None

    def negate(self) -> NodePredicateBuilder:
        """Returns the predicate that holds where this one does not."""
        return NodePredicateBuilder(NodePredicateType.Negate, self)

    def __and__(self, other: NodePredicateBuilder) -> NodePredicateBuilder:
        return NodePredicateBuilder(NodePredicateType.And, (self, other))

    def __or__(self, other: NodePredicateBuilder) -> NodePredicateBuilder:
        return NodePredicateBuilder(NodePredicateType.Or, (self, other))

    def matches(self, name: str, op_type: str, layer: str = "") -> bool:
        """Whether an op fulfils it. Regular expressions match the whole text, as in TT-Buda."""
        if self.ty is NodePredicateType.Negate:
            return not self.value.matches(name, op_type, layer)
        if self.ty is NodePredicateType.And:
            return all(part.matches(name, op_type, layer) for part in self.value)
        if self.ty is NodePredicateType.Or:
            return any(part.matches(name, op_type, layer) for part in self.value)
        if self.ty is NodePredicateType.OpType:
            return op_type == self.value
        text = name if self.ty is NodePredicateType.NameRegex else layer
        return re.fullmatch(self.value, text) is not None

    def __call__(self, name: str, op_type: str, layer: str = "") -> bool:
        """See `matches`: what the compiler calls."""
        return self.matches(name, op_type, layer)

    def __str__(self) -> str:
        return json.dumps(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """Returns it as JSON."""
        if self.ty is NodePredicateType.Negate:
            return {"type": self.ty.name, "value": self.value.to_json()}
        if self.ty in (NodePredicateType.And, NodePredicateType.Or):
            return {"type": self.ty.name, "value": [part.to_json() for part in self.value]}
        return {"type": self.ty.name, "value": self.value}

    @staticmethod
    def from_json(j: dict[str, Any]) -> NodePredicateBuilder:
        """Returns the predicate that `to_json` wrote. Raises PyBudaError for anything else."""
        try:
            kind, value = NodePredicateType[j["type"]], j["value"]
            if kind is NodePredicateType.Negate:
                value = NodePredicateBuilder.from_json(value)
            elif kind in (NodePredicateType.And, NodePredicateType.Or):
                first, second = value
                value = (NodePredicateBuilder.from_json(first), NodePredicateBuilder.from_json(second))
            elif not isinstance(value, str):
                raise ValueError(f"{value!r} in place of a text")
        except (KeyError, TypeError, ValueError) as error:
            raise PyBudaError(f"query: expected a predicate as JSON, got {error}") from None
        return NodePredicateBuilder(kind, value)


def name_regex(regex: str) -> NodePredicateBuilder:
    """Ops whose name matches."""
    return NodePredicateBuilder(NodePredicateType.NameRegex, regex)


def layer_regex(regex: str) -> NodePredicateBuilder:
    """Ops whose layer matches: the part of the location in the program that is above the op."""
    return NodePredicateBuilder(NodePredicateType.LayerRegex, regex)


def op_type(name: str) -> NodePredicateBuilder:
    """Ops of a type, such as `matmul`."""
    return NodePredicateBuilder(NodePredicateType.OpType, name)
