"""Every op that counts as lowered has a device case: of the specification's stored ones, or one of our own."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from opscope.compiler import api
from opscope.compiler.tests import programs, test_collective
from opscope.compiler.tests.conformance import host_ops
from opscope.compiler.tests.own_cases import CASES
from opscope.simulator.api import Device

NAME = re.compile(r"\b(?:stablehlo|chlo)\.\w+")


@pytest.mark.parametrize("op", CASES)
def test_it_is_right_on_the_device(op):
    case = CASES[op]
    assert op in NAME.findall(case.source())
    data = api.compile(case.source(), programs.BOARD)
    assert not host_ops(data)
    got = Device("n150").load(data).run(list(case.inputs)).outputs
    expected = case.formula(*case.inputs)
    for result, wanted in zip(got, expected if isinstance(expected, tuple) else (expected,), strict=True):
        assert result.dtype.kind == np.asarray(wanted).dtype.kind
        np.testing.assert_allclose(result, wanted, rtol=4e-3, atol=4e-3)


def test_every_op_that_counts_as_lowered_has_a_device_case():
    page = (Path(__file__).parents[2] / "docs" / "conformance.md").read_text(encoding="utf-8")
    stored = {found[1] for found in re.finditer(r"^\| `((?:stablehlo|chlo)\.\w+)` \| [1-9]", page, re.MULTILINE)}
    on_a_mesh = NAME.findall(" ".join(test_collective.MODULES))
    own = {name for case in CASES.values() for name in NAME.findall(case.source())}
    assert {row.stablehlo for row in api.op_table() if row.lowered and row.stablehlo} <= stored | own | {*on_a_mesh}
