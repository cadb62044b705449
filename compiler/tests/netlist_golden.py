"""What a netlist computes, in float64 NumPy straight from its YAML: no code of the compiler or the simulator.

Values are arrays (t, rows, columns). Inputs are drawn, and results compared, as the netlist's `test-config` asks
(tt-budabackend: verif/verif_stimulus.hpp and verif_comparison.hpp name the fields).
"""

from __future__ import annotations

import graphlib
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import special

Row = Mapping[str, Any]
Values = dict[str, np.ndarray]
COMPARISON: Row = {"rtol": 0.15, "atol": 0.01, "check_pct": 0.8, "check_pcc": 0.99}
STIMULUS: Row = {"type": "Uniform", "uniform_lower_bound": -1.0, "uniform_upper_bound": 1.0}
"""What most netlists ask for; taken where a `test-config` has no `comparison-config` or no `stimulus-config`."""

UNARY = {
    "datacopy": lambda x: x, "nop": lambda x: x, "tilizer": lambda x: x, "exp": np.exp, "abs": np.abs, "sqrt": np.sqrt,
    "reciprocal": lambda x: 1 / x, "log": np.log, "sine": np.sin, "cosine": np.cos, "tanh": np.tanh,
    "sigmoid": special.expit, "gelu": lambda x: x * special.ndtr(x), "square": np.square,
    "gelu_derivative": lambda x: special.ndtr(x) + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi),
}  # fmt: skip
BINARY = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum}


class NotModelledError(Exception):
    """Something that this golden does not have, by name."""


def shape_of(row: Row) -> tuple[int, int, int]:
    """Elements of a queue's entry, or of an op's result for one input, along t, rows and columns."""
    height, width = row.get("tile_dim") or (32, 32)
    rows, cols = (row["grid_size"][a] * row["mblock"][a] * row["ublock"][a] for a in range(2))
    return row["t"], rows * height, cols * width


