"""Calls become what they call, or a line that says why not."""

from __future__ import annotations

import pytest

from compiler.errors import CompilerInputError
from compiler.ir.text import parse
from compiler.passes import pipeline
from compiler.tests import programs

CALLS = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = func.call @CALLEE(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "ttir.add"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}"""


def inlined(callee: str):  # type: ignore[no-untyped-def]
    module = parse(CALLS.replace("CALLEE", callee))
    pipeline.run(pipeline.parse("inline"), module)
    return module


def test_a_public_function_stays() -> None:
    assert programs.op_names(inlined("twice")) == ["ttir.add", "ttir.add"]


@pytest.mark.parametrize(("callee", "got"), [("main", "itself"), ("other", "@other")])
def test_what_cannot_be_inlined_is_refused(callee: str, got: str) -> None:
    with pytest.raises(CompilerInputError, match=f"@main: expected calls of other functions of the module, got {got}"):
        inlined(callee)
