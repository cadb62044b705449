"""Large operands take shorter ways (a table of patterns, bits in place of numbers), and have the bits of small ones."""

from __future__ import annotations

import functools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from opscope.base.tests.covered import covered
from opscope.compiler.target import binary
from opscope.compiler.target.program import EltwiseParams, Numerics
from opscope.compiler.target.rounding import MODES, bits, flush, to_halves, to_mantissa
from opscope.simulator import by_pattern, operation_run, plain
from opscope.simulator.api import Device, Executable
from opscope.simulator.arithmetic import PLAIN
from opscope.simulator.images import LARGE
from opscope.simulator.kernels.eltwise import BINARY, SHOWING, UNARY
from opscope.simulator.tests import programs
from opscope.simulator.tests.programs import NAMES, one_kernel, run_result

BF16 = np.dtype(ml_dtypes.bfloat16)
EVERY = np.arange(by_pattern.PATTERNS, dtype=np.uint16).view(BF16)
SPECIAL = np.append(programs.SPECIAL, np.float32(np.nan))
PART = LARGE // 2
"""Elements of operands that take the ordinary way."""


def same_bits(
    kernel: str,
    arrays: list[np.ndarray],
    out: str,
    *,
    board: str = "n150",
    exact_order: bool = False,
    **numerics: Any,
) -> None:
    """Runs a kernel on whole arrays, and on parts of them; scalars go with each part."""
    device, size = Device(board, exact_order=exact_order), max(a.size for a in arrays)

    @functools.cache
    def program(*inputs: tuple[tuple[int], str]) -> Executable:
        result = next(shape for shape, _ in inputs if shape != (1,)), out
        made = one_kernel(kernel, EltwiseParams(), inputs, result, Numerics(**numerics), board=device.system.board)
        return device.load(binary.write(made))

    def run(part: slice) -> np.ndarray:
        parts = [a[part] if a.size == size else a.reshape(1) for a in arrays]
        return program(*((a.shape, NAMES[a.dtype.name]) for a in parts)).run(parts).outputs[0]

    whole = run(slice(None))
    parts = np.concatenate([run(slice(at, at + PART)) for at in range(0, size, PART)])
    assert_equal(whole, parts, arrays)


def assert_equal(result: np.ndarray, expected: np.ndarray, operands: list[np.ndarray]) -> None:
    """Holds bits to be equal, but for the sign where an operand is NaN: of two, NumPy keeps now one, now the other."""
    words = [np.ascontiguousarray(x).view(f"u{x.itemsize}") for x in (result, expected)]
    differ = words[0] ^ words[1]
    if result.itemsize > 1:
        nan = np.any([np.isnan(np.broadcast_to(x, result.shape).astype(np.float32)) for x in operands], axis=0)
        differ[nan] &= np.iinfo(differ.dtype).max >> 1
    assert not differ.any()


def quick(names: list[str], kept: set[str]) -> list[Any]:
    """Marks all but a few as slow."""
    return [name if name in kept else pytest.param(name, marks=pytest.mark.slow) for name in names]


ONE = quick([name for name, on_float, *_ in UNARY if on_float is not None], {"abs", "erf", "exp", "isfinite", "relu"})


