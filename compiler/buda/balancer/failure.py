"""Reasons why a candidate is not a legal op model, taken from TT-Buda, in the order in which they are checked."""

from __future__ import annotations

from enum import Enum


class OpModelFailureReason(Enum):
    """A reason; its value is TT-Buda's text."""

    IllegalStackForGrid = "Illegal stack for grid dimension"
    OperandAndUserAccessPreventsStreaming = "Producer and User access prevents streaming"
    OperandAccessPreventsStreaming = "Producer access prevents streaming"
    UserAccessPreventsStreaming = "User access prevents streaming"
    IllegalStreaming = "Illegal streaming"
    PaddingConstraintsNotSatisfied = "Padding constraints not satisfied"
    InputBufferAllocationFailure = "Failed to allocate input buffers"
    IllegalSparseMatmul = "Illegal sparse matmul"
    L1UsageOverMaxLimit = "L1 usage > L1 Max"
    ExceededDramChannelCapacity = "Exceeded DRAM channel capacity"

    @property
    def is_memory(self) -> bool:
        """Whether smaller ublocks may cure it."""
        return self in (self.L1UsageOverMaxLimit, self.InputBufferAllocationFailure)
