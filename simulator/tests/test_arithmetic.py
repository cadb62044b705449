"""Rules of architectures and of the matrix unit, by tenstorrent/tt-isa-documentation (pages named at each test)."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from opscope.compiler.target.program import EltwiseParams, LayoutParams, MatmulParams, Numerics, ReduceParams
from opscope.compiler.target.rounding import quantise
from opscope.simulator.api import Device
from opscope.simulator.arithmetic import Arithmetic
from opscope.simulator.kernels.eltwise import ROUNDS_BEFORE_STORE, UNARY
from opscope.simulator.kernels.matmul import matrix_product
from opscope.simulator.kernels.registry import KERNELS
from opscope.simulator.tests.programs import run_kernel

RANDOM = np.random.default_rng(8)
NARROW_DST = Numerics(dst_format="Float16_b")
BFLOAT16 = ml_dtypes.bfloat16


def test_bfloat16_functions_are_cut_unless_their_kernel_rounds() -> None:
    """SFPSTORE.md: the mantissa is truncated towards zero; tt-metal's kernels round some functions before."""
    x = (np.abs(RANDOM.standard_normal((32, 32))) * 5 + 1.1).astype(BFLOAT16)
    wide = x.astype(np.float64)
    unit = 2.0**-7
    for name, true in (("erf", np.vectorize(math.erf)(wide)), ("exp", np.exp(wide))):
        got = run_kernel(name, EltwiseParams(), [x], (32, 32), "bf16", NARROW_DST).astype(np.float64)
        off = (got - true) / (unit * 2.0 ** np.floor(np.log2(true)))
        cut = (off <= 1e-3).all()
        assert cut == (name == "erf"), name
        assert np.abs(off).max() <= (1.001 if name == "erf" else 0.501), name


def test_kernels_that_round_exist_and_exact_ones_lose_nothing() -> None:
    assert set(KERNELS) >= ROUNDS_BEFORE_STORE
    exact = [name for name, on_float, _, ulp, _ in UNARY if ulp == 0 and on_float is not None]
    x = RANDOM.standard_normal((4, 32)).astype(BFLOAT16)
    for name in ("abs", "neg", "relu"):
        assert name in exact
        got = run_kernel(name, EltwiseParams(), [x], (4, 32), "bf16", NARROW_DST)
        want = {"abs": np.abs(x), "neg": -x, "relu": np.maximum(x, BFLOAT16(0))}[name]
        assert np.array_equal(got, want)


def test_zeros_have_a_sign_on_blackhole_only() -> None:
    """SFPMAD.md: Wormhole flushes -0 to +0, Blackhole keeps the sign; packing to 16 bits loses it on both. Of Float32 a
    sign that is turned and a value that is chosen stay as they are (SFPMOV.md)."""
    x = np.float32([[-0.0, -1e-40, 1e-40, -2.0]])
    for board, signs in (("n150", [False] * 3), ("p150", [True, True, False])):
        got = run_kernel("relu6", EltwiseParams(), [x], (1, 4), "f32", device=Device(board))
        turned = run_kernel("neg", EltwiseParams(), [-x], (1, 4), "f32", device=Device(board))
        chosen = run_kernel("where", EltwiseParams(), [x < -1, -x, x], (1, 4), "f32", device=Device(board))
        assert turned.tobytes() == x.tobytes()
        assert chosen.tobytes() == np.append(x[:, :3], np.float32(2)).tobytes()
        kept = run_kernel("minimum", EltwiseParams(), [x, np.float32([[2] * 4])], (1, 4), "f32", device=Device(board))
        assert np.signbit(kept[0, :3]).tolist() == signs, board
        assert (got == 0).all()
    narrow = run_kernel("neg", EltwiseParams(), [np.zeros((1, 4), BFLOAT16)], (1, 4), "bf16", device=Device("p150"))
    assert not np.signbit(narrow.astype(np.float32)).any()


def test_nan_has_the_form_of_the_architecture() -> None:
    """Miscellaneous/FMA/README.md: 0x7fc00000 on Blackhole, at least 0x7f800001 on Wormhole."""
    nan = np.array([0x7F812300], np.uint32).view(np.float32)
    patterns = {arch: int(Arithmetic(arch).result(nan).view(np.uint32)[0]) for arch in ("wormhole_b0", "blackhole")}
    assert patterns == {"wormhole_b0": 0x7F812301, "blackhole": 0x7FC00000}
    moved = run_kernel("to_memory_config", LayoutParams(), [nan.reshape(1, 1)], (1, 1), "f32", device=Device("p150"))
    assert moved.view(np.uint32).tolist() == [[0x7F812300]], "what is only moved keeps its bits"


