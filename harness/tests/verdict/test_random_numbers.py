"""Random numbers of an implementation's own: right ones pass, whatever the seed, and those of many liars fail."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from opscope.base.tests.each import each
from opscope.harness.backends import registry
from opscope.harness.backends.xla import Xla
from opscope.harness.lanes.ladder import climb
from opscope.harness.prepare.mlir.drawn import bounds
from opscope.harness.prepare.split import split_module
from opscope.harness.record.optest import RunContext
from opscope.harness.record.records import OpRow, OpTest
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage, Status
from opscope.harness.tests.prepare.test_walk import walked
from opscope.harness.verdict.random_numbers import bits, depends_on_state, distribution, unit_of
from opscope.harness.verdict.target import Target

HOST = Target("host", None, "exact")
MANY = 10_000


def drawn(got: np.ndarray, kind: str = "UNIFORM", low: float = 0.0, high: float = 1.0, target: Target = HOST) -> str:
    check = distribution(got, kind, low, high, target)
    assert check is not None
    assert check.passed is not bool(check.reason)
    return check.reason


@pytest.mark.crossed
@pytest.mark.parametrize("count", [1, 2, 7, 300, MANY])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_right_numbers_pass(count: int, dtype: Any) -> None:
    for seed in range(10):
        generator = np.random.default_rng(seed)
        for low, high in ((0.0, 1.0), (-3.0, 5.0)):
            assert not drawn((low + (high - low) * generator.random(count)).astype(dtype), "UNIFORM", low, high)
            assert not drawn((low + high * generator.standard_normal(count)).astype(dtype), "NORMAL", low, high)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 2), (-7, 12), (0, 1000), (-(2**31), 2**31 - 1)])
def test_right_integers_pass(low: int, high: int) -> None:
    for seed in range(10):
        generator = np.random.default_rng(seed)
        for count in (1, 30, MANY):
            assert not drawn(generator.integers(low, high, count).astype(np.int32), "UNIFORM", low, high)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_right_bits_pass(dtype: Any) -> None:
    for seed in range(10):
        generator = np.random.default_rng(seed)
        for count in (0, 1, 30, MANY):
            words = generator.integers(0, np.iinfo(dtype).max, count, dtype=dtype, endpoint=True)
            assert bits(words).passed, bits(words).reason


Change = Callable[[np.ndarray], np.ndarray]
WRONG: dict[str, Change] = {
    "zeros": lambda v: v * 0,
    "a constant": lambda v: v * 0 + v[0],
    "a short period": lambda v: np.tile(v[: v.size // 100], 100),
    "a period of half": lambda v: np.tile(v[: v.size // 2], 2),
    "a ramp": lambda v: np.sort(v),
    "NaN": lambda v: np.where(np.arange(v.size) == 5, np.float32(np.nan), v).astype(v.dtype),
}
UNIFORM: dict[str, Change] = {
    "scaled by 1.01": lambda v: v * np.float32(1.01),
    "scaled by 0.99": lambda v: v * np.float32(0.99),
    "moved": lambda v: v + np.float32(0.01),
    "one outside": lambda v: np.where(np.arange(v.size) == 7, np.float32(-0.001), v).astype(v.dtype),
    "squared": lambda v: v * v,
}
NORMAL: dict[str, Change] = {
    "scaled by 1.1": lambda v: v * np.float32(1.1),
    "scaled by 0.9": lambda v: v * np.float32(0.9),
    "moved": lambda v: v + np.float32(0.1),
    "absolute": np.abs,
    "two values": np.sign,
}


@pytest.mark.parametrize("change", [*WRONG.values(), *UNIFORM.values()], ids=[*WRONG, *UNIFORM])
def test_wrong_uniform_numbers_fail(change: Change) -> None:
    for seed in range(5):
        assert drawn(change(np.random.default_rng(seed).random(MANY).astype(np.float32)))


@pytest.mark.parametrize("change", [*WRONG.values(), *NORMAL.values()], ids=[*WRONG, *NORMAL])
def test_wrong_normal_numbers_fail(change: Change) -> None:
    for seed in range(5):
        values = np.random.default_rng(seed).standard_normal(MANY).astype(np.float32)
        assert drawn(change(values), "NORMAL")


def test_a_normal_scale_of_a_hundredth_fails_among_many() -> None:
    values = np.random.default_rng(0).standard_normal(400_000).astype(np.float32)
    assert not drawn(values, "NORMAL")
    assert "expected a deviation of " in drawn(values * np.float32(1.01), "NORMAL")


@each(
    "change",
    [
        lambda w: w * 0,
        lambda w: w * 0 + 12345,
        lambda w: np.tile(w[:100], 100),
        lambda w: w & 0xFFFF,
        lambda w: w | 1,
        np.sort,
        lambda w: np.tile(w[:5000], 2),
    ],
)
def test_wrong_bits_fail(change: Change) -> None:
    words = np.random.default_rng(0).integers(0, 2**32, MANY, dtype=np.uint32)
    assert not bits(change(words)).passed


def test_a_bit_that_is_always_set_is_named_with_how_often_it_should_be() -> None:
    words = np.random.default_rng(5).integers(0, 1 << 16, 10_000).astype(np.uint16) | np.uint16(8)
    assert bits(words).reason == "expected bit 3 set in 5,000 of 10,000 words, got 10,000"


def test_bits_follow_from_the_state() -> None:
    generator = np.random.default_rng(0)
    first, second, third = generator.integers(0, 2**32, (3, MANY), dtype=np.uint32)
    state, new = np.array([1, 2], np.uint64), np.array([1, 3], np.uint64)
    assert depends_on_state(state, new, first, first, [second, third]).passed
    for case in (
        (state, state, first, first, [second, third]),
        (state, new, first, second, [second, third]),
        (state, new, first, first, [first, third]),
        (state, new, first, first, [second, np.where(np.arange(MANY) < 100, first, third)]),
    ):
        assert not depends_on_state(*case).passed


def test_no_distribution_is_no_verdict() -> None:
    values = np.zeros(4, np.float32)
    assert distribution(values, "UNIFORM", 1.0, 1.0, HOST) is None
    assert distribution(values, "NORMAL", 0.0, -1.0, HOST) is None
    assert distribution(values > 0, "UNIFORM", 0.0, 1.0, HOST) is None
    assert not drawn(values, "NORMAL", 0.0, 0.0)
    assert drawn(values, "NORMAL", 1.0, 0.0)


def test_a_stored_format_may_round() -> None:
    values = np.zeros(1, np.float32)
    assert unit_of(values, HOST) == 2.0**-24
    assert unit_of(values, dataclasses.replace(HOST, float_format="Bfp8_b")) == 2.0**-7
    assert unit_of(values.astype(ml_dtypes.bfloat16), HOST) == 2.0**-8
    assert unit_of(values.astype(np.int32), HOST) == 0.0


PROGRAM = """func.func @main(%lo: tensor<f32>, %s: tensor<2xui64>)
    -> (tensor<9000xf32>, tensor<2xui64>, tensor<4000xui32>, tensor<2xui64>, tensor<50xf32>, tensor<50xi32>) {
  %hi = stablehlo.constant dense<2.5> : tensor<f32>
  %n = stablehlo.constant dense<9000> : tensor<1xi64>
  %r = stablehlo.rng %lo, %hi, %n, distribution = NORMAL : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<9000xf32>
  %t, %b = stablehlo.rng_bit_generator %s, algorithm = DEFAULT : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4000xui32>)
  %u, %f = stablehlo.rng_bit_generator %s, algorithm = PHILOX : (tensor<2xui64>) -> (tensor<2xui64>, tensor<50xf32>)
  %v, %i = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<50xi32>)
  return %r, %t, %b, %u, %f, %i
    : tensor<9000xf32>, tensor<2xui64>, tensor<4000xui32>, tensor<2xui64>, tensor<50xf32>, tensor<50xi32>
}"""


class Constant(Xla):
    """Draws zeros."""

    def climb(self, stage: Stage, job: Any) -> None:
        super().climb(stage, job)
        if stage is Stage.RUN:
            job.outputs = [np.zeros_like(array) for array in job.outputs]


def climbed(folder: Path, rows: list[OpRow], backend: Any) -> dict[str, OpTest]:
    context = RunContext("r1", str(folder / type(backend).__name__), "xla", ResultOptions())
    return {
        f"{row.op_name}{row.op_params.get('rng_algorithm', '')}": climb(
            row, backend, context=context, export_dir=folder
        )
        for row in rows
    }


@pytest.mark.slow
def test_ops_that_draw_are_judged(tmp_path: Path) -> None:
    _, rows = walked(PROGRAM, tmp_path)
    right = climbed(tmp_path, rows.rows, registry.load("xla"))
    assert len(right) == 4
    assert {test.status for test in right.values()} == {Status.SUCCESS}
    own = [test for name, test in right.items() if name == "stablehlo.rng" or "DEFAULT" in name]
    assert [[check.tolerance for check in test.results] for test in own] == [
        ["random numbers"],
        ["random numbers", "random numbers"],
    ]
    # Threefry and Philox have one right answer, to the bit.
    exact = [test for test in right.values() if test not in own]
    assert {check.tolerance for test in exact for check in test.results} == {"exact"}
    wrong = climbed(tmp_path, rows.rows, Constant())
    assert {test.status for test in wrong.values()} == {Status.WRONG_RESULT}


def test_the_bounds_of_a_draw_are_read_where_they_stand() -> None:
    split = split_module(PROGRAM, "m")
    module = next(op.bytecode for op in split.ops.values() if op.op_name == "stablehlo.rng")
    assert bounds(module, [np.array(-1.5, np.float32)]) == (-1.5, 2.5)
