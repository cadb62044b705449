"""The pass by what it emits; what it computes is in test_against_xla.py and test_conformance.py."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from opscope.compiler import api
from opscope.compiler.errors import StageFailure
from opscope.compiler.ir.functions import SCALAR, functions, kind_of
from opscope.compiler.tests import programs
from opscope.simulator.api import Device


def lowered(function, *args):
    return programs.op_names(api.stablehlo_to_ttir(programs.stablehlo(function, *args)))


def one(line: str, signature: str):
    return programs.op_names(api.stablehlo_to_ttir(programs.module(line, signature)))


def test_a_row_per_type_class():
    a = np.ones(3, np.float32)
    assert lowered(jnp.add, a, a) == ["ttir.add"]
    assert lowered(jnp.logical_and, a > 0, a > 0) == ["ttir.logical_and"]
    assert lowered(jnp.bitwise_and, a.astype(np.int32), a.astype(np.int32)) == ["ttir.bitwise_and"]


def test_matmul_in_any_order_moves_no_data():
    """A transposed operand is the kernel's business: no permute is emitted for any of the four orders."""
    for left, right in [((2, 3), (3, 4)), ((3, 2), (3, 4)), ((2, 3), (4, 3)), ((3, 2), (4, 3))]:
        dims = (((left.index(3),), (right.index(3),)), ((), ()))
        names = lowered(lambda a, b, d=dims: lax.dot_general(a, b, d), np.ones(left), np.ones(right))
        assert names == ["ttir.matmul"]


def test_nhwc_convolution_permutes_nothing_or_the_kernel_only():
    def conv(x, w, kernel):
        return lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=("NHWC", kernel, "NHWC"))

    image = np.ones((1, 8, 8, 3))
    assert lowered(lambda x, w: conv(x, w, "HWIO"), image, np.ones((3, 3, 3, 8))) == ["ttir.conv2d"]
    assert lowered(lambda x, w: conv(x, w, "OIHW"), image, np.ones((8, 3, 3, 3))) == ["ttir.permute", "ttir.conv2d"]


def test_a_1x1_convolution_lies_in_memory_without_padding():
    """A tile of every weight would be 8.6 GB here."""

    def conv(x, w):
        return lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    x, w = np.ones((1, 14, 14, 1024), np.float32), np.ones((1, 1, 1024, 2048), np.float32)
    binary = api.compile(jax.jit(conv).lower(x, w).as_text(), api.load_board("n150"))
    profile = Device("n150").load(binary).run([x, w]).profile
    assert w.nbytes < profile.dram_peak_bytes < 3 * w.nbytes
    assert profile.total_cycles < 1e6


def test_identity_start_values_vanish_and_others_are_added():
    def from_start(start):
        return lambda x: lax.reduce(x, np.float32(start), lax.add, (0,))

    x = np.ones(4, np.float32)
    names = lowered(from_start(0), x)
    assert "ttir.add" not in names
    assert "ttir.sum" in names
    assert "ttir.add" in lowered(from_start(1), x)


IDENTITIES = [
    ("min", [("uint8", 255), ("int8", 127), ("uint32", 2**32 - 1), ("int32", 2**31 - 1), ("float32", np.inf)]),
    ("max", [("uint8", 0), ("int8", -128), ("uint32", 0), ("int32", -(2**31)), ("float32", -np.inf)]),
    ("bitwise_and", [("uint8", 255), ("int8", -1), ("uint32", 2**32 - 1), ("bool", True)]),
    ("bitwise_or", [("uint32", 0), ("int8", 0), ("bool", False)]),
    ("bitwise_xor", [("uint32", 0), ("int8", 0)]),
    ("mul", [("int32", 1), ("float32", 1)]),
    ("add", [("int32", 0), ("float32", 0)]),
]


@pytest.mark.parametrize(("fold", "rows"), IDENTITIES)
def test_each_reduction_has_its_own_identity(fold, rows):
    """From another start it is the same two ops and one more."""
    starts = [np.array(start, dtype) for dtype, start in rows]
    starts += [np.float32(3) if first.dtype == np.float32 else first ^ np.array(1, first.dtype) for first in starts]
    xs = [np.ones(4, start.dtype) for start in starts]

    def reduced(*xs):
        return [lax.reduce(x, start, getattr(lax, fold), (0,)) for x, start in zip(xs, starts, strict=True)]

    names = lowered(reduced, *xs)
    plain, started = names[: 2 * len(rows)], names[2 * len(rows) :]
    assert len(started) == 3 * len(rows)
    assert [started[3 * at : 3 * at + 2] for at, _ in enumerate(rows)] == [
        plain[2 * at : 2 * at + 2] for at, _ in enumerate(rows)
    ]


def test_broadcast_of_a_scalar_is_reshape_and_broadcast():
    assert lowered(lambda x: jnp.broadcast_to(x, (3, 4)), np.float32(1)) == ["ttir.reshape", "ttir.broadcast"]


def test_a_broadcast_says_how_often_each_dim_is_repeated():
    for before, after, times in (((1, 5), (3, 5), (3, 1)), ((0, 1), (0, 4), (1, 4))):
        module = api.stablehlo_to_ttir(programs.stablehlo(lambda x, n=after: jnp.broadcast_to(x, n), np.ones(before)))
        (op,) = (op for op in module.walk() if op.name == "ttir.broadcast")
        assert tuple(op.read()["broadcast_dimensions"]) == times


