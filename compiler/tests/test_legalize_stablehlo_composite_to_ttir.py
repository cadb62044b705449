"""Composites become the op that they name where it computes the same, else what they are made of."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from opscope.base.tests.covered import covered
from opscope.compiler import api
from opscope.compiler.ir import door
from opscope.compiler.ir.functions import functions
from opscope.compiler.pipelines import pipeline
from opscope.compiler.tests import programs

X = programs.random((4, 32))
WEIGHT = programs.random((32,), 1)
BIAS = programs.random((32,), 2)
ROWS = programs.random((4, 1), 3)


def layer_norm(x, *vectors):
    centred = x - jnp.mean(x, -1, keepdims=True)
    return rms_norm(centred, *vectors)


def rms_norm(x, *vectors):
    normal = x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5)
    normal = normal * vectors[0] if vectors else normal
    return normal + vectors[1] if len(vectors) > 1 else normal


def gelu(approximate: bool):
    return lambda x: jax.nn.gelu(x, approximate=approximate)


NORM = {"normalized_shape": np.array([32]), "epsilon": np.float32(1e-5)}
KNOWN = {
    "gelu": ("tenstorrent.gelu", gelu(False), (X,), {}),
    "gelu_that_says_how": ("tenstorrent.gelu", gelu(True), (X,), {"approximate": "tanh"}),
    "gelu_tanh": ("tenstorrent.gelu_tanh", gelu(True), (X,), {}),
    "layer_norm": ("tenstorrent.layer_norm", layer_norm, (X,), NORM),
    "layer_norm_weight_bias": ("tenstorrent.layer_norm", layer_norm, (X, WEIGHT, BIAS), NORM),
    "rms_norm": ("tenstorrent.rms_norm", rms_norm, (X, WEIGHT), NORM),
}
OTHERS = {
    "another_name": ("mine.gelu", gelu(False), (X,), {}),
    "a_word_that_gelu_has_not": ("tenstorrent.gelu", gelu(False), (X,), {"approximate": "sigmoid"}),
    "no_epsilon": ("tenstorrent.rms_norm", rms_norm, (X,), {"normalized_shape": np.array([32])}),
    "an_attribute_that_is_unknown": ("tenstorrent.rms_norm", rms_norm, (X,), NORM | {"has_residual": True}),
    "a_weight_for_every_row": ("tenstorrent.rms_norm", rms_norm, (X, ROWS), NORM),
    "a_bias_for_every_row": ("tenstorrent.layer_norm", layer_norm, (X, WEIGHT, ROWS), NORM),
    "three_vectors": ("tenstorrent.layer_norm", layer_norm, (X, WEIGHT, BIAS, BIAS), NORM),
    "two_dims": ("tenstorrent.rms_norm", rms_norm, (X,), NORM | {"normalized_shape": np.array([4, 32])}),
}


def source_of(name, function, inputs, attributes) -> str:
    made = jax.lax.composite(function, name)
    return programs.stablehlo(lambda *values: made(*values, **attributes), *inputs)


def legalised(source: str) -> list[str]:
    module = door.read(source)
    pipeline.run(pipeline.parse("legalize-stablehlo-composite-to-ttir"), module)
    assert all("composite" not in name for name in programs.op_names(module))
    return programs.op_names(module) if len(functions(module)) == 1 else [f.sym_name.data for f in functions(module)]


def without_attributes(function):
    return lambda *values, **attributes: function(*values)


@pytest.mark.parametrize("case", covered(KNOWN, {"layer_norm": "layer_norm_weight_bias"}))
def test_a_known_one_is_one_op_that_computes_the_same(case):
    name, function, inputs, attributes = KNOWN[case]
    source = source_of(name, without_attributes(function), inputs, attributes)
    op = "ttir." + name.partition(".")[2].removesuffix("_tanh")
    assert legalised(source) == [op]
    (got,) = programs.simulate(source, *inputs)
    np.testing.assert_allclose(got, programs.jit(function)(*inputs), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", OTHERS)
def test_any_other_composite_is_decomposed(case):
    name, function, inputs, attributes = OTHERS[case]
    module = door.read(source_of(name, without_attributes(function), inputs, attributes))
    pipeline.run(pipeline.parse("legalize-stablehlo-composite-to-ttir,inline"), module)
    names = programs.op_names(module)
    assert len(names) > 3
    assert {one.split(".")[0] for one in names} <= {"stablehlo", "chlo"}
    assert len(functions(module)) == 1


def test_a_composite_of_a_type_that_the_device_lacks_is_decomposed_for_the_host():
    with jax.enable_x64(True):
        wide = X.astype(np.float64)
        source = source_of("tenstorrent.gelu", gelu(False), (wide,), {})
    assert "ttir.gelu" not in legalised(source)
    data = api.compile(source, programs.BOARD, api.CompileOptions(unsupported_types="fallback"))
    assert api.ran_on(data) == "host"


CHLO = """
func.func private @chlo.top_k.impl(%a: tensor<8xf32>) -> (tensor<3xf32>, tensor<3xi32>) {
  %values, %indices = chlo.top_k(%a, k = 3) : tensor<8xf32> -> (tensor<3xf32>, tensor<3xi32>)
  return %values, %indices : tensor<3xf32>, tensor<3xi32> }
