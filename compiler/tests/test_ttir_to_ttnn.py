"""Layouts, formats and moves."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from xdsl.utils.exceptions import VerifyException

from opscope.compiler import api
from opscope.compiler.dialects.ttnn_layout import host_layout, layout_of, tile_layout
from opscope.compiler.errors import CompilerInputError, StageFailure
from opscope.compiler.ops.row import TABLE
from opscope.compiler.passes.ttir_to_ttnn import NOT_COMPUTING
from opscope.compiler.target.formats import host_dtype
from opscope.compiler.tests import programs
from opscope.simulator.api import Device


def to_ttnn(function, *args, board="n150", **options):
    ttir = api.stablehlo_to_ttir(programs.stablehlo(function, *args))
    return api.ttir_to_ttnn(ttir, api.load_board(board), api.CompileOptions(**options))


def test_layout_text_is_tt_mlirs():
    """As in tt-mlir's Dialect/TTNN tests, but for aliases and MLIR's fewer parentheses."""
    assert str(tile_layout((64, 128), "f32")) == (
        "#ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, "
        "memref<2x4x!ttcore.tile<32x32, f32>, #ttnn.buffer_type<dram>>, <interleaved>>"
    )
    assert "memref<3x1x!ttcore.tile<32x32, bfp_bf8>" in str(tile_layout((3, 5, 7), "bfp_bf8"))
    assert "(d0 * 32) + d1" in str(tile_layout((3, 5, 7), "f32"))
    from xdsl.dialects.builtin import f32

    assert "memref<15x7xf32, #ttnn.buffer_type<system_memory>>>" in str(host_layout((3, 5, 7), f32))


def test_inputs_go_in_and_results_come_back():
    names = programs.op_names(to_ttnn(jnp.add, np.ones((3, 4), np.float32), np.ones((3, 4), np.float32)))
    assert names == [
        "ttnn.get_device",
        *["ttnn.to_layout", "ttnn.to_device"] * 2,
        "ttnn.add",
        *["ttnn.deallocate"] * 2,
        "ttnn.from_device",
        "ttnn.deallocate",
        "ttnn.to_layout",
    ]


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (np.float32, "f32"),
        (ml_dtypes.bfloat16, "bf16"),
        (np.float16, "f16"),
        (np.int32, "si32"),
        (np.uint32, "u32"),
        (np.uint8, "u8"),
        (np.bool_, "u8"),
    ],
)
def test_formats_follow_the_element_type(dtype, expected):
    module = to_ttnn(lambda a: a.reshape(8), np.ones((2, 4), dtype))
    (op,) = [op for op in module.walk() if op.name == "ttnn.reshape"]
    assert layout_of(op.results[0]).data_type == expected


def test_data_format_applies_to_floats_only():
    module = to_ttnn(lambda a, i: a[i], np.ones((8, 4), np.float32), np.int32(1), data_format="Bfp8_b")
    formats = {
        (str(v.type.element_type), layout_of(v).data_type)
        for op in module.walk()
        for v in op.results
        if layout_of(v) is not None and layout_of(v).buffer_type == "dram"
    }
    assert ("f32", "bfp_bf8") in formats
    assert not any(data == "bfp_bf8" for element, data in formats if element == "i32")


@pytest.mark.parametrize("element", ["f64", "i64", "ui64", "f8E4M3", "i4"])
def test_types_that_the_hardware_has_not_are_never(element):
    source = programs.module(
        f"%0 = stablehlo.add %a, %a : tensor<4x{element}>\n return %0 : tensor<4x{element}>",
        f"(%a: tensor<4x{element}>) -> tensor<4x{element}>",
    )
    with pytest.raises(StageFailure) as caught:
        api.compile(source, programs.BOARD)
    assert (caught.value.stage, caught.value.kind, caught.value.op) == ("ttir-to-ttnn", "never", "ttir.add")
    assert element in caught.value.message
    assert "the device" in caught.value.message


FP8 = {"e150": ["f8E5M2"], "n150": ["f8E5M2"], "n300": ["f8E5M2"], "p150": ["f8E4M3FN", "f8E5M2"]}
"""8-bit floats that a board holds (docs/compiler.md has the table and its sources)."""


@pytest.mark.parametrize(("board", "element"), [(b, e) for b in FP8 for e in ("f8E4M3FN", "f8E5M2")])
def test_8_bit_floats_compile_and_run_where_the_board_has_them(board, element):
    source = programs.module(
        f"%0 = stablehlo.add %a, %b : tensor<33x40x{element}>\n return %0 : tensor<33x40x{element}>",
        f"(%a: tensor<33x40x{element}>, %b: tensor<33x40x{element}>) -> tensor<33x40x{element}>",
    )
    system, dtype = api.load_board(board), host_dtype(element)
    if element not in FP8[board]:
        with pytest.raises(StageFailure, match=f"expected a format that .* has, got Fp8_e4m3 for {element}") as caught:
            api.compile(source, system)
        assert caught.value.kind == "never"
        data = api.compile(source, system, api.CompileOptions(unsupported_types="fallback"))
        assert api.ran_on(data) == "host"
    else:
        data = api.compile(source, system, api.CompileOptions(unsupported_types="fallback"))
        assert api.ran_on(data) == "simulator"
    a, b = (np.abs(programs.random((33, 40), seed)).astype(dtype) for seed in (1, 2))
    (got,) = Device(board).load(data).run([a, b]).outputs
    assert got.dtype == dtype
    exact, smallest = a.astype(np.float32) + b.astype(np.float32), float(ml_dtypes.finfo(dtype).tiny)
    unit = 2.0 ** (np.floor(np.log2(np.maximum(exact, smallest))) - ml_dtypes.finfo(dtype).nmant)
    # One unit is cut by the packer, and operands below the smallest normal are zero.
    assert (np.abs(got.astype(np.float32) - exact) <= unit + 2 * smallest).all()


@pytest.mark.parametrize("name", ["bfp9", "Int32", "Tf32"])
def test_data_formats_that_cannot_be_are_refused(name):
    with pytest.raises(CompilerInputError, match="data format: expected"):
        to_ttnn(jnp.add, np.ones(3, np.float32), np.ones(3, np.float32), data_format=name)


def test_an_argument_returned_untouched_stays_on_the_host():
    names = programs.op_names(to_ttnn(lambda a, b: (a, b + 1), np.ones(3, np.float32), np.ones(3, np.float32)))
    assert names.count("ttnn.to_device") == 2  # both are read, by return and by add
    assert names.count("ttnn.from_device") == 2


def test_unread_arguments_are_not_moved():
    assert programs.op_names(to_ttnn(lambda a, b: b + b, np.ones(3), np.ones(3))).count("ttnn.to_device") == 1


def test_verifier_refuses_a_layout_that_does_not_fit():
    module = to_ttnn(jnp.abs, np.ones((3, 4), np.float32))
    (op,) = [op for op in module.walk() if op.name == "ttnn.abs"]
    from xdsl.dialects.builtin import TensorType, f32

    op.results[0]._type = TensorType(f32, [3, 4], tile_layout((64, 64), "f32"))
    with pytest.raises(VerifyException, match="expected layout"):
        op.verify()
    op.results[0]._type = TensorType(f32, [3, 4], host_layout((3, 4), f32))
    with pytest.raises(VerifyException, match="expected tiles on the device"):
        op.verify()
    op.results[0]._type = TensorType(f32, [3, 5], tile_layout((3, 5), "f32"))
    with pytest.raises(VerifyException, match=r"expected result shape \[3, 4\]"):
        op.verify()


@pytest.mark.parametrize(
    ("dtype", "options", "refused"),
    [
        (np.float32, {}, "Float32 for f32; try --data-format Float16_b"),
        (np.float32, {"data_format": "Float16_b"}, None),
        (np.float32, {"data_format": "Bfp8_b"}, None),
        (ml_dtypes.bfloat16, {}, None),
        (ml_dtypes.bfloat16, {"data_format": "Float32"}, "Float32 for bf16; try --data-format Float16_b"),
        (np.int32, {"data_format": "Float16_b"}, "Int32 for i32"),
        (np.uint16, {}, None),
    ],
)
def test_a_narrow_dst_computes_with_16_bits_only(dtype, options, refused):
    """Grayskull would round every Float32 silently; moves are no computation."""
    x = np.ones((4, 4), dtype)
    to_ttnn(jnp.transpose, x, board="e150", **options)
    to_ttnn(jnp.add, x, x, board="n150", **options)
    if refused is None:
        to_ttnn(jnp.add, x, x, board="e150", **options)
        return
    with pytest.raises(StageFailure) as refusal:
        to_ttnn(jnp.add, x, x, board="e150", **options)
    assert refusal.value.kind == "never"
    assert refusal.value.message == f"expected a datum of at most 16 bits in Dst of grayskull, got {refused}"


def test_families_that_do_not_compute_have_kernels_that_only_move():
    from opscope.simulator.kernels import KERNELS

    moving = [row for row in TABLE if row.group in NOT_COMPUTING and row.lowering in ("row", "device")]
    assert len(moving) > 10
    assert {row.kernel_name for row in moving if KERNELS[row.kernel_name].unit != "move"} == set()


def _convolved(numbers, **options):
    """A convolution of one image: (function of image and weights)."""
    return lambda x, w: jax.lax.conv_general_dilated(x, w, dimension_numbers=numbers, **options)


@pytest.mark.parametrize(
    ("image", "weights", "numbers", "order", "prepared"),
    [
        ((1, 4, 6, 6), (8, 4, 3, 3), ("NCHW", "OIHW", "NCHW"), (2, 3, 1, 0), "ttnn.prepare_conv2d_weights"),
        ((1, 4, 9), (8, 4, 3), ("NCH", "OIH", "NCH"), (2, 1, 0), "ttnn.prepare_conv2d_weights"),
        ((1, 2, 4, 4, 4), (3, 2, 2, 2, 2), ("NCDHW", "OIDHW", "NCDHW"), (2, 3, 4, 1, 0), "ttnn.prepare_conv3d_weights"),
    ],
)
def test_weights_from_the_host_are_permuted_there(image, weights, numbers, order, prepared):
    """A device that permutes tiles of 3 x 3 windows holds 114 times as much: four layers of SD-1.5 do not fit so."""
    x, w = (
        np.random.default_rng(seed).standard_normal(shape, np.float32) for seed, shape in enumerate((image, weights))
    )
    function = _convolved(numbers, window_strides=(1,) * (len(image) - 2), padding="SAME")
    ttnn = to_ttnn(function, x, w)
    names = programs.op_names(ttnn)
    assert names.index(prepared) < names.index("ttnn.to_device", names.index("ttnn.to_device") + 1)
    made = next(op for op in ttnn.walk() if op.name == prepared)
    assert layout_of(made.operands[0]).buffer_type == layout_of(made.results[0]).buffer_type == "system_memory"
    # The same numbers as with weights that come in the device's order.
    already = _convolved(
        (numbers[0], numbers[1][2:] + "IO", numbers[2]), window_strides=(1,) * (len(image) - 2), padding="SAME"
    )
    ordered = np.ascontiguousarray(np.transpose(w, order))
    assert prepared not in programs.op_names(to_ttnn(already, x, ordered))
    (ours,) = programs.simulate(programs.stablehlo(function, x, w), x, w)
    (same,) = programs.simulate(programs.stablehlo(already, x, ordered), x, ordered)
    np.testing.assert_array_equal(ours, same)


def test_weights_that_are_computed_or_read_elsewhere_are_permuted_on_the_device():
    x, w = np.ones((1, 4, 6, 6), np.float32), np.ones((8, 4, 3, 3), np.float32)
    function = _convolved(("NCHW", "OIHW", "NCHW"), window_strides=(1, 1), padding="SAME")
    assert "ttnn.prepare_conv2d_weights" not in programs.op_names(to_ttnn(lambda x, w: function(x, w * 2), x, w))
    assert "ttnn.prepare_conv2d_weights" not in programs.op_names(to_ttnn(lambda x, w: (function(x, w), w + 1), x, w))
