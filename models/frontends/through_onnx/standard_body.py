"""Replaces ONNX nodes by the function body that the ONNX standard gives for them.

`onnx.inliner` can do that too, but it asserts that every input has a type, so it fails for a node without one of its
optional inputs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from onnx import AttributeProto, FunctionProto, ModelProto, NodeProto, TypeProto, defs, helper, inliner

DOMAIN = "opscope.standard_body"
"""Domain of the local functions that stand for the replaced nodes until they are inlined."""


def inline(model: ModelProto, kinds: Collection[str]) -> ModelProto:
    """Returns `model`, whose shapes must be inferred, with the bodies of its nodes of these op types.

    A node without a body in the version of the standard that the model uses stays as it is.
    """
    opset = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 1)
    types = {info.name: info.type for info in (*model.graph.input, *model.graph.value_info, *model.graph.output)}
    for tensor in model.graph.initializer:
        types.setdefault(tensor.name, helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims)))
    out = ModelProto()
    out.CopyFrom(model)
    for index, node in enumerate(out.graph.node):
        if node.op_type not in kinds or node.domain not in ("", "ai.onnx"):
            continue
        body = _body(node, opset, [types.get(name, TypeProto()) for name in node.input])
        if body is not None:
            body.name, body.domain = f"{node.op_type}_{index}", DOMAIN
            out.functions.append(body)
            node.op_type, node.domain = body.name, DOMAIN
            del node.attribute[:]
    if not any(function.domain == DOMAIN for function in out.functions):
        return model
    out.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    out = inliner.inline_local_functions(out)
    imports = [entry for entry in out.opset_import if entry.domain != DOMAIN]
    del out.opset_import[:]
    out.opset_import.extend(imports)
    return out


def _body(node: NodeProto, opset: int, types: list[TypeProto]) -> FunctionProto | None:
    """Returns the body of one node with its attributes filled in; None if the standard gives none."""
    schema = defs.get_schema(node.op_type, opset, "")
    body = FunctionProto()
    if schema.has_context_dependent_function:
        version = max((v for v in schema.context_dependent_function_opset_versions if v <= opset), default=None)
        if version is None:
            return None
        serialized = [kind.SerializeToString() for kind in types]
        body.ParseFromString(
            schema.get_context_dependent_function_with_opset_version(version, node.SerializeToString(), serialized)
        )
    elif schema.has_function:
        version = max((v for v in schema.function_opset_versions if v <= opset), default=None)
        if version is None:
            return None
        body.ParseFromString(schema.get_function_with_opset_version(version))
    if not body.node:
        return None
    _fill_in_attributes(body.node, {a.name: a for a in node.attribute}, schema)
    del body.attribute[:]
    del body.attribute_proto[:]
    # A body holds until the version that replaces it; with another version than the model's it would not be inlined.
    del body.opset_import[:]
    body.opset_import.append(helper.make_opsetid("", opset))
    return body


def _fill_in_attributes(
    nodes: Iterable[NodeProto], by_name: Mapping[str, AttributeProto], schema: defs.OpSchema
) -> None:
    """Replaces references to attributes in a body, also in its subgraphs, by their values or their defaults."""
    for node in nodes:
        attributes = list(node.attribute)
        del node.attribute[:]
        for attribute in attributes:
            wanted = attribute.ref_attr_name
            if wanted:
                value = by_name.get(wanted) or (wanted in schema.attributes and schema.attributes[wanted].default_value)
                if not value or not value.type:
                    continue  # optional and not given: the inner op's default holds
                filled = AttributeProto()
                filled.CopyFrom(value)
                filled.name = attribute.name
                attribute = filled
            if attribute.type == AttributeProto.GRAPH:
                _fill_in_attributes(attribute.g.node, by_name, schema)
            node.attribute.append(attribute)
