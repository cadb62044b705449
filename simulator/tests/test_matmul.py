from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from opscope.compiler.target.program import EltwiseParams, MatmulParams, Numerics
from opscope.compiler.target.rounding import quantise, to_tf32
from opscope.simulator.device import Device
from opscope.simulator.kernels.matmul import integer_product, matrix_product
from opscope.simulator.tests.programs import run_kernel

RANDOM = np.random.default_rng(5)
LEFT = RANDOM.standard_normal((128, 768)).astype(np.float32)
RIGHT = RANDOM.standard_normal((768, 256)).astype(np.float32)


def pcc(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.corrcoef(a.astype(np.float64).ravel(), b.astype(np.float64).ravel())[0, 1])


def product(fidelity: str, fmt: str, dst: str = "Float32") -> float:
    """PCC of a product of `fmt` operands with the float64 product of the unrounded ones."""
    left, right = quantise(LEFT, fmt), quantise(RIGHT, fmt)
    got = matrix_product(left, right, Numerics(fidelity, dst))
    return pcc(got, LEFT.astype(np.float64) @ RIGHT)


def test_fidelities_are_ordered_on_bfloat16() -> None:
    """SrcASrcB.md: each further phase reads bits of the mantissas that the ones before left."""
    left, right = LEFT.astype(ml_dtypes.bfloat16), RIGHT.astype(ml_dtypes.bfloat16)
    true = left.astype(np.float64) @ right.astype(np.float64)
    scores = [
        pcc(run_kernel("matmul", MatmulParams(), [left, right], (128, 256), "bf16", Numerics(fidelity)), true)
        for fidelity in ("LoFi", "HiFi2", "HiFi4")
    ]
    assert 0.999 < scores[0] < scores[1] < scores[2] < 1


@pytest.mark.parametrize(
    ("fmt", "dst", "published"),
    [
        # PCC of an independent step-by-step model of the unit, randn, K = 768: LoFi, HiFi2, HiFi4.
        ("Float16_b", "Float32", (0.99990, 0.99999, 0.999997)),
        ("Float16_b", "Float16_b", (0.99987, 0.99993, 0.99993)),
        ("Bfp8_b", "Float32", (0.99986, 0.99995, 0.99995)),
        ("Bfp4_b", "Float32", (0.9693, 0.9693, 0.9693)),
    ],
)
def test_pcc_by_format_is_the_published_one(fmt: str, dst: str, published: tuple[float, float, float]) -> None:
    for fidelity, want in zip(("LoFi", "HiFi2", "HiFi4"), published, strict=True):
        got = product(fidelity, fmt, dst)
        assert abs((1 - got) / (1 - want) - 1) < 0.35, (fidelity, got)


@pytest.mark.parametrize("dst", ["Float32", "Float16_b"])
@pytest.mark.parametrize("exact_order", [False, True])
def test_hifi2_b_reads_all_of_the_left_operand_and_the_first_bits_of_the_right_one(dst: str, exact_order: bool) -> None:
    """Phases 0 and 2, where HiFi2 takes 0 and 1: the last bit of bfloat16 is beyond both first phases."""
    whole, one = np.full((1, 1), 1 + 2**-7, np.float32), np.ones((1, 1), np.float32)
    got = {
        (name, fidelity): float(matrix_product(*pair, Numerics(fidelity, dst), exact_order=exact_order)[0, 0])
        for name, pair in (("left", (whole, one)), ("right", (one, whole)))
        for fidelity in ("HiFi2", "HiFi2_B", "HiFi3")
    }
    assert got == {
        ("left", "HiFi2"): 1,
        ("left", "HiFi2_B"): 1 + 2**-7,
        ("left", "HiFi3"): 1 + 2**-7,
        ("right", "HiFi2"): 1 + 2**-7,
        ("right", "HiFi2_B"): 1,
        ("right", "HiFi3"): 1 + 2**-7,
    }


