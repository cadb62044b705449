"""Rows of profiles of whole models on cards, as operations that the simulator can time.

A row says what a card was asked to do (shapes, formats, layouts, attributes), how tt-metal split it over cores, and how
long it took. `brisc_ns` to `trisc2_ns` and the `measured_*` columns are results: only the median time is read, and
only to compare with.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ci.calibration.program_configs import card_split
from opscope.compiler.target.fused_params import NormParams, SoftmaxParams
from opscope.compiler.target.program import (
    ConcatParams,
    Conv2dParams,
    EltwiseParams,
    GatherParams,
    LayoutParams,
    MatmulParams,
    Numerics,
    Operation,
    Params,
    PermuteParams,
    Program,
    ReshapeParams,
    SliceParams,
    TensorDesc,
)
from opscope.compiler.target.system_desc import SystemDesc, load_board
from opscope.simulator.kernels import KERNELS
from opscope.simulator.kernels.matmul import FIDELITIES
from opscope.simulator.timing.work_split import Asked, RelayBlocks

Line = Mapping[str, str]
Shape = tuple[int, ...]

OPERANDS = 4
COLUMNS = (
    *("file", "op", "kernel", "shapes", "fid", "cores_card", "measured_ns", "n", "arch", "cores_available"),
    *("op_type_args", "grid", "shard_spec_out", "program_config", "sliding_window", "fp32_dest_acc", "packer_l1_acc"),
    "attributes",
    *(f"{place}_{what}" for place in ("in0", "in1", "in2", "in3", "out") for what in ("logical", "layout", "dtype")),
    *(f"{place}_memory" for place in ("in0", "in1", "in2", "in3", "out")),
)
"""Columns that are read."""
FORMATS = {
    "BFLOAT16": ("bf16", "Float16_b"),
    "BFLOAT8_B": ("bf16", "Bfp8_b"),
    "BFLOAT4_B": ("bf16", "Bfp4_b"),
    "FLOAT32": ("f32", "Float32"),
    "UINT32": ("ui32", "UInt32"),
    "INT32": ("i32", "Int32"),
    "UINT16": ("ui16", "UInt16"),
    "UINT8": ("ui8", "UInt8"),
}
"""tt-metal's types -> element type and format."""
GRIDS = {
    ("wormhole_b0", 64): (8, 8),
    ("wormhole_b0", 56): (7, 8),
    ("blackhole", 64): (8, 8),
    ("blackhole", 110): (10, 11),
    ("blackhole", 120): (10, 12),
    ("blackhole", 130): (10, 13),
    ("blackhole", 140): (10, 14),
}
"""Arch and cores that programs may use -> rows and columns of them."""
ADDED = frozenset({"matmul", "linear", "conv2d", "layer_norm", "rms_norm"})
"""Kernels whose bias or weights `shapes` leaves out."""
TRANSPOSES = {
    "WH": (0, 1, 3, 2),
    "HC": (0, 2, 1, 3),
    "CN": (1, 0, 2, 3),
    "NH": (2, 1, 0, 3),
    "NW": (3, 1, 2, 0),
    "CW": (0, 3, 2, 1),
}


class RowError(ValueError):
    """A file that is none of such rows: `<where>: expected X, got Y`."""


@dataclass(frozen=True)
class ProfileRow:
    """One operation that a card ran `count` times in a run of a model."""

    run: str
    kernel: str
    shapes: str
    system: SystemDesc
    """The board, with the grid that programs had."""
    operation: Operation
    program: Program
    asked: Asked
    """What arguments of the operation say, and not of how it is split."""
    split: Asked
    """How the card split it."""
    cores: int
    """That the card used."""
    chose_grid: bool
    """Whether tt-metal chose the cores, and no argument did."""
    time_ns: float
    """The median of the kernel's times."""
    count: int


