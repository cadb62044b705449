"""The device cases of our own are right, each of its op."""

from __future__ import annotations

import re

import numpy as np
import pytest

from opscope.compiler import api
from opscope.compiler.tests import programs
from opscope.compiler.tests.conformance import host_ops
from opscope.compiler.tests.own_cases import CASES
from opscope.simulator.api import Device

NAME = re.compile(r"\b(?:stablehlo|chlo)\.\w+")


@pytest.mark.parametrize("op", CASES)
def test_an_own_case_is_right_on_the_device(op):
    case = CASES[op]
    assert op in NAME.findall(case.source())
    data = api.compile(case.source(), programs.BOARD)
    assert not host_ops(data)
    got = Device("n150").load(data).run(list(case.inputs)).outputs
    expected = case.formula(*case.inputs)
    for result, wanted in zip(got, expected if isinstance(expected, tuple) else (expected,), strict=True):
        assert result.dtype.kind == np.asarray(wanted).dtype.kind
        np.testing.assert_allclose(result, wanted, rtol=4e-3, atol=4e-3)