@pytest.mark.parametrize("kernel", ONE)
def test_a_table_of_patterns_has_the_bits_of_each_element(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up = []
    made = by_pattern.once
    monkeypatch.setattr(by_pattern, "once", lambda x: looked_up.append(x.size) or made(x))
    x = np.resize(EVERY[np.random.default_rng(1).permutation(EVERY.size)], by_pattern.LEAST)
    out = "i1" if kernel in ("isfinite", "signbit", "logical_not") else "bf16"
    for dst in ("Float32", "Float16_b"):
        same_bits(kernel, [x], out, dst_format=dst)
    assert max(looked_up) == x.size


SCALARS = quick(["add", "divide", "maximum", "lt", "pow_tensor", "multiply"], {"lt", "divide"})


@pytest.mark.parametrize("kernel", SCALARS)
def test_one_tensor_and_scalars_are_looked_up_on_either_side(kernel: str) -> None:
    # Powers of a signalling NaN differ with the loop that NumPy takes.
    patterns = EVERY.view(np.uint16)
    x = np.resize(np.where(patterns & 0x7FFF > 0x7F80, patterns | 0x40, patterns).view(BF16), by_pattern.LEAST)
    for scalar in (0.0, -1.5, float("nan"), 1e-40):
        for arrays in ([x, np.array([scalar], BF16)], [np.array([scalar], BF16), x]):
            at_large = [a if a.size > 1 else np.broadcast_to(a, x.shape) for a in arrays]
            out = "i1" if kernel == "lt" else "bf16"
            result = run_result(kernel, EltwiseParams(), arrays, x.shape, out, Numerics("HiFi2")).outputs[0]
            small = [
                run_result(kernel, EltwiseParams(), parts, (PART,), out, Numerics("HiFi2")).outputs[0]
                for at in range(0, EVERY.size, PART)
                if (parts := [np.ascontiguousarray(a[at : at + PART]) for a in at_large])
            ]
            assert_equal(result[: EVERY.size], np.concatenate(small), [a[: EVERY.size] for a in at_large])


TWO = quick(
    [*(name for name, on_float, *_ in BINARY if on_float is not None), "multiply"], {"add", "maximum", "multiply"}
)


@pytest.mark.parametrize("kernel", TWO)
def test_two_tensors_have_the_bits_of_their_parts(kernel: str) -> None:
    random = np.random.default_rng(2)
    # Each special value with each, among numbers that leave one look at the result enough.
    left, right = (random.uniform(0.5, 2, 2 * PART).astype(np.float32) for _ in range(2))
    pairs = len(SPECIAL) ** 2
    left[:pairs], right[:pairs] = np.repeat(SPECIAL, len(SPECIAL)), np.tile(SPECIAL, len(SPECIAL))
    out = {"eq": "i1", "ne": "i1", "lt": "i1", "le": "i1", "gt": "i1", "ge": "i1"}.get(kernel)
    for dtype, name in ((np.dtype(np.float32), "f32"), (BF16, "bf16")):
        for low in (0, 1, pairs):  # with all of them, and with none
            arrays = [np.ascontiguousarray(np.resize(a[low:], 2 * PART)).astype(dtype) for a in (left, right)]
            result = out or ("i1" if kernel.startswith("logical") else name)
            for board in ("n150", "p150") if kernel in SHOWING else ("n150",):
                same_bits(kernel, arrays, result, board=board)


@pytest.mark.parametrize("kernel", covered(sorted(plain.FUNCTIONS), {"subtract": "add"}))
def test_a_part_in_which_nothing_special_shows_is_what_numpy_makes_of_it(
    kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = []
    made = operation_run.plain
    monkeypatch.setattr(operation_run, "plain", lambda *args: results.append(made(*args)) or results[-1])
    random, size = np.random.default_rng(3), 3 * plain.PART + 77  # the last part overlaps the one before, by odd bits
    left, right = (random.standard_normal(size).astype(np.float32) for _ in range(2))
    left[::5], scalar = 0, np.float32([0.375])
    for dtype, name in ((np.dtype(np.float32), "f32"), (BF16, "bf16")):
        a, b, one = (x.astype(dtype) for x in (left, right, scalar))
        for arrays in ([a, b], [a, one], [one, b]):
            for dst in ("Float32",) if name == "f32" else ("Float32", "Float16_b"):
                same_bits(kernel, arrays, name, dst_format=dst)
        both_widths = name == "bf16" and kernel != "multiply"  # which rounds in another way where Dst has 32 bits
        assert len([r for r in results if r is not None]) == (6 if both_widths else 3)
        # What hides in the last part: a denormal times a large number, one beside zeros, -0, Inf, NaN.
        for first, second in (
            (1e-39, 2.0**40),
            (1e-39, 2.0**-40),
            (1.0, 1e-39),
            (1e-39, 0.0),
            (-0.0, -0.0),
            (np.inf, 1.0),
            (0.0, np.nan),
            (3e38, 3e38),
        ):
            a[-1], b[-1] = first, second
            results.clear()
            same_bits(kernel, [a, b], name)
            if np.isnan(second):
                assert all(result is None for result in results), "left to the kernel"
        results.clear()


@pytest.mark.parametrize("kernel", sorted(plain.FUNCTIONS))
@pytest.mark.parametrize("element_type", ["f32", "bf16"])
def test_in_exact_order_large_tensors_are_computed_as_small_ones_are(kernel: str, element_type: str) -> None:
    dtype = {"f32": np.dtype(np.float32), "bf16": BF16}[element_type]
    random = np.random.default_rng(8)
    arrays = [random.standard_normal(2 * PART).astype(dtype) for _ in range(2)]
    for dst in ("Float32", "Float16_b") if element_type == "bf16" else ("Float32",):
        same_bits(kernel, arrays, element_type, exact_order=True, dst_format=dst)


@pytest.mark.parametrize("kernel", sorted(SHOWING))
def test_what_one_operand_hides_shows_in_the_result(kernel: str) -> None:
    """Held to operands that are flushed first; each pair by itself, so that no other shows in its place."""
    made = one_kernel(kernel, EltwiseParams(), [((64,), "f32")] * 2, ((64,), "f32"))
    program = Device("n150").load(binary.write(made))
    for left in SPECIAL:
        for right in SPECIAL:
            pair = [np.full(64, value, np.float32) for value in (1.5, 0.25)]
            pair[0][7], pair[1][7] = left, right
            result = program.run(pair).outputs[0]
            with np.errstate(all="ignore"):
                expected = PLAIN.result(getattr(np, kernel)(*map(flush, pair)))
            assert_equal(result, expected, pair)


@pytest.mark.parametrize("mode", ["away", "truncate"])
def test_halves_are_the_bits_of_bfloat16(mode: str) -> None:
    assert mode in MODES
    tails = np.uint32([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF])
    x = ((np.arange(1 << 16, dtype=np.uint32) << np.uint32(16))[:, None] | tails).view(np.float32)
    assert np.array_equal(to_halves(x, mode), (bits(to_mantissa(x, 7, mode)) >> np.uint32(16)).astype(np.uint16))


def test_results_are_the_callers_own() -> None:
    x = np.ones(LARGE * 2, np.float32)
    result = run_result("typecast", EltwiseParams(), [x], x.shape, "f32").outputs[0]
    result[0] = 7
    assert x[0] == 1
