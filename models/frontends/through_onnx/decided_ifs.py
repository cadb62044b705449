"""Replaces an `If` whose condition follows from constants and fixed shapes by the branch that is taken.

Exporters write one for a squeeze or a mask that depends on an extent. The branches mostly have results of other ranks,
so that nothing after the `If` has a shape before one of them is chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from onnx import AttributeProto, GraphProto, ModelProto, helper, numpy_helper

from opscope.models.frontends.through_onnx.fold import value_of
from opscope.models.frontends.through_onnx.writer import Scope


def without_decided_ifs(model: ModelProto, scope: Scope) -> ModelProto:
    """`model` with the nodes of the branches that are taken in place of their `If`, those of nested ones included.

    What a condition follows from is computed in floats too: it is only looked at, and stays in the graph.
    """
    if not any(node.op_type == "If" for node in model.graph.node):
        return model
    out = ModelProto()
    out.CopyFrom(model)
    del out.graph.node[:]
    left = list(reversed(model.graph.node))
    known = dict(scope.constants)
    decided: set[str] = set()
    while left:
        node = left.pop()
        condition = known.get(node.input[0]) if node.op_type == "If" else None
        if condition is None or condition.size != 1:
            out.graph.node.append(node)
            known |= value_of(node, known, scope, model, floats=True) or {}
            continue
        taken = "then_branch" if condition.item() else "else_branch"
        branch = renamed(next(a.g for a in node.attribute if a.name == taken), f"{node.output[0]}/", {})
        out.graph.initializer.extend(branch.initializer)
        known |= {tensor.name: numpy_helper.to_array(tensor) for tensor in branch.initializer}
        ends = zip(branch.output, node.output, strict=True)
        left += [helper.make_node("Identity", [end.name], [name]) for end, name in ends if name]
        left += reversed(branch.node)
        decided.update(node.output)
    kept = [info for info in out.graph.value_info if info.name not in decided]  # of both branches: of unknown rank
    del out.graph.value_info[:]
    out.graph.value_info.extend(kept)
    return out


def renamed(graph: GraphProto, prefix: str, outer: Mapping[str, str]) -> GraphProto:
    """A branch or body whose own names begin with `prefix`; `outer` has the new names of those that it reads."""
    own = [tensor.name for tensor in graph.initializer] + [name for node in graph.node for name in node.output if name]
    names = {**outer, **{name: prefix + name for name in own}}
    for info in graph.input:  # of the body of a loop
        names.pop(info.name, None)
    out = GraphProto()
    out.CopyFrom(graph)
    for named in (*out.initializer, *out.output, *out.value_info):
        named.name = names.get(named.name, named.name)
    for node in out.node:
        _rename(node.input, names)
        _rename(node.output, names)
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                attribute.g.CopyFrom(renamed(attribute.g, prefix, names))
    return out


def _rename(repeated: Iterable[str], names: Mapping[str, str]) -> None:
    new = [names.get(name, name) for name in repeated]
    del repeated[:]
    repeated.extend(new)
