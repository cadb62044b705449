"""A queue in DRAM between two ops."""

from __future__ import annotations

from typing import Any

from opscope.simulator.host.op.common import op


@op
def DRAMQueue(name: str, operandA: Any, *, num_entries: int) -> Any:
    """Returns the operand. Where a queue is needed, the placer adds it, with as many entries as it needs."""
    return operandA
