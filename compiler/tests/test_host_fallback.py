"""Types that the device has not: the host computes exactly the ops that need them, and nothing is narrowed."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.compiler import api
from opscope.compiler.errors import CompilerInputError, StageFailure
from opscope.compiler.pipelines.pipeline import parse, run
from opscope.compiler.target import binary
from opscope.compiler.tests import programs
from opscope.simulator.api import Device

FALLBACK = api.CompileOptions(unsupported_types="fallback")


def kernels(data: bytes) -> list[str]:
    """Kernels of the entry, without moves."""
    moves = ("to_layout", "to_device", "from_device", "deallocate")
    return [op.kernel for op in binary.read(data).programs[0].operations if op.kernel not in moves]


def both(body: str, signature: str, *inputs: np.ndarray) -> tuple[bytes, list[np.ndarray]]:
    """The binary of a function, and its outputs, which are checked against XLA's."""
    source = programs.module(body, signature)
    data = api.compile(source, programs.BOARD, FALLBACK)
    outputs = Device("n150").load(data).run(list(inputs)).outputs
    for got, want in zip(outputs, programs.xla(source, *inputs), strict=True):
        assert got.dtype == want.dtype
        assert np.allclose(got, want, rtol=1e-6, atol=1e-6)
    return data, outputs


def test_a_double_is_computed_as_a_double():
    x = programs.random((3, 5), dtype=np.float64)
    data, (y,) = both(
        "%0 = stablehlo.sine %x : tensor<3x5xf64>\nreturn %0 : tensor<3x5xf64>",
        "(%x: tensor<3x5xf64>) -> tensor<3x5xf64>",
        x,
    )
    assert kernels(data) == ["host_op"]
    assert api.ran_on(data) == "host"
    assert np.allclose(y, np.sin(x), rtol=1e-15, atol=0)


def test_without_the_option_it_is_refused_and_never_narrowed():
    source = programs.module(
        "%0 = stablehlo.sine %x : tensor<2xf64>\nreturn %0 : tensor<2xf64>", "(%x: tensor<2xf64>) -> tensor<2xf64>"
    )
    with pytest.raises(StageFailure) as caught:
        api.compile(source, programs.BOARD)
    assert caught.value.kind == "never"
    assert "fallback" in str(caught.value)


def test_an_unknown_word_is_refused():
    with pytest.raises(CompilerInputError, match="expected fail or fallback, got 'host'"):
        api.stablehlo_to_ttir(programs.module("return", "()"), api.CompileOptions(unsupported_types="host"))


def test_the_rest_of_a_mixed_program_stays_on_the_device():
    data, _ = both(
        """%0 = stablehlo.tanh %x : tensor<4x4xf32>
           %1 = stablehlo.convert %0 : (tensor<4x4xf32>) -> tensor<4x4xf64>
           %2 = stablehlo.multiply %1, %1 : tensor<4x4xf64>
           %3 = stablehlo.convert %2 : (tensor<4x4xf64>) -> tensor<4x4xf32>
           %4 = stablehlo.abs %3 : tensor<4x4xf32>
           %5 = stablehlo.convert %4 : (tensor<4x4xf32>) -> tensor<4x4xf64>
           return %5, %4 : tensor<4x4xf64>, tensor<4x4xf32>""",
        "(%x: tensor<4x4xf32>) -> (tensor<4x4xf64>, tensor<4x4xf32>)",
        programs.random((4, 4)),
    )
    assert kernels(data) == ["tanh", "host_op", "abs", "host_op"]
    assert api.ran_on(data) == "mixed"


def test_neighbours_share_one_host_op_and_bring_their_constants():
    data, _ = both(
        """%c = stablehlo.constant dense<(1.0, 2.0)> : tensor<complex<f32>>
           %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<complex<f32>>) -> tensor<4xcomplex<f32>>
           %1 = stablehlo.complex %x, %y : tensor<4xcomplex<f32>>
           %2 = stablehlo.multiply %0, %1 : tensor<4xcomplex<f32>>
           %3 = stablehlo.real %2 : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
           return %3 : tensor<4xf32>""",
        "(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32>",
        programs.random((4,), 1),
        programs.random((4,), 2),
    )
    assert kernels(data) == ["host_op"]