def profile_rows(path: Path) -> list[ProfileRow]:
    """Returns the rows of a file. Raises RowError for a file that is not of this form."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            if absent := [name for name in COLUMNS if name not in (reader.fieldnames or ())]:
                raise RowError(f"{path}:1: expected the columns of a profile, got none named {', '.join(absent[:3])}")
            rows = [_row(f"{path}:{reader.line_num}", line) for line in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise RowError(f"{path}: expected a CSV file of profiled operations, got {error}") from error
    if not rows:
        raise RowError(f"{path}: expected profiled operations, got none")
    return rows


def _row(where: str, line: Line) -> ProfileRow:
    kernel = line["kernel"]
    try:
        if None in line or None in line.values():
            raise ValueError("expected as many cells as there are columns, got others")
        system = _system(line)
        inputs, output = _tensors(line, system)
        params = _params(line, [tensor.shape for tensor in inputs], output.shape)
        if kernel not in KERNELS or not isinstance(params, KERNELS[kernel].params):
            raise ValueError(f"expected a kernel that the simulator knows with such arguments, got {kernel!r}")
        if line["fid"] not in FIDELITIES:
            raise ValueError(f"expected a fidelity of {', '.join(FIDELITIES)}, got {line['fid']!r}")
        numerics = Numerics(line["fid"], "Float32" if line["fp32_dest_acc"] == "1" else "Float16_b")
        asked = Asked(
            relay=RelayBlocks(system.ttnn.grid, 8, 8, 8) if line["op"] == "MinimalMatmulOp" else None,
            l1_acc=line["packer_l1_acc"] != "0",
        )
        numbers = tuple(range(len(inputs)))
        operation = Operation(kernel, numbers, (len(inputs),), params, numerics)
        return ProfileRow(
            line["file"],
            kernel,
            line["shapes"],
            system,
            operation,
            Program("main", (*inputs, output), numbers, (len(inputs),), (operation,)),
            asked,
            card_split(line, asked, inputs, output, operation),
            _number(line, "cores_card"),
            not line["grid"],
            float(_number(line, "measured_ns")),
            _number(line, "n"),
        )
    except ValueError as error:
        raise RowError(f"{where}: {error}") from error


def _number(line: Line, name: str) -> int:
    try:
        number = int(float(line[name]))
    except (ValueError, OverflowError):
        number = 0
    if number < 1:
        raise ValueError(f"{name}: expected a number above zero, got {line[name]!r}")
    return number


def _system(line: Line) -> SystemDesc:
    arch, cores = line["arch"], _number(line, "cores_available")
    if (arch, cores) not in GRIDS:
        raise ValueError(f"expected an arch and its number of cores, got {arch!r} with {cores}")
    board = "n150" if arch == "wormhole_b0" else "p100" if "p100" in line["file"] else "p150"
    system = load_board(board)
    return replace(system, ttnn=replace(system.ttnn, grid=GRIDS[arch, cores]))


def _tensors(line: Line, system: SystemDesc) -> tuple[list[TensorDesc], TensorDesc]:
    shapes = [_shape(part.replace(",", "x").replace(" ", "").strip("x")) for part in _parts(line["shapes"])]
    places = [f"in{number}" for number in range(OPERANDS) if line[f"in{number}_logical"]]
    if not places or len(shapes) < 2:
        raise ValueError(f"shapes: expected those of an operand and of a result, got {line['shapes']!r}")
    if line["kernel"] == "to_memory_config":
        places = places[:1]  # the second one is the result's buffer
    elif line["kernel"] not in ADDED:
        places = places[: len(shapes) - 1]
    inputs = [_tensor(line, place, system) for place in places]
    if line["kernel"] == "conv2d":
        of_four = [(1,) * (4 - len(shape)) + shape for shape in shapes]  # a window of 1x1 is part of the shape
        inputs[:2] = (replace(desc, shape=shape) for desc, shape in zip(inputs[:2], of_four, strict=False))
    return inputs, _tensor(line, "out", system)


def _parts(text: str) -> list[str]:
    return re.findall(r"\(([^()]*)\)", text)


def _shape(text: str) -> Shape:
    if not re.fullmatch(r"\d{1,9}(x\d{1,9})*", text):
        raise ValueError(f"expected a shape such as 1x1x32x64, got {text!r}")
    shape = tuple(int(size) for size in text.split("x"))
    if 0 in shape:
        raise ValueError(f"expected a shape without zeros, got {text!r}")
    while len(shape) > 2 and shape[0] == 1:
        shape = shape[1:]
    return shape


def _tensor(line: Line, place: str, system: SystemDesc) -> TensorDesc:
    dtype, memory = line[f"{place}_dtype"], line[f"{place}_memory"]
    shape = _shape(line[f"{place}_logical"])
    words = re.fullmatch(r"DEV_\d+_(DRAM|L1)_(INTERLEAVED|(?:HEIGHT|WIDTH|BLOCK)_SHARDED)", memory)
    if dtype not in FORMATS or words is None:
        raise ValueError(f"{place}: expected a type and a memory of tt-metal, got {dtype!r} in {memory!r}")
    element, data_format = FORMATS[dtype]
    layout = "tile" if line[f"{place}_layout"] == "TILE" else "row_major"
    spread = words[2].lower()
    desc = TensorDesc(shape, element, data_format, layout, words[1].lower(), spread)
    if spread == "interleaved":
        return desc
    return replace(desc, grid=_shard_grid(line, spread, shape, system))


def _shard_grid(line: Line, spread: str, shape: Shape, system: SystemDesc) -> tuple[int, int]:
    """Rows and columns of cores of a sharded tensor: by the result's shards where they are sharded alike, else over the
    whole grid.
    """
    out = line["out_memory"].lower().endswith(spread)
    shard = re.search(r"shape=\{(\d+); (\d+)\}", line["shard_spec_out"]) if out else None
    *lead, rows, columns = (1, *shape)
    for size in lead:
        rows *= size
    if shard is not None:
        down, across = (
            -(-size // max(1, int(part))) for size, part in zip((rows, columns), shard.groups(), strict=True)
        )
    else:
        tiles_down, tiles_across = -(-rows // 32), -(-columns // 32)
        most = system.ttnn.grid if spread == "block_sharded" else (system.ttnn.cores, system.ttnn.cores)
        down, across = (
            -(-tiles // -(-tiles // cores)) for tiles, cores in zip((tiles_down, tiles_across), most, strict=True)
        )
    return (down if spread != "width_sharded" else 1, across if spread != "height_sharded" else 1)


def _params(line: Line, inputs: list[Shape], output: Shape) -> Params:
    kernel, attributes = line["kernel"], line["attributes"]
    activation = next((name.lower() for name in re.findall(r"UnaryOpType::(\w+)", line["op_type_args"])), "")
    match kernel:
        case "matmul" | "linear":
            turned = [f"'transpose_{side}': 'true'" in attributes for side in "ab"]
            return MatmulParams(*turned, activation=activation if activation in KERNELS else "")
        case "conv2d":
            return _conv(line, activation if activation in KERNELS else "")
        case "reshape":
            return ReshapeParams(output)
        case "permute":
            return PermuteParams(_permutation(line, len(inputs[0])))
        case "slice_static":
            begins, steps = (
                _listed(attributes, name, default, output) for name, default in (("slice_start", 0), ("step", 1))
            )
            ends = tuple(begin + size * step for begin, size, step in zip(begins, output, steps, strict=True))
            return SliceParams(begins, ends, steps)
        case "concat":
            same = next((n for n in range(len(output)) if output[n] != inputs[0][n]), 0) if inputs else 0
            return ConcatParams(same)
        case "embedding":
            return GatherParams()
        case "layer_norm" | "rms_norm":
            return NormParams(1e-5)
        case "softmax":
            return SoftmaxParams(len(output) - 1)
        case "to_layout" | "to_memory_config":
            return LayoutParams()
        case _:
            return EltwiseParams()


def _listed(attributes: str, name: str, default: int, output: Shape) -> Shape:
    found = re.search(rf"'{name}': 'Shape\(\[([\d; ]*)\]\)'", attributes)
    values = [int(value) for value in found[1].split(";")] if found else []
    return tuple((*[default] * len(output), *values)[-len(output) :])


def _permutation(line: Line, rank: int) -> Shape:
    name = re.search(r"TransposeOpDim::(\w+)", line["op_type_args"] + line["attributes"])
    dims = re.search(r"'dims': '[^\[\]']*\[([\d; ]+)\]\)?'", line["attributes"])
    if name and name[1] in TRANSPOSES:
        of_four = TRANSPOSES[name[1]]
    elif dims:
        of_four = tuple(int(value) for value in dims[1].split(";"))
    else:
        raise ValueError(f"expected the order of dims of a transpose, got {line['op_type_args']!r}")
    cut = len(of_four) - rank
    order = tuple(dim - cut for dim in of_four[cut:]) if cut >= 0 else ()
    if sorted(order) != list(range(rank)):
        raise ValueError(f"expected an order of {rank} dims, got {of_four}")
    return order


def _conv(line: Line, activation: str) -> Conv2dParams:
    window = line["sliding_window"]

    def pair(name: str) -> tuple[int, int]:
        found = re.search(rf"{name}=\((\d+);\s*(\d+)\)", window)
        if found is None:
            raise ValueError(f"sliding_window: expected {name}=(rows;columns), got {window!r}")
        return int(found[1]), int(found[2])

    padding = re.search(r"padding=\(\((\d+); (\d+)\); \((\d+); (\d+)\)\)", window)
    if padding is None:
        raise ValueError(f"sliding_window: expected padding=((top; bottom); (left; right)), got {window!r}")
    groups = re.search(r"'groups': '(\d+)'", line["attributes"])
    top, bottom, left, right = (int(size) for size in padding.groups())
    return Conv2dParams(
        pair("stride_hw"),
        (top, bottom, left, right),
        pair("dilation_hw"),
        groups=int(groups[1]) if groups else 1,
        activation=activation,
    )


def runs(rows: list[ProfileRow]) -> Iterator[tuple[str, list[ProfileRow]]]:
    """Yields each run with its rows."""
    for name in sorted({row.run for row in rows}):
        yield name, [row for row in rows if row.run == name]
