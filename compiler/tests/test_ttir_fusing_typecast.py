"""Conversions that unpacker and packer do anyway are gone; all others stay."""

from __future__ import annotations

import pytest
from xdsl.pattern_rewriter import PatternRewriteWalker
from xdsl.transforms.dead_code_elimination import region_dce

from opscope.compiler import api
from opscope.compiler.passes.ttir_fusing.typecast import Typecasts
from opscope.compiler.tests import programs


def left(arguments: str, body: str, result: str) -> list[str]:
    """The ops after the rule, with the element types of operands and results."""
    text = f"func.func @main({arguments}) -> {result} {{ {body} return %r : {result} }}"
    module = api.stablehlo_to_ttir(text)
    PatternRewriteWalker(Typecasts(), post_walk_func=region_dce).rewrite_module(module)
    module.verify()
    ops = [op for op in module.walk() if op.name.startswith("ttir.")]
    assert programs.op_names(module) == [op.name for op in ops]
    kinds = [[str(value.type.element_type) for value in (*op.operands, *op.results)] for op in ops]
    return [f"{op.name.removeprefix('ttir.')} {' '.join(types)}" for op, types in zip(ops, kinds, strict=True)]


WIDE, NARROW, HALF, WHOLE = (f"tensor<4x8x{kind}>" for kind in ("f32", "bf16", "f16", "i32"))


def convert(to: str, value: str, source: str, target: str) -> str:
    return f"%{to} = stablehlo.convert %{value} : ({source}) -> {target}\n"


@pytest.mark.parametrize(
    ("arguments", "body", "result", "expected"),
    [
        (
            f"%x: {NARROW}",
            convert("a", "x", NARROW, WIDE)
            + f"%b = stablehlo.exponential %a : {WIDE}\n"
            + convert("r", "b", WIDE, NARROW),
            NARROW,
            ["exp bf16 bf16"],
        ),
        (
            f"%x: {HALF}",
            convert("a", "x", HALF, WIDE) + f"%r = stablehlo.exponential %a : {WIDE}\n",
            WIDE,
            ["exp f16 f32"],
        ),
        (
            f"%x: {WIDE}",
            f"%a = stablehlo.exponential %x : {WIDE}\n" + convert("r", "a", WIDE, HALF),
            HALF,
            ["exp f32 f16"],
        ),
        (
            f"%x: {WIDE}, %y: {NARROW}",
            convert("a", "y", NARROW, WIDE) + f"%r = stablehlo.add %x, %a : {WIDE}\n",
            WIDE,
            ["add f32 bf16 f32"],
        ),
        # Neither loses bits nor is one: from 16 to 16, from an integer, of an argument, of what is only moved.
        (
            f"%x: {NARROW}",
            convert("a", "x", NARROW, HALF) + f"%r = stablehlo.exponential %a : {HALF}\n",
            HALF,
            ["typecast bf16 f16", "exp f16 f16"],
        ),
        (f"%x: {WIDE}", convert("r", "x", WIDE, NARROW), NARROW, ["typecast f32 bf16"]),
        (
            f"%x: {WIDE}",
            convert("a", "x", WIDE, NARROW) + f"%r = stablehlo.exponential %a : {NARROW}\n",
            NARROW,
            ["typecast f32 bf16", "exp bf16 bf16"],
        ),
        (
            f"%x: {WHOLE}",
            convert("a", "x", WHOLE, WIDE) + f"%r = stablehlo.exponential %a : {WIDE}\n",
            WIDE,
            ["typecast i32 f32", "exp f32 f32"],
        ),
        (
            f"%x: {WHOLE}",
            convert("a", "x", WHOLE, WIDE) + convert("r", "a", WIDE, NARROW),
            NARROW,
            ["typecast i32 f32", "typecast f32 bf16"],
        ),
        (
            f"%x: {WIDE}",
            f"%a = stablehlo.exponential %x : {WIDE}\n" + convert("r", "a", WIDE, WHOLE),
            WHOLE,
            ["exp f32 f32", "typecast f32 i32"],
        ),
        (
            f"%x: {WIDE}",
            f"%a = stablehlo.reverse %x, dims = [0] : {WIDE}\n" + convert("r", "a", WIDE, NARROW),
            NARROW,
            ["reverse f32 f32", "typecast f32 bf16"],
        ),
        (
            f"%x: {NARROW}",
            convert("a", "x", NARROW, WIDE) + f"%r = stablehlo.reverse %a, dims = [0] : {WIDE}\n",
            WIDE,
            ["typecast bf16 f32", "reverse f32 f32"],
        ),
        # What another reads in its own format is not packed in a narrow one.
        (
            f"%x: {WIDE}",
            f"%a = stablehlo.exponential %x : {WIDE}\n"
            + convert("b", "a", WIDE, NARROW)
            + convert("c", "b", NARROW, WIDE)
            + f"%r = stablehlo.add %a, %c : {WIDE}\n",
            WIDE,
            ["exp f32 f32", "typecast f32 bf16", "add f32 bf16 f32"],
        ),
    ],
)
def test_which_conversions_stay(arguments: str, body: str, result: str, expected: list[str]) -> None:
    assert left(arguments, body, result) == expected
