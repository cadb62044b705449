"""Kernels have the same bits by the compiled passes and by NumPy's (opscope/base/passes)."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from opscope.base import passes
from opscope.compiler.target.program import EltwiseParams, MatmulParams, Numerics, Params, ReduceParams
from opscope.compiler.target.rounding import flush
from opscope.simulator import plain
from opscope.simulator.api import Device
from opscope.simulator.kernels import addition_order, special
from opscope.simulator.kernels.matmul import PHASES
from opscope.simulator.kernels.real import vector_unit
from opscope.simulator.tests.programs import SPECIAL, run_kernel

if passes.compiled is None:
    pytest.skip(f"no compiled passes here: {passes.state}", allow_module_level=True)

BF16 = np.dtype(ml_dtypes.bfloat16)
EVERY = np.arange(1 << 16, dtype=np.uint16)
SIZE = plain.LEAST + 1234


def both(
    monkeypatch: pytest.MonkeyPatch,
    kernel: str,
    params: Params,
    arrays: list[np.ndarray],
    shape: Any,
    out: str,
    **numerics: Any,
) -> np.ndarray:
    """The result by the compiled passes, held to NumPy's bits."""
    result = run_kernel(kernel, params, arrays, shape, out, Numerics(**numerics))
    with monkeypatch.context() as patch:
        patch.setattr(passes, "compiled", None)
        expected = run_kernel(kernel, params, arrays, shape, out, Numerics(**numerics))
    assert result.tobytes() == expected.tobytes()
    return result


def patterns(seed: int) -> np.ndarray:
    """Random patterns of float32 without NaN: of two, NumPy keeps now one, now the other."""
    x = np.random.default_rng(seed).integers(0, 1 << 32, SIZE, dtype=np.uint32).view(np.float32)
    return np.where(np.isnan(x), np.float32(1.5), x)


class Spied:
    """The compiled passes, and what `combine` returned."""

    def __init__(self, compiled: Any, made: list[bool]) -> None:
        self._compiled, self._made = compiled, made

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiled, name)

    def combine(self, *arguments: Any) -> bool:
        self._made.append(self._compiled.combine(*arguments))
        return self._made[-1]


