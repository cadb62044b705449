"""Ops as ONNX graphs: the standard's own reference computes what XLA does; what ONNX cannot say is declined."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opscope.harness.backends import registry
from opscope.harness.backends.base import Declined, Job, StageError
from opscope.harness.prepare import golden
from opscope.harness.prepare.mlir import variant
from opscope.harness.record.element_types import numpy_dtype
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage

pytest.importorskip("onnx")
from onnx import defs, load_from_string
from onnx.reference import ReferenceEvaluator

from opscope.harness.backends import onnx_nodes

CONV = """"stablehlo.convolution"(%a0, %a1) {
  dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>,
  window_strides = array<i64: 2, 1>, padding = dense<[[1, 0], [1, 1]]> : tensor<2x2xi64>, feature_group_count = 2 : i64,
  batch_group_count = 1 : i64, rhs_dilation = array<i64: 1, 2>} ::"""
REDUCE = """stablehlo.reduce(%a0 init: %c) applies stablehlo.{kind} across dimensions = [0, 2] ::"""
OPS = {
    "add": ("stablehlo.add %a0, %a1 :", "4x6xf32 4x6xf32", "4x6xf32"),
    "a constant": ("stablehlo.subtract %c, %a0 :", "f32", "f32"),
    "one operand twice": ("stablehlo.multiply %a0, %a0 :", "5xf32", "5xf32"),
    "whole numbers": ("stablehlo.divide %a0, %a1 :", "6xi32 6xi32", "6xi32"),
    "remainder": ("stablehlo.remainder %a0, %a1 :", "6xf32 6xf32", "6xf32"),
    "not equal": ("stablehlo.compare NE, %a0, %a1 ::", "6xi32 6xi32", "6xi1"),
    "at least": ("stablehlo.compare GE, %a0, %a1, FLOAT ::", "6xf32 6xf32", "6xi1"),
    "select": ("stablehlo.select %a0, %a1, %a2 ::", "6xi1 6xf32 6xf32", "6xf32"),
    "clamp": ("stablehlo.clamp %a0, %a1, %a2 ::", "f32 6xf32 f32", "6xf32"),
    "convert": ("stablehlo.convert %a0 ::", "6xi32", "6xf16"),
    "bits": ("stablehlo.xor %a0, %a1 :", "6xi32 6xi32", "6xi32"),
    "booleans": ("stablehlo.and %a0, %a1 :", "6xi1 6xi1", "6xi1"),
    "reshape": ("stablehlo.reshape %a0 ::", "4x6xf32", "3x8xf32"),
    "transpose": ("stablehlo.transpose %a0, dims = [2, 0, 1] ::", "2x3x4xf32", "4x2x3xf32"),
    "broadcast": ("stablehlo.broadcast_in_dim %a0, dims = [2, 0] ::", "1x4xf32", "4x3x5xf32"),
    "concatenate": ("stablehlo.concatenate %a0, %a1, dim = 1 ::", "2x3xf32 2x5xf32", "2x8xf32"),
    "slice": ("stablehlo.slice %a0 [1:4:2, 0:5] ::", "4x6xf32", "2x5xf32"),
    "reverse": ("stablehlo.reverse %a0, dims = [0, 2] :", "2x3x4xf32", "2x3x4xf32"),
    "pad": ("stablehlo.pad %a0, %a1, low = [1, 0], high = [0, 2], interior = [0, 0] ::", "2x3xf32 f32", "3x5xf32"),
    "product": ("stablehlo.dot_general %a0, %a1, contracting_dims = [1] x [0] ::", "4x5xf32 5x6xf32", "4x6xf32"),
    "batches": (
        "stablehlo.dot_general %a0, %a1, batching_dims = [1] x [0], contracting_dims = [2, 0] x [2, 1] ::",
        "2x3x4xf32 3x2x4x5xf32",
        "3x5xf32",
    ),
    "vector and matrices": (
        "stablehlo.dot_general %a0, %a1, contracting_dims = [0] x [1] ::",
        "4xf32 2x4x3xf32",
        "2x3xf32",
    ),
    "sum": (REDUCE.format(kind="add"), "2x3x4xf32", "3xf32"),
    "convolution": (CONV, "1x5x6x4xf32 2x2x2x6xf32", "1x3x6x6xf32"),
}


def module(op: str, operands: str, result: str, constant: str = "0.0") -> bytes:
    """An op's module. Where its text ends with `:`, its types are that of its result, with `::` those of all."""
    types = [f"tensor<{kind}>" for kind in operands.split()]
    arguments = ", ".join(f"%a{number}: {kind}" for number, kind in enumerate(types))
    scalar = f"tensor<{operands.rpartition('x')[2]}>"
    signature = f"({', '.join([*types, *[scalar] * ('init:' in op)])}) -> tensor<{result}>"
    text = f"{op[:-1]} {signature}" if op.endswith("::") else f"{op} tensor<{result}>"
    made = f"  %c = stablehlo.constant dense<{constant}> : {scalar}\n" if "%c" in op else ""
    return (
        f"func.func @main({arguments}) -> tensor<{result}> {{\n{made}  %r = {text}\n  return %r : tensor<{result}>\n}}"
    ).encode()


