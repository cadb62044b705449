"""Every op behind an addition on a card: its numbers are near NumPy's, and which ops the host takes over is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opscope import pybuda
from opscope.simulator.host import op
from opscope.simulator.host.tests.test_ops import CASES

pytestmark = pytest.mark.slow

ON_HOST = {"Argmax", "BudaRequantize", "Power", "Quantize", "Requantize"}
"""Ops that the host computes after the card, at least as they stand in these cases."""


class One(pybuda.PyBudaModule):
    """An op of which the operand `doubled` is the sum of an input with itself."""

    def __init__(self, name: str, doubled: int) -> None:
        super().__init__("one")
        self.op_name, self.doubled = name, doubled

    def forward(self, *inputs: Any) -> Any:
        args, kwargs, _ = CASES[self.op_name]
        operands = list(inputs)
        operands[self.doubled] = op.Add("doubled", operands[self.doubled], operands[self.doubled])
        left = iter(operands)
        return getattr(op, self.op_name)("op", *(next(left) if _is_array(a) else a for a in args), **kwargs)


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic)


def _cases() -> list[str]:
    return [name for name, (args, _, _) in CASES.items() if any(_is_array(a) and a.dtype == np.float32 for a in args)]


@pytest.mark.parametrize("name", _cases())
def test_an_op_on_a_card_is_near_numpy(name: str) -> None:
    args, _, expected = CASES[name]
    arrays = [np.asarray(a) for a in args if _is_array(a)]
    doubled = next(i for i, a in enumerate(arrays) if a.dtype == np.float32)
    arrays[doubled] = (arrays[doubled] / 2).astype(np.float32)
    device = pybuda.TTDevice("tt0", arch=pybuda.BackendDevice.Wormhole_B0, module=One(name, doubled))
    device.compile_modules(arrays)  # of one input: a push would count inputs by the leading sizes of these operands
    (program,) = device.compiled
    got = program.run(arrays)[0]
    wanted = np.asarray(expected, np.float64)
    assert got.shape == wanted.shape
    assert np.allclose(got, wanted, rtol=0.03, atol=0.05 * max(1.0, np.abs(wanted).max() / 4))
    assert bool(program.compilation.lowering.refused) == (name in ON_HOST)


IMAGE = np.random.default_rng(3).standard_normal((1, 32, 10, 8)).astype(np.float32)
KERNEL = np.random.default_rng(4).standard_normal((32, 32, 3, 3)).astype(np.float32) / 17
DEPTHWISE = np.random.default_rng(5).standard_normal((32, 1, 3, 3)).astype(np.float32) / 3
WINDOWS: dict[str, Any] = {
    "conv": lambda x, k: op.Conv2d("op", x, k),
    "strided": lambda x, k: op.Conv2d("op", x, k, stride=2, padding=1),
    "channel last": lambda x, k: op.Conv2d(
        "op", op.Transpose("", op.Transpose("", x, 1, 2), 2, 3), k, channel_last=True
    ),
    "depthwise": lambda x, _: op.Conv2d("op", x, DEPTHWISE, groups=32),
    "transposed": lambda x, k: op.Conv2dTranspose("op", x, k, stride=2, padding=1),
    "max": lambda x, _: op.MaxPool2d("op", x, 3, 2),
    "mean": lambda x, _: op.AvgPool2d("op", x, 2, 2, padding=0),
    "mean, rounded up": lambda x, _: op.AvgPool2d("op", x, 3, 2, padding=1, ceil_mode=True),
    "bilinear": lambda x, _: op.Resize2d("op", x, (20, 16), "bilinear"),
}


class Window(pybuda.PyBudaModule):
    """A window over an image."""

    def __init__(self, case: str) -> None:
        super().__init__("window")
        self.case = case
        self.kernel = pybuda.Parameter(KERNEL)

    def forward(self, x: Any) -> Any:
        return WINDOWS[self.case](op.Relu("before", x), self.kernel)


@pytest.mark.parametrize("case", WINDOWS)
def test_a_window_on_a_card_is_near_xla(case: str) -> None:
    pybuda.TTDevice("tt0", arch=pybuda.BackendDevice.Wormhole_B0, module=Window(case))
    got = pybuda.run_inference(inputs=[IMAGE], _sequential=True).get()[0].numpy()
    wanted = np.asarray(WINDOWS[case](np.maximum(IMAGE, 0), KERNEL))
    assert got.shape == wanted.shape
    assert np.allclose(got, wanted, rtol=0.03, atol=0.05)


ALONE: dict[str, Any] = {
    "heaviside": lambda x: op.Heaviside("op", x, x),
    "relu from a threshold": lambda x: op.Relu("op", x, threshold=0.5),
    "where": lambda x: op.Where("op", op.Greater("", x, 0.25), x, 1.0),
}


class Alone(pybuda.PyBudaModule):
    """One op that compares, of nothing but the input: else the host has comparisons of its values."""

    def __init__(self, case: str) -> None:
        super().__init__("alone")
        self.case = case

    def forward(self, x: Any) -> Any:
        return ALONE[self.case](x)


@pytest.mark.parametrize("case", ALONE)
def test_an_op_that_compares_runs_alone(case: str) -> None:
    x = np.arange(-32, 32, dtype=np.float32).reshape(1, 8, 8) / 32
    pybuda.TTDevice("tt0", arch=pybuda.BackendDevice.Wormhole_B0, module=Alone(case))
    got = pybuda.run_inference(inputs=[x], _sequential=True).get()[0].numpy()
    assert np.array_equal(got, np.asarray(ALONE[case](x)))
