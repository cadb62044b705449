"""Attributes of dialects that jaxlib lacks (`ttcore.argument_type`, ...): used, kept as text, or left out by name.

tt-mlir's pipeline marks arguments, results, functions and modules with attributes of its own dialects; any compiler
may. They do not change what a program computes. An attribute with a builtin value (`ttir.name = "w"`) stays as it is.
One whose value is of an unknown dialect is left out if it is discardable; what it says of an argument's role is kept.
One that belongs to its op (a custom call's `backend_config`), or that stands inside another, becomes its text. Ops and
types of such dialects are refused.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable
from typing import Any

from jaxlib.mlir import ir

from opscope.harness.prepare.mlir.traversal import ops_in

LEFT_OUT = "opscope.left_out"
"""Attribute of a module: what was left out of it, and how often, until `notes` takes it."""
ROLE = "opscope.argument_type"
"""Attribute of an argument: its role, until `roles` takes it."""
ROLES = ("input", "parameter", "constant")
"""What tt-mlir's `#ttcore.argument_type<...>` may say."""
ARGUMENT_TYPE, FRONTEND = "ttcore.argument_type", "mhlo.frontend_attributes"
MARKS = "tt.mark_argument"
"""The custom call by which tt-xla's PyTorch frontend says what an argument is, among its frontend attributes."""
SIGNATURES = ("arg_attrs", "res_attrs")


class UnknownOp(Exception):
    """An op of a dialect that is not known."""

    def __init__(self, name: str, place: str) -> None:
        super().__init__(name)
        self.name, self.place = name, place


def settled(module: ir.Module) -> bytes:
    """The bytecode of a module that was read with unknown dialects allowed, without any attribute of them.

    Raises UnknownOp for an op of an unknown dialect.
    """
    left_out: Counter[str] = Counter()
    with module.context, ir.Location.unknown():
        for op in ops_in(module, order=ir.WalkOrder.PRE_ORDER):
            if not module.context.is_registered_operation(op.name):
                raise UnknownOp(op.name, _spot(op.location))
            for name in list(op.attributes):
                try:
                    attribute = op.attributes[name]
                except TypeError:  # a complex constant, which the bindings cannot hand out
                    continue
                if name in SIGNATURES:
                    op.attributes[name] = ir.ArrayAttr.get([_signature(each, left_out) for each in attribute])
                elif "." in name and isinstance(attribute, ir.OpaqueAttr):
                    left_out[name] += 1
                    del op.attributes[name]
                elif _is_foreign(attribute):
                    op.attributes[name] = _as_text(attribute)
            if _names_foreign(op.location):
                op.location = _located(op.location)
        _locate_arguments(module.operation)
        if left_out:
            words = ", ".join(f"{name} ({count})" for name, count in sorted(left_out.items()))
            module.operation.attributes[LEFT_OUT] = ir.StringAttr.get(words)
        buffer = io.BytesIO()
        module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def notes(module: ir.Module) -> str:
    """What was left out of a module when it was read, `ttcore.shard_status (7)`; empty if nothing was. Taken out."""
    attributes: Any = module.operation.attributes
    if LEFT_OUT not in attributes:
        return ""
    words = attributes[LEFT_OUT].value
    del attributes[LEFT_OUT]
    return words


def roles(module: ir.Module, entry: Any) -> tuple[str, ...]:
    """The role of each argument of the entry, `input`, `parameter` or `constant`, if the file says one; else nothing.

    An argument of which it does not say one is an input. The attributes that say it are taken out.
    """
    role_of_argument: dict[int, str] = {}
    with module.context, ir.Location.unknown():
        if "arg_attrs" in entry.attributes:
            kept = []
            for index, attributes in enumerate(entry.attributes["arg_attrs"]):
                words = {named.name: named.attr for named in attributes}
                if role := _role(words.pop(ROLE, None)) or _role(words.get(ARGUMENT_TYPE)) or _of_frontend(words):
                    role_of_argument[index] = role
                kept.append(ir.DictAttr.get(words))
            entry.attributes["arg_attrs"] = ir.ArrayAttr.get(kept)
    [block] = entry.regions[0].blocks
    for index, argument in enumerate(block.arguments):
        for use in argument.uses:
            owner: Any = use.owner
            attributes = owner.attributes
            if owner.name != "stablehlo.custom_call" or attributes["call_target_name"].value != MARKS:
                continue
            if FRONTEND in attributes and (role := _of_frontend({FRONTEND: attributes[FRONTEND]})):
                role_of_argument.setdefault(index, role)
    return (
        tuple(role_of_argument.get(index, ROLES[0]) for index in range(len(block.arguments)))
        if role_of_argument
        else ()
    )


