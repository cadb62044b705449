"""Seeded sharded modules: refused without a mesh; with one, all devices together compute what one device does."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.base.mesh import partition
from opscope.base.mesh.placement import placement
from opscope.compiler import api
from opscope.compiler.errors import StageFailure
from opscope.compiler.ir import door
from opscope.compiler.tests.seeded_shardings import Case, cases
from opscope.harness.prepare.golden import compile_module
from opscope.simulator.api import Device

SEED, COUNT, PER_TEST = 1724, 200, 10
BOARD = "n150"
TOLERANCE = 0.02
"""Of the largest result: sums of float32 products in HiFi4, in another order. A part of K is off by more than that."""


def one_off(case: Case, local: partition.Partitioned) -> str:
    """What parts from one device's result, in one line; empty if nothing does."""
    rng = np.random.default_rng(5)
    inputs = [rng.standard_normal(shape, np.float32) for shape in case.shapes]
    (expected,) = compile_module(case.whole)(inputs)
    devices = partition.devices_of(case.mesh)
    takes = [placement(text, shape, devices) for text, shape in zip(local.arguments, case.shapes, strict=True)]
    (gives,) = (placement(text, expected.shape, devices) for text in local.results)
    program = Device(BOARD).load(api.compile(local.bytecode, api.load_board(BOARD)))
    parts = [[take.part(whole, device) for take, whole in zip(takes, inputs, strict=True)] for device in range(devices)]
    outputs = [result.outputs[0] for result in program.run_mesh(parts)]
    limit = TOLERANCE * float(np.max(np.abs(expected)))
    for device, output in enumerate(outputs):  # each device's own part, replicas too
        inside = tuple(
            slice(max(0, whole - start)) for start, whole in zip(gives.starts[device], expected.shape, strict=True)
        )
        want = gives.part(expected, device)
        error = np.abs(output.astype(np.float32) - want)[inside]
        if output.shape != want.shape or (error.size and not float(error.max()) <= limit):
            return f"device {device}: off by {error.max() if error.size else 'shape'} with a limit of {limit}"
    return ""


def outcome(case: Case) -> str:
    """`equal`, `refused: why`, or `WRONG: where`."""
    try:
        local = partition.partitioned(case.sharded, partition.devices_of(case.mesh))
    except (partition.NotPartitioned, partition.WrongInput) as error:
        return f"refused: {error}"
    try:
        off = one_off(case, local)
    except StageFailure as failure:
        return f"refused: {failure}"
    return f"WRONG: {off}" if off else "equal"


def test_a_seeded_module_passes_with_its_mesh_alone() -> None:
    case = next(cases(SEED, 1))
    with pytest.raises(StageFailure, match="expected a program for one device"):
        door.read(case.sharded)
    assert outcome(case) == "equal"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, COUNT, PER_TEST))
def test_devices_together_compute_what_one_does(first: int) -> None:
    for number, case in list(enumerate(cases(SEED, COUNT)))[first : first + PER_TEST]:
        assert outcome(case) == "equal", f"case {number}, {case.kind}, mesh {case.mesh}:\n{case.sharded}"
