"""Reads what a netlist of the real back end asks of an op besides: tiles, biases, sums over z, blocks of a splice."""

from __future__ import annotations

from collections.abc import Sequence

from opscope.compiler.buda.graph import TensorShape
from opscope.compiler.buda.netlist.attributes import number_of, relu_of, zero_point_of
from opscope.compiler.buda.netlist.model import Netlist, Op
from opscope.compiler.buda.op_options import OpOptions
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.target.program import EncodedMatmulParams

FILLS_ITS_TILES = frozenset({"matmul", "reduce", "fused_op", "splice", "embedding", "depthwise"})
"""Ops whose result fills as much of a tile as its own `tile_dim` says, whatever its operands' tiles are."""


def options_of(netlist: Netlist, op: Op) -> OpOptions:
    """Returns an op's options. Raises CompilerInputError for one that makes no sense."""
    attributes = op.attributes
    mode, threshold = relu_of(op.name, attributes)
    z = 0
    if op.type == "reduce" and attributes.get("dim") == "z":
        z = number_of(op.name, attributes, "z")
        z = z if z > 1 else 0
    elif op.type == "matmul" and attributes.get("accumulate"):
        z = number_of(op.name, attributes, "z", 2)
    if op.type == "matmul" and attributes.get("identity") and not {"windows", "rows"} & attributes.keys():
        return OpOptions(op.tile_dim, mode, threshold, bool(attributes.get("bias")), encoding=_encoding(op))
    if op.type == "topk" and attributes.get("kreduce") and not _reads_a_top(netlist, op):
        raise CompilerInputError(
            f"{op.name}.attributes.kreduce: expected the numbers of another topk of {attributes.get('k')} to go on "
            f"from, got {op.inputs[0]}"
        )
    scaling = next((name for name in ("requant", "dequant") if attributes.get(name)), "")
    return OpOptions(
        _tile(netlist, op),
        mode,
        threshold,
        bool(attributes.get("bias")),
        z,
        scaling,
        zero_point_of(op.name, attributes),
        number_of(op.name, attributes, "m_k", 1, 1) if op.type == "depthwise" else 1,
        (),
        number_of(op.name, attributes, "k", 1) if op.type == "topk" else 0,
        op.type == "topk" and attributes.get("sort") == "argmax",
        number_of(op.name, attributes, "num_indices", 1) if op.type == "embedding" else 0,
        cores=op.grid_size,
    )


def _reads_a_top(netlist: Netlist, op: Op) -> bool:
    """Whether an op's numbers are what another topk, of as many, left of each row: sorted already."""
    before = netlist.ops.get(op.inputs[0])
    return before is not None and before.type == "topk" and before.attributes.get("k") == op.attributes.get("k")


BINARY = frozenset({"add", "subtract", "multiply", "maximum"})


def check_operands(op: Op) -> None:
    """Raises CompilerInputError for another number of operands than the op, or a product's attributes, ask for."""
    attributes = op.attributes
    wanted = 2 + bool(attributes.get("bias")) + bool(attributes.get("requant") or attributes.get("dequant"))
    if op.type == "matmul" and not attributes.get("identity") and len(op.inputs) != wanted:
        raise CompilerInputError(f"{op.name}.inputs: expected {wanted} of this matmul, got {len(op.inputs)}")
    if (op.type in BINARY or op.type == "topk") and len(op.inputs) != 2:
        raise CompilerInputError(f"{op.name}.inputs: expected 2 of {op.type}, got {len(op.inputs)}")


def _encoding(op: Op) -> EncodedMatmulParams:
    """Returns the sizes of a product whose left operand is placed by an encoding."""
    attributes = op.attributes
    if attributes.get("fracture_factor") not in (None, 1):
        raise CompilerInputError(
            f"{op.name}.attributes.fracture_factor: expected 1 of a matmul with identity, got "
            f"{attributes['fracture_factor']!r}"
        )
    wanted = (
        "sparse tiles, activations, an encoding and a bias"
        if attributes.get("bias")
        else ("sparse tiles, activations and an encoding")
    )
    if len(op.inputs) != (4 if attributes.get("bias") else 3):
        raise CompilerInputError(f"{op.name}.inputs: expected {wanted}, got {len(op.inputs)} inputs")
    tile_bits = number_of(op.name, attributes, "sparse_tile_ptr_bits")
    block_bits = number_of(op.name, attributes, "sparse_ublock_idx_bits", 0) or tile_bits
    return EncodedMatmulParams(
        op.grid_size[0],
        op.t,
        op.mblock[0],
        op.ublock[0],
        number_of(op.name, attributes, "u_kt", 1, 1),
        tile_bits,
        block_bits,
    )