def test_what_ieee_calls_infinite_takes_the_phases_of_hifi2_b_too() -> None:
    """Exponent 255 is 2^128 to the unit; such a product is computed again in float64, by the same phases."""
    left, right = np.full((1, 1), np.inf, np.float32), np.full((1, 1), (1 + 2**-7) / 4, np.float32)
    got = {
        fidelity: float(matrix_product(left, right, Numerics(fidelity), source="Float16_b")[0, 0])
        for fidelity in ("HiFi2", "HiFi2_B")
    }
    assert got == {"HiFi2": 2.0**126 * (1 + 2**-7), "HiFi2_B": 2.0**126}


def test_sixteen_bit_dst_fails_on_positive_operands() -> None:
    """MVMUL.md: a Dst of 16 bits rounds after every 16 products."""
    left, right = np.abs(LEFT), np.abs(RIGHT)
    true = left.astype(np.float64) @ right
    narrow = matrix_product(quantise(left, "Float16_b"), quantise(right, "Float16_b"), Numerics("HiFi4", "Float16_b"))
    wide = matrix_product(quantise(left, "Float16_b"), quantise(right, "Float16_b"), Numerics("HiFi4"))
    assert pcc(narrow, true) < 0.995 < 0.9995 < pcc(wide, true)


def test_float32_enters_as_tf32() -> None:
    """UNPACR_Regular.md: 13 bits are cut; SrcASrcB.md: of what is left SrcA's last bit is read by no phase."""
    got = run_kernel("matmul", MatmulParams(), [LEFT, RIGHT], (128, 256), "f32")
    want = to_tf32(LEFT) @ (RIGHT.view(np.uint32) & 0xFFFFC000).view(np.float32)
    assert np.array_equal(got, want)
    relative = np.linalg.norm(got - LEFT.astype(np.float64) @ RIGHT) / np.linalg.norm(want)
    assert 5e-4 < relative < 4e-3


def test_hifi4_is_the_sum_of_four_phases() -> None:
    """SrcASrcB.md, ELWMUL.md: what each phase reads of SrcA and SrcB; MVMUL.md: the left operand is in SrcB."""
    left, right = to_tf32(LEFT), to_tf32(RIGHT)

    def part(x: np.ndarray, mask: int) -> np.ndarray:
        return (x.view(np.uint32) & np.uint32(mask)).view(np.float32)

    left_parts = [part(left, 0xFFFE0000), left - part(left, 0xFFFE0000)]
    right_high = part(right, 0xFFF80000)
    right_parts = [right_high, part(right, 0xFFFFC000) - right_high]
    phases = sum(a.astype(np.float64) @ b for a in left_parts for b in right_parts)
    got = matrix_product(LEFT, RIGHT, Numerics("HiFi4"))
    assert np.abs(got - phases).max() / np.abs(phases).max() < 1e-6
    three = phases - left_parts[1].astype(np.float64) @ right_parts[1]
    got = matrix_product(LEFT, RIGHT, Numerics("HiFi3"))
    assert np.abs(got - three).max() / np.abs(three).max() < 1e-6


def test_intermediate_format_rounds_between_blocks() -> None:
    """tt-budabackend: partial results of an inner block are packed to the intermediate format, and come back."""
    exact = LEFT.astype(np.float64) @ RIGHT
    errors = [
        np.linalg.norm(matrix_product(LEFT, RIGHT, Numerics(k_block=4, intermediate=fmt)) - exact)
        for fmt in ("Float32", "Float16_b", "Bfp8_b")
    ]
    assert errors[0] < errors[1] < errors[2]


def test_transposes_and_batches() -> None:
    a = RANDOM.standard_normal((3, 2, 5, 7)).astype(np.float32)
    b = RANDOM.standard_normal((2, 4, 7)).astype(np.float32)
    got = run_kernel("matmul", MatmulParams(transpose_b=True), [a, b], (3, 2, 5, 4), "f32")
    np.testing.assert_allclose(got, a @ b.swapaxes(-1, -2), rtol=2e-2, atol=1e-2)
    got = run_kernel(
        "matmul",
        MatmulParams(transpose_a=True),
        [a.swapaxes(-1, -2).copy(), b.swapaxes(-1, -2).copy()],
        (3, 2, 5, 4),
        "f32",
    )
    np.testing.assert_allclose(got, a @ b.swapaxes(-1, -2), rtol=2e-2, atol=1e-2)