def test_a_body_of_another_op_is_a_function_of_scalars():
    x = np.ones(4, np.float32)
    module = api.stablehlo_to_ttir(
        programs.stablehlo(lambda v: lax.reduce(v, np.float32(0), lambda a, b: a / b, (0,)), x)
    )
    assert "ttir.reduce_body" in programs.op_names(module)
    main, body = functions(module)
    assert (kind_of(main), kind_of(body)) == ("", SCALAR)
    assert [op.name for op in body.body.blocks[0].ops] == ["ttir.div", "func.return"]


@pytest.mark.parametrize(
    ("line", "signature", "op", "kind"),
    [
        (
            "%0 = stablehlo.fft %a, type = FFT, length = [4] : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>\n"
            " return %0 : tensor<4xcomplex<f32>>",
            "(%a: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>",
            "stablehlo.fft",
            "never",
        ),
        (
            "%0 = stablehlo.add %a, %a : tensor<4xcomplex<f32>>\n return %0 : tensor<4xcomplex<f32>>",
            "(%a: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>",
            "stablehlo.add",
            "never",
        ),
        (
            "%0 = stablehlo.custom_call @Foo(%a) : (tensor<3xf32>) -> tensor<3xf32>\n return %0 : tensor<3xf32>",
            "(%a: tensor<3xf32>) -> tensor<3xf32>",
            "stablehlo.custom_call",
            "notimpl",
        ),
        (
            "%0 = stablehlo.abs %a : tensor<?xf32>\n return %0 : tensor<?xf32>",
            "(%a: tensor<?xf32>) -> tensor<?xf32>",
            "stablehlo.abs",
            "never",
        ),
        (
            "%0 = stablehlo.bitcast_convert %a : (tensor<3xf64>) -> tensor<3x64xi1>\n return %0 : tensor<3x64xi1>",
            "(%a: tensor<3xf64>) -> tensor<3x64xi1>",
            "stablehlo.bitcast_convert",
            "never",
        ),
        (
            "%0 = stablehlo.bitcast_convert %a : (tensor<3xi32>) -> tensor<3x32xi1>\n return %0 : tensor<3x32xi1>",
            "(%a: tensor<3xi32>) -> tensor<3x32xi1>",
            "stablehlo.bitcast_convert",
            "notimpl",
        ),
    ],
)
def test_refusals_are_typed(line, signature, op, kind):
    with pytest.raises(StageFailure) as caught:
        one(line, signature)
    assert caught.value.stage == "stablehlo-to-ttir"
    assert caught.value.kind == kind
    assert op is None or caught.value.op == op
    assert "internal error" not in caught.value.message


@pytest.mark.parametrize(
    "of",
    [lax.sort, lambda x: lax.sort((x, x), num_keys=2), lambda x: lax.eq_to_p.bind(x, x)],
    ids=["sort", "two keys", "compare"],
)
def test_an_order_of_64_bit_floats_is_never(of):
    """JAX sorts floats in their total order, whose mask of 63 bits no 32-bit attribute holds."""
    with jax.enable_x64(True):
        text = programs.stablehlo(of, np.zeros((4, 8)))
    with pytest.raises(StageFailure) as caught:
        api.compile(text, programs.BOARD)
    assert caught.value.kind == "never"
    assert "hold at most 32 bits" in caught.value.message


@pytest.mark.slow
def test_conformance_cases_never_end_in_an_internal_error():
    """Every stored case compiles, or is refused by a typed error that names an op; and most ops compile."""
    compiled: set[str] = set()
    refusals: list[tuple[int, StageFailure]] = []
    for case, source, _, _ in programs.conformance():
        if case["n"] % 6 == 1:
            try:
                api.stablehlo_to_ttir(source)
                compiled.update(case["ops"])
            except StageFailure as error:
                refusals.append((case["n"], error))
    untyped = [(n, e.message) for n, e in refusals if e.kind not in ("notimpl", "notyet", "never")]
    assert not untyped
    assert len(compiled) > 50


def test_whole_transformer_block_lowers():
    def block(x, w):
        y = x @ w
        y = jax.nn.softmax(jnp.einsum("bqd,bkd->bqk", y, y))
        return jax.nn.gelu(jnp.einsum("bqk,bkd->bqd", y, x), approximate=False)

    names = lowered(block, np.ones((2, 4, 8), np.float32), np.ones((8, 8), np.float32))
    assert all(name.startswith("ttir.") for name in names)
    assert names.count("ttir.matmul") == 3


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32])
def test_the_upper_half_of_a_product_is_exact(dtype):
    rng, limits, bits = np.random.default_rng(3), np.iinfo(dtype), 8 * np.dtype(dtype).itemsize
    edges = np.array([limits.min, limits.max, limits.max - 1, limits.min + 1, 0, 1, 3, limits.max // 2], dtype)
    x = np.concatenate([np.repeat(edges, 8), rng.integers(limits.min, limits.max, 64, dtype, endpoint=True)])
    y = np.concatenate([np.tile(edges, 8), rng.integers(limits.min, limits.max, 64, dtype, endpoint=True)])
    kind = f"tensor<128x{'u' * (limits.min == 0)}i{bits}>"
    source = programs.module(
        f'%0 = "chlo.mulhi"(%x, %y) : ({kind}, {kind}) -> {kind}\nreturn %0 : {kind}',
        f"(%x: {kind}, %y: {kind}) -> {kind}",
    )
    expected = [(int(a) * int(b)) >> bits for a, b in zip(x, y, strict=True)]
    np.testing.assert_array_equal(programs.simulate(source, x, y)[0], np.array(expected, dtype))