def _tile(netlist: Netlist, op: Op) -> tuple[int, int]:
    """Returns rows and columns of each tile that the result fills: no more than the first operand's tiles have."""
    rows, cols = op.tile_dim
    if op.type in FILLS_ITS_TILES:
        return rows, cols
    source = netlist.queues.get(op.inputs[0]) or netlist.ops.get(op.inputs[0])
    if source is None:
        return rows, cols
    high, wide = source.tile_dim
    if sum(tm == "transpose" for tm in op.tms.get(0, ())) % 2:
        high, wide = wide, high
    return min(rows, high), min(cols, wide)


def spliced_tiles(op: Op, shapes: Sequence[TensorShape]) -> tuple[tuple[int, int], ...]:
    """Returns, for each tile of a splice's result, the operand and its tile, both row by row.

    Of each operand in turn, `index` blocks are left out, `length` taken, and `stride` gone on by. A block is a matrix
    with `granularity: t`, else a micro block of one core (tt-budabackend: ops/nary_bare.cpp). Raises
    CompilerInputError if the operands have not the blocks that the op takes.
    """
    rules = [_rule(op, number) for number in range(len(op.inputs))]
    if op.attributes.get("granularity") == "t":
        volume = op.grid_size[0] * op.grid_size[1] * op.mblock_tiles
        if any(shape.rt * shape.ct != volume for shape in shapes):
            raise CompilerInputError(f"{op.name}: expected operands of {volume} tiles in each matrix, got {shapes[0]}")
        taken = _taken(op, rules, [shape.z for shape in shapes], op.t)
        return tuple((operand, z * volume + tile) for operand, z in taken for tile in range(volume))
    (grid_r, grid_c), (m, n), (ur, uc) = op.grid_size, op.mblock, op.ublock
    wide, high = grid_c * n * uc, grid_r * m * ur
    tiles: list[tuple[int, int]] = [(0, 0)] * (op.t * wide * high)
    for shape in shapes:
        if shape.z != op.t or shape.rt % (grid_r * ur) or shape.ct % (grid_c * uc):
            raise CompilerInputError(
                f"{op.name}: expected operands of t {op.t} that {grid_r}x{grid_c} cores share in blocks of {ur}x{uc}, "
                f"got {shape}"
            )
    own = [(shape.rt // grid_r // ur, shape.ct // grid_c // uc) for shape in shapes]
    taken = _taken(op, rules, [rows * cols for rows, cols in own], m * n)
    by_columns = op.ublock_order == "c"
    for t in range(op.t):
        for gr in range(grid_r):
            for gc in range(grid_c):
                for block, (operand, source) in enumerate(taken):
                    shape, (rows, cols) = shapes[operand], own[operand]
                    into_r, into_c = _at(block, m, n, by_columns)
                    from_r, from_c = _at(source, rows, cols, by_columns)
                    for r in range(ur):
                        for c in range(uc):
                            out = (t * high + (gr * m + into_r) * ur + r) * wide + (gc * n + into_c) * uc + c
                            row = t * shape.rt + (gr * rows + from_r) * ur + r
                            tiles[out] = operand, row * shape.ct + (gc * cols + from_c) * uc + c
    return tuple(tiles)


def _at(block: int, rows: int, cols: int, by_columns: bool) -> tuple[int, int]:
    return (block % rows, block // rows) if by_columns else (block // cols, block % cols)


def _rule(op: Op, number: int) -> tuple[int, int, int]:
    value = op.attributes.get(f"input{number}")
    if not isinstance(value, list) or len(value) != 3 or not all(isinstance(n, int) and n >= 0 for n in value):
        raise CompilerInputError(
            f"{op.name}.attributes.input{number}: expected index, length and stride, got {value!r}"
        )
    index, length, stride = value
    if length < 1 or stride < length:
        raise CompilerInputError(
            f"{op.name}.attributes.input{number}: expected a length from 1 and a stride no less, got {value!r}"
        )
    return index, length, stride


def _taken(op: Op, rules: Sequence[tuple[int, int, int]], blocks: Sequence[int], count: int) -> list[tuple[int, int]]:
    """Returns operand and block of each block of the result."""
    at, taken = [0] * len(rules), []
    while len(taken) < count:
        for operand, (index, length, stride) in enumerate(rules):
            at[operand] += index
            taken += [(operand, at[operand] + block) for block in range(length)]
            at[operand] += stride
    if len(taken) != count or any(block >= blocks[operand] for operand, block in taken) or at != list(blocks):
        raise CompilerInputError(
            f"{op.name}.attributes: expected lengths and strides that take {count} blocks and use up "
            f"{', '.join(map(str, blocks))} of the operands, got {len(taken)} and {', '.join(map(str, at))}"
        )
    return taken


__all__ = ["check_operands", "options_of", "spliced_tiles"]