def test_integers_are_exact_modulo_two_to_the_32() -> None:
    """StableHLO's dot_general of integers, which no unit computes: they wrap."""
    a = RANDOM.integers(-(2**31), 2**31, (9, 33)).astype(np.int32)
    b = RANDOM.integers(-(2**31), 2**31, (33, 5)).astype(np.int32)
    with np.errstate(all="ignore"):
        want = (a.astype(np.int64)[:, :, None] * b.astype(np.int64)[None]).sum(1).astype(np.int32)
    assert np.array_equal(integer_product(a, b).astype(np.int32), want)
    assert np.array_equal(run_kernel("matmul", MatmulParams(), [a, b], (9, 5), "i32"), want)


@pytest.mark.parametrize(
    ("values", "dst", "want"),
    [
        # One large product and seven that are half of the unit that it leaves them: each is rounded away from 0.
        ([1.0] + [2.0**-11] * 7, "Float32", 1 + 7 * 2.0**-10),
        ([1.0] + [-(2.0**-11)] * 7, "Float32", 1 - 7 * 2.0**-10),
        # In the other group of eight they are only aligned to each other, and Dst has 23 bits.
        ([1.0] + [0.0] * 7 + [2.0**-11] * 8, "Float32", 1 + 2.0**-8),
        # A Dst of 16 bits rounds each sum to 10 bits below the largest, then all of them to 7.
        ([1.0] + [0.0] * 7 + [2.0**-11] + [0.0] * 7, "Float16_b", 1.0),
        ([1.0] + [0.0] * 7 + [2.0**-8] + [0.0] * 7, "Float16_b", 1 + 2.0**-7),
    ],
)
def test_groups_of_eight_are_aligned_to_their_largest_product(values: list[float], dst: str, want: float) -> None:
    left, right = np.float32([values]), np.ones((len(values), 1), np.float32)
    assert matrix_product(left, right, Numerics("HiFi4", dst), exact_order=True).tolist() == [[want]]


def test_blocks_of_the_inner_dim_are_added_in_l1() -> None:
    """Sums of blocks are rounded to the nearest even there; the last block is added to them in Dst."""
    left = np.zeros((1, 128), np.float32)
    left[0, [0, 32, 64]] = 1.0, 2.0**-8, 3 * 2.0**-8
    numerics = Numerics("HiFi4", "Float16_b", k_block=1, intermediate="Float16_b")
    got = matrix_product(left, np.ones((128, 1), np.float32), numerics, exact_order=True)
    assert got.tolist() == [[1 + 2.0**-6]], "1 + 2^-8 is a tie and even; 1 + 3 * 2^-8 is one and goes up"
    assert matrix_product(left, np.ones((128, 1), np.float32), numerics)[0, 0] != 1


@pytest.mark.parametrize("name", ["gelu", "sigmoid", "silu", "tanh"])
@pytest.mark.parametrize(("element_type", "dst"), [("f32", "Float32"), ("bf16", "Float16_b")])
def test_a_fused_activation_is_the_function_of_the_stored_product(name: str, element_type: str, dst: str) -> None:
    numerics, dtype = Numerics("HiFi4", dst), {"f32": np.float32, "bf16": ml_dtypes.bfloat16}[element_type]
    left, right = (RANDOM.standard_normal(shape).astype(dtype) for shape in ((32, 64), (64, 32)))
    results = {}
    for exact in (False, True):
        device, out = Device("p150", exact_order=exact), ((32, 32), element_type, numerics)
        product = run_kernel("matmul", MatmulParams(), [left, right], *out, device=device)
        apart = run_kernel(name, EltwiseParams(), [product], *out, device=device)
        fused = run_kernel("matmul", MatmulParams(activation=name), [left, right], *out, device=device)
        assert (fused.astype(np.float32) == apart.astype(np.float32)).all()
        results[exact] = fused.tobytes()
    assert results[False] != results[True], "in exact order the function is the device's own"
