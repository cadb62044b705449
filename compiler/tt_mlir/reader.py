"""Reads a TTNN module as tt-mlir prints it: an op a line, aliases before and after, a location after each op.

The board's description and the device, long lines that no op of ours needs, are kept as their text, and a location is
read when an op first names it. Anything that this form does not have is refused with its line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from xdsl.dialects import builtin as b
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from opscope.compiler.errors import CompilerInputError
from opscope.compiler.tt_mlir import attributes
from opscope.compiler.tt_mlir.brackets import closing, pair, parts
from opscope.compiler.tt_mlir.locations import location
from opscope.compiler.tt_mlir.module import DEVICE, DEVICE_MODULE, LOAD_CACHED, SUBGRAPH, TtMlirModule, op_class

_ALIAS = re.compile(r"(#[A-Za-z_][\w$]*) = (.*)")
_NAMED_ALIAS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|#[A-Za-z_][\w$]*(?![\w$.<])')
"""A string, or an alias where one is used: other attributes of dialects go on with a point or a bracket."""
_RESULTS = r"(?:(%[\w$.-]+(?:, %[\w$.-]+)*)(?::(\d+))? = )?"
_GENERIC = re.compile(_RESULTS + r'"([\w.]+)"\(([^()]*)\)')
_CACHED = re.compile(_RESULTS + r"ttcore\.load_cached\(@([\w$.-]+), \[([^\[\]]*)\]\)")
_SUBGRAPH = re.compile(_RESULTS + r"ttnn\.d2m_subgraph @([\w$.-]+) ins(?=\()")
_FUNC = re.compile(r"func\.func (?:(private|public|nested) )?@([\w$.-]+)\(")
_RETURN = re.compile(r"(?:func\.)?return\b")
_MODULE = re.compile(r"(?:builtin\.)?module\b(?: @([\w$.-]+))?(?: attributes (\{.*\}))? \{")
_AT_ALIAS = re.compile(r" loc\((#[\w$]+)\)$")
_REGION = re.compile(r"\(\{\s*$")
_CONFLICT = re.compile(r"_\d+$")
"""What a printer adds to the name of a value that another one has."""
_DEVICE_MODULE = re.compile(rf"^ *{re.escape(DEVICE_MODULE)} {{$", re.MULTILINE)
_DEVICE = re.compile(r"ttcore\.device @([\w$.-]+) = (.*)")


def read_tt_mlir(text: str, name: str = "<input>") -> TtMlirModule:
    """Reads a module. Raises CompilerInputError in one line, with file and line."""
    return _Reader(text, name).read()


def is_tt_mlir(text: str) -> bool:
    """Whether a text is a module of ttir or ttnn as tt-mlir's executables hold it."""
    return _DEVICE_MODULE.search(text) is not None


class _Scope:
    """An op with a region that is being read."""

    def __init__(self, block: Block, make: Any, values: dict[str, SSAValue] | None = None) -> None:
        self.block, self.make = block, make
        self.values: dict[str, SSAValue] = values if values is not None else {}