@pytest.mark.parametrize("kernel", sorted(plain.FUNCTIONS))
@pytest.mark.parametrize("dtype", [np.dtype(np.float32), BF16], ids=["f32", "bf16"])
def test_pairs_of_any_patterns(kernel: str, dtype: np.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = patterns(1), patterns(2)
    pairs = len(SPECIAL) ** 2
    left[:pairs], right[:pairs] = np.repeat(SPECIAL, len(SPECIAL)), np.tile(SPECIAL, len(SPECIAL))
    with np.errstate(all="ignore"):
        a, b = left.astype(dtype), right.astype(dtype)
        result = getattr(np, kernel)(*(flush(x.astype(np.float32)) for x in (a, b)))
    # Inf is a number to the matrix unit, where that computes bfloat16.
    by_matrix_unit = dtype == BF16 and kernel in ("add", "subtract")
    no_number = ~np.isfinite(result.astype(dtype).astype(np.float32)) if by_matrix_unit else np.isnan(result)
    a[no_number], b[no_number], one = 3.25, 2, np.array([0.75], dtype)
    name, made = ("bf16" if dtype == BF16 else "f32"), []
    dst = "Float16_b" if dtype == BF16 else "Float32"
    monkeypatch.setattr(passes, "compiled", Spied(passes.compiled, made))
    for arrays in ([a, b], [a, one], [one, b]):
        both(monkeypatch, kernel, EltwiseParams(), arrays, (SIZE,), name, dst_format=dst)
    assert made == [True] * 3, "none of them was left to NumPy"
    for operand in (a, b):  # which a comparison may hide
        before, operand[SIZE - 5] = operand[SIZE - 5], np.nan
        both(monkeypatch, kernel, EltwiseParams(), [a, b], (SIZE,), name, dst_format=dst)
        operand[SIZE - 5] = before
    assert made[3:] == [False, False], "a NaN is"
    a[SIZE - 5] = np.inf
    both(monkeypatch, kernel, EltwiseParams(), [a, b], (SIZE,), name, dst_format=dst)


@pytest.mark.parametrize("kernel", ["erf", "exp", "tanh", "relu", "isfinite"])
def test_every_bfloat16_is_looked_up(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.resize(EVERY[np.random.default_rng(1).permutation(EVERY.size)], 1 << 18).view(BF16)
    both(monkeypatch, kernel, EltwiseParams(), [x], x.shape, "i1" if kernel == "isfinite" else "bf16")


def test_erf_of_any_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(3).integers(0, 1 << 32, 1 << 17, dtype=np.uint32)
    x = np.concatenate([random, EVERY.astype(np.uint32) << np.uint32(16)]).view(np.float32)
    with monkeypatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr(passes, "compiled", None)
        expected = special.erf(x)
    with np.errstate(all="ignore"):
        assert special.erf(x).tobytes() == expected.tobytes()


@pytest.mark.crossed
@pytest.mark.parametrize("fidelity", ["LoFi", "HiFi2", "HiFi3", "HiFi4"])
@pytest.mark.parametrize("dtype", [np.dtype(np.float32), BF16], ids=["f32", "bf16"])
def test_products_and_sums(fidelity: str, dtype: np.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    random, name = np.random.default_rng(4), "bf16" if dtype == BF16 else "f32"
    left, right = (random.standard_normal(shape).astype(dtype) for shape in ((40, 70), (70, 50)))
    for rare in (0.0, 1e-39, -0.0, np.inf, np.nan):
        left[3, 5] = rare
        for dst in ("Float32", "Float16_b"):
            settings = {"fidelity": fidelity, "dst_format": dst}
            both(monkeypatch, "matmul", MatmulParams(), [left, right], (40, 50), name, **settings)
            both(monkeypatch, "sum", ReduceParams((1,)), [left], (40,), name, **settings)


def test_a_device_with_signed_zeros_takes_numpys_way(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.resize(SPECIAL, SIZE)
    result = run_kernel("maximum", EltwiseParams(), [x, -x], (SIZE,), "f32", device=Device("p150"))
    monkeypatch.setattr(passes, "compiled", None)
    expected = run_kernel("maximum", EltwiseParams(), [x, -x], (SIZE,), "f32", device=Device("p150"))
    assert result.tobytes() == expected.tobytes()


@pytest.mark.crossed
@pytest.mark.parametrize("register", addition_order.REGISTERS)
@pytest.mark.parametrize("fidelity", PHASES)
@pytest.mark.parametrize("shape", [(3, 5, 7), (33, 70, 40), (257, 40, 3)], ids=["a part", "tiles", "many rows"])
def test_products_are_added_as_by_numpy(
    shape: tuple[int, int, int], fidelity: str, register: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, depth, columns = shape
    random = np.random.default_rng(depth)
    plain_values = [random.standard_normal(size).astype(np.float32) for size in ((rows, depth), (depth, columns))]
    far_apart = [x * np.exp2(random.integers(-20, 20, x.shape)).astype(np.float32) for x in plain_values]
    any_bits = [random.integers(0, 1 << 32, x.shape, dtype=np.uint32).view(np.float32) for x in plain_values]
    small = [np.where(random.random(x.shape) < 0.6, 0, x * 2.0**-60).astype(np.float32) for x in plain_values]
    ties = [
        (random.integers(-most, most, x.shape) * np.exp2(random.integers(-14, 3, x.shape))).astype(np.float32)
        for most, x in zip((127, 31), plain_values, strict=True)
    ]
    for left, right in (plain_values, far_apart, any_bits, small, ties):
        dst = random.standard_normal((rows, columns)).astype(np.float32)
        by_numpy = dst.copy()
        addition_order.add_products(left, right, PHASES[fidelity], register, dst)
        with monkeypatch.context() as patch:
            patch.setattr(passes, "compiled", None)
            addition_order.add_products(left, right, PHASES[fidelity], register, by_numpy)
        assert dst.tobytes() == by_numpy.tobytes()


ENDS = np.concatenate([SPECIAL, np.float32([np.nan, -np.inf, 2.0**-125, 2.0**127]), -np.float32([np.nan, 2.0**-125])])


def test_the_vector_units_sums_are_those_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(5)
    any_bits = [random.integers(0, 1 << 32, SIZE, dtype=np.uint32).view(np.float32) for _ in range(3)]
    near = [random.standard_normal(SIZE).astype(np.float32) for _ in range(3)]
    small = [(x * 2.0**-63).astype(np.float32) for x in near[:2]]
    with np.errstate(all="ignore"):
        cancelled = [*near[:2], -near[0] * near[1]]
        tiny = [*small, (near[2] * 2.0**-126).astype(np.float32)]
    ends = [np.ascontiguousarray(x) for x in np.meshgrid(ENDS, ENDS, ENDS)]
    for operands in (any_bits, near, cancelled, tiny, ends, [near[0], np.float32(3), np.float32(-1)]):
        compiled = vector_unit.multiply_add(*operands)
        with monkeypatch.context() as patch:
            patch.setattr(passes, "compiled", None)
            assert vector_unit.multiply_add(*operands).tobytes() == compiled.tobytes()
