"""What a netlist computes, in float64 NumPy straight from its YAML: no code of the compiler's graph or the simulator.

Values are arrays (t, rows, columns) of whole 32x32 tiles: a smaller tile is filled up with zeros, as tt-budabackend's
golden does. Results are rounded where a format has 4 bits or less, or integers (golden/golden_digraph.cpp).
"""

from __future__ import annotations

import graphlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from opscope.compiler.buda.test_config.golden_ops import MADE_BY, clear, result
from opscope.compiler.buda.test_config.golden_sparse import identity_matmul
from opscope.compiler.buda.test_config.number_formats import packed, rounded
from opscope.compiler.buda.test_config.rows import (
    NotModelledError,
    Row,
    attributes_of,
    op_that_fills,
    ops_of,
    tile_of,
    tms_of,
)
from opscope.compiler.errors import CompilerInputError

TILE = 32
Values = dict[str, np.ndarray]


def tm(value: np.ndarray, name: str, argument: Any) -> np.ndarray:
    """One tensor manipulation on the way to an operand. Raises NotModelledError for one that is not known."""
    t, r, c = value.shape
    match name:
        case "broadcast":
            for dim, factor in argument.items():
                value = np.tile(value, tuple(factor if dim == d else 1 for d in "zrc"))
            return value
        case "hslice":
            return value.reshape(t, r, argument, c // argument).transpose(0, 2, 1, 3).reshape(t * argument, r, -1)
        case "vslice":
            return value.reshape(t * argument, r // argument, c)
        case "hstack":
            parts = value.reshape(t // argument, argument, r, c)
            return parts.transpose(0, 2, 1, 3).reshape(t // argument, r, c * argument)
        case "vstack":
            return value.reshape(t // argument, r * argument, c)
        case "transpose":
            return value.transpose(0, 2, 1)
        case "tile_broadcast" if argument == "r":
            return np.repeat(value[:, ::TILE], TILE, 1)
        case "tile_broadcast" if argument == "c":
            return np.repeat(value[:, :, ::TILE], TILE, 2)
        case "pad" | "buda_pad":
            rt, ct, fill = _pad(argument)
            return np.pad(value, [(0, 0), (0, rt * TILE), (0, ct * TILE)], constant_values=fill)
        case "unpad" | "buda_unpad":
            rt, ct, _ = _pad(argument)
            return value[:, : r - rt * TILE, : c - ct * TILE]
    raise NotModelledError(f"TM {name}")


def _pad(argument: Any) -> tuple[int, int, float]:
    values = list(argument.values()) if isinstance(argument, Mapping) else list(argument)
    return int(values[0]), int(values[1]), float(values[2]) if len(values) > 2 else 0.0


def operand(value: np.ndarray, row: Row, number: int) -> np.ndarray:
    """An operand after its TMs."""
    for name, argument in tms_of(row, number):
        value = tm(value, name, argument)
    return value


class Golden:
    """Computes one input of a netlist at a time; sums of gradient ops go on from one input to the next."""

    def __init__(self, netlist: Row, single: bool = False) -> None:
        """`single`: whether each op's result is rounded to float32, which tells what rounding alone changes."""
        self.single = single
        self.queues: Row = netlist["queues"]
        self.fused: Row = netlist.get("fused_ops") or {}
        self.ops = ops_of(netlist)
        self.source: dict[str, Any] = {n: op for n, row in self.queues.items() if (op := op_that_fills(row))}
        self.reads = {
            name: [self.source.get(name_in, name_in) for name_in in row["inputs"]] for name, row in self.ops.items()
        }

    def run(self, inputs: Mapping[str, np.ndarray]) -> Values:
        """Returns the contents of every queue that an op writes, for one input. Raises NotModelledError."""
        values = {name: rounded(value, self.queues[name]["df"]) for name, value in inputs.items()}
        order = graphlib.TopologicalSorter(
            {name: [r for r in read if r in self.ops] for name, read in self.reads.items()}
        )
        with np.errstate(all="ignore"):
            for name in order.static_order():
                values[name] = self._op(name, values)
            return {
                name: operand(values[maker], {"input_0_tms": self.queues[name].get("input_tms")}, 0)
                for name, maker in self.source.items()
            }

    def _op(self, name: str, values: Values) -> np.ndarray:
        return self.result_of(name, [values[operand] for operand in self.reads[name]])

    def result_of(self, name: str, inputs: Sequence[np.ndarray]) -> np.ndarray:
        """Returns one op's result from what it reads, before TMs.

        Raises NotModelledError for an op that is not known, CompilerInputError for operands that do not fit.
        """
        row = self.ops[name]
        try:
            return self._result(name, row, [operand(value, row, i) for i, value in enumerate(inputs)])
        except CompilerInputError as error:
            raise CompilerInputError(f"{name}: {error}") from error
        except ValueError as error:
            shapes = ", ".join("x".join(map(str, value.shape)) for value in inputs)
            raise CompilerInputError(f"{name}: expected operands that fit each other, got {shapes}") from error

    def _result(self, name: str, row: Row, read: list[np.ndarray]) -> np.ndarray:
        if row["type"] == "fused_op":
            value = self._fused(self.fused[attributes_of(row)["fused_op_id"]], read, row)
        elif row["type"] == "matmul" and attributes_of(row).get("identity"):
            value = identity_matmul(row, read)
        else:
            value = result(row["type"], attributes_of(row), read, row)
        value = packed(clear(value, self._kept(name)), MADE_BY.get(_made(row)) or row["out_df"])
        return value.astype(np.float32).astype(np.float64) if self.single else value

    def _kept(self, name: str) -> tuple[int, int]:
        """Rows and columns of each tile that an op fills: no more than its first operand has, but for a product."""
        row = self.ops[name]
        rows, cols = tile_of(row)
        if row["type"] in ("matmul", "reduce", "fused_op", "splice", "embedding", "depthwise"):
            return rows, cols
        source = self.reads[name][0]
        first = tile_of(self.ops[source] if source in self.ops else self.queues[source])
        if sum(tm_name == "transpose" for tm_name, _ in tms_of(row, 0)) % 2:
            first = first[1], first[0]
        return min(rows, first[0]), min(cols, first[1])

    def _fused(self, work: Row, operands: Sequence[np.ndarray], op: Row) -> np.ndarray:
        values = {f"input{i}": value for i, value in enumerate(operands)}
        for schedule in work["schedules"]:
            for entry in schedule:
                for row in entry.values():
                    read = [operand(values[name], row, i) for i, name in enumerate(row["inputs"])]
                    if row["type"] == "dequantization" and row["inputs"][1] == "dest":
                        read.reverse()
                    value = result(row["type"], {**row, **attributes_of(row)}, read, op)
                    where = row["output"]
                    df = op["out_df"] if where == "output" else op["acc_df" if where == "dest" else "intermed_df"]
                    kept = MADE_BY.get(row["type"], df if "Int" in df else "")
                    values[where] = packed(value, kept) if kept else value
        return values["output"]


def _made(row: Row) -> str:
    return "requantization" if attributes_of(row).get("requant") else row["type"]


__all__ = ["Golden", "NotModelledError"]