class _Reader:
    def __init__(self, text: str, name: str) -> None:
        self.lines, self.name, self.number = text.split("\n"), name, 0
        self.raw: dict[str, str] = {}
        """Alias -> its text as it stands."""
        self.whole: dict[str, str] = {}
        """Alias -> its text without aliases."""
        self.locations: dict[str, Any] = {}
        self.types: dict[str, Attribute] = {}
        self.signatures: dict[str, tuple[list[Attribute], list[Attribute]]] = {}

    def read(self) -> TtMlirModule:
        """Reads all lines."""
        before: list[tuple[str, str]] = []
        after: list[tuple[str, str]] = []
        # Aliases that stand after the module are known before it is read.
        rest: list[tuple[int, str]] = []
        for number, line in enumerate(self.lines, 1):
            match = _ALIAS.fullmatch(line) if line[:1] == "#" else None
            if match is not None:
                self.raw[match[1]] = match[2]
                (after if rest else before).append((match[1], match[2]))
            elif (words := line.strip()) and not words.startswith("//"):
                if rest and words.startswith(("ins(", "outs(")):  # of a subgraph, which stands on three lines
                    number, before_it = rest.pop()
                    words = f"{before_it} {words}"
                rest.append((number, words))
        scopes: list[_Scope] = []
        top: Operation | None = None
        for number, line in rest:
            self.number = number
            try:
                made = self._line(line, scopes)
            except (ValueError, KeyError, IndexError) as error:
                if isinstance(error, CompilerInputError):
                    raise
                words = (
                    str(error) if str(error).startswith("expected") else f"expected tt-mlir's text, got {line[:60]!r}"
                )
                raise self._refused(words) from error
            if made is None:
                continue
            if scopes:
                scopes[-1].block.add_op(made)
            elif top is None:
                top = made
            else:
                raise self._refused("expected one module, got a second")
        if not isinstance(top, b.ModuleOp) or scopes:
            got = "the end of the text" if scopes else "none"
            raise self._refused(f"expected a module that ends with its bracket, got {got}")
        return TtMlirModule(top, self.name, tuple(before), tuple(after), tuple(self.locations.items()))

    def _refused(self, words: str) -> CompilerInputError:
        return CompilerInputError(
            f"{self.name}:{self.number}: {words}; try the text of an executable of tt-mlir, unchanged"
        )

    def _line(self, line: str, scopes: list[_Scope]) -> Operation | None:
        """Reads a line; returns the op that it ends."""
        first = line[0]
        if first == "}":
            words, where = self._located(line)
            if words != "}":
                raise ValueError(f"expected a location after the bracket, got {words[1:40]!r}")
            if not scopes:
                raise ValueError("expected an op, got a bracket that closes none")
            return scopes.pop().make(where)
        if line[-1] == "{":
            scopes.append(self._opened(line))
            return None
        if not scopes:
            raise ValueError(f"expected a module, got {line[:60]!r}")
        values = scopes[-1].values
        if _RETURN.match(line):
            return self._return(line, values)
        if (match := _DEVICE.match(line)) is not None:
            return self._device(match)
        if (match := _CACHED.match(line)) is not None:
            properties: dict[str, Attribute] = {"callee": b.SymbolRefAttr(match[3])}
            return self._op(line, match.end(), LOAD_CACHED, (match[1], match[2], match[4]), values, properties)
        if (match := _SUBGRAPH.match(line)) is not None:
            return self._subgraph(line, match, values)
        if (match := _GENERIC.match(line)) is not None:
            if _REGION.search(line):
                raise ValueError(f"expected {match[3]} without a region, got one with its own")
            at, properties, discardable = match.end(), {}, {}
            if line.startswith(" <{", at):
                end = closing(line, at + 1)
                properties, at = self._dictionary(line[at + 3 : end - 2]), end
            if line.startswith(" {", at):
                end = closing(line, at + 1)
                discardable, at = self._dictionary(line[at + 2 : end - 1]), end
            names = match[1], match[2], match[4]
            return self._op(line, at, match[3], names, values, properties, discardable)
        raise ValueError(f"expected an op of tt-mlir, got {line[:60]!r}")

    def _subgraph(self, line: str, match: re.Match[str], values: dict[str, SSAValue]) -> Operation:
        """`ttnn.d2m_subgraph @function ins(values : types) outs(values : types) : types`."""
        at, names, types, sizes = match.end(), list[str](), list[str](), list[int]()
        for word in ("", " outs"):
            if not line.startswith(f"{word}(", at):
                raise ValueError(f"expected what a subgraph writes, got {line[at : at + 40]!r}")
            end = closing(line, at + len(word))
            own, _, kinds = line[at + len(word) + 1 : end - 1].partition(" : ")
            names += [own] if own.strip() else []
            types += [kinds] if kinds.strip() else []
            sizes.append(len(parts(own)) if own.strip() else 0)
            at = end
        results, where = self._located(line[at:].removeprefix(" : "))
        properties: dict[str, Attribute] = {
            "d2m_func": b.SymbolRefAttr(match[3]),
            "operandSegmentSizes": b.DenseArrayBase.from_list(b.i32, sizes),
        }
        signature = f" : ({', '.join(types)}) -> ({results})"
        made = self._op(signature, 0, SUBGRAPH, (match[1], match[2], ", ".join(names)), values, properties)
        if where is not None:
            made.location = where
        return made

    def _opened(self, line: str) -> _Scope:
        """Begins an op with a region."""
        block = Block()
        region = Region(block)
        if (match := _MODULE.fullmatch(line)) is not None:
            attributes = self._dictionary(match[2][1:-1]) if match[2] else {}
            properties: dict[str, Attribute] = {"sym_name": b.StringAttr(match[1])} if match[1] else {}

            def module(where: Any) -> Operation:
                return b.ModuleOp.create(properties=properties, attributes=attributes, regions=[region], location=where)

            return _Scope(block, module)
        if line == f"{DEVICE_MODULE} {{":
            return _Scope(block, lambda where: op_class(DEVICE_MODULE).create(regions=[region], location=where))
        if (match := _FUNC.match(line)) is not None:
            return self._function(line, match, region, block)
        raise ValueError(f"expected a module or a function, got {line[:60]!r}")

    def _function(self, line: str, match: re.Match[str], region: Region, block: Block) -> _Scope:
        end = closing(line, match.end() - 1)
        arguments, values = [], {}
        for part in parts(line[match.end() : end - 1]):
            name, _, words = part.partition(": ")
            words, where = self._located(words)
            kind, attributes = self._typed(words)
            value = block.insert_arg(self._type(kind), len(block.args))
            if where is not None:
                value.location = where
            values[name] = value
            arguments.append(attributes)
        rest, results, of_results = line[end:-1].strip(), list[Attribute](), []
        if rest.startswith("-> "):
            if rest[3] == "(":
                end = closing(rest, 3)
                listed, rest = parts(rest[4 : end - 1]), rest[end:].strip()
            else:
                kind, _, after = rest[3:].partition(" attributes {")
                listed, rest = [kind.strip()], f"attributes {{{after}" if after else ""
            for part in listed:
                kind, attributes = self._typed(part)
                results.append(self._type(kind))
                of_results.append(attributes)
        properties: dict[str, Attribute] = {
            "sym_name": b.StringAttr(match[2]),
            "function_type": b.FunctionType.from_lists([arg.type for arg in block.args], results),
        }
        if match[1]:
            properties["sym_visibility"] = b.StringAttr(match[1])
        for key, attributes in (("arg_attrs", arguments), ("res_attrs", of_results)):
            if any(attributes):
                properties[key] = b.ArrayAttr([b.DictionaryAttr(one) for one in attributes])
        own: dict[str, Attribute] = {}
        if rest:
            if not rest.startswith("attributes {") or closing(rest, 11) != len(rest):
                raise ValueError(f"expected the attributes of a function, got {rest[:60]!r}")
            own = self._dictionary(rest[12:-1])

        def function(where: Any) -> Operation:
            return FuncOp.create(properties=properties, attributes=own, regions=[region], location=where)

        return _Scope(block, function, values)

    def _typed(self, words: str) -> tuple[str, dict[str, Attribute]]:
        """Type and attributes of an argument or a result."""
        kind, brace, attributes = words.partition(" {")
        return kind.strip(), self._dictionary(attributes[:-1]) if brace else {}

    def _device(self, match: re.Match[str]) -> Operation:
        words, where = self._located(match[2])
        properties = {"sym_name": b.StringAttr(match[1]), "device_attr": attributes.raw(words)}
        return op_class(DEVICE).create(properties=properties, location=where)

    def _return(self, line: str, values: dict[str, SSAValue]) -> Operation:
        words, where = self._located(line)
        names = words.partition("return")[2].strip().partition(" : ")[0]
        return ReturnOp.create(operands=self._operands(names, values), location=where)

    def _op(
        self,
        line: str,
        at: int,
        name: str,
        names: tuple[str | None, str | None, str],
        values: dict[str, SSAValue],
        properties: dict[str, Attribute],
        discardable: dict[str, Attribute] | None = None,
    ) -> Operation:
        """An op whose signature begins at a place of its line."""
        result, count, operands = names
        if not line.startswith(" : ", at):
            raise ValueError(f"expected the types of {name}, got {line[at : at + 40]!r}")
        words, where = self._located(line[at + 3 :])
        takes, gives = self._signature(words)
        operands_of_op = self._operands(operands, values)
        if [value.type for value in operands_of_op] != takes:
            raise ValueError(f"expected operands of {name} of the types that it names, got others")
        op = op_class(name).create(
            operands=operands_of_op,
            result_types=gives,
            properties=properties,
            attributes=discardable or {},
            location=where,
        )
        made = result.split(", ") if result else []
        if count:
            made = [f"{result}#{number}" for number in range(int(count))]
        if len(gives) != len(made):
            raise ValueError(f"expected {len(gives)} results of {name}, got {len(made)}")
        for value, word in zip(op.results, made, strict=True):
            values[word] = value
            if not word[1].isdecimal():
                value.name_hint = _CONFLICT.sub("", word[1:])
        return op

    def _operands(self, words: str, values: dict[str, SSAValue]) -> Sequence[SSAValue]:
        try:
            return [values[name] for name in words.split(", ")] if words else []
        except KeyError as error:
            raise ValueError(f"expected a value that an op before makes, got {error.args[0]}") from None

    def _signature(self, words: str) -> tuple[list[Attribute], list[Attribute]]:
        """The types of `(a, b) -> c`."""
        known = self.signatures.get(words)
        if known is None:
            end = closing(words, 0)
            if words[:1] != "(" or not words.startswith(" -> ", end):
                raise ValueError(f"expected types, got {words[:60]!r}")
            results = words[end + 4 :]
            inner = results[1:-1] if results[:1] == "(" else results
            known = self.signatures[words] = (
                [self._type(part) for part in parts(words[1 : end - 1])],
                [self._type(part) for part in parts(inner)],
            )
        return known

    def _type(self, words: str) -> Attribute:
        known = self.types.get(words)
        if known is None:
            known = self.types[words] = attributes.type_of(self._expanded(words))
        return known

    def _dictionary(self, words: str) -> dict[str, Attribute]:
        named = (pair(part) for part in parts(words))
        return {
            name: b.UnitAttr() if value is None else attributes.attribute(self._expanded(value))
            for name, value in named
        }

    def _expanded(self, words: str) -> str:
        """A text with its aliases written out."""
        return _NAMED_ALIAS.sub(self._alias, words) if "#" in words else words

    def _alias(self, match: re.Match[str]) -> str:
        name = match[0]
        if name[0] == '"':
            return name
        if name not in self.whole:
            if name not in self.raw:
                raise ValueError(f"expected an alias that the text defines, got {name}")
            text = self.raw.pop(name)  # so that one that names itself ends as unknown
            self.whole[name] = self._expanded(text)
            self.raw[name] = text
        return self.whole[name]

    def _located(self, line: str) -> tuple[str, Any]:
        """A line without the location at its end, and that; None if it has none."""
        if (match := _AT_ALIAS.search(line)) is not None:
            return line[: match.start()], self._resolved(match[1])
        if line[-1:] != ")" or (place := _outside_strings(line, " loc(")) < 0:
            return line, None
        return line[:place], location(line[place + 5 : -1], self._resolved)

    def _resolved(self, name: str) -> Any:
        known = self.locations.get(name)
        if known is None:
            if name not in self.raw or not self.raw[name].startswith("loc("):
                raise ValueError(f"expected a location that the text defines, got {name}")
            text = self.raw.pop(name)
            known = self.locations[name] = location(text[4:-1], self._resolved)
            self.raw[name] = text
        return known


def _outside_strings(line: str, words: str) -> int:
    """The last place of some words that is in no string, -1 if there is none."""
    place = -1
    for match in re.finditer(r'"[^"\\]*(?:\\.[^"\\]*)*"|' + re.escape(words), line):
        if match[0] == words:
            place = match.start()
    return place
