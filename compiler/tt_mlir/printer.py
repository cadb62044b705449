"""Prints a module as tt-mlir does: with the aliases that its text had, and written out where it has none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from xdsl.dialects import builtin as b
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue

from opscope.compiler.tt_mlir import attributes, locations
from opscope.compiler.tt_mlir.module import DEVICE, DEVICE_MODULE, LOAD_CACHED, NAME, TtMlirModule, name_of

_ALIAS_IN = re.compile(r"#[A-Za-z_][\w$]*(?![\w$.<])")


def to_text(module: TtMlirModule) -> str:
    """Prints a module, as `read_tt_mlir` reads it."""
    printer = _Printer(module)
    body = printer.op(module.op, 0, {})
    before = "".join(f"{name} = {text}\n" for name, text in module.before)
    after = "".join(f"{name} = {text}\n" for name, text in module.after)
    return f"{before}{body}{after}"


class _Printer:
    def __init__(self, module: TtMlirModule) -> None:
        self.places = {id(where): name for name, where in module.locations}
        texts = dict((*module.before, *module.after))
        whole: dict[str, str] = {}

        def expanded(words: str) -> str:
            return _ALIAS_IN.sub(lambda match: whole.get(match[0], match[0]), words)

        for name, text in texts.items():  # each names only those before it
            if not text.startswith("loc("):
                whole[name] = expanded(text)
        self.aliases = {text: name for name, text in whole.items()}
        self.inner = sorted(((t, n) for n, t in whole.items()), key=lambda row: -len(row[0]))
        self.known: dict[int, tuple[Attribute, str]] = {}
        """Identity of an attribute -> itself, so that it stays its own, and its text."""

    def text(self, value: Attribute) -> str:
        """An attribute or type with aliases."""
        known = self.known.get(id(value))
        if known is None:
            known = self.known[id(value)] = value, self._aliased(value)
        return known[1]

    def _aliased(self, value: Any) -> str:
        if isinstance(value, b.TensorType) and isinstance(value.encoding, attributes.RawAttr):
            plain = attributes.written(b.TensorType.new([value.shape, value.element_type, b.NoneAttr()]))
            return f"{plain[:-1]}, {self._aliased(value.encoding)}>"
        words = attributes.written(value)
        if words in self.aliases:
            return self.aliases[words]
        for text, name in self.inner if "#" in words else ():
            words = words.replace(text, name)
        return words

    def named(self, entries: Iterable[tuple[str, Attribute]]) -> str:
        """Named attributes between commas."""
        return ", ".join(name if isinstance(v, b.UnitAttr) else f"{name} = {self.text(v)}" for name, v in entries)

    def location(self, op: Operation | SSAValue, whole: bool = False) -> str:
        """The location of an op or an argument; with `whole`, no alias stands for it."""
        where: Any = getattr(op, "location", None)
        return "" if where is None else f" loc({locations.written(where, self.places, whole=whole)})"

    def op(self, op: Operation, depth: int, names: dict[SSAValue, str]) -> str:
        """An op with what is in it."""
        pad, kind = "  " * depth, name_of(op)
        if isinstance(op, b.ModuleOp):
            word = "module" if depth == 0 else "builtin.module"
            name = f" @{op.sym_name.data}" if op.sym_name is not None else ""
            entries = f" attributes {{{self.named(op.attributes.items())}}}" if op.attributes else ""
            return self._around(f"{pad}{word}{name}{entries}", op, depth, names)
        if isinstance(op, FuncOp):
            return self._around(f"{pad}{self._head(op)}", op, depth, self._numbered(op))
        if kind == DEVICE_MODULE:
            return self._around(f"{pad}{kind}", op, depth, names)
        end = f"{self.location(op)}\n"
        operands = ", ".join(names[value] for value in op.operands)
        takes = ", ".join(self.text(value.type) for value in op.operands)
        if isinstance(op, ReturnOp):
            return f"{pad}return{f' {operands} : {takes}' if operands else ''}{end}"
        properties: dict[str, Any] = op.properties
        if kind == DEVICE:
            named = properties["sym_name"].data
            return f"{pad}{kind} @{named} = {attributes.written(properties['device_attr'])}{end}"
        made = [self.text(value.type) for value in op.results]
        gives = made[0] if len(made) == 1 else f"({', '.join(made)})"
        result = ""
        if op.results:
            count = f":{len(made)}" if len(made) > 1 else ""
            words = dict.fromkeys(names[value].partition("#")[0] for value in op.results)
            result = f"{', '.join(words)}{count if len(words) == 1 else ''} = "
        if kind == LOAD_CACHED:
            callee = properties["callee"].string_value()
            return f"{pad}{result}{kind}(@{callee}, [{operands}]) : ({takes}) -> {gives}{end}"
        own = f" <{{{self.named(properties.items())}}}>" if properties else ""
        entries = [(key, value) for key, value in op.attributes.items() if key != NAME]
        more = f" {{{self.named(entries)}}}" if entries else ""
        return f'{pad}{result}"{kind}"({operands}){own}{more} : ({takes}) -> {gives}{end}'

    def _around(self, head: str, op: Operation, depth: int, names: dict[SSAValue, str]) -> str:
        inner = "".join(self.op(one, depth + 1, names) for block in op.regions[0].blocks for one in block.ops)
        return f"{head} {{\n{inner}{'  ' * depth}}}{self.location(op)}\n"

    def _head(self, func: FuncOp) -> str:
        visibility = f"{func.sym_visibility.data} " if func.sym_visibility is not None else ""
        block = func.body.block
        arguments = [
            f"%arg{number}: {self.text(value.type)}{words}{self.location(value, whole=True)}"
            for number, (value, words) in enumerate(
                zip(block.args, self._held(func.properties.get("arg_attrs"), len(block.args)), strict=True)
            )
        ]
        kinds = func.function_type.outputs.data
        words_of_results = self._held(func.properties.get("res_attrs"), len(kinds))
        results = [f"{self.text(kind)}{words}" for kind, words in zip(kinds, words_of_results, strict=True)]
        arrow = ""
        if results:
            bare = len(results) == 1 and not words_of_results[0]
            arrow = f" -> {results[0]}" if bare else f" -> ({', '.join(results)})"
        own = f" attributes {{{self.named(func.attributes.items())}}}" if func.attributes else ""
        return f"func.func {visibility}@{func.sym_name.data}({', '.join(arguments)}){arrow}{own}"

    def _held(self, array: Any, count: int) -> Sequence[str]:
        """The attributes of arguments or results, each as it stands after the type."""
        if array is None:
            return [""] * count
        return [f" {{{self.named(one.data.items())}}}" if one.data else "" for one in array.data]

    @staticmethod
    def _numbered(func: FuncOp) -> dict[SSAValue, str]:
        """The names of a function's values: arguments, then results in the order of their ops, or by their own name."""
        names: dict[SSAValue, str] = {value: f"%arg{n}" for n, value in enumerate(func.body.block.args)}
        taken, number, conflict = set[str](), 0, 0
        for op in func.body.block.ops:
            if op.results and op.results[0].name_hint is not None:
                for value in op.results:
                    name = hint = value.name_hint or "result"
                    while name in taken:
                        name, conflict = f"{hint}_{conflict}", conflict + 1
                    taken.add(name)
                    names[value] = f"%{name}"
                continue
            if len(op.results) == 1:
                names[op.results[0]] = f"%{number}"
            else:
                names.update((value, f"%{number}#{n}") for n, value in enumerate(op.results))
            number += bool(op.results)
        return names