def test_long_integers_keep_all_their_bits():
    x = np.array([2**62, -(2**40) - 1, 3, 2**33 + 5], np.int64)
    data, (y, z) = both(
        """%0 = stablehlo.add %x, %x : tensor<4xi64>
           %1 = stablehlo.constant dense<3> : tensor<4xi64>
           %2 = stablehlo.remainder %x, %1 : tensor<4xi64>
           return %0, %2 : tensor<4xi64>, tensor<4xi64>""",
        "(%x: tensor<4xi64>) -> (tensor<4xi64>, tensor<4xi64>)",
        x,
    )
    assert kernels(data) == ["host_op"]
    assert np.array_equal(y, x + x)
    assert np.array_equal(z, np.fmod(x, 3))


def test_a_long_index_needs_no_host():
    source = programs.module(
        """%0 = "stablehlo.gather"(%t, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
             collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
             slice_sizes = array<i64: 1, 8>}> : (tensor<16x8xf32>, tensor<3x1xi64>) -> tensor<3x8xf32>
           return %0 : tensor<3x8xf32>""",
        "(%t: tensor<16x8xf32>, %i: tensor<3x1xi64>) -> tensor<3x8xf32>",
    )
    assert api.compile(source, programs.BOARD, FALLBACK) == api.compile(source, programs.BOARD)


def test_an_index_that_the_host_computed_is_read_on_the_device():
    data, _ = both(
        """%c = stablehlo.constant dense<4294967296> : tensor<1xi64>
           %0 = stablehlo.remainder %i, %c : tensor<1xi64>
           %1 = stablehlo.reshape %0 : (tensor<1xi64>) -> tensor<i64>
           %z = stablehlo.constant dense<0> : tensor<i64>
           %2 = stablehlo.dynamic_slice %t, %1, %z, sizes = [1, 8]
             : (tensor<16x8xf32>, tensor<i64>, tensor<i64>) -> tensor<1x8xf32>
           return %2 : tensor<1x8xf32>""",
        "(%t: tensor<16x8xf32>, %i: tensor<1xi64>) -> tensor<1x8xf32>",
        programs.random((16, 8)),
        np.array([2**40 + 5], np.int64),
    )
    assert "host_op" in kernels(data)
    assert api.ran_on(data) == "mixed"


def test_a_loop_that_counts_in_64_bits_goes_whole():
    data, (n, _) = both(
        """%c = stablehlo.constant dense<0> : tensor<i64>
           %r:2 = stablehlo.while(%i = %c, %a = %x) : tensor<i64>, tensor<4xf32> cond {
             %n = stablehlo.constant dense<5> : tensor<i64>
             %p = stablehlo.compare LT, %i, %n : (tensor<i64>, tensor<i64>) -> tensor<i1>
             stablehlo.return %p : tensor<i1>
           } do {
             %one = stablehlo.constant dense<1> : tensor<i64>
             %j = stablehlo.add %i, %one : tensor<i64>
             %b = stablehlo.multiply %a, %x : tensor<4xf32>
             stablehlo.return %j, %b : tensor<i64>, tensor<4xf32>
           }
           return %r#0, %r#1 : tensor<i64>, tensor<4xf32>""",
        "(%x: tensor<4xf32>) -> (tensor<i64>, tensor<4xf32>)",
        programs.random((4,)),
    )
    assert kernels(data) == ["host_op"]
    assert n == 5


def test_the_pipeline_string_does_the_same():
    source = programs.module(
        "%0 = stablehlo.sine %x : tensor<2xf64>\nreturn %0 : tensor<2xf64>", "(%x: tensor<2xf64>) -> tensor<2xf64>"
    )
    from opscope.compiler.ir import door

    spec = api.pipeline(FALLBACK)
    assert spec.startswith("legalize-stablehlo-composite-to-ttir,inline,stablehlo-host-fallback,stablehlo-to-ttir")
    module = door.read(source)
    run(parse(spec), module)
    assert api.ttnn_to_flatbuffer(module, programs.BOARD) == api.compile(source, programs.BOARD, FALLBACK)


LONG = np.array([2**63 + 1, 1, 2**63 + 5, 2**64 - 1, 0, 2**63], np.uint64)


