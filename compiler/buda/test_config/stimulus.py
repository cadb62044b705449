"""Draws contents of a netlist's queues as its `stimulus-config` asks (tt-budabackend: verif/verif_rand_utils.cpp)."""

from __future__ import annotations

import numpy as np

from opscope.compiler.buda.test_config.config import TestConfig
from opscope.compiler.buda.test_config.golden_ops import clear
from opscope.compiler.buda.test_config.number_formats import rounded
from opscope.compiler.buda.test_config.rows import Row, attributes_of, op_that_fills, ops_of, shape_of, tile_of
from opscope.compiler.buda.test_config.sparse_stimulus import encoding_tiles, sparse_tiles
from opscope.compiler.errors import CompilerInputError

TILE = 32
ZEROS = (0.5, 0.75, 0.9, 0.97, 0.99, 1.0)
"""Frequencies of zeros that are tried for an encoding of ours."""


def drawn(row: Row, rule: Row, draw: np.random.Generator, netlist: Row) -> np.ndarray:
    """Returns one entry of a queue by a rule, in whole tiles. Raises CompilerInputError for an unknown matmul."""
    if "type" not in rule:
        raise CompilerInputError(
            "test-config.stimulus-config.type: expected one for queues without an override, got none"
        )
    shape = shape_of(row)
    whole = "Int" in row["df"]
    match str(rule["type"]).lower():
        case "uniform":
            low, high = float(rule["uniform_lower_bound"]), float(rule["uniform_upper_bound"])
            values = (
                draw.integers(int(low), int(high), shape, endpoint=True) if whole else draw.uniform(low, high, shape)
            )
        case "normal":
            values = draw.normal(rule["normal_mean"], rule["normal_stddev"], shape)
        case "constant":
            values = np.full(shape, float(rule.get("constant_value", 0.0)))
        case "debugtileid":
            tiles = np.arange(shape[0] * (shape[1] // TILE) * (shape[2] // TILE))
            numbered = rule["debug_tile_id_base"] + rule["debug_tile_id_step"] * tiles
            small = numbered.reshape(shape[0], shape[1] // TILE, shape[2] // TILE)
            values = np.repeat(np.repeat(small, TILE, 1), TILE, 2)
        case "step":
            # Tile by tile, and row by row in each.
            tiled = (shape[0], shape[1] // TILE, shape[2] // TILE, TILE, TILE)
            counted = np.arange(np.prod(shape), dtype=np.float64).reshape(tiled).swapaxes(2, 3).reshape(shape)
            values = rule["step_start"] + rule["step_increment"] * counted
        case "steprowwise" | "stepcolumnwise" as kind:
            # Each row, or column, begins anew, and each of its tiles 32 after the one before, whatever the increment.
            at = np.arange(shape[2 if kind == "steprowwise" else 1])
            line = rule["step_start"] + at // TILE * TILE + rule["step_increment"] * (at % TILE)
            values = np.broadcast_to(line if kind == "steprowwise" else line[:, None], shape)
        case "sparse":
            return clear(sparse_tiles(row, draw), tile_of(row))
        case _:
            return encoding_tiles(row, rule, _identity(rule, netlist), draw)
    return rounded(clear(_inside(values.astype(np.float64), rule), tile_of(row)), row["df"])


def _identity(rule: Row, netlist: Row) -> Row:
    """Returns the sparse product for which a queue is filled."""
    name = rule["matmul_ident_name"]
    op = ops_of(netlist).get(name)
    if op is None:
        raise CompilerInputError(f"test-config.stimulus-config: expected a matmul of the netlist, got {name!r}")
    if "t" not in op:
        raise CompilerInputError(f"{name}: expected t, got none")
    return {**op, "act_t": _activation_t(op, netlist)}


def _activation_t(op: Row, netlist: Row) -> int:
    activation = (op.get("attributes") or {}).get("act_t")
    made = netlist["queues"].get(op["inputs"][1]) or ops_of(netlist).get(op["inputs"][1]) or op
    return int(activation or made["t"])


def _inside(values: np.ndarray, rule: Row) -> np.ndarray:
    """`values` in the rows and columns of each tile that a rule names, else 0."""
    for key, axis in (("set_tile_rows", 1), ("set_tile_cols", 2)):
        if key in rule:
            first, last = rule[key]
            at = np.arange(values.shape[axis]) % TILE + 1
            kept = ((at >= first) & (at <= last)).reshape([-1 if a == axis else 1 for a in range(3)])
            values = np.where(kept, values, 0.0)
    return values


def inputs_of(netlist: Row, config: TestConfig, seed: int, entry: int = 0) -> dict[str, np.ndarray]:
    """Returns one entry of every queue that the host writes.

    A queue's values depend on the seed, its place in the file and the entry alone. RAM, and a queue of one entry, has
    the same values for every input.
    """
    written = [name for name, row in netlist["queues"].items() if not op_that_fills(row)]
    return {name: input_of(netlist, config, seed, name, entry) for name in written}


def input_of(netlist: Row, config: TestConfig, seed: int, name: str, entry: int = 0) -> np.ndarray:
    """Returns one entry of a queue, drawn as `inputs_of` draws it."""
    row, number = netlist["queues"][name], list(netlist["queues"]).index(name)
    constant = row["type"] == "ram" or row["entries"] == 1
    seeds = [seed, number, 0 if constant else entry]
    if name in encodings_of_ours(netlist, config):
        return _fitting_encoding(row, encoding_readers(netlist)[name], seeds, netlist)
    return drawn(row, config.stimulus_of(name), np.random.default_rng(seeds), netlist)


def encoding_readers(netlist: Row) -> dict[str, str]:
    """Returns each queue of the host that an op reads as an encoding of sparse tiles, and that op."""
    return {
        op["inputs"][2]: name
        for name, op in ops_of(netlist).items()
        if attributes_of(op).get("identity") and len(op["inputs"]) > 2 and op["inputs"][2] in netlist["queues"]
    }


def encodings_of_ours(netlist: Row, config: TestConfig) -> list[str]:
    """Returns the encodings that a netlist asks to be drawn as numbers, which say nothing: they are ours instead."""
    kinds = {name: str(config.stimulus_of(name).get("type", "")).lower() for name in encoding_readers(netlist)}
    return [name for name, kind in kinds.items() if not kind.startswith("sparse_encoding")]


def _fitting_encoding(row: Row, op: str, seeds: list[int], netlist: Row) -> np.ndarray:
    """An encoding with as few zeros as its tiles have room for. Raises CompilerInputError if not even zeros fit."""
    last: CompilerInputError | None = None
    for zeros in ZEROS:
        rule = {
            "type": "sparse_encoding",
            "matmul_ident_name": op,
            "enc_tile_byte_size": 4 * TILE * TILE,
            "zero_strip_freq": 0.0,
            "zero_ublock_freq": zeros,
            "zero_tile_freq": zeros,
        }
        try:
            return drawn(row, rule, np.random.default_rng(seeds), netlist)
        except CompilerInputError as error:
            last = error
    assert last is not None
    raise last
