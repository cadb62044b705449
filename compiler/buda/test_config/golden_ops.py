"""Results of single ops, by the rules of tt-budabackend's golden (ops/*.cpp, common/tile_lib.cpp).

There a division by 0 gives 1/eps of float32, a logarithm of 0 that of eps, an exponential at most the largest float32,
and 0 times infinity 0; a root of a negative number has no value at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy import special

from opscope.compiler.buda.test_config.rows import NotModelledError, Row

TILE = 32
EPSILON = float(np.finfo(np.float32).eps)
LARGEST = float(np.finfo(np.float32).max)
MADE_BY = {"quantization": "Int8", "requantization": "Int8"}
"""Op -> format that its result has whatever its netlist calls it."""
Array = np.ndarray


def _product(one: Array, two: Array) -> Array:
    return np.where((one == 0) | (two == 0), 0.0, one * two)


def _gelu_derivative(x: Array) -> Array:
    return special.ndtr(x) + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi)


UNARY: dict[str, Callable[[Array], Array]] = {
    "datacopy": lambda x: x,
    "nop": lambda x: x,
    "tilizer": lambda x: x,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "exp": lambda x: np.minimum(np.exp(x), LARGEST),
    "reciprocal": lambda x: 1 / np.where(x == 0, EPSILON, x),
    "log": lambda x: np.log(np.where(x == 0, EPSILON, x)),
    "sine": np.sin,
    "cosine": np.cos,
    "tanh": np.tanh,
    "sigmoid": special.expit,
    "gelu": lambda x: x * special.ndtr(x),
    "square": np.square,
    "gelu_derivative": _gelu_derivative,
    "ethernet_datacopy": lambda x: x,
}
BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": _product,
    "maximum": np.maximum,
}
COPIES = frozenset({"datacopy", "nop", "tilizer", "ethernet_datacopy"})
VECTOR_ROWS, VECTOR_COLS = 4, 16
"""Rows of each tile that an SFPU op with `vector: r` computes, and columns with `vector: c`."""


def result(kind: str, attributes: Row, operands: Sequence[Array], row: Row) -> Array:
    """The result of one op; `row` is the op's own, with its blocks. Raises NotModelledError for an unknown type."""
    first = operands[0]
    if kind == "matmul":
        value = _matmul(attributes, operands, row)
    elif kind == "depthwise":
        value = _depthwise(attributes, operands)
    elif kind == "reduce":
        value = _reduce(attributes, first)
    elif kind == "splice":
        value = splice(attributes, operands, row)
    elif kind == "topk":
        value = _topk(attributes, operands, row)
    elif kind == "embedding":
        value = _embedding(attributes, operands, row)
    elif kind in ("quantization", "requantization"):
        value = first * operands[1] + float(attributes.get("zero_point", 0))
    elif kind == "dequantization":
        value = (first - float(attributes.get("zero_point", 0))) * operands[1]
    elif kind == "lrelu":
        value = np.where(first > 0, first, first * attributes["slope"])
    elif kind == "power":
        value = first ** attributes["exp"]
    elif kind in UNARY:
        value = UNARY[kind](first)
    elif kind in BINARY:
        value = BINARY[kind](first, operands[1])
    else:
        raise NotModelledError(f"op {kind}")
    if attributes.get("vector") in ("r", "c") and kind not in COPIES and kind not in BINARY:
        value = _vector(value, first, attributes["vector"])
    return _relu(value, attributes)


def _vector(value: Array, operand: Array, part: str) -> Array:
    """`value` in the first rows or columns of each tile, the operand elsewhere."""
    at = np.arange(value.shape[1 if part == "r" else 2]) % TILE
    inside = at < (VECTOR_ROWS if part == "r" else VECTOR_COLS)
    return np.where(inside[:, None] if part == "r" else inside, value, operand)


def _relu(value: Array, attributes: Row) -> Array:
    if not attributes.get("relu_en"):
        return value
    threshold = float(attributes.get("relu_threshold", 0))
    if str(attributes.get("relu_mode", "min")) == "max":
        return np.clip(value, 0, threshold)
    return np.where(value >= threshold, np.maximum(value, 0), 0.0)


def clear(value: Array, tile: tuple[int, int]) -> Array:
    """`value` with zeros outside the first rows and columns of each 32x32 tile."""
    if tile == (TILE, TILE):
        return value
    rows, cols = (np.arange(size) % TILE < kept for size, kept in zip(value.shape[1:], tile, strict=True))
    return np.where(rows[:, None] & cols, value, 0.0)


def _matmul(attributes: Row, operands: Sequence[Array], row: Row) -> Array:
    more = list(operands[2:])
    value = operands[0] @ operands[1]
    if attributes.get("accumulate"):
        value = _in_z(value, attributes, np.add.reduce)
    if attributes.get("bias"):
        bias = more.pop(0)
        whole = any("Int" in df for df in row["in_df"])
        # A bias is one row of each tile, which the unpacker repeats; integers are added as they are.
        value = value + (bias if whole else np.repeat(bias[:, ::TILE], TILE, 1))
    zero = float(attributes.get("zero_point", 0))
    if attributes.get("requant"):
        value = value * more.pop(0) + zero
    elif attributes.get("dequant"):
        value = (value - zero) * more.pop(0)
    return UNARY["gelu"](value) if attributes.get("sfpu_op") == "gelu" else value


