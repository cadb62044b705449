"""The op model: one legal way to lay an op over cores, with its buffers and its estimated cycles."""

from __future__ import annotations

from dataclasses import dataclass, replace

from opscope.compiler.buda.balancer.failure import OpModelFailureReason
from opscope.compiler.buda.balancer.shapes import BlockShape, BufferModel, Grid, StreamFactor
from opscope.compiler.buda.graph import OpSpec


@dataclass(frozen=True)
class OpModel:
    """One legal way to lay an op over cores. Equal ops share their models."""

    spec: OpSpec
    grid: Grid
    stream: StreamFactor
    inputs: tuple[BufferModel, ...]
    output: BufferModel
    parameters: tuple[BufferModel | None, ...]
    """Per operand, its resident copy in L1, if any."""
    intermediates: tuple[BufferModel, ...]
    dram: tuple[BufferModel | None, ...]
    """Per operand, a parameter that did not fit and is streamed from DRAM."""
    cycles: int

    @property
    def block(self) -> BlockShape:
        """The output's block shape."""
        return self.output.block_shape

    @property
    def u_kt(self) -> int:
        """Tiles per step along a matmul's inner dimension; 1 for other ops."""
        return self.inputs[1].block_shape.ublock.rt if self.spec.is_matmul else 1

    @property
    def m_k(self) -> int:
        """Steps along a matmul's inner dimension; 1 for other ops."""
        return self.inputs[1].block_shape.mblock_m if self.spec.is_matmul else 1

    @property
    def l1_bytes(self) -> int:
        """Bytes of L1 on each core."""
        return l1_usage(self.spec, self.inputs, self.output, self.parameters, self.intermediates)

    def holding(self, factor: int) -> OpModel:
        """Returns the model with an output buffer of that many macro blocks."""
        return replace(self, output=replace(self.output, factor=factor))

    def input_grid(self, operand: int) -> Grid:
        """Returns the cores that read an operand from its producer; a matmul multicasts to the others."""
        if not self.spec.is_matmul:
            return self.grid
        return Grid(self.grid.r, 1) if operand == 0 else Grid(1, self.grid.c)


@dataclass(frozen=True)
class Candidate:
    """One grid with one way to stream, and its result."""

    grid: Grid
    stream: StreamFactor
    models: tuple[OpModel, ...]
    """The primary model, then the same with smaller inner blocks; empty if the candidate is illegal."""
    failure: OpModelFailureReason | None = None
    detail: str = ""
    rejected: OpModel | None = None
    """The model that it would be, if only L1 is too small for it."""


def l1_usage(
    spec: OpSpec,
    inputs: tuple[BufferModel, ...],
    output: BufferModel,
    parameters: tuple[BufferModel | None, ...],
    intermediates: tuple[BufferModel, ...],
) -> int:
    """Returns the bytes of L1 of these buffers. An accumulating output is held for every `t`, and so is a parameter."""
    bytes_held = output.l1_bytes * (output.block_shape.t if spec.gradient else 1)
    bytes_held += sum(buffer.l1_bytes for buffer in (*inputs, *intermediates))
    return bytes_held + sum(buffer.l1_bytes * buffer.block_shape.t for buffer in parameters if buffer is not None)
