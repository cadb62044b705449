"""Element types have the text that MLIR writes, whatever was asked before."""

from __future__ import annotations

from xdsl.dialects.builtin import ComplexType, IntegerType, Signedness, bf16, f32, i1

from opscope.compiler.ops.element_text import element_text


def test_an_element_type_has_the_text_that_mlir_prints() -> None:
    kinds = [f32, bf16, i1, IntegerType(8), IntegerType(8, Signedness.UNSIGNED), ComplexType(f32)]
    for _ in range(2):
        assert [element_text(kind) for kind in kinds] == ["f32", "bf16", "i1", "i8", "ui8", "complex<f32>"]
    assert element_text("") == ""
