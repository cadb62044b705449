"""Variants of single ops: the form that is read, what MLIR infers for another one, and bodies with one op less."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opscope.base.tests.each import each
from opscope.harness.prepare.mlir import load, to_bytecode
from opscope.harness.prepare.mlir.variant import Form, InvalidVariantError, build, main_op, read, without_inner_ops


def module(text: str) -> bytes:
    return to_bytecode(load(text, "variant"))


def main(body: str, arguments: str, result: str) -> bytes:
    return module(f"func.func @main({arguments}) -> {result} {{\n{body}\n return %0 : {result}\n}}")


SUM = main(
    """  %start = stablehlo.constant dense<2.0> : tensor<f32>
  %0 = "stablehlo.reduce"(%x, %start) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      %t = stablehlo.maximum %s, %b : tensor<f32>
      stablehlo.return %t : tensor<f32>
  }) {dimensions = array<i64: 1>} : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>""",
    "%x: tensor<8x16xf32>",
    "tensor<8xf32>",
)
ADD = main(
    """  %c = stablehlo.constant dense<3.0> : tensor<2x3xf32>
  %0 = stablehlo.add %c, %x : tensor<2x3xf32>""",
    "%x: tensor<2x3xf32>",
    "tensor<2x3xf32>",
)
TABLE = main(
    """  %c = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %0 = stablehlo.add %x, %c : tensor<2xi32>""",
    "%x: tensor<2xi32>",
    "tensor<2xi32>",
)
SWAPPED = main(
    """  %0 = stablehlo.dot_general %y, %x, contracting_dims = [1] x [0]
    : (tensor<4x8xbf16>, tensor<8x2xf32>) -> tensor<4x2xf32>""",
    "%x: tensor<8x2xf32>, %y: tensor<4x8xbf16>",
    "tensor<4x2xf32>",
)


def test_a_form_is_what_the_op_says() -> None:
    form = read(SUM)
    assert form == Form(
        "stablehlo.reduce",
        ((8, 16), ()),
        ("f32", "f32"),
        ((8,),),
        ("f32",),
        (("dimensions", "array<i64: 1>"),),
        (0, -1),
        2,
    )
    assert form.elements == 8 * 16 + 1 + 8
    assert read(ADD).arguments == (-1, 0)
    assert (read(SWAPPED).arguments, read(SWAPPED).types) == ((1, 0), ("bf16", "f32"))
    assert read(SWAPPED).region_ops == 0


def test_another_shape_has_the_results_that_mlir_infers() -> None:
    bytecode, form = build(SUM, replace(read(SUM), operands=((5, 7), ())))
    assert form.results == ((5,),)
    assert read(bytecode) == form
    bytecode, form = build(SWAPPED, replace(read(SWAPPED), operands=((3, 8), (8, 9))))
    assert (form.results, read(bytecode).operands) == (((3, 9),), ((3, 8), (8, 9)))
    bytecode, form = build(ADD, replace(read(ADD), operands=((4,), (4,)), results=((4,),)))
    assert (read(bytecode), "dense<3.0" in str(load(bytecode))) == (form, True)
    assert "dense<[1, 2]>" in str(load(build(TABLE, read(TABLE))[0]))


def test_another_element_type_is_carried_through_the_body() -> None:
    bytecode, form = build(SUM, replace(read(SUM), types=("bf16", "bf16"), result_types=("bf16",)))
    assert (form.types, form.result_types) == (("bf16", "bf16"), ("bf16",))
    assert "f32" not in str(load(bytecode)).replace("bf16", "")


@each(
    ("source", "changes", "said"),
    [
        (ADD, {"operands": ((4,), (5,)), "results": ((4,),)}, "op requires"),
        (SWAPPED, {"operands": ((3, 8), (7, 9))}, "contracting dimension sizes must match"),
        (SUM, {"attributes": (("dimensions", "array<i64: 2>"),)}, "Out-of-bounds dimension 2"),
    ],
)
def test_refused_forms_are_no_variants(source: bytes, changes: dict, said: str) -> None:
    with pytest.raises(InvalidVariantError, match=said) as caught:
        build(source, replace(read(source), **changes))
    assert len(str(caught.value)) <= 200


def test_a_module_of_several_ops_or_of_open_shapes_has_no_form() -> None:
    two = main(
        "%1 = stablehlo.abs %x : tensor<2xf32>\n%0 = stablehlo.abs %1 : tensor<2xf32>",
        "%x: tensor<2xf32>",
        "tensor<2xf32>",
    )
    with pytest.raises(InvalidVariantError, match=r"expected one op in @main, got 2"):
        main_op(load(two))
    with pytest.raises(InvalidVariantError, match=r"got 0"):
        main_op(load(main("%0 = stablehlo.constant dense<1.0> : tensor<2xf32>", "", "tensor<2xf32>")))
    with pytest.raises(InvalidVariantError, match="no @main"):
        main_op(load(module("func.func @other() { return }")))
    with pytest.raises(InvalidVariantError, match="no static tensor"):
        read(main("%0 = stablehlo.abs %x : tensor<?xf32>", "%x: tensor<?xf32>", "tensor<?xf32>"))


def test_bodies_lose_one_op_at_a_time_the_last_first() -> None:
    """Four times the maximum of the body, whose place its operands and the arguments take; then the sum."""
    bodies = [str(load(variant)) for variant in without_inner_ops(SUM)]
    assert [("maximum" in body, "add" in body) for body in bodies] == [(False, True)] * 4 + [(True, False)] * 4
    assert len(set(bodies)) == 5  # operands that are arguments come twice
    assert list(without_inner_ops(ADD)) == []
