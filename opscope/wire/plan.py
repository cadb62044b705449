"""`opscope plan --json`. The figures of op models are named as in TT-Buda's log; blocks and buffers are in tiles."""

from __future__ import annotations

from pydantic import MISSING, ConfigDict

from opscope.wire.answer import Answer


class _Part(Answer):
    # There are thousands of them, one inside the other: each is checked when it is made, and not again.
    model_config = ConfigDict(revalidate_instances="never")


class Grid(_Part):
    """Rows and columns of cores."""

    r: int
    c: int


class Stream(_Part):
    """How an operand is streamed."""

    dir: str
    r: int
    c: int


class Ublock(_Part):
    """A micro block, in tiles."""

    rt: int
    ct: int


class Block(_Part):
    """The blocks of a buffer on a core."""

    t: int
    mblock_m: int
    mblock_n: int
    ublock: Ublock


class Buffer(_Part):
    """A buffer in a core's L1."""

    block_shape: Block
    buffer_factor: int
    l1_size_tiles: int
    data_format: str


class OpModel(_Part):
    """One way to run an op."""

    grid_shape: Grid
    op_type: str
    data_format: str
    math_fidelity: str
    t_stream_factor: Stream
    cached_execution_cycles: int
    l1_bytes: int
    """Of one core."""
    input_buffers: tuple[Buffer, ...]
    output_buffers: tuple[Buffer, ...]
    intermediate_buffers: tuple[Buffer, ...]
    parameter_buffers: tuple[Buffer | None, ...]


class Step(_Part):
    """A step of a fused op."""

    name: str
    op: str
    """The op of the graph that became it."""
    inputs: tuple[str, ...]
    output: str


class Op(_Part):
    """An op, and the model that was chosen for it."""

    name: str
    fused_steps: tuple[Step, ...] | MISSING = MISSING
    """Left out of an op that is not fused."""
    candidates: int
    op_models: int
    failures: dict[str, int]
    """Reason -> candidates that it rules out."""
    chosen: OpModel
    why: str


class Legal(_Part):
    """A candidate that can run."""

    op_models: tuple[OpModel, ...]


class Refused(_Part):
    """A candidate that cannot run."""

    grid_shape: Grid
    t_stream_factor: Stream
    failure: str
    detail: str


class OpInDetail(Op):
    """An op with all its candidates."""

    all: tuple[Legal | Refused, ...]


class Buffering(_Part):
    """Room that an edge got so that no other branch of a fork starves."""

    kind: str
    name: str
    edge: tuple[str, str]
    """Producer and consumer."""
    why: str


class Placement(_Part):
    """The cores of an op."""

    op: str
    start: tuple[int, int]
    """Row and column of its first core."""
    grid: tuple[int, int]
    transposed: bool


class Epoch(_Part):
    """Ops that are on a chip at the same time."""

    epoch: int
    chip: int
    type: str
    """`forward`, `backward` or `optimizer`."""
    cores: int
    cycles: int
    """Per input."""
    cycles_of_one_input: int | None
    """What one input takes to pass; null where none does, as its ops wait for each other."""
    bytes_to_dram: int
    """Activations that a later epoch reads."""
    switch_cycles: int
    bytes_of_programs_and_routes: int
    load_cycles: int
    placements: tuple[Placement, ...]


class _Head(_Part):
    graph: str
    arch: str
    grid: tuple[int, int]
    """Rows and columns of cores."""
    policy: str
    placeholder_figures: bool
    """Whether figures of the chip are another one's."""
    unmeasured_ops: dict[str, int]
    """Kinds of op whose cycles were never measured on this chip -> ops."""
    cycles_per_input: int
    dram_cuts: tuple[tuple[str, str], ...]
    """Edges through DRAM: producer and consumer."""
    buffering: tuple[Buffering, ...]


class Plan(_Head):
    """A graph on a grid of cores."""

    ops: tuple[Op, ...]
    epochs: tuple[Epoch, ...]


class PlanOfOp(_Head):
    """With --op: every candidate of one op."""

    op: OpInDetail


PRINTS = Plan | PlanOfOp
