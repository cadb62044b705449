"""Parses a netlist from YAML. Each error is one line with the place, the expected value and the actual one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opscope.base.yaml_text import YamlError, parse_yaml, read_text
from opscope.compiler.buda.graph import FIDELITIES, Tm
from opscope.compiler.buda.netlist.model import HOST, OTHER_NETLIST, FusedOp, Graph, Netlist, Op, Program, Queue, SubOp
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.target.formats import TILE, number_format
from opscope.compiler.target.interpret import CODES
from opscope.compiler.target.system_desc import load_board

GRAPH_KEYS = ("target_device", "input_count")
OP_KEYS = frozenset(
    {
        "type",
        "grid_loc",
        "grid_size",
        "inputs",
        "grid_transpose",
        "untilize_output",
        "t",
        "mblock",
        "ublock",
        "buf_size_mb",
        "ublock_order",
        "input_buf_min_size_tiles",
        "in_df",
        "out_df",
        "intermed_df",
        "acc_df",
        "math_fidelity",
        "attributes",
        "gradient_op",
        "tile_dim",
        "input_dram_io_buf_size_tiles",
        "overlay_size",
    }
)
QUEUE_KEYS = frozenset(
    {
        "input",
        "type",
        "entries",
        "grid_size",
        "t",
        "mblock",
        "ublock",
        "ublock_order",
        "tile_dim",
        "df",
        "target_device",
        "loc",
        "dram",
        "host",
        "elements",
        "layout",
        "alias",
        "input_tms",
    }
)
FUSED_KEYS = frozenset({"inputs", "intermediates", "schedules", "custom_kernel_path"})
STEP_KEYS = frozenset({"type", "inputs", "output", "attributes", "mblock", "ublock", "pop", "pop_last", "zero_point"})
_OF_AN_INPUT = re.compile(r"input_.*_tms|input_\d+_(pad|unpad)")
_TEMPLATE = re.compile(r"\$TEMPLATE_\w+")
TILES = ((32, 32), (32, 16), (16, 32), (8, 32), (4, 32), (2, 32), (1, 32))
"""Sizes that a tile may have."""
LARGEST = 1 << 20
"""Largest count that a netlist may have; a larger one could only exhaust memory."""


class MappingReader:
    """Reads one mapping of the file, and keeps its place for errors."""

    def __init__(self, where: str, raw: Any) -> None:
        if not isinstance(raw, Mapping):
            raise CompilerInputError(f"{where}: expected a mapping, got {shortened(raw)}")
        self.where, self.raw = where, raw

    def fail(self, key: str, expected: str) -> CompilerInputError:
        """Returns the error for a key with an unexpected value."""
        got = shortened(self.raw[key]) if key in self.raw else "none"
        return CompilerInputError(f"{self.where}.{key}: expected {expected}, got {got}")

    def known(self, keys: frozenset[str]) -> None:
        """Raises CompilerInputError for a key that is not in `keys`."""
        import difflib

        for key in self.raw:
            if key not in keys and not (isinstance(key, str) and _OF_AN_INPUT.fullmatch(key)):
                near = difflib.get_close_matches(str(key), keys, n=3, cutoff=0.5)
                tail = f"; try {', '.join(near)}" if near else ""
                raise CompilerInputError(f"{self.where}: expected a key of the netlist, got {shortened(key)}{tail}")

    def word(self, key: str, choices: tuple[str, ...] = (), default: str = "") -> str:
        """Reads a name."""
        value = self.raw.get(key, default)
        if not isinstance(value, str) or not value or (choices and value not in choices):
            raise self.fail(key, ", ".join(choices) or "a name")
        return value

    def count(self, key: str, least: int = 1, default: int | None = None) -> int:
        """Reads a whole number."""
        value = self.raw.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST:
            raise self.fail(key, f"a whole number from {least}")
        return value

    def numbers(self, key: str, size: int = 0, least: int = 1) -> tuple[int, ...]:
        """Reads a list of whole numbers."""
        value = self.raw.get(key)
        if (
            not isinstance(value, list)
            or (size and len(value) != size)
            or not all(isinstance(v, int) and not isinstance(v, bool) and least <= v <= LARGEST for v in value)
        ):
            raise self.fail(key, f"{size or 'a list of'} whole numbers from {least}")
        return tuple(value)

    def pair(self, key: str, least: int = 1) -> tuple[int, int]:
        """Reads two whole numbers."""
        first, second = self.numbers(key, 2, least)
        return first, second

    def flag(self, key: str) -> bool:
        """Reads true or false; false if the key is absent."""
        value = self.raw.get(key, False)
        if not isinstance(value, bool):
            raise self.fail(key, "true or false")
        return value

    def format(self, key: str) -> str:
        """Reads a number format."""
        return _format(f"{self.where}.{key}", self.raw.get(key))

    def formats(self, key: str) -> tuple[str, ...]:
        """Reads a list of number formats."""
        value = self.raw.get(key)
        if not isinstance(value, list):
            raise self.fail(key, "a list of number formats")
        return tuple(_format(f"{self.where}.{key}", name) for name in value)


def _format(where: str, name: Any) -> str:
    try:
        return number_format(str(name)).name
    except ValueError as error:
        raise CompilerInputError(f"{where}: {error}") from error


def _tile(row: MappingReader) -> tuple[int, int]:
    """Returns rows and columns of a tile."""
    tile = row.pair("tile_dim") if "tile_dim" in row.raw else (TILE, TILE)
    if tile not in TILES:
        raise row.fail("tile_dim", ", ".join(str(list(known)) for known in TILES))
    return tile


def dst_format(name: str) -> str:
    """Returns the format of Dst for `acc_df`: a float of fewer bits stands for 16-bit datums with its exponents."""
    accumulated = number_format(name)
    if not accumulated.is_float or accumulated.bits == 32:
        return name
    return "Float16" if accumulated.register_exponent_bits == 5 else "Float16_b"


def _fidelity(row: MappingReader) -> str:
    """Returns `math_fidelity`; HiFi2_A is another name of HiFi2 (tt-budabackend: netlist/tt_backend_api_types.hpp)."""
    name = row.word("math_fidelity", (*FIDELITIES, "HiFi2_A"))
    return "HiFi2" if name == "HiFi2_A" else name


def shortened(value: Any) -> str:
    """Returns a value as messages show it: at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def read(path: Path, arch: str = "") -> Netlist:
    """Reads the netlist in a file, for `arch` or the first kind of chip that it names. Raises CompilerInputError."""
    try:
        text = read_text(path)
    except (OSError, YamlError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise CompilerInputError(f"{path}: expected a readable netlist, got: {reason}") from error
    try:
        return parse(text, path.stem, arch)
    except CompilerInputError as error:
        raise CompilerInputError(f"{path}: {error}") from error


def parse(text: str, name: str = "netlist", arch: str = "") -> Netlist:
    """Reads the netlist in a text, for `arch` or the first kind of chip that it names. Raises CompilerInputError."""
    if template := _TEMPLATE.search(text):
        line = text.count("\n", 0, template.start()) + 1
        raise CompilerInputError(
            f"netlist: expected values, got the template variable {template[0]} in line {line}; try a netlist that is "
            "generated from this template"
        )
    try:
        raw = parse_yaml(text)
    except YamlError as error:
        raise CompilerInputError(f"netlist: expected YAML, got: {error}") from error
    top = MappingReader("netlist", raw)
    for key in ("devices", "queues", "graphs", "programs"):
        if key not in top.raw:
            raise CompilerInputError(f"netlist: expected a section {key}, got {', '.join(map(str, top.raw)) or 'none'}")
    queues = {str(key): _queue(f"queues.{key}", str(key), row) for key, row in _items(top, "queues")}
    graphs = tuple(_graph(f"graphs.{key}", str(key), row) for key, row in _items(top, "graphs"))
    programs = top.raw["programs"]
    if not isinstance(programs, list):
        raise top.fail("programs", "a list")
    parsed_programs = tuple(_program(entry) for entry in programs)
    fused = (
        {number: _fused(number, row) for number, row in _items(top, "fused_ops")} if top.raw.get("fused_ops") else {}
    )
    archs = _archs(top.raw["devices"])
    if arch and arch not in archs:
        raise CompilerInputError(f"devices.arch: expected {arch} among the netlist's chips, got {', '.join(archs)}")
    return Netlist(arch or archs[0], queues, graphs, parsed_programs, name, fused, (arch,) if arch else archs)


def _items(top: MappingReader, key: str) -> list[tuple[Any, Any]]:
    raw = top.raw[key]
    if not isinstance(raw, Mapping):
        raise top.fail(key, "a mapping")
    return list(raw.items())


def _archs(raw: Any) -> tuple[str, ...]:
    """Returns the kinds of chip that the netlist is for, in its order; `wormhole` is Wormhole B0."""
    names = MappingReader("devices", raw).raw.get("arch")
    archs = []
    for name in names if isinstance(names, list) and names else [names]:
        try:
            archs.append(load_board(str(name)).arch)
        except ValueError as error:
            raise CompilerInputError(f"devices.{error}") from error
    return tuple(dict.fromkeys(archs))


def _queue(where: str, name: str, raw: Any) -> Queue:
    row = MappingReader(where, raw)
    row.known(QUEUE_KEYS)
    loc = row.word("loc", ("dram", "host"))
    addresses = _addresses(row, loc)
    elements = row.numbers("elements", 3) if "elements" in row.raw else None
    tms = _tms(where, row, "input_tms")
    filled_by = row.word("input")
    return Queue(
        name,
        HOST if OTHER_NETLIST in filled_by else filled_by,
        row.word("type", ("queue", "ram")),
        row.count("entries"),
        row.pair("grid_size"),
        row.count("t"),
        row.pair("mblock"),
        row.pair("ublock"),
        row.format("df"),
        row.count("target_device", 0),
        loc,
        addresses,
        row.word("ublock_order", ("r", "c"), "r"),
        _tile(row),
        tms,
        (elements[0], elements[1], elements[2]) if elements else None,
        row.word("alias") if "alias" in row.raw else "",
    )


def _addresses(row: MappingReader, loc: str) -> tuple[tuple[int, int], ...]:
    """Returns (channel, address) of each part; in host memory an address may stand alone, which is channel 0."""
    parts = row.raw.get(loc)
    if isinstance(parts, list) and loc == "host":
        parts = [[0, part] if isinstance(part, int) else part for part in parts]
    if not isinstance(parts, list) or not all(
        isinstance(a, list) and len(a) == 2 and all(isinstance(v, int) and v >= 0 for v in a) for a in parts
    ):
        raise row.fail(loc, "a list of [channel, address]")
    return tuple((channel, address) for channel, address in parts)


def _graph(where: str, name: str, raw: Any) -> Graph:
    row = MappingReader(where, raw)
    ops = [(str(key), value) for key, value in row.raw.items() if key not in GRAPH_KEYS]
    return Graph(
        name,
        row.count("target_device", 0),
        row.count("input_count"),
        tuple(_op(f"{where}.{key}", key, value) for key, value in ops),
    )


def _op(where: str, name: str, raw: Any) -> Op:
    row = MappingReader(where, raw)
    row.known(OP_KEYS)
    inputs = row.raw.get("inputs")
    if not isinstance(inputs, list) or not inputs or not all(isinstance(name, str) for name in inputs):
        raise row.fail("inputs", "a list of ops and queues")
    tms = {}
    for key in row.raw:
        if key.startswith("input_") and key.endswith("_tms"):
            number = key.removeprefix("input_").removesuffix("_tms")
            if not number.isdecimal() or int(number) >= len(inputs):
                raise CompilerInputError(f"{where}: expected TMs of inputs 0 to {len(inputs) - 1}, got {key}")
            tms[int(number)] = _tms(where, row, key)
        elif _OF_AN_INPUT.fullmatch(key) and int(key.split("_")[1]) >= len(inputs):
            raise CompilerInputError(f"{where}: expected a pad of inputs 0 to {len(inputs) - 1}, got {key}")
    for number in range(len(inputs)):
        before, after = (
            (printed_movement(f"{where}.input_{number}_{name}", {name: row.raw[f"input_{number}_{name}"]}),)
            if row.raw.get(f"input_{number}_{name}")
            else ()
            for name in ("unpad", "pad")
        )
        if before or after:
            tms[number] = (*before, *tms.get(number, ()), *after)
    sizes = row.numbers("input_buf_min_size_tiles", least=0) if "input_buf_min_size_tiles" in row.raw else ()
    attributes = MappingReader(f"{where}.attributes", row.raw.get("attributes") or {})
    for key in ("m_k", "u_kt"):
        attributes.count(key, 0, 1)
    return Op(
        name,
        row.word("type"),
        row.pair("grid_loc", 0),
        row.pair("grid_size"),
        tuple(inputs),
        row.count("t"),
        row.pair("mblock"),
        row.pair("ublock"),
        row.formats("in_df"),
        row.format("out_df"),
        row.format("intermed_df"),
        dst_format(row.format("acc_df")),
        _fidelity(row),
        row.count("buf_size_mb", default=2),
        row.word("ublock_order", ("r", "c"), "r"),
        sizes,
        row.flag("grid_transpose"),
        row.flag("untilize_output"),
        tms,
        dict(attributes.raw),
        _tile(row),
    )


def _fused(number: Any, raw: Any) -> FusedOp:
    row = MappingReader(f"fused_ops.{number}", raw)
    if isinstance(number, bool) or not isinstance(number, int):
        raise CompilerInputError(f"fused_ops: expected whole numbers as keys, got {shortened(number)}")
    row.known(FUSED_KEYS)
    schedules = []
    for schedule in _list(row, "schedules"):
        if not isinstance(schedule, list):
            raise row.fail("schedules", "a list of lists of steps")
        steps = []
        for entry in schedule:
            for name, step in MappingReader(row.where, entry).raw.items():
                steps.append(_step(f"{row.where}.{name}", str(name), step))
        schedules.append(tuple(steps))
    return FusedOp(number, row.count("inputs"), row.count("intermediates", 0, 0), tuple(schedules))


def _step(where: str, name: str, raw: Any) -> SubOp:
    row = MappingReader(where, raw)
    inputs = row.raw.get("inputs")
    if not isinstance(inputs, list) or not inputs or not all(isinstance(name, str) for name in inputs):
        raise row.fail("inputs", "a list of inputs, intermediates or dest")
    tms = {i: _tms(where, row, key) for i in range(len(inputs)) for key in (f"input_{i}_tms",) if key in row.raw}
    attributes = dict(MappingReader(f"{where}.attributes", row.raw.get("attributes") or {}).raw)
    if "zero_point" in row.raw:
        attributes["zero_point"] = row.raw["zero_point"]
    row.known(STEP_KEYS)
    for key in row.raw.keys() - STEP_KEYS - {f"input_{i}_tms" for i in range(len(inputs))}:
        raise CompilerInputError(f"{where}: expected TMs of inputs 0 to {len(inputs) - 1}, got {key}")
    pop = tuple(str(buffer) for key in ("pop", "pop_last") if key in row.raw for buffer in _list(row, key))
    mblock, ublock = (row.pair(key) if key in row.raw else None for key in ("mblock", "ublock"))
    return SubOp(name, row.word("type"), tuple(inputs), row.word("output"), tms, attributes, mblock, ublock, pop)


def _tms(where: str, row: MappingReader, key: str) -> tuple[str, ...]:
    """Returns the TMs under a key; without a value, or with the word None, there are none."""
    if row.raw.get(key) in (None, "None"):
        return ()
    return tuple(printed_movement(f"{where}.{key}", tm) for tm in _list(row, key))


def _list(row: MappingReader, key: str) -> list[Any]:
    value = row.raw.get(key)
    if not isinstance(value, list):
        raise row.fail(key, "a list")
    return value


def printed_movement(where: str, raw: Any) -> str:
    """Returns a TM in its printed form."""
    text = ""
    if isinstance(raw, str):
        text = raw
    elif isinstance(raw, Mapping) and len(raw) == 1:
        ((name, value),) = raw.items()
        name = {"pad": "buda_pad", "unpad": "buda_unpad"}.get(name, name)
        if isinstance(value, list):
            value = dict(enumerate(value))
        if isinstance(value, Mapping):
            inner = [v for pair in value.items() for v in pair] if name == "broadcast" else list(value.values())
            text = f"{name}({', '.join(map(str, inner))})"
        else:
            text = f"{name}({value})"
    try:
        return str(Tm.parse(text))
    except CompilerInputError as error:
        raise CompilerInputError(f"{where}: {error}") from error


def _program(raw: Any) -> Program:
    entry = MappingReader("programs", raw)
    if len(entry.raw) != 1:
        raise CompilerInputError(f"programs: expected one name per entry, got {shortened(raw)}")
    ((name, lines),) = entry.raw.items()
    if not isinstance(lines, list):
        raise entry.fail(str(name), "a list of instructions")
    instructions: list[tuple[str, Any]] = []
    for number, line in enumerate(lines):
        word, argument = line, None
        if isinstance(line, Mapping) and len(line) == 1:
            ((word, argument),) = line.items()
        if not isinstance(word, str) or word not in CODES:
            raise CompilerInputError(
                f"programs.{name}[{number}]: expected {', '.join(sorted(CODES))}, got {shortened(line)}"
            )
        instructions.append((word, argument))
    return Program(str(name), tuple(instructions))


__all__ = ["HOST", "parse", "read"]