def _in_z(value: Array, attributes: Row, function: Callable[..., Array]) -> Array:
    """`value` with each `z` matrices made one; all of them if there is no such attribute."""
    count = int(attributes.get("z") or 0)
    count = count if count > 1 else value.shape[0]
    return function(value.reshape(-1, count, *value.shape[1:]), axis=1)


def _depthwise(attributes: Row, operands: Sequence[Array]) -> Array:
    """The sum over `m_k` blocks of columns: each tile of a block times the tile below which it lies."""
    left, right = operands[:2]
    blocks = int(attributes.get("m_k", 1))
    z, rows, cols = left.shape[0], left.shape[1], left.shape[2] // blocks
    tiles = left.reshape(z, rows, blocks, cols // TILE, TILE)
    kernels = right[:, : blocks * TILE].reshape(right.shape[0], blocks, TILE, cols // TILE, TILE)
    value = np.einsum("zrbci,zbick->zrck", tiles, kernels, optimize=True).reshape(z, rows, cols)
    return value + np.repeat(operands[2][:, ::TILE], TILE, 1) if attributes.get("bias") else value


def _reduce(attributes: Row, value: Array) -> Array:
    dim = attributes["dim"]
    if attributes.get("type", "max") != "max":
        raise NotModelledError(f"reduce of type {attributes['type']}")
    if dim == "z":
        return _in_z(value, attributes, np.max)
    axis = {"r": 1, "c": 2}[dim]
    return np.pad(value.max(axis, keepdims=True), [(0, TILE - 1 if a == axis else 0) for a in range(3)])


def splice(attributes: Row, operands: Sequence[Array], row: Row) -> Array:
    """Blocks of the operands in turn: of each, `index` are left out, `length` taken, and then `stride` gone on by.

    A block is one matrix with `granularity: t`, else a micro block of one core, in the op's order of them.
    """
    rules = [attributes[f"input{i}"] for i in range(len(operands))]
    if attributes.get("granularity") == "t":
        return np.stack(list(_taken([list(value) for value in operands], rules, row["t"])))
    (grid_r, grid_c), (m, n), (ur, uc) = row["grid_size"], row["mblock"], row["ublock"]
    by_columns = row.get("ublock_order", "r") == "c"
    out = np.zeros((row["t"], grid_r * m * ur * TILE, grid_c * n * uc * TILE))
    for t in range(row["t"]):
        for gr in range(grid_r):
            for gc in range(grid_c):
                parts = [_core(value[t], (grid_r, grid_c), (gr, gc)) for value in operands]
                blocks = [_blocks(part, (ur * TILE, uc * TILE), by_columns) for part in parts]
                core = _core(out[t], (grid_r, grid_c), (gr, gc))
                for into, block in zip(
                    _blocks(core, (ur * TILE, uc * TILE), by_columns), _taken(blocks, rules, m * n), strict=True
                ):
                    into[...] = block
    return out


def _core(matrix: Array, grid: Sequence[int], at: tuple[int, int]) -> Array:
    rows, cols = matrix.shape[0] // grid[0], matrix.shape[1] // grid[1]
    return matrix[at[0] * rows : (at[0] + 1) * rows, at[1] * cols : (at[1] + 1) * cols]


def _blocks(matrix: Array, size: tuple[int, int], by_columns: bool) -> list[Array]:
    places = [(r, c) for r in range(0, matrix.shape[0], size[0]) for c in range(0, matrix.shape[1], size[1])]
    places.sort(key=lambda place: place[::-1] if by_columns else place)
    return [matrix[r : r + size[0], c : c + size[1]] for r, c in places]


def _taken(blocks: Sequence[list[Array]], rules: Sequence[Sequence[int]], count: int) -> list[Array]:
    at, taken = [0] * len(rules), []
    while len(taken) < count:
        for number, (index, length, stride) in enumerate(rules):
            at[number] += index
            taken += blocks[number][at[number] : at[number] + length]
            at[number] += stride
    return taken


def _topk(attributes: Row, operands: Sequence[Array], row: Row) -> Array:
    """The `k` largest of each row, on each column of cores, in falling order, or their indices (`sort`)."""
    values, indices = operands
    k, cores = int(attributes["k"]), row["grid_size"][1]
    tiles = -(-k // TILE) * TILE
    parts = []
    for value, index in zip(np.split(values, cores, 2), np.split(indices, cores, 2), strict=True):
        order = np.argsort(-value, axis=2, kind="stable")[:, :, :k]
        taken = np.take_along_axis(value if attributes.get("sort") == "max" else index, order, 2)
        parts.append(np.pad(taken, [(0, 0), (0, 0), (0, tiles - k)]))
    return np.concatenate(parts, 2)


def _embedding(attributes: Row, operands: Sequence[Array], row: Row) -> Array:
    """Rows of a table that lies row by row; each row of cores has `num_indices` indices, one after another."""
    table, indices = operands
    count, cores = int(attributes["num_indices"]), row["grid_size"][0]
    parts = []
    for part in np.split(indices[0], cores, 0):
        taken = table[0][part.reshape(-1)[:count].astype(np.int64)]
        parts.append(np.pad(taken, [(0, -count % TILE), (0, 0)]))
    return np.concatenate(parts, 0)[None]


__all__ = ["BINARY", "EPSILON", "MADE_BY", "UNARY", "clear", "result", "splice"]