func.func @main(%a: tensor<8xf32>) -> (tensor<3xf32>, tensor<3xi32>) {
  %0:2 = stablehlo.composite "chlo.top_k" %a {composite_attributes = {k = 3 : i64},
    decomposition = @chlo.top_k.impl, version = 1 : i32} : (tensor<8xf32>) -> (tensor<3xf32>, tensor<3xi32>)
  return %0#0, %0#1 : tensor<3xf32>, tensor<3xi32> }"""


def test_what_stands_for_an_op_of_chlo_is_that_op_again():
    assert legalised(CHLO) == ["chlo.top_k"]
    values = programs.random((8,), 3)
    got, places = programs.simulate(CHLO, values)
    order = np.argsort(-values)[:3]
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(got, values[order])


def test_in_tt_mlirs_words_it_is_its_formula_in_which_equal_ops_are_one():
    source = """
    func.func private @chlo.asinh.impl(%a: tensor<8xf32>) -> tensor<8xf32> {
      %0 = stablehlo.abs %a : tensor<8xf32>
      %1 = stablehlo.abs %a : tensor<8xf32>
      %2 = stablehlo.add %0, %1 : tensor<8xf32>
      return %2 : tensor<8xf32> }
    func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
      %0 = stablehlo.composite "chlo.asinh" %a {decomposition = @chlo.asinh.impl} : (tensor<8xf32>) -> tensor<8xf32>
      return %0 : tensor<8xf32> }"""
    assert legalised(source) == ["chlo.asinh"]
    module = door.read(source)
    pipeline.run(pipeline.parse("stablehlo-to-ttir-pipeline"), module)
    assert programs.op_names(module) == ["ttir.abs", "ttir.add"]


def test_of_a_decomposition_that_calls_nothing_is_left():
    source = """
    func.func private @inner(%a: tensor<2xf32>) -> tensor<2xf32> {
      %0 = stablehlo.tanh %a : tensor<2xf32>  return %0 : tensor<2xf32> }
    func.func private @outer(%a: tensor<2xf32>) -> tensor<2xf32> {
      %0 = stablehlo.composite "x.y" %a {decomposition = @inner} : (tensor<2xf32>) -> tensor<2xf32>
      %1 = call @inner(%0) : (tensor<2xf32>) -> tensor<2xf32>  return %1 : tensor<2xf32> }
    func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
      %0 = stablehlo.composite "tenstorrent.gelu" %a {decomposition = @outer} : (tensor<2xf32>) -> tensor<2xf32>
      return %0 : tensor<2xf32> }"""
    assert legalised(source) == ["ttir.gelu"]


def test_without_this_pass_the_next_says_what_to_try():
    with pytest.raises(api.StageFailure, match="try legalize-stablehlo-composite-to-ttir before"):
        pipeline.run(pipeline.parse("stablehlo-to-ttir"), door.read(CHLO))
