"""Each op's facts, joined over the rooms: an op that lacks one is named, with where to add it.

A new op is a row in `compiler/ops` and a kernel in `simulator/kernels`, which states its bound of error and its cycles
(`registry.kernel` refuses one without). Its numbers are tested by a case of the specification, or by a row of
`own_cases.py`. What fails here says which of these a new op lacks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from opscope.compiler import api
from opscope.compiler.ops.row import OpRow
from opscope.compiler.tests import test_collective
from opscope.compiler.tests.own_cases import CASES
from opscope.simulator.kernels import KERNELS, kernel
from opscope.simulator.timing.arch_constants import CONSTANTS
from opscope.simulator.timing.tile_cycles import parts_of

NAME = re.compile(r"\b(?:stablehlo|chlo)\.\w+")
PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"


def ops_with_a_numeric_test() -> set[str]:
    """Ops of which a device's numbers are compared: with the specification's, ours, or those of a mesh."""
    page = PAGE.read_text(encoding="utf-8")
    stored = {row[1] for row in re.finditer(r"^\| `((?:stablehlo|chlo)\.\w+)` \| [1-9]", page, re.MULTILINE)}
    own = {name for case in CASES.values() for name in NAME.findall(case.source())}
    return stored | own | {*NAME.findall(" ".join(test_collective.MODULES))}


def missing_facts(rows: Iterable[OpRow]) -> list[str]:
    """What the ops of these rows lack, each with its place."""
    tested, missing = ops_with_a_numeric_test(), []
    for row in rows:
        name = row.stablehlo or f"ttir.{row.ttir}"
        if row.lowering in ("row", "device"):
            if row.kernel_name not in KERNELS:
                missing.append(f"{name}: expected kernel {row.kernel_name!r} in simulator/kernels")
            elif not all(parts_of(constants, row.kernel_name) for constants in CONSTANTS.values()):
                missing.append(f"{name}: expected cycles of kernel {row.kernel_name!r}")
        if row.lowered and row.stablehlo and row.stablehlo not in tested:
            missing.append(f"{name}: expected a case in compiler/tests/own_cases.py")
    return missing


def test_every_op_has_kernel_cycles_and_a_numeric_test():
    assert missing_facts(api.op_table()) == []


def test_an_op_that_lacks_a_fact_is_named():
    assert missing_facts([OpRow("chlo.polygamma", "polygamma")]) == [
        "chlo.polygamma: expected kernel 'polygamma' in simulator/kernels",
        "chlo.polygamma: expected a case in compiler/tests/own_cases.py",
    ]
    with pytest.raises(ValueError, match=r"kernel 'polygamma': expected cycles of its own in .*; try cycles=PASS"):
        kernel("polygamma", object)
