"""What enters is what was written: bits, locations, calls."""

from __future__ import annotations

import struct

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

from opscope.compiler.errors import CompilerInputError, StageFailure
from opscope.compiler.ir import door, text
from opscope.compiler.ir.functions import functions
from opscope.compiler.tests import programs


def softmax(x):
    return jax.nn.softmax(x) @ jnp.ones((4, 2), x.dtype)


def test_text_bytecode_and_portable_artifact_give_the_same_module():
    exported = export.export(jax.jit(softmax))(jax.ShapeDtypeStruct((3, 4), jnp.float32))
    from_text = text.to_text(door.read(exported.mlir_module()))
    assert "stablehlo.dot_general" in from_text
    assert text.to_text(door.read(exported.mlir_module_serialized)) == from_text
    lowered = jax.jit(softmax).lower(np.ones((3, 4), np.float32))
    assert "stablehlo.dot_general" in text.to_text(door.read(lowered.compiler_ir("stablehlo").operation.get_asm()))
    assert door.read(str(lowered.compiler_ir("stablehlo"))).is_structurally_equivalent(
        door.read(str(lowered.compiler_ir("stablehlo")))
    )


@pytest.mark.parametrize(
    ("element", "bits", "width"),
    [("f32", 0xFF800000, 4), ("f32", 0x7FC00001, 4), ("bf16", 0xFF80, 2), ("f16", 0xFC00, 2), ("f32", 0x80000000, 4)],
)
def test_float_constants_keep_their_bits(element, bits, width):
    source = programs.module(
        f"%0 = stablehlo.constant dense<0x{bits:X}> : tensor<2x{element}>\n return %0 : tensor<2x{element}>",
        f"() -> tensor<2x{element}>",
    )
    (constant,) = [op for op in door.read(source).walk() if op.name == "stablehlo.constant"]
    assert constant.attributes["value"].data.data == bits.to_bytes(width, "little") * 2


def test_many_bf16_and_i1_constants():
    values = [1.5, -2.0, 0.0, float("-inf")]
    literals = ", ".join("0xFF80" if v == float("-inf") else f"{v:e}" for v in values)
    source = programs.module(
        f"%0 = stablehlo.constant dense<[{literals}]> : tensor<4xbf16>\n"
        "%1 = stablehlo.constant dense<[true, false]> : tensor<2xi1>\n return %0, %1 : tensor<4xbf16>, tensor<2xi1>",
        "() -> (tensor<4xbf16>, tensor<2xi1>)",
    )
    first, second = [op.attributes["value"] for op in door.read(source).walk() if op.name == "stablehlo.constant"]
    assert first.data.data == b"".join(struct.pack("<f", v)[2:] for v in values)
    assert second.data.data == b"\1\0"


def test_what_calls_and_composites_name_comes_along_once_and_nothing_else_does():
    source = """
    func.func private @inner(%a: tensor<2xf32>) -> tensor<2xf32> {
      %0 = stablehlo.tanh %a : tensor<2xf32>  return %0 : tensor<2xf32> }
    func.func private @twice(%a: tensor<2xf32>) -> tensor<2xf32> {
      %0 = call @inner(%a) : (tensor<2xf32>) -> tensor<2xf32>
      %1 = call @inner(%0) : (tensor<2xf32>) -> tensor<2xf32>  return %1 : tensor<2xf32> }
    func.func private @unread(%a: tensor<2xf32>) -> tensor<2xf32> { return %a : tensor<2xf32> }
    func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
      %0 = call @twice(%a) : (tensor<2xf32>) -> tensor<2xf32>
      %1 = stablehlo.composite "x.y" %0 {decomposition = @inner, version = 1 : i32} : (tensor<2xf32>) -> tensor<2xf32>
      return %1 : tensor<2xf32> }"""
    module = door.read(source)
    module.verify()
    assert [func.sym_name.data for func in functions(module)] == ["main", "twice", "inner"]
    assert programs.op_names(module) == ["stablehlo.composite", "stablehlo.tanh"]


def test_what_takes_tuples_is_inlined_here_for_they_are_no_values():
    source = """
    func.func private @first(%a: tuple<tensor<2xf32>, tensor<3xf32>>) -> tensor<2xf32> {
      %0 = stablehlo.get_tuple_element %a[0] : (tuple<tensor<2xf32>, tensor<3xf32>>) -> tensor<2xf32>
      return %0 : tensor<2xf32> }
    func.func @main(%a: tensor<2xf32>, %b: tensor<3xf32>) -> tensor<2xf32> {
      %0 = stablehlo.tuple %a, %b : tuple<tensor<2xf32>, tensor<3xf32>>
      %1 = call @first(%0) : (tuple<tensor<2xf32>, tensor<3xf32>>) -> tensor<2xf32>
      return %1 : tensor<2xf32> }"""
    assert programs.op_names(door.read(source)) == []


def test_locations_survive():
    lowered = jax.jit(softmax).lower(np.ones((3, 4), np.float32)).compiler_ir("stablehlo")
    module = door.read(lowered.operation.get_asm(enable_debug_info=True))
    (dot,) = [op for op in module.walk() if op.name == "stablehlo.dot_general"]
    assert "dot_general" in str(dot.location)
    assert "test_door.py" in str(dot.location)


def test_chlo_with_a_row_stays_and_without_one_is_legalised():
    def names(op):
        line = f"%0 = chlo.{op} %a : tensor<2xf32> -> tensor<2xf32>\n return %0 : tensor<2xf32>"
        return programs.op_names(door.read(programs.module(line, "(%a: tensor<2xf32>) -> tensor<2xf32>")))

    assert names("erf") == ["chlo.erf"]
    legalised = names("lgamma")
    assert len(legalised) > 5
    assert all(name.startswith("stablehlo.") for name in legalised)


def test_complex_constants_pass_the_door_as_text():
    source = programs.module(
        "%0 = stablehlo.constant dense<(1.0, 2.0)> : tensor<2xcomplex<f32>>\n return %0 : tensor<2xcomplex<f32>>",
        "() -> tensor<2xcomplex<f32>>",
    )
    assert "stablehlo.constant" in programs.op_names(door.read(source))


@pytest.mark.parametrize("bad", ["", "hello", "func.func @main() {", b"ML\xefR\x01", b"\xff\xfe\x00", "module {}"])
def test_bad_input_is_one_line(bad):
    with pytest.raises(CompilerInputError) as caught:
        door.read(bad)
    assert "\n" not in str(caught.value)
    assert "expected" in str(caught.value)


def test_truncated_bytecode_is_one_line():
    data = export.export(jax.jit(softmax))(jax.ShapeDtypeStruct((3, 4), jnp.float32)).mlir_module_serialized
    for length in (5, 40, len(data) // 2, len(data) - 3):
        with pytest.raises(CompilerInputError):
            door.read(data[:length])


def test_an_op_of_another_dialect_is_named():
    source = "func.func @main() -> f32 { %0 = arith.constant 1.0 : f32 return %0 : f32 }"
    with pytest.raises((StageFailure, CompilerInputError), match="arith"):
        door.read(source)


def test_what_has_no_portable_form_is_bytecode_and_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    erf = "%0 = chlo.erf %x : tensor<4xf32> -> tensor<4xf32>"
    kind = "tensor<4xf32>"
    data = door.portable(f"func.func @main(%x: {kind}) -> {kind} {{ {erf} return %0 : {kind} }}")
    assert b"StableHLO_v" not in data[:64]
    assert data[:4] == b"ML\xefR"
    assert capfd.readouterr().err == ""
