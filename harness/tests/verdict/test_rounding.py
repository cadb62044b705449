"""Conversions: the nearest number or one of two that are as near; and operands whose denormals are zero."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from opscope.base.tests.each import each
from opscope.harness.verdict.rounding import has_denormals, legal_conversion, without_denormals

BF16 = ml_dtypes.bfloat16


def array(*values, dtype=np.float32):
    return np.array(values, dtype)


@each(
    ("x", "golden", "got", "said"),
    [
        # 1 + 2^-8 lies between 1 and 1 + 2^-7: XLA takes the even one.
        (array(1 + 2**-8), array(1, dtype=BF16), array(1 + 2**-7, dtype=BF16), ""),
        (array(1 + 2**-8), array(1, dtype=BF16), array(1 - 2**-8, dtype=BF16), "1 of 1 values are not"),
        (array(1, -3.5, 2.5), array(1, -4, 2), array(1, -3, 3), ""),
        (
            array(1, -3.5, 2.5),
            array(1, -4, 2),
            array(1, -2, 4),
            "2 of 3 values are not rounded to nearest: -3.5 became -2, expected -4, at element 1",
        ),
        (array(1e-39), array(1e-39), array(0), ""),
        (array(2e-38), array(2e-38), array(0), "1 of 1 values"),
        (array(1e-39), array(1e-39), array(2e-39), "1 of 1 values"),
        (array(5e-5), array(5e-5, dtype=np.float16), array(0, dtype=np.float16), ""),
        (array(7e-5), array(7e-5, dtype=np.float16), array(0, dtype=np.float16), "1 of 1 values"),
        (array(np.inf, np.nan, 3e38), array(np.inf, np.nan, np.inf), array(np.inf, np.nan, 1), ""),
        (array(1.5), np.array([2], np.int32), np.array([1], np.int32), None),
        (np.array([1], np.int32), array(1), array(2), "1 of 1 values"),
        (np.array([1], np.int64), array(1), array(2), None),
        (np.array([1j], np.complex64), np.array([1j], np.complex64), np.array([2j], np.complex64), None),
    ],
)
def test_no_element_is_farther_than_the_golden(x, golden, got, said):
    reason = legal_conversion(x, golden, got)
    assert reason == said if not said else reason.startswith(said)


def test_denormals_of_operands_become_zero():
    assert without_denormals([array(1, -2, 0), np.array([0, 1], np.int32)]) is None
    inputs = [array(1e-39, -1e-39, 2e-38), array(5e-5, 7e-5, dtype=np.float16), np.array([1], np.int32)]
    flushed = without_denormals(inputs)
    assert flushed is not None
    assert [each.tolist() for each in flushed] == [
        array(0, 0, 2e-38).tolist(),
        array(0, 7e-5, dtype=np.float16).tolist(),
        [1],
    ]
    assert [each.dtype for each in flushed] == [each.dtype for each in inputs]
    assert without_denormals([array(1), array(1e-39, dtype=BF16)]) is not None
    assert without_denormals([np.array([1e-39 + 1j], np.complex64)]) is None


def test_the_smallest_normal_number_is_no_denormal():
    single, double = np.finfo(np.float32).tiny, np.finfo(np.float64).tiny
    assert legal_conversion(array(single), array(single), array(0)).startswith("1 of 1 values")
    assert without_denormals([array(single, -single)]) is None
    # Of a complex number neither part is made zero.
    assert without_denormals([np.array([1e-39 + 0j], np.complex64)]) is None
    for values, expected in (
        ([0.0, 1.0, double, -double], False),
        ([1.0, 5e-324], True),
        ([-double / 2], True),
        ([np.inf, np.nan], False),
    ):
        assert has_denormals([array(1), np.array(values)]) is expected
    assert has_denormals([np.array([1 + 1e-310j])])
    for few in (
        array(1e-39),
        array(1e-39, dtype=BF16),
        np.array([1e-39], np.complex64),
        np.array(1 + 1e-39j, np.complex64),
    ):
        assert has_denormals([array(1), few])
    # Of float16 they are numbers like others in float32.
    assert not has_denormals([array(6e-8, dtype=np.float16), np.array([1e-39]), np.array([1], np.int64)])
