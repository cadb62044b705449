"""Modules in short lines, to write what a pass reads and to read what it leaves.

    a: 4x8xf32
    s = sum(a) dim_arg=(1,) keep_dim=True : 4x1xf32 @total
    return s

`@total` is the location's name; `parameter` after an argument's type is its type of argument.

The files in `listings/` hold cases: a line `## NAME | PASSES`, the module before (as here, or StableHLO), `--`, and the
lines after, `unchanged`, or `! ` with the message of a refusal. `python -m opscope.compiler.tests.listing` writes anew
what follows `--`: read the diff.
"""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    NameLoc,
    StringAttr,
    TensorType,
    UnknownLoc,
    f32,
    i32,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from opscope.compiler.dialects import ttir
from opscope.compiler.dialects.from_row import RowOp, write_attrs
from opscope.compiler.dialects.ttcore import ArgumentTypeAttr
from opscope.compiler.dialects.ttnn_layout import layout_of
from opscope.compiler.errors import CompilerInputError, StageFailure
from opscope.compiler.ir import door
from opscope.compiler.ir.functions import functions, kind_of
from opscope.compiler.ir.text import parse as parse_module
from opscope.compiler.ir.text import parse_attribute
from opscope.compiler.passes.tt_populate_argument_types import KEY
from opscope.compiler.pipelines.pipeline import parse, run

FILES = sorted((Path(__file__).parent / "listings").glob("*.txt"))
_ARGUMENT = re.compile(r"(\w+): (\S+)(?: (\w+))?")
_OP = re.compile(r"([\w, ]+) = (\w+)\(([\w, ]*)\)((?: \w+=\S+)*) : ([\w, ]+?)(?: @(.+))?")


def read(text: str) -> ModuleOp:
    """The module of these lines, of StableHLO, or of MLIR as xDSL reads it, which begins with `builtin.module`."""
    if text.startswith("builtin.module"):
        return parse_module(text)
    if "func.func" in text:
        return door.read(text)
    block, values, words = Block(), dict[str, SSAValue](), list[str]()
    for line in text.strip().splitlines():
        if match := _ARGUMENT.fullmatch(line):
            name, kind, word = match.groups()
            values[name] = block.insert_arg(_type(kind), len(block.args))
            words.append(word or "input")
        elif match := _OP.fullmatch(line):
            names, op, operands, attrs, kinds, place = match.groups()
            made = _op(op, [values[v] for v in operands.split(", ") if v], attrs, kinds, place)
            block.add_op(made)
            values.update(zip(names.split(", "), made.results, strict=True))
        else:
            assert line.startswith("return"), line
            block.add_op(ReturnOp(*(values[v] for v in line[7:].split(", ") if v)))
    assert isinstance(block.last_op, ReturnOp), text
    func = FuncOp("main", ([v.type for v in block.args], [v.type for v in block.last_op.operands]), Region(block))
    if set(words) - {"input"}:
        func.arg_attrs = ArrayAttr([DictionaryAttr({KEY: ArgumentTypeAttr.of(word)}) for word in words])
    return ModuleOp([func])


@cache
def _type(text: str) -> TensorType:
    *shape, element = text.split("x")
    return TensorType(parse_attribute(element), [int(size) for size in shape])


@cache
def _passes(text: str) -> tuple[ModulePass, ...]:
    return parse(text)


def _op(name: str, operands: list[SSAValue], attrs: str, kinds: str, place: str | None) -> Operation:
    values = {key: _value(word) for key, _, word in (pair.partition("=") for pair in attrs.split())}
    cls = ttir.CLASSES[name]
    location = NameLoc(StringAttr(place), UnknownLoc()) if place else UnknownLoc()
    types = [_type(kind) for kind in kinds.split(", ")]
    if name == "full":
        values = {"shape": types[0].get_shape(), "fill_value": values["value"]}
    if name == "constant":
        values = {"value": DenseIntOrFPElementsAttr.from_list(types[0], values["value"])}
    if isinstance(number := values.get("fill_value"), int | float):
        values["fill_value"] = FloatAttr(number, f32) if isinstance(number, float) else IntegerAttr(number, i32)
    return cls.create(operands=operands, result_types=types, properties=write_attrs(cls.ROW, values), location=location)


def _value(word: str) -> Any:
    return float(word) if word in ("inf", "-inf", "nan") else ast.literal_eval(word)


