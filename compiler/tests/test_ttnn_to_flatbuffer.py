"""The binary says what the module says."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from opscope.compiler import api
from opscope.compiler.errors import StageFailure
from opscope.compiler.ir import text
from opscope.compiler.target import binary
from opscope.compiler.target.program import Conv2dParams, FullParams, LayoutParams, MatmulParams, PadParams
from opscope.compiler.tests import programs


def program(function, *args):
    return binary.read(api.compile(programs.stablehlo(function, *args), programs.BOARD)).programs[0]


def operation(function, *args, kernel):
    (op,) = [op for op in program(function, *args).operations if op.kernel == kernel]
    return op


def test_convolution_parameters():
    def conv(x, w):
        return lax.conv_general_dilated(
            x, w, (2, 1), [(3, 2), (-1, 0)], (1, 2), (1, 3), ("NHWC", "HWIO", "NHWC"), feature_group_count=2
        )

    op = operation(conv, np.ones((1, 16, 16, 4), np.float32), np.ones((3, 3, 2, 6), np.float32), kernel="conv2d")
    assert op.params == Conv2dParams((2, 1), (3, 2, -1, 0), (1, 3), (1, 2), groups=2, batch_groups=1)


def test_matmul_reads_a_transposed_operand():
    op = operation(lambda a, b: a @ b.T, np.ones((2, 3)), np.ones((4, 3)), kernel="matmul")
    assert op.params in (MatmulParams(False, True), MatmulParams(False, False))


def test_pad_value_is_exact():
    op = operation(lambda x: lax.pad(x, np.float32(-np.inf), [(1, 0, 2)]), np.ones(3, np.float32), kernel="pad")
    assert op.params == PadParams((1,), (0,), (2,), float("-inf"))


@pytest.mark.parametrize(
    ("element", "literal", "raw"),
    [
        ("f32", "0xFF800000", b"\x00\x00\x80\xff"),
        ("bf16", "1.5", b"\xc0\x3f"),
        ("ui32", "4294967295", b"\xff" * 4),
        ("i8", "-1", b"\xff"),
        ("i1", "true", b"\x01"),
        ("i32", "-2147483648", b"\x00\x00\x00\x80"),
    ],
)
def test_fill_values_keep_their_bits(element, literal, raw):
    source = programs.module(
        f"%0 = stablehlo.constant dense<{literal}> : tensor<2x3x{element}>\n return %0 : tensor<2x3x{element}>",
        f"() -> tensor<2x3x{element}>",
    )
    (op,) = [
        op
        for op in binary.read(api.compile(source, programs.BOARD)).programs[0].operations
        if not isinstance(op.params, LayoutParams)
    ]
    assert op.params == FullParams((2, 3), raw)


def test_locations_and_target_are_in_the_binary():
    lowered = jax.jit(lambda a: a @ a).lower(np.ones((3, 3), np.float32)).compiler_ir("stablehlo")
    data = api.compile(lowered.operation.get_asm(enable_debug_info=True), programs.BOARD)
    decoded = binary.read(data)
    assert (decoded.board, decoded.arch) == ("n150", "wormhole_b0")
    (op,) = [op for op in decoded.programs[0].operations if op.kernel == "matmul"]
    assert "dot_general" in op.location
    assert "test_ttnn_to_flatbuffer.py:" in op.location


def test_equal_modules_give_equal_bytes():
    source = programs.stablehlo(lambda a: jax.nn.softmax(a), np.ones((3, 5), np.float32))
    assert api.compile(source, programs.BOARD) == api.compile(source, programs.BOARD)


def test_a_module_of_another_level_is_refused():
    ttir = api.stablehlo_to_ttir(programs.stablehlo(jnp.add, np.ones(3), np.ones(3)))
    with pytest.raises(StageFailure) as caught:
        api.ttnn_to_flatbuffer(ttir, programs.BOARD)
    assert caught.value.stage == "ttnn-to-flatbuffer"
    empty = text.parse('"builtin.module"() ({\n}) : () -> ()')
    with pytest.raises(StageFailure, match="expected a function"):
        api.ttnn_to_flatbuffer(empty, programs.BOARD)
