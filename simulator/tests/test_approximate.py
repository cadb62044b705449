"""Approximate functions, by tt-llk's tables and tt-isa-documentation (SFPLUT.md, SFPLUTFP32.md)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from opscope.compiler.target.program import EltwiseParams, Numerics
from opscope.simulator.api import Device
from opscope.simulator.kernels import special
from opscope.simulator.kernels.approximate import BOUND, BY_ARCH, approximation, lut8, lut16
from opscope.simulator.tests.programs import run_kernel

TRUE = {
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "gelu": lambda x: special.gelu(x.astype(np.float32)).astype(np.float64),
    "exp": np.exp,
}


@pytest.mark.parametrize(("arch", "name"), BOUND)
def test_errors_are_within_the_stated_bound_and_reach_it(arch: str, name: str) -> None:
    """tt-llk's tables (ckernel_sfpu_*.h), each with the largest error that `BOUND` states."""
    function = approximation(name, arch)
    assert function is not None
    low, high = (-42, 44) if name == "exp" else (-12, 12)
    x = np.linspace(low, high, 200001).astype(np.float32)
    true = TRUE[name](x.astype(np.float64))
    error = np.abs(function(x) - true) / (true if name == "exp" else 1)
    # The published measurement of tanh's old table is 0.145 (tech_reports/SFPU_LUT_Retune_Wormhole).
    assert 0.95 * BOUND[arch, name] < error.max() <= BOUND[arch, name]


def test_every_table_has_a_bound() -> None:
    assert set(BOUND) == {(arch, name) for arch, functions in BY_ARCH.items() for name in functions}
    assert approximation("log", "blackhole") is None
    assert approximation("tanh", "unknown") is None


def test_coefficients_read_as_the_instructions_read_them() -> None:
    """SFPLUT.md: (-1)^s 2^-e (1 + m / 16), 0xFF is 0; SFPLUTFP32.md: exponent 31 is 0, exponent 0 is no denormal."""
    assert [lut8(b) for b in (0x00, 0x1D, 0x9D, 0x7E, 0xFF)] == [1.0, 0.90625, -0.90625, 0.0146484375, 0]
    assert [lut16(h) for h in (0x3C00, 0xBC00, 0x7C00, 0x7FFF, 0x0001)] == [1, -1, 0, 0, 2.0**-15 * (1 + 2**-10)]


def test_exp_is_wrong_beyond_44_and_infinite_from_89() -> None:
    """Its fixed-point number has 7 bits before the point (ckernel_sfpu_exp.h)."""
    exp = BY_ARCH["wormhole_b0"]["exp"]
    assert exp(np.float32([-43, 89, 100])).tolist() == [0, np.inf, np.inf]
    assert exp(np.float32([50]))[0] < 0.1 * np.exp(50)


@pytest.mark.parametrize("name", ["tanh", "exp", "sigmoid", "gelu"])
def test_math_approx_is_honoured(name: str) -> None:
    """tt-llk: APPROXIMATION_MODE takes the table, otherwise the function itself."""
    x = np.linspace(-4, 4, 64).astype(np.float32).reshape(2, 32)
    exact = run_kernel(name, EltwiseParams(), [x], (2, 32), "f32")
    approximate = run_kernel(name, EltwiseParams(), [x], (2, 32), "f32", replace(Numerics(), math_approx=True))
    assert not np.array_equal(exact, approximate)
    assert np.array_equal(approximate, BY_ARCH["wormhole_b0"][name](x))


def test_architectures_differ() -> None:
    """tt-llk: Grayskull's sigmoid has another table than Wormhole's."""
    x = np.linspace(-4, 4, 64).astype(np.float32)
    gs, wh = (BY_ARCH[arch]["sigmoid"](x) for arch in ("grayskull", "wormhole_b0"))
    assert not np.array_equal(gs, wh)
    assert Device("e150").arithmetic.arch == "grayskull"