def written(module: ModuleOp) -> Iterator[str]:
    """The lines of a module."""
    for func in functions(module):
        if kind_of(func) or len(functions(module)) > 1:
            yield f"{kind_of(func)} {func.sym_name.data}".strip()
        names: dict[SSAValue, str] = {}
        for value, letter in zip(func.body.blocks[0].args, string.ascii_lowercase, strict=False):
            names[value] = letter
            word = func.arg_attrs.data[value.index].data.get(KEY) if func.arg_attrs is not None else None
            yield f"{letter}: {kind(value)}" + (f" {word.word.data}" if isinstance(word, ArgumentTypeAttr) else "")
        yield from _lines(func.body.blocks[0], names)


def _lines(block: Block, names: dict[SSAValue, str]) -> Iterator[str]:
    """The lines of a block's ops, with those of their regions; `names` gets the names of their results."""
    for op in block.ops:
        operands = ", ".join(names[v] for v in op.operands)
        if op.name in ("func.return", "stablehlo.return"):
            yield f"return {operands}".strip()
            continue
        names.update({value: f"v{len(names) + i}" for i, value in enumerate(op.results)})
        results = ", ".join(names[v] for v in op.results)
        place = f" @{op.location.desc.data}" if isinstance(op.location, NameLoc) else ""
        yield (
            f"{results + ' = ' * bool(op.results)}{op.name.removeprefix('ttir.')}({operands}){_attrs(op)}"
            f" : {', '.join(map(kind, op.results))}{place}"
        )
        for region in op.regions:
            names.update({value: f"v{len(names) + i}" for i, value in enumerate(region.block.args)})
            yield f"  ({', '.join(names[v] for v in region.block.args)})"
            yield from (f"  {line}" for line in _lines(region.block, names))
        if "module" in op.properties:
            inside = door.read(op.properties["module"].data)
            yield from (f"  {line}" for line in written(inside))


def kind(value: SSAValue) -> str:
    """Shape and element type of a value; in ttnn also its place, its format and how it is spread."""
    if not isinstance(value.type, TensorType):
        return str(value.type)
    words = ["x".join(map(str, (*value.type.get_shape(), value.type.element_type)))]
    encoding = layout_of(value)
    if encoding is not None:
        words.append({"system_memory": "host"}.get(encoding.buffer_type, encoding.buffer_type))
        words += [encoding.data_type] if encoding.layout == "tile" else []
        if encoding.spread != "interleaved":
            words += [encoding.spread, "{}x{}".format(*encoding.grid.pair)]
    return " ".join(words)


def _attrs(op: Operation) -> str:
    values: dict[str, Any] = dict(op.attributes)
    if isinstance(op, RowOp):
        values |= op.read() | {key: op.properties[key] for key in op.properties if key.endswith("_config")}
    elif op.dialect_name() == "buda":
        values |= op.properties
    return "".join(f" {key}={_word(value)}" for key, value in values.items() if key not in ("module", "shape"))


def _word(value: Any) -> str:
    if isinstance(value, FloatAttr | IntegerAttr):
        value = value.value.data
    if isinstance(value, DenseIntOrFPElementsAttr):
        value = list(value.get_values())
    if isinstance(value, Attribute):
        value = str(value)
    return re.sub(r"#(?:ttnn\.|stablehlo<)\w+|[<> ]", "", str(value))


@dataclass(frozen=True)
class Case:
    """A module, the passes that it is for, and what is to come of it."""

    name: str
    passes: str
    before: str
    after: str = ""

    def lines(self) -> str:
        """What comes of it now."""
        module = read(self.before)
        before = "\n".join(written(module))
        try:
            run(_passes(self.passes), module)
        except (StageFailure, CompilerInputError) as error:
            kind = f"{error.op}, {error.kind}: {error.message}" if isinstance(error, StageFailure) else str(error)
            return f"! {kind}"
        after = "\n".join(written(module))
        return after if after != before else "unchanged"


def cases(file: Path) -> list[Case]:
    """The cases of a file."""
    cases: list[Case] = []
    for text in file.read_text().split("## ")[1:]:
        head, _, rest = text.partition("\n")
        name, _, passes = head.partition(" | ")
        before, _, after = rest.partition("--\n")
        cases.append(Case(name, passes, before.strip(), after.strip()))
    return cases


def update() -> None:
    """Writes what comes of each case into its file."""
    for file in FILES:
        first = file.read_text().partition("## ")[0]
        new = [replace(case, after=case.lines()) for case in cases(file)]
        file.write_text(first + "\n".join(f"## {c.name} | {c.passes}\n{c.before}\n--\n{c.after}\n" for c in new))


if __name__ == "__main__":
    update()
