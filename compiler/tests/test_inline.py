"""Calls become what they call, or a line that says why not."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.compiler.errors import CompilerInputError
from opscope.compiler.ir import door
from opscope.compiler.ir.functions import functions
from opscope.compiler.ir.text import parse
from opscope.compiler.passes import inline
from opscope.compiler.pipelines import pipeline
from opscope.compiler.tests import programs

CALLS = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = func.call @CALLEE(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "ttir.add"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}"""


def inlined(callee: str):
    module = parse(CALLS.replace("CALLEE", callee))
    pipeline.run(pipeline.parse("inline"), module)
    return module


def test_a_public_function_stays() -> None:
    assert programs.op_names(inlined("twice")) == ["ttir.add", "ttir.add"]


@pytest.mark.parametrize(("callee", "got"), [("main", "itself"), ("other", "@other")])
def test_what_cannot_be_inlined_is_refused(callee: str, got: str) -> None:
    with pytest.raises(CompilerInputError, match=f"@main: expected calls of other functions of the module, got {got}"):
        inlined(callee)


def test_functions_that_call_each_other_are_refused() -> None:
    module = parse(
        CALLS.replace("CALLEE", "twice").replace(
            '"ttir.add"(%x, %x) : (tensor<4xf32>, tensor<4xf32>)', "func.call @main(%x) : (tensor<4xf32>)"
        )
    )
    with pytest.raises(CompilerInputError, match=r"@twice: expected calls of other .*, got @main, which calls it"):
        pipeline.run(pipeline.parse("inline"), module)


def test_what_would_grow_without_bounds_is_refused_before_it_does() -> None:
    """The first has 2 ops (itself, its return), each further one 4 and twice those before: 6 * 2^n - 4."""
    lines = ["func.func @f0(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"]
    for number in range(1, 101):
        call = f"func.call @f{number - 1}(%x) : (tensor<4xf32>) -> tensor<4xf32>"
        lines.append(
            f"func.func @f{number}(%x: tensor<4xf32>) -> tensor<4xf32> {{\n%0 = {call}\n"
            f"%1 = {call.replace('%x', '%0')}\nreturn %1 : tensor<4xf32>\n}}"
        )
    with pytest.raises(
        CompilerInputError, match="@f18: expected at most 1,000,000 ops with all that it calls, got 1,572,860"
    ):
        pipeline.run(pipeline.parse("inline"), parse("\n".join(lines)))


def test_what_a_composite_still_means_stays_and_what_nobody_calls_goes() -> None:
    source = """
    func.func private @meaning(%a: tensor<2xf32>) -> tensor<2xf32> {
      %0 = stablehlo.tanh %a : tensor<2xf32>  return %0 : tensor<2xf32> }
    func.func private @called(%a: tensor<2xf32>) -> tensor<2xf32> {
      %0 = stablehlo.abs %a : tensor<2xf32>  return %0 : tensor<2xf32> }
    func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
      %0 = stablehlo.composite "x.y" %a {decomposition = @meaning} : (tensor<2xf32>) -> tensor<2xf32>
      %1 = call @meaning(%0) : (tensor<2xf32>) -> tensor<2xf32>
      %2 = call @called(%1) : (tensor<2xf32>) -> tensor<2xf32>  return %2 : tensor<2xf32> }"""
    module = door.read(source)
    pipeline.run(pipeline.parse("inline"), module)
    assert [func.sym_name.data for func in functions(module)] == ["main", "meaning"]


def test_functions_of_stablehlo_are_inlined_where_regions_call_them() -> None:
    source = """
    func.func private @double(%a: tensor<f32>) -> tensor<f32> {
      %0 = stablehlo.add %a, %a : tensor<f32>  return %0 : tensor<f32> }
    func.func @main(%p: tensor<i1>, %a: tensor<f32>) -> tensor<f32> {
      %0 = "stablehlo.if"(%p) ({
        %1 = func.call @double(%a) : (tensor<f32>) -> tensor<f32>
        stablehlo.return %1 : tensor<f32>
      }, { stablehlo.return %a : tensor<f32> }) : (tensor<i1>) -> tensor<f32>
      return %0 : tensor<f32> }"""
    module = door.read(source)
    pipeline.run(pipeline.parse("inline"), module)
    assert [func.sym_name.data for func in functions(module)] == ["main"]
    assert programs.op_names(module).count("stablehlo.add") == 1
    (got,) = programs.simulate(source, np.array(True), np.float32(3))
    assert got == 6


def test_a_function_may_be_as_large_as_the_limit_with_all_that_it_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three operations of @twice (itself, its sum and its return), and as many of @main."""
    monkeypatch.setattr(inline, "LARGEST", 6)
    assert inlined("twice")
    monkeypatch.setattr(inline, "LARGEST", 5)
    with pytest.raises(CompilerInputError, match="@main: expected at most 5 ops with all that it calls, got 6"):
        inlined("twice")