def values(module: bytes, seed: int = 3) -> list[Any]:
    """Values for the arguments: small numbers, none of them 0."""
    form, generator = variant.read(module), np.random.default_rng(seed)
    places = {argument: place for place, argument in enumerate(form.arguments) if argument >= 0}
    arrays = []
    for _, place in sorted(places.items()):
        dtype = numpy_dtype(form.types[place])
        drawn = generator.integers(1, 9, form.operands[place]) * generator.choice([-1, 1], form.operands[place])
        arrays.append((drawn > 0) if dtype.kind == "b" else (drawn / (1 if dtype.kind in "iu" else 4)).astype(dtype))
    return arrays


@pytest.mark.parametrize("words", OPS.values(), ids=OPS)
def test_the_reference_of_onnx_computes_what_xla_does(words: tuple[str, str, str]) -> None:
    bytecode = module(*words)
    arrays = values(bytecode)
    [wanted] = golden.compile_module(bytecode)(arrays)
    graph = load_from_string(onnx_nodes.graph_of(bytecode))
    [got] = ReferenceEvaluator(graph).run(None, {f"a{number}": array for number, array in enumerate(arrays)})
    assert np.asarray(got).dtype == wanted.dtype
    np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("stablehlo.cbrt %a0 :", "4xf32", "4xf32"), "no op of ONNX computes stablehlo.cbrt"),
        (("stablehlo.add %a0, %a1 :", "4xbf16 4xbf16", "4xbf16"), "no tensor of bf16 can be handed to it"),
        (("stablehlo.add %a0, %a1 :", "4xi1 4xi1", "4xi1"), "ONNX's Add takes no i1"),
        (("stablehlo.negate %a0 :", "4xui8", "4xui8"), "ONNX's Neg takes no ui8"),
        (
            ("stablehlo.pad %a0, %a1, low = [1], high = [0], interior = [1] ::", "3xf32 f32", "6xf32"),
            "ONNX's Pad pads neither between",
        ),
        ((REDUCE.format(kind="add"), "2x3x4xf32", "3xf32", "1.0"), "from their own beginning"),
        ((REDUCE.format(kind="or"), "2x3x4xi32", "3xi32", "0"), "ONNX reduces by sum"),
    ],
)
def test_what_onnx_cannot_say_is_declined(words: tuple[str, ...], reason: str) -> None:
    with pytest.raises(Declined, match=reason):
        onnx_nodes.graph_of(module(*words))


def test_every_element_type_is_one_of_onnx() -> None:
    known = defs.get_schema("Cast", onnx_nodes.OPSET).inputs[0].types
    assert {f"tensor({word})" for word in onnx_nodes.ELEMENTS.values()} < known


@pytest.mark.parametrize("name", ["onnxruntime", "openvino", "tvm"])
def test_a_runtime_computes_an_op_and_refuses_in_its_own_words(name: str) -> None:
    pytest.importorskip(name)
    backend = registry.load(name)
    assert backend.available() is None
    assert name in backend.fingerprint(ResultOptions())
    backend.warm_up(ResultOptions())
    bytecode = module(*OPS["product"])
    job = Job("op", bytecode, [], ResultOptions())
    for stage in backend.stages:
        job.inputs = values(bytecode) if stage is Stage.RUN else []
        backend.climb(stage, job)
    np.testing.assert_allclose(job.outputs[0], values(bytecode)[0] @ values(bytecode)[1], rtol=1e-6)
    assert job.ran_on == "host"
    assert job.run_ns
    if name == "onnxruntime":
        refused = Job("op", module("stablehlo.maximum %a0, %a1 :", "4xi16 4xi16", "4xi16"), [], ResultOptions())
        with pytest.raises(StageError, match=r"^NOT_IMPLEMENTED : Could not find an implementation for Max"):
            backend.climb(backend.stages[0], refused)
    unsaid = Job("op", module("stablehlo.cbrt %a0 :", "4xf32", "4xf32"), [], ResultOptions())
    with pytest.raises(Declined):
        backend.climb(backend.stages[0], unsaid)
