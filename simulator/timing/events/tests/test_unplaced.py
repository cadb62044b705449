"""Operations that no plan places, by events: near the closed form, which is held to measured rows."""

from __future__ import annotations

import pytest

from opscope.compiler.target.program import Binary, Conv2dParams, EltwiseParams, MatmulParams, Numerics
from opscope.simulator.api import Device
from opscope.simulator.tests.programs import one_kernel
from opscope.simulator.timing.timed import Timed

BF16 = Numerics("HiFi2", dst_format="Float16_b")


def product(m: int, k: int, n: int) -> Binary:
    return one_kernel("matmul", MatmulParams(), [((m, k), "bf16"), ((k, n), "bf16")], ((m, n), "bf16"), BF16)


CONV = one_kernel(
    "conv2d",
    Conv2dParams((1, 1), (0, 0, 0, 0), (1, 1)),
    [((1, 32, 32, 64), "bf16"), ((3, 3, 64, 64), "bf16")],
    ((1, 30, 30, 64), "bf16"),
    BF16,
)
ADD = one_kernel("add", EltwiseParams(), [((1024, 1024), "bf16")] * 2, ((1024, 1024), "bf16"))


@pytest.mark.parametrize("binary", [product(512, 1024, 1024), product(512, 512, 512), CONV, ADD])
def test_one_operation_takes_about_what_the_closed_form_says(binary: Binary) -> None:
    closed = Device("n150").load_decoded(binary).profile.total_cycles
    timed = Timed()
    cycles = Device("n150", timing=timed).load_decoded(binary).profile.total_cycles
    assert cycles == pytest.approx(closed, rel=0.1)
    (op,) = timed.recording.ops
    assert op.limiter in ("math", "noc", "dram", "launch")
    (cost,) = (cost for cost in Device("n150").load_decoded(binary).profile.ops if cost.cycles)
    assert (op.dram_read_bytes, op.dram_written_bytes, op.noc_bytes) == (
        cost.dram_read_bytes,
        cost.dram_written_bytes,
        cost.noc_bytes,
    )
    assert min(op.dram_read_bytes, op.dram_written_bytes, op.noc_bytes) > 0