def test_long_unsigned_integers_are_compared_as_such():
    """Above 2^63 they are no negative numbers."""
    wanted = {
        "LT": [False, True, True, False, True, False],
        "LE": [False, True, True, False, True, True],
        "GT": [True, False, False, True, False, False],
        "GE": [True, False, False, True, False, True],
    }
    lines = [
        f"%{way} = stablehlo.compare {way}, %a, %b : (tensor<6xui64>, tensor<6xui64>) -> tensor<6xi1>" for way in wanted
    ]
    kinds = ", ".join(["tensor<6xi1>"] * 4)
    _, results = both(
        "\n".join([*lines, f"return {', '.join(f'%{way}' for way in wanted)} : {kinds}"]),
        f"(%a: tensor<6xui64>, %b: tensor<6xui64>) -> ({kinds})",
        LONG,
        np.array([1, 2**63 + 1, 2**63 + 6, 2**63, 2**63, 2**63], np.uint64),
    )
    assert {way: result.tolist() for way, result in zip(wanted, results, strict=True)} == wanted


def test_a_negative_number_is_a_long_unsigned_one_above_all_short_ones():
    """Compared on the device, in 32 bits."""
    source = programs.module(
        """%0 = stablehlo.convert %a : (tensor<4xi32>) -> tensor<4xui64>
           %c = stablehlo.constant dense<5> : tensor<4xui64>
           %1 = stablehlo.compare GT, %0, %c : (tensor<4xui64>, tensor<4xui64>) -> tensor<4xi1>
           return %1 : tensor<4xi1>""",
        "(%a: tensor<4xi32>) -> tensor<4xi1>",
    )
    a = np.array([-1, -5, 6, 0], np.int32)
    assert api.ran_on(api.compile(source, programs.BOARD)) != "host"
    assert programs.simulate(source, a)[0].tolist() == [True, True, True, False]


def test_denormals_of_double_precision_stay():
    """On any number of elements, which decides whether XLA computes in one step or in several."""
    wanted = {"multiply": 1e-310, "divide": 1e-290, "minimum": 1e-300, "add": 1e-10}
    for count in (1, 5000):
        shape = f"tensor<{count}xf64>"
        lines = [f"%{op} = stablehlo.{op} %a, %b : {shape}" for op in wanted]
        kinds = ", ".join([shape] * len(wanted))
        source = programs.module(
            "\n".join([*lines, f"return {', '.join(f'%{op}' for op in wanted)} : {kinds}"]),
            f"(%a: {shape}, %b: {shape}) -> ({kinds})",
        )
        a, b = np.full(count, 1e-300), np.full(count, 1e-10)
        for op, got in zip(wanted, programs.simulate(source, a, b, unsupported_types="fallback"), strict=True):
            assert np.allclose(got, wanted[op], rtol=1e-12, atol=0), op


def test_functions_of_double_denormals_are_those_of_numbers():
    source = programs.module(
        """%0 = stablehlo.log %x : tensor<2xf64>
           %1 = stablehlo.sqrt %x : tensor<2xf64>
           %2 = stablehlo.complex %x, %x : tensor<2xcomplex<f64>>
           %3 = stablehlo.add %2, %2 : tensor<2xcomplex<f64>>
           return %0, %1, %3 : tensor<2xf64>, tensor<2xf64>, tensor<2xcomplex<f64>>""",
        "(%x: tensor<2xf64>) -> (tensor<2xf64>, tensor<2xf64>, tensor<2xcomplex<f64>>)",
    )
    x = np.array([1e-310, 5e-324])
    log, root, twice = programs.simulate(source, x, unsupported_types="fallback")
    assert np.allclose(log, np.log(x), rtol=1e-14, atol=0)
    assert np.allclose(root, np.sqrt(x), rtol=1e-14, atol=0)
    assert twice.tolist() == ((1 + 1j) * (x + x)).tolist()


@pytest.mark.parametrize(
    ("wide", "value"),
    [("f64", np.array([1.5, -3.25e100])), ("i64", np.array([-5, 2**62 + 1])), ("i8", np.array([5, -7], np.int8))],
)
def test_bits_of_a_number_are_as_many_booleans_and_back(wide, value):
    count = 8 * value.itemsize
    bits = np.unpackbits(value.view(np.uint8), bitorder="little").reshape(2, count).astype(np.bool_)
    for source, target, x, wanted in (
        (f"2x{wide}", f"2x{count}xi1", value, bits),
        (f"2x{count}xi1", f"2x{wide}", bits, value),
    ):
        text = programs.module(
            f"%0 = stablehlo.bitcast_convert %x : (tensor<{source}>) -> tensor<{target}>\nreturn %0 : tensor<{target}>",
            f"(%x: tensor<{source}>) -> tensor<{target}>",
        )
        (got,) = programs.simulate(text, x, unsupported_types="fallback")
        assert got.dtype == wanted.dtype
        assert np.array_equal(got, wanted)