def _role(attribute: Any) -> str:
    """The role that an attribute's text names; empty if it names none."""
    text = attribute.value if isinstance(attribute, ir.StringAttr) else str(attribute)
    word = text.removeprefix("#ttcore.argument_type<").removesuffix(">")
    return word if word in ROLES else ""


def _of_frontend(words: dict[str, Any]) -> str:
    """The role among the frontend attributes, which pass through HLO as text."""
    inner = {named.name: named.attr for named in words[FRONTEND]} if FRONTEND in words else {}
    return _role(inner.get(ARGUMENT_TYPE))


def _signature(attributes: Any, left_out: Counter[str]) -> Any:
    """The attributes of one argument or result without foreign ones; a role becomes text."""
    kept: dict[str, Any] = {}
    for named in attributes:
        if not isinstance(named.attr, ir.OpaqueAttr):
            kept[named.name] = _as_text(named.attr)
        elif named.name == ARGUMENT_TYPE and (role := _role(named.attr)):
            kept[ROLE] = ir.StringAttr.get(role)
        else:
            left_out[named.name] += 1
    return ir.DictAttr.get(kept)


def _is_foreign(attribute: Any) -> bool:
    """Whether a value is, or holds, one of an unknown dialect."""
    if isinstance(attribute, ir.DictAttr):
        return any(_is_foreign(named.attr) for named in attribute)
    if isinstance(attribute, ir.ArrayAttr):
        return any(_is_foreign(each) for each in attribute)
    return isinstance(attribute, ir.OpaqueAttr)


def _as_text(attribute: Any) -> Any:
    """The attribute with the text of each foreign value in its place."""
    if isinstance(attribute, ir.DictAttr):
        return ir.DictAttr.get({named.name: _as_text(named.attr) for named in attribute})
    if isinstance(attribute, ir.ArrayAttr):
        return ir.ArrayAttr.get([_as_text(each) for each in attribute])
    return ir.StringAttr.get(str(attribute)) if isinstance(attribute, ir.OpaqueAttr) else attribute


def _names_foreign(location: Any) -> bool:
    """Whether a location may hold metadata of an unknown dialect."""
    return "<#" in str(location)


def _located(location: Any) -> Any:
    """The location without metadata."""
    if isinstance(location, ir.FusedLoc):
        return ir.Location.fused([_located(each) for each in location.locations])
    if isinstance(location, ir.NameLoc):
        return ir.Location.name(location.name_str, _located(location.child_loc))
    if isinstance(location, ir.CallSiteLoc):
        return ir.Location.callsite(_located(location.callee), [_located(location.caller)])
    return location


def _locate_arguments(module: Any) -> None:
    """The same for the locations of blocks' arguments."""
    for op in ops_in(module, order=ir.WalkOrder.PRE_ORDER):
        for region in op.regions:
            for block in region.blocks:
                for argument in block.arguments:
                    if _names_foreign(argument.location):
                        argument.set_location(_located(argument.location))


def _spot(location: Any) -> str:
    """`:line:column` of a text without locations of its own; empty otherwise."""
    if isinstance(location, ir.FileLineColLoc):
        return f":{location.start_line}:{location.start_col}"
    return ""


Parse = Callable[[], ir.Module]


def read_allowing(context: ir.Context, parse: Parse) -> ir.Module:
    """What `parse` returns while the context allows dialects that it does not know. Raises what `parse` raises."""
    context.allow_unregistered_dialects = True
    try:
        return parse()
    finally:
        context.allow_unregistered_dialects = False
