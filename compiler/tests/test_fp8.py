"""8-bit floats on the boards that hold them: against ml_dtypes' values, which the packer cuts rather than rounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest

from opscope.compiler import api
from opscope.compiler.errors import StageFailure
from opscope.compiler.tests import programs
from opscope.compiler.tests.conformance import scores
from opscope.simulator.api import Device

E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
WHERE = [("p150", E4M3), ("p150", E5M2), ("n150", E5M2)]
CASE = 1263
"""The stored case of f8E4M3FN; its other cases of 8-bit floats have types that no board holds."""
COMPUTED: dict[str, Callable[..., Any]] = {
    "add": jax.lax.add,
    "multiply": jax.lax.mul,
    "exponential": jax.lax.exp,
    "dot": lambda a, b: jax.lax.dot(a, b.T),
}
MOVED: dict[str, Callable[..., Any]] = {
    "transpose": lambda a: a.T,
    "concatenate": lambda a: jax.lax.concatenate([a, a], 0),
    "maximum": lambda a: jax.lax.max(a, -a),
}


def simulate(function: Callable[..., Any], board: str, level: int, *inputs: np.ndarray) -> np.ndarray:
    options = api.CompileOptions(optimization_level=level)
    data = api.compile(programs.stablehlo(function, *inputs), api.load_board(board), options)
    return Device(board).load(data).run(list(inputs)).outputs[0]


def cases(functions: dict[str, Callable[..., Any]], quick: str) -> list[Any]:
    """Each function on each board in each type, all of them slow but one."""
    return [
        pytest.param(name, board, dtype, marks=() if name == quick and dtype is E4M3 else pytest.mark.slow)
        for name in functions
        for board, dtype in WHERE
    ]


def operand(dtype: Any, seed: int) -> np.ndarray:
    """Normal numbers between 1/2 and 2 of either sign, so that no result is a denormal or too large."""
    rng = np.random.default_rng(seed)
    return (rng.uniform(0.5, 2, (9, 12)) * rng.choice([-1, 1], (9, 12))).astype(dtype)


@pytest.mark.parametrize(("name", "board", "dtype"), cases(COMPUTED, "dot"))
def test_a_result_is_cut_to_the_next_number_towards_zero(name: str, board: str, dtype: Any):
    count = 1 if name == "exponential" else 2
    inputs = [operand(dtype, seed) for seed in range(count)]
    exact = np.asarray(COMPUTED[name](*(jax.numpy.asarray(x.astype(np.float32)) for x in inputs)), np.float64)
    step = 2.0 ** np.floor(np.log2(np.maximum(np.abs(exact), 2.0**-6))) * float(ml_dtypes.finfo(dtype).eps)
    for level in (0, 2):
        got = simulate(COMPUTED[name], board, level, *inputs)
        assert got.dtype == dtype
        short = np.abs(exact) - np.abs(got.astype(np.float64))
        assert (short > -0.02 * step).all()
        assert (short < 1.02 * step).all()


@pytest.mark.parametrize(("name", "board", "dtype"), cases(MOVED, "transpose"))
def test_what_is_moved_keeps_its_bits(name: str, board: str, dtype: Any):
    x = operand(dtype, 0)
    want = np.asarray(MOVED[name](jax.numpy.asarray(x)))
    np.testing.assert_array_equal(simulate(MOVED[name], board, 0, x).view(np.uint8), want.view(np.uint8))


def test_wormhole_has_no_e4m3():
    with pytest.raises(StageFailure, match="expected a format that wormhole_b0 has, got Fp8_e4m3") as caught:
        simulate(jax.lax.neg, "n150", 0, operand(E4M3, 0))
    assert caught.value.kind == "never"


@pytest.mark.parametrize("level", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_the_stored_case_runs_where_the_board_has_the_type(level: int):
    kinds = {board: next(scores(lambda number: number == CASE, level, board)) for board in ("n150", "p150")}
    assert (kinds["n150"].kind, kinds["p150"].kind, kinds["p150"].verdict) == ("host", "device", "own")
