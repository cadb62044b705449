"""Parameters of kernels that call programs, and of kernels for sorting, linear algebra, random bits, 3-D windows and
collectives.

`programs` are names in the same binary; a program may only name programs after it, so that no call recurs. A kernel
applies such a body to whole arrays at once: the body is elementwise, whatever the shape.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ControlParams:
    """Control flow. `call`: (callee); `if`: (true, false); `case`: branches; `while`: (condition, body).

    Inputs of `if` and `case` are the predicate or index, then what every branch takes; of `while` the values that go
    round, then those that both programs read besides. Predicates are read back by the host. `for`: (body), its inputs
    three numbers (first, end, step) before those of `while`.
    """

    programs: tuple[str, ...]


@dataclass(frozen=True)
class ScatterParams:
    """`scatter` in StableHLO's general form; inputs: operands, start indices, updates.

    `combine` is the elementwise kernel that joins old value and update, `update` where the update replaces the old
    value, or empty: then the one program of `programs` joins them.
    """

    update_window_dims: tuple[int, ...] = ()
    inserted_window_dims: tuple[int, ...] = ()
    input_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()
    scatter_dims_to_operand_dims: tuple[int, ...] = ()
    index_vector_dim: int = 0
    combine: str = ""
    programs: tuple[str, ...] = ()


@dataclass(frozen=True)
class IndexedRowsParams:
    """`rows_gather` (table, indices) and `rows_scatter` (table, indices, updates), as libtt's tt-metal has them.

    A table is (batches, rows, ...) and indices (batches or 1, components, positions). The components of a position
    are coordinates in dims of `sizes`, laid out row-major over the table's rows; each names `windows` neighbours in
    its dim. With `column`, the last component is a place within a row of elements.
    """

    sizes: tuple[int, ...]
    windows: tuple[int, ...]
    column: bool = False
    fill: bool = False
    """Whether a gather gives zeros for a position outside the table; otherwise it takes the nearest one inside."""
    combine: str = "update"
    """Of a scatter: the elementwise kernel that joins old value and update, or `update`, which replaces it."""


@dataclass(frozen=True)
class BodyReduceParams:
    """`reduce_body`: dims folded by a body of 2n scalars to n; inputs: n tensors, n start values."""

    dims: tuple[int, ...]
    programs: tuple[str, ...]


@dataclass(frozen=True)
class BodyWindowParams:
    """`reduce_window_body`: windows over all dims folded by a body; inputs: n tensors, n start values."""

    window: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    """Low and high of each dim in turn; may be negative."""
    dilation: tuple[int, ...]
    base_dilation: tuple[int, ...]
    programs: tuple[str, ...]


@dataclass(frozen=True)
class SelectScatterParams:
    """`select_and_scatter`; inputs: operand, source, start value. `programs`: (select) or (select, scatter).

    `combine` names the elementwise kernel that scatters; where it is empty, the second program does.
    """

    window: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    combine: str
    programs: tuple[str, ...]


@dataclass(frozen=True)
class SortParams:
    """`sort` of n tensors along `dim`, stable, by a comparator of 2n scalars: whether the first is less.

    `sort_ascending` and `sort_descending` of one tensor have no comparator.
    """

    dim: int
    programs: tuple[str, ...] = ()


@dataclass(frozen=True)
class TopkParams:
    """`topk`: values and indices of the k largest along the last dim, the first of equals first."""

    k: int


@dataclass(frozen=True)
class RandomParams:
    """`rng_bit_generator`: `THREE_FRY` or `PHILOX`; input and first result: the state's 64-bit words, each as two of
    32 bits, the low one first; second result: the bits.
    """

    algorithm: str
    wide: bool
    """Whether the bits are 64 wide: then the second result has a last dim of two words too."""


@dataclass(frozen=True)
class CholeskyParams:
    """`cholesky` of the last two dims."""

    lower: bool


@dataclass(frozen=True)
class TriangularSolveParams:
    """`triangular_solve`: x of op(a) x = b (left side) or x op(a) = b; inputs: a, b."""

    left_side: bool
    lower: bool
    unit_diagonal: bool
    transpose_a: bool


@dataclass(frozen=True)
class Conv3dParams:
    """Convolution, input NDHWC, weight DHWIO (I per group), output NDHWC; fields as in Conv2dParams, per dim."""

    stride: tuple[int, int, int]
    padding: tuple[int, int, int, int, int, int]
    dilation: tuple[int, int, int]
    input_dilation: tuple[int, int, int] = (1, 1, 1)
    groups: int = 1
    batch_groups: int = 1


@dataclass(frozen=True)
class CollectiveParams:
    """Kernels between the chips of a mesh; `group_size` of `partition_id` and `replica_id`: how many partitions."""

    groups: tuple[int, ...]
    """Chips, group after group; -1 fills up a short one. Of `collective_permute`: sources and targets in turn."""
    group_size: int
    dim: int = 0
    """Along which tensors are gathered, scattered or split."""
    other_dim: int = 0
    """Of `all_to_all`: along which the shares are put together."""
    combine: str = ""
    """Elementwise kernel that joins two tensors."""