def test_the_matrix_unit_knows_neither_nan_nor_infinity() -> None:
    """FloatBitPatterns.md: exponent 255 is a number like others, too large a sum is the pattern of infinity."""
    left = np.float32([[np.inf, 1.0], [np.nan, 0.0], [3e38, 3e38], [np.inf, np.inf]])
    right = np.float32([[0.0, 0.5], [1.0, 1.0]])
    got = run_kernel("matmul", MatmulParams(), [left, right], (4, 2), "f32")
    assert got[0].tolist() == [1.0, 2.0**127 + 1], "infinity is 2^128"
    assert got[1].tolist() == [0.0, 0.75 * 2.0**128], "NaN is 1.5 times 2^128"
    assert got[2, 1] == np.inf or got[2, 1] > 4e37
    assert got[3].tolist() == [2.0**128, np.inf] or got[3, 1] == np.inf
    infinite = [np.array([[np.inf, -np.inf, 2.0]], BFLOAT16)]
    for exact, want in ((False, 2.0), (True, 0.0)):  # aligned to 2^128, nothing is left of 2
        device = Device("n150", exact_order=exact)
        total = run_kernel("sum", ReduceParams((1,)), infinite, (1,), "bf16", device=device)
        assert total.tolist() == [want]
    total = run_kernel("sum", ReduceParams((1,)), [infinite[0].astype(np.float32)], (1,), "f32")
    assert np.isnan(total).all(), "float32 is added on the vector unit"
    halves = [np.array([[np.inf, np.inf]], BFLOAT16), np.array([[-np.inf, 1.0]], BFLOAT16)]
    added = run_kernel("add", EltwiseParams(), halves, (1, 2), "bf16", NARROW_DST)
    assert added.astype(np.float32).tolist() == [[0.0, np.inf]]


def test_float16_has_numbers_where_ieee_has_infinity() -> None:
    """FloatBitPatterns.md, FP16: the matrix unit reads all ones as 131008, SFPLOAD may read it as infinity."""
    narrow = Numerics(dst_format="Float16")
    left, right = np.array([[np.inf]], np.float16), np.array([[0.25]], np.float16)
    assert run_kernel("matmul", MatmulParams(), [left, right], (1, 1), "f16", narrow).tolist() == [[32752.0]]
    x = np.array([[60000.0, np.inf]], np.float16)
    doubled = run_kernel("add", EltwiseParams(), [x, x], (1, 2), "f16", narrow, device=Device("n150"))
    assert np.isinf(doubled).all(), "the host's type knows no number beyond 65504"
    halved = run_kernel("relu", EltwiseParams(), [x], (1, 2), "f16", narrow)
    assert halved.tolist() == [[60000.0, np.inf]]


@pytest.mark.parametrize("dst", ["Float32", "Float16_b"])
@pytest.mark.parametrize("fidelity", ["LoFi", "HiFi2", "HiFi3", "HiFi4"])
def test_exact_order_is_within_the_stated_bound(dst: str, fidelity: str) -> None:
    """MatrixUnit.md, Dst.md: the fidelity loop is the outer one within a tile of the inner dim."""
    depth = 256
    left, right = RANDOM.standard_normal((16, depth)), RANDOM.standard_normal((depth, 24))
    left, right = (quantise(x.astype(np.float32), "Float16_b") for x in (left, right))
    default, ordered = (
        matrix_product(left, right, Numerics(fidelity, dst), exact_order=exact) for exact in (False, True)
    )
    sizes = np.abs(left[:, :, None].astype(np.float64) * right)
    largest = sizes.reshape(16, -1, 8, 24).max(2).sum(1)
    unit = 2.0**-24 if dst == "Float32" else 2.0**-8
    bound = 1.5 * depth * unit * sizes.sum(1) + 2.0**-8 * largest
    apart = np.abs(default.astype(np.float64) - ordered)
    assert (apart <= bound).all()
    assert (apart > 0).any()


def test_exact_order_is_an_option_of_the_device() -> None:
    x = [RANDOM.standard_normal(shape).astype(np.float32) for shape in ((40, 700), (700, 40))]
    default, exact = (
        run_kernel("matmul", MatmulParams(), x, (40, 40), "f32", device=Device("n150", exact_order=order))
        for order in (False, True)
    )
    assert not np.array_equal(default, exact)
    assert np.allclose(default, exact, atol=0.05)


def test_int8_products_saturate_in_dst() -> None:
    """MVMUL.md: Dst is Int32 and saturates at +-(2^31 - 1); wider integers are no operands of the unit and wrap."""
    depth = 2**18
    left, right = np.full((1, depth), 127, np.int8), np.full((depth, 1), 127, np.int8)
    assert run_kernel("matmul", MatmulParams(), [left, right], (1, 1), "i32").tolist() == [[2**31 - 1]]
    assert run_kernel("matmul", MatmulParams(), [-left, right], (1, 1), "i32").tolist() == [[-(2**31) + 1]]
    wide = np.full((1, 2), 2**16, np.int32), np.full((2, 1), 2**15, np.int32)
    assert run_kernel("matmul", MatmulParams(), list(wide), (1, 1), "i32").tolist() == [[0]]


def test_stochastic_rounding_can_be_asked_for() -> None:
    """SFPSTOCHRND_FloatFloat.md, FormatConversion.md: deterministic or by random bits."""
    x, y = np.full((64, 64), 1.0, BFLOAT16), np.full((64, 64), 2.0**-9, BFLOAT16)
    plain = run_kernel("add", EltwiseParams(), [x, y], (64, 64), "bf16")
    assert (plain == BFLOAT16(1)).all()
    first, again, other = (
        run_kernel("add", EltwiseParams(), [x, y], (64, 64), "bf16", device=Device("n150", stochastic_seed=seed))
        for seed in (1, 1, 2)
    )
    assert 0.2 < (first > BFLOAT16(1)).mean() < 0.3
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