def stimulus(row: Row, rule: Row, draw: np.random.Generator) -> np.ndarray:
    """The contents of a queue by a rule of `stimulus-config`."""
    shape = shape_of(row)
    match rule["type"]:
        case "Uniform":
            values = draw.uniform(rule["uniform_lower_bound"], rule["uniform_upper_bound"], shape)
        case "Normal":
            values = draw.normal(rule["normal_mean"], rule["normal_stddev"], shape)
        case "Constant":
            values = np.full(shape, float(rule["constant_value"]))
        case "DebugTileId":
            tiles = np.arange(shape[0] * (shape[1] // 32) * (shape[2] // 32)).reshape(shape[0], shape[1] // 32, -1)
            numbered = rule["debug_tile_id_base"] + rule["debug_tile_id_step"] * tiles
            values = np.repeat(np.repeat(numbered, 32, 1), 32, 2).astype(float)
        case "StepRowwise":
            values = rule["step_start"] + rule["step_increment"] * np.arange(np.prod(shape), dtype=float).reshape(shape)
        case other:
            raise NotModelledError(f"stimulus {other}")
    inside = np.ones(shape, bool)
    for key, axis in (("set_tile_rows", 1), ("set_tile_cols", 2)):
        if key in rule:
            first, last = rule[key]
            at = np.arange(shape[axis]) % 32 + 1
            inside &= ((at >= first) & (at <= last)).reshape([-1 if a == axis else 1 for a in range(3)])
    whole = np.rint(values) if "Int" in row["df"] else values
    return np.where(inside, np.maximum(whole, 0) if "UInt" in row["df"] else whole, 0.0)


def inputs_of(netlist: Row, seed: int) -> Values:
    """The contents of every queue that the host writes."""
    config = netlist["test-config"].get("stimulus-config") or STIMULUS
    draw, values = np.random.default_rng(seed), {}
    for name, row in netlist["queues"].items():
        if row["input"].strip() == "HOST":
            overrides = config.get("overrides") or {}
            rule = next((r for p, r in overrides.items() if p == name or re.fullmatch(str(p), name)), config)
            values[name] = stimulus(row, rule, draw)
    return values


def tm(value: np.ndarray, name: str, argument: Any) -> np.ndarray:
    """One tensor manipulation on the way to an operand."""
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
            return np.repeat(value[:, ::32], 32, 1)
        case "tile_broadcast" if argument == "c":
            return np.repeat(value[:, :, ::32], 32, 2)
    raise NotModelledError(f"TM {name}")


def operand(value: np.ndarray, row: Row, number: int) -> np.ndarray:
    """An operand after its TMs."""
    listed = row.get(f"input_{number}_tms")
    for entry in listed if isinstance(listed, list) else ():
        for name, argument in [(entry, None)] if isinstance(entry, str) else entry.items():
            value = tm(value, name, argument)
    return value


def result(row: Row, operands: list[np.ndarray], fused: Mapping[int, Row]) -> np.ndarray:
    """The result of one op."""
    kind, attributes = row["type"], row.get("attributes") or {}
    first = operands[0]
    if kind == "fused_op":
        value = _fused(fused[attributes["fused_op_id"]], operands)
    elif kind == "matmul" and not attributes.get("identity"):
        value = first @ operands[1] + (operands[2] if attributes.get("bias") else 0)
        if attributes.get("sfpu_op") == "gelu":
            value = UNARY["gelu"](value)
    elif kind == "reduce":
        axis = {"z": 0, "r": 1, "c": 2}[attributes["dim"]]
        value = first.max(axis, keepdims=True)
        value = np.pad(value, [(0, 31 if a == axis and a else 0) for a in range(3)])
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
    if attributes.get("relu_en"):
        threshold, most = float(attributes.get("relu_threshold", 0)), attributes.get("relu_mode") == "max"
        value = np.clip(value, 0, threshold) if most else np.where(value > threshold, value, 0)
    return value


def _fused(work: Row, operands: list[np.ndarray]) -> np.ndarray:
    held = {f"input{i}": value for i, value in enumerate(operands)}
    for schedule in work["schedules"]:
        for entry in schedule:
            for row in entry.values():
                read = [operand(held[name], row, i) for i, name in enumerate(row["inputs"])]
                held[row["output"]] = result(row, read, {})
    return held["output"]


def golden(netlist: Row, inputs: Values) -> Values:
    """The contents of every queue that an op writes, for one input."""
    ops = {name: row for graph in netlist["graphs"].values() for name, row in graph.items() if isinstance(row, Mapping)}
    queues = netlist["queues"]
    source = {name: row["input"].strip() for name, row in queues.items() if row["input"].strip() != "HOST"}
    reads = {name: [source.get(given, given) for given in row["inputs"]] for name, row in ops.items()}
    values = dict(inputs)
    order = graphlib.TopologicalSorter({name: [r for r in read if r in ops] for name, read in reads.items()})
    for name in order.static_order():
        read = [operand(values[given], ops[name], i) for i, given in enumerate(reads[name])]
        values[name] = result(ops[name], read, netlist.get("fused_ops") or {})
    return {
        name: operand(values[maker], {"input_0_tms": queues[name].get("input_tms")}, 0)
        for name, maker in source.items()
    }


def differences(expected: np.ndarray, got: np.ndarray, config: Row) -> str:
    """Why a result fails the netlist's `comparison-config` (AllCloseHw); empty if it passes.

    Elements for which the golden is NaN or infinite are left out. Raises NotModelledError if there are no others.
    """
    rows, cols = np.arange(expected.shape[1]) % 32 + 1, np.arange(expected.shape[2]) % 32 + 1
    first, last = config.get("check_tile_rows_range", (1, 32))
    left, right = config.get("check_tile_cols_range", (1, 32))
    expected, got = (
        v[:, (rows >= first) & (rows <= last)][:, :, (cols >= left) & (cols <= right)] for v in (expected, got)
    )
    defined = np.isfinite(expected)
    if not defined.any():
        raise NotModelledError("no finite value: with these inputs it divides by 0 or takes roots of negative numbers")
    expected, got = expected[defined], got[defined]
    close = np.isclose(got, expected, rtol=config["rtol"], atol=config["atol"]).mean()
    share = config.get("check_pct", 1.0)
    if close < share:
        return f"{close:.4f} of the elements are close, expected {share}"
    finite = np.isfinite(got)
    if finite.any() and np.ptp(expected[finite]) and np.ptp(got[finite]):
        pcc = np.corrcoef(expected[finite], got[finite])[0, 1]
        if pcc < config.get("check_pcc", 0.0):
            return f"PCC {pcc:.5f}, expected {config['check_pcc']}"
    return ""
