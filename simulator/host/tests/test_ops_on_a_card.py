"""Every op behind an addition on a card: its numbers are near NumPy's, and which ops the host takes over is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opscope import pybuda
from opscope.simulator.host import op
from opscope.simulator.host.tests.test_ops import CASES

ON_HOST = {"AdvIndex", "Argmax", "BudaRequantize", "Embedding", "Power", "Quantize", "Requantize", "Select"}
"""Ops that the host computes after the card, at least as they stand in these cases."""


class One(pybuda.PyBudaModule):
    """An op of which the operand `doubled` is the sum of an input with itself."""

    def __init__(self, name: str, doubled: int) -> None:
        super().__init__("one")
        self.op_name, self.doubled = name, doubled

    def forward(self, *inputs: Any) -> Any:
        args, kwargs, _ = CASES[self.op_name]
        given = list(inputs)
        given[self.doubled] = op.Add("doubled", given[self.doubled], given[self.doubled])
        left = iter(given)
        return getattr(op, self.op_name)("op", *(next(left) if _is_array(a) else a for a in args), **kwargs)


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic)


def _cases() -> list[str]:
    return [name for name, (args, _, _) in CASES.items() if any(_is_array(a) and a.dtype == np.float32 for a in args)]


@pytest.mark.slow
@pytest.mark.parametrize("name", _cases())
def test_an_op_on_a_card_is_near_numpy(name: str) -> None:
    args, _, expected = CASES[name]
    arrays = [np.asarray(a) for a in args if _is_array(a)]
    doubled = next(i for i, a in enumerate(arrays) if a.dtype == np.float32)
    arrays[doubled] = (arrays[doubled] / 2).astype(np.float32)
    device = pybuda.TTDevice("tt0", arch=pybuda.BackendDevice.Wormhole_B0, module=One(name, doubled))
    got = pybuda.run_inference(inputs=[tuple(arrays)], _sequential=True).get()[0].numpy()
    wanted = np.asarray(expected, np.float64)
    assert got.shape == wanted.shape
    assert np.allclose(got, wanted, rtol=0.03, atol=0.05 * max(1.0, np.abs(wanted).max() / 4))
    assert bool(device.compiled[0].compilation.lowering.refused) == (name in ON_HOST)
