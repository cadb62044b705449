"""Values for the templates among TT-Buda's netlists, drawn so that every tensor is a square of tiles.

tt-budabackend fills its templates with the solutions of constraints (`verif/template_netlist/test_modules`,
`verif/op_tests/constraints`) and publishes those of a few only. So nobody's values are reproduced here: a template is
filled with values within the ranges of these constraints. Matrices have `size` x `size` tiles, cut into cores, macro
and micro blocks at random, and TMs have the factor 1; inputs and comparison are those of `test_config.sv`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from opscope.base.yaml_text import parse_yaml

VARIABLE = re.compile(r"\$TEMPLATE_\w+")
SIZES = (4, 2, 1)
"""Tiles of a side, in the order in which they are tried; one tile fits every broadcast and every reduction."""
GRID = {"grayskull": (10, 12)}
OTHER_GRID = (8, 8)
TILE = 32
INPUTS = 2
"""Inputs of a run, which are the entries of its queues."""
SQUARE = ("grid_size", "mblock", "ublock")
FORMATS = frozenset({"df", "in_df", "out_df", "intermed_df", "acc_df"})
BY_KEY: Mapping[str, Any] = {
    "t": 1,
    "z": 1,
    "ublock_order": "r",
    "buf_size_mb": 2,
    "math_fidelity": "HiFi3",
    "untilize_output": False,
    "prologue": False,
    "loc": "dram",
    "entries": INPUTS,
    "input_count": INPUTS,
    "microbatch_size": INPUTS,
    "microbatch_count": 1,
    "minibatch_count": 1,
    "program_loop_count": 1,
    "target_device": 0,
    "tile_dim": TILE,
    "input_buf_min_size_tiles": 0,
    "rt": 0,
    "ct": 0,
    "relu_en": False,
    "relu_threshold": 0.0,
    "relu_mode": "min",
    "l1_acc": False,
    "min_buffer_input": 0,
    "stoch_rnd_mode": "none",
    "sfpu_op": "invalid",
    "vector": "rc",
    "tile_broadcast": "c",
    "attributes": {},
    "constant_value": 0.5,
    "check_tile_rows_range": TILE,
    "check_tile_cols_range": TILE,
    "atol": 0.01,
    "rtol": 0.15,
    "check_pcc": 0.99,
    "verbosity": "Concise",
    "uniform_lower_bound": -2.0,
    "uniform_upper_bound": 2.0,
    "normal_mean": 0.0,
    "normal_stddev": 0.25,
    "hslice": 1,
    "vslice": 1,
    "hstack": 1,
    "vstack": 1,
    "r": 1,
    "c": 1,
}
"""Key of the netlist -> the value of a variable there. Others follow from sizes, or are left out."""

TYPES = {"comparison": "AllCloseHw", "stimulus": "Uniform", "unary": "exp", "binary": "add"}
"""Part of the name of a variable that is a type -> the type."""


def filled(text: str, size: int, seed: int = 0) -> str:
    """Returns a template with all its variables replaced. Raises ValueError for one that is known to nobody."""
    return _Filling(text, size, random.Random(seed)).result()


def ways(seed: int = 0) -> Iterator[tuple[int, int]]:
    """Yields the sizes and seeds to try, larger matrices first."""
    for size in SIZES:
        for attempt in range(4 if size > 1 else 1):
            yield size, seed * 10 + attempt


class _Filling:
    def __init__(self, text: str, size: int, draw: random.Random) -> None:
        self.raw: Any = parse_yaml(text)
        self.size, self.draw = size, draw
        self.known: dict[str, Any] = {}

    def result(self) -> str:
        """Assigns what sizes decide, then all else by key, and returns the netlist as YAML."""
        arch = self.raw["devices"]["arch"]
        if _is_variable(arch):
            self.known[arch] = "wormhole_b0"
        fused = "fused_ops" in self.raw
        for record in _records(self.raw):
            self._blocks(record, fused)
        for graph in self.raw["graphs"].values():
            self._places(graph)
        chips = dict.fromkeys(graph.get("target_device") for graph in self.raw["graphs"].values())
        self.known |= {chip: number for number, chip in enumerate(filter(_is_variable, chips))}
        address = 0x10000000
        for name, queue in self.raw["queues"].items():
            address = self._memory(name, queue, address)
        self._by_key(self.raw, "")
        return yaml.safe_dump(_replaced(self.raw, self.known), sort_keys=False, width=10_000)

    def _value(self, value: Any) -> Any:
        return self.known.get(value) if _is_variable(value) else value

    def _blocks(self, record: dict[str, Any], fused: bool) -> None:
        """Cuts a side into cores, macro and micro blocks; of variables that several records share, the first cuts."""
        for axis in (0, 1):
            parts = [record[key][axis] for key in SQUARE if key in record]
            left = self.size
            for part in parts:
                if (value := self._value(part)) is not None:
                    left = left // value if value and left % value == 0 else 1
            open_parts = [part for part in parts if self._value(part) is None]
            for i, part in enumerate(open_parts):
                own = self._share(
                    left,
                    last=i == len(open_parts) - 1,
                    grid=part == record.get("grid_size", [None] * 2)[axis] and fused,
                )
                self.known[part] = own
                left //= own
        attributes = record.get("attributes")
        if isinstance(attributes, dict) and "m_k" in attributes:
            u_kt = self._value(attributes.get("u_kt", 1))
            m_k = self._value(attributes["m_k"])
            if u_kt is None:
                u_kt = self.known[attributes["u_kt"]] = (
                    self.size // m_k if m_k else (1 if fused else self._share(self.size))
                )
            if m_k is None:
                self.known[attributes["m_k"]] = max(1, self.size // u_kt)

    def _share(self, left: int, last: bool = False, grid: bool = False) -> int:
        if last or left == 1:
            return left
        if grid:
            return 1
        return self.draw.choice([n for n in range(1, min(left, 2) + 1) if left % n == 0])

    def _places(self, graph: dict[str, Any]) -> None:
        """Puts ops side by side, each where the cores are free."""
        taken: set[tuple[int, int]] = set()
        rows, cols = GRID.get(str(self._value(self.raw["devices"]["arch"])), OTHER_GRID)
        for op in graph.values():
            if not isinstance(op, dict) or "grid_loc" not in op:
                continue
            height, width = (self._value(n) for n in op["grid_size"])
            for at in ((r, c) for r in range(rows - height + 1) for c in range(cols - width + 1)):
                cores = {(at[0] + r, at[1] + c) for r in range(height) for c in range(width)}
                if not cores & taken:
                    taken |= cores
                    for place, value in zip(op["grid_loc"], at, strict=True):
                        if _is_variable(place):
                            self.known.setdefault(place, value)
                    break

    def _memory(self, name: str, queue: dict[str, Any], address: int) -> int:
        """Gives each part of a queue its own bytes of DRAM; returns the first free address."""
        where = next((key for key in queue if key in ("dram", "host") or _is_variable(key)), "")
        parts = [self._value(n) for n in queue["grid_size"]]
        step = self.size * self.size * 4128 * INPUTS + 64
        buffers = [[0, address + i * step] for i in range(parts[0] * parts[1])]
        if _is_variable(where):
            self.known[where] = "dram"
        if where and _is_variable(queue[where]):
            self.known[queue[where]] = buffers
        return address + len(buffers) * step

    def _by_key(self, value: Any, key: str) -> None:
        if isinstance(value, dict):
            for own, inner in value.items():
                self._by_key(inner, str(own))
        elif isinstance(value, list):
            for inner in value:
                self._by_key(inner, key)
        elif _is_variable(value) and value not in self.known:
            self.known[value] = self._other(key, str(value))

    def _other(self, key: str, name: str) -> Any:
        if key in FORMATS:
            return "Float16_b"
        if key == "type":
            return next((value for part, value in TYPES.items() if part in name), "add")
        if key == "check_pct":
            return 0.7 if any(op.get("type") == "matmul" for op in _records(self.raw["graphs"])) else 0.9
        if key in BY_KEY:
            return BY_KEY[key]
        if key.endswith("_tms"):
            return [{"broadcast": {"r": self.size}}] if "bcast" in name else None
        if key == "varinst":
            return 2 * INPUTS if "wrap" in name else INPUTS if "input_count" in name or "size" in name else 1
        if key.startswith(("kernel_bcast", "kernel_broadcast", "sfpu_execution_thread")):
            return 0
        raise ValueError(f"{name}: expected a known kind of variable, got one of {key}")


def _records(raw: Any) -> Iterator[dict[str, Any]]:
    """Yields whatever has blocks: ops and steps of fused ops first, since these share variables, then queues."""
    if isinstance(raw, dict):
        for key in sorted(raw, key=lambda key: key == "queues"):
            inner = raw[key]
            if isinstance(inner, dict) and "mblock" in inner:
                yield inner
            yield from _records(inner)
    elif isinstance(raw, list):
        for inner in raw:
            yield from _records(inner)


def _is_variable(value: Any) -> bool:
    return isinstance(value, str) and VARIABLE.fullmatch(value) is not None


def _replaced(value: Any, known: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        return {_replaced(key, known): _replaced(inner, known) for key, inner in value.items()}
    if isinstance(value, list):
        return [_replaced(inner, known) for inner in value]
    return known[value] if _is_variable(value) else value
