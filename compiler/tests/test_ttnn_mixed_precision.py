"""Formats by level, and what they cost in digits; phases that add nothing are not taken."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.compiler import api
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.pipelines.pipeline import parse, run
from opscope.compiler.target import binary
from opscope.compiler.tests import programs
from opscope.compiler.tests.test_optimization_levels import case
from opscope.simulator.api import Device


def compiled(name: str, **options):
    source, args = case(name)
    data = api.compile(source, programs.BOARD, api.CompileOptions(optimization_level=1, **options))
    return binary.read(data).programs, Device("n150").load(data), args


@pytest.mark.parametrize("level", [1, 2])
def test_products_are_in_block_floats_and_the_result_is_near(level: int) -> None:
    types = ("input", *["parameter"] * 4)
    programs_, executable, args = compiled("attention", amp_level=level, argument_types=types)
    narrow, moved = {1: ("Bfp8_b", "Float16_b"), 2: ("Bfp8", "Float16")}[level]
    seen = set()
    for program in programs_:
        for op in program.operations:
            formats = [program.tensors[t].data_format for t in (*op.inputs[:2], *op.outputs)]
            if op.kernel in ("matmul", "linear", "scaled_dot_product_attention"):
                assert set(formats) <= {narrow, moved}  # ttnn-workaround: a permutation writes 16 bits
                assert formats[-1] == narrow
                seen.add((op.kernel, op.numerics.fidelity))
    assert ("matmul", "HiFi2") in seen
    (got,) = executable.run(args).outputs
    plain = compiled("attention")[1].run(args).outputs[0]
    assert np.corrcoef(got.ravel(), plain.ravel())[0, 1] > 0.998


def test_the_mask_of_an_attention_and_a_bias_keep_their_format() -> None:
    """They are added in Dst."""
    operands = {}
    for name, kernel in (("attention", "scaled_dot_product_attention"), ("convnet", "conv2d")):
        options = api.CompileOptions(optimization_level=1, amp_level=1)
        program = binary.read(api.compile(case(name)[0], programs.BOARD, options)).programs[0]
        (*_, op) = (op for op in program.operations if op.kernel == kernel)
        operands[kernel] = [program.tensors[at].data_format for at in op.inputs]
    assert operands == {
        "scaled_dot_product_attention": ["Bfp8_b", "Bfp8_b", "Bfp8_b", "Float32"],
        "conv2d": ["Bfp8_b", "Bfp8_b", "Float32"],
    }


CONSTANT = """func.func @main(%x: tensor<32x32xf32>) -> (tensor<32x32xf32>, tensor<32x32xf32>) {
  %h = stablehlo.constant dense<0.5> : tensor<f32>
  %b = stablehlo.broadcast_in_dim %h, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
  %y = stablehlo.multiply %x, %b : tensor<32x32xf32>
  %g = stablehlo.exponential %h : tensor<f32>
  %c = stablehlo.broadcast_in_dim %g, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
  %v = stablehlo.add %x, %c : tensor<32x32xf32>
  %p = stablehlo.dot_general %y, %v, contracting_dims = [1] x [0]
    : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  return %p, %y : tensor<32x32xf32>, tensor<32x32xf32>
}"""


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("optimization", [1, 2])
def test_what_is_computed_once_from_a_constant_that_is_computed_once(level: int, optimization: int) -> None:
    """What makes the operand of a kept value has no operands of its own."""
    options = api.CompileOptions(optimization_level=optimization, amp_level=level)
    x = np.random.default_rng(6).normal(size=(32, 32)).astype(np.float32)
    product, half = Device("n150").load(api.compile(CONSTANT, programs.BOARD, options)).run([x]).outputs
    np.testing.assert_allclose(half, x / 2, atol=0.04)  # it is an operand of the product
    assert np.corrcoef(product.ravel(), (x / 2 @ (x + np.exp(0.5))).ravel())[0, 1] > 0.998


def test_fewest_phases_give_the_same_bits_sooner() -> None:
    source, args = case("block")
    results = []
    for words in ("", " fewest-phases=true"):
        module = api.stablehlo_to_ttir(source)
        run(parse(f'ttir-to-ttnn{{data-format="Bfp8_b"}},ttnn-compute-config{{math-fidelity="HiFi4"{words}}}'), module)
        results.append(Device("n150").load(api.ttnn_to_flatbuffer(module, programs.BOARD)).run(args))
    np.testing.assert_array_equal(results[0].outputs[0], results[1].outputs[0])
    assert results[1].profile.total_cycles < results[0].profile.total_cycles


def test_an_unknown_level_is_refused() -> None:
    module = api.stablehlo_to_ttir(case("block")[0])
    with pytest.raises(CompilerInputError, match="mixed precision: expected level 0, 1, 2, got 3"):
        run(parse("ttir-to-ttnn,ttnn-mixed-precision{level=3}"), module)
