"""Printing and parsing of generic MLIR."""

from __future__ import annotations

import re
import time

import pytest

from opscope.compiler import api
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.ir import text
from opscope.compiler.tests import programs


@pytest.mark.parametrize(
    ("literal", "expected"),
    [
        ("dense<0xFF800000> : tensor<f32>", b"\x00\x00\x80\xff"),
        ("dense<[0x7F800000, 1.0]> : tensor<2xf32>", b"\x00\x00\x80\x7f\x00\x00\x80\x3f"),
        ("dense<0xFF80> : tensor<bf16>", b"\x80\xff"),
        ("dense<0x7C00> : tensor<f16>", b"\x00\x7c"),
        ("dense<0x10> : tensor<i32>", b"\x10\x00\x00\x00"),
    ],
)
def test_hexadecimal_floats_are_bit_patterns(literal, expected):
    """xDSL alone reads 0xFF800000 as 4.29e9, silently: no max-pool would survive that."""
    assert text.parse_attribute(literal).data.data == expected


def test_errors_name_line_and_column():
    with pytest.raises(CompilerInputError, match=r"f\.mlir:3:\d+: expected generic MLIR"):
        text.parse('"builtin.module"() ({\n  %0 = "ttir.abs"(\n}) : () -> ()', "f.mlir")


def softmax_like(x):
    import jax

    return jax.nn.softmax(x.max((1, 2)) @ jax.numpy.ones((3, 5), x.dtype))


@pytest.mark.parametrize("generic", [True, False])
@pytest.mark.parametrize("level", ["ttir", "ttnn"])
def test_what_is_printed_is_mlir_and_reads_back_equal(level, generic):
    import numpy as np

    module = api.stablehlo_to_ttir(programs.stablehlo(softmax_like, np.ones((2, 4, 4, 3), np.float32)))
    if level == "ttnn":
        module = api.ttir_to_ttnn(module, programs.BOARD, api.CompileOptions(data_format="Bfp8_b"))
    printed = text.to_text(module, generic=generic)
    assert ('"func.func"' in printed) == generic
    assert printed.count("#ttnn.ttnn_layout<") == len(set(re.findall(r"#ttnn_layout\d*", printed)))  # each once
    if generic:
        assert programs.jaxlib_parses(printed)  # by jaxlib, which knows none of our dialects
    again = text.parse(printed)
    again.verify()
    assert again.is_structurally_equivalent(module)
    assert text.to_text(again, generic=generic) == printed


@pytest.mark.parametrize(
    ("value", "words"),
    [
        # As MLIR's tools print them: FileCheck tests of tt-mlir, and dense constants in StableHLO's own.
        (0.9, "0.899999976"),
        (0.001, "1.000000e-03"),
        (0.01, "0.00999999977"),
        (1e-5, "9.99999974E-6"),
        (2.0**32, "4.2949673E+9"),
        (0.5, "5.000000e-01"),
        (0.0, "0.000000e+00"),
        (-0.99999994, "-0.99999994"),
        (2.81022636e-08, "2.81022636E-8"),
        (-2.00214257e-4, "-2.00214257E-4"),
        (1.1920929e-7, "1.1920929E-7"),
        (0.797884583, "0.797884583"),
        (4.471500e-02, "4.471500e-02"),
        (0.0883883461, "0.0883883461"),
    ],
)
def test_floats_are_written_as_llvm_does(value, words):
    module = text.parse(
        "func.func @main() -> tensor<f32> {"
        f'%0 = "ttir.full"() <{{fill_value = {value:.12e} : f32, shape = array<i32>}}> : () -> tensor<f32>\n'
        "return %0 : tensor<f32> }"
    )
    assert f"fill_value = {words} : f32" in text.to_text(module, generic=False)


def test_a_splat_is_read_and_printed_as_one_number() -> None:
    constant = "dense<1.500000e+00> : tensor<25600x2048xbf16>"
    op = f'%0 = "ttir.constant"() <{{value = {constant}}}> : () -> tensor<25600x2048xbf16>'
    source = f'"builtin.module"() ({{\n  {op}\n}}) : () -> ()'
    spent = time.process_time()
    printed = text.to_text(text.parse(source))
    assert time.process_time() - spent < 2, "the elements were made one by one"
    assert constant in printed
    assert text.parse_attribute("dense<3> : tensor<2x2xi16>").data.data == b"\x03\x00" * 4
