"""The stored StableHLO conformance cases through compiler and simulator, against their expected values."""

from __future__ import annotations

import collections

import numpy as np
import pytest

from compiler import api
from compiler.errors import StageFailure
from compiler.tests import programs
from simulator.api import Device

_NAN = "a NaN that is rounded to 16 bits becomes infinity in the packer"
_DENORMAL = "denormals are zero"
HARDWARE = dict.fromkeys(
    (6, 52, 62, 257, 304, 332, 350, 529, 1143, 1287, 1398, 1399, 1410, 1415), _NAN
) | dict.fromkeys((1231, 1232, 1310, 1334), _DENORMAL)
"""Cases that a device of this kind gets wrong, by the hardware fact."""
MATRIX = ("stablehlo.dot_general", "stablehlo.convolution", "stablehlo.reduce_window", "stablehlo.reduce")


def close(got: np.ndarray, want: np.ndarray, ops: list[str]) -> bool:
    """Whether a result is what the specification says, to the precision of the device."""
    if want.dtype.kind in "biu":
        return np.array_equal(got, want)
    bits = {4: 2e-6, 2: 2**-6}[want.dtype.itemsize]
    relative = 4e-3 if any(op in MATRIX for op in ops) else bits
    a, b = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(b)
    scale = np.abs(b[finite]).max(initial=0.0)
    return (
        np.array_equal(np.isnan(a), np.isnan(b))
        and np.array_equal(a[~finite & ~np.isnan(b)], b[~finite & ~np.isnan(b)])
        and np.allclose(
            a[finite], b[finite], rtol=max(relative, bits), atol=max(relative * scale, 1e-3 * bits, 1.2e-38)
        )
    )


def run(take) -> tuple[collections.Counter, set[str], list[str]]:
    """Runs the cases whose number `take` accepts: counts, ops that ran right, and what went wrong."""
    device = Device("n150")
    counts: collections.Counter = collections.Counter()
    right: set[str] = set()
    wrong: list[str] = []
    for case, source, inputs, expected in programs.conformance():
        if not take(case):
            continue
        try:
            data = api.compile(source, programs.BOARD)
        except StageFailure as error:
            counts[error.kind] += 1
            continue
        io = api.describe_io(data)
        # the archive stores scalars as vectors of one element
        arrays = [a.reshape(d.shape) for a, d in zip(inputs, io.inputs, strict=True)]
        outputs = device.load(data).run(arrays).outputs
        good = all(
            o.dtype == e.dtype and close(o, e.reshape(o.shape), case["ops"])
            for o, e in zip(outputs, expected, strict=True)
        )
        counts["right" if good else "wrong"] += 1
        if good:
            right.update(case["ops"])
        elif case["n"] not in HARDWARE:
            wrong.append(f"{case['n']} {case['ops']}")
    return counts, right, wrong


def test_every_fifth_case():
    counts, right, wrong = run(lambda case: case["n"] % 5 == 0)
    assert not wrong
    assert counts["right"] > 160
    assert len(right) > 50


@pytest.mark.slow
def test_all_cases():
    counts, right, wrong = run(lambda case: True)
    assert not wrong
    assert counts["right"] > 870
    assert len(right) > 72
