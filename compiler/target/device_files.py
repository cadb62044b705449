"""Files that say what a device is: device descriptors (tt-umd's soc descriptors) and runtime parameters.

A device descriptor lists the cores that a chip has, as `column-row` of its NoC; the rows of cores that it does not list
are switched off; what an image has also names the board. A file of runtime parameters has what a device is compiled
for, so that a program can be compiled for the same device where it is not there; the keys are this project's own, and
those of TT-Buda's presets are read too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from opscope.base.atomic_write import write_whole
from opscope.base.yaml_text import read_yaml
from opscope.compiler.target.system_desc import DEFAULT_BOARD, HARVESTABLE_ROWS, load_board, rows_of_mask

KEYS = ("arch_name", "board", "harvested_rows", "chip_ids")


def read_device_descriptor(path: Path) -> tuple[str, int]:
    """Returns the board that a device descriptor means, and the mask of its rows of cores that are switched off.

    Raises ValueError for a file that is none.
    """
    document = _mapping(path)
    board = _board_of(path, document.get("arch_name"), document.get("board"))
    rows_of = _rows(load_board(board).arch)
    workers = document.get("functional_workers")
    places = [re.fullmatch(r"(\d+)-(\d+)", str(worker)) for worker in workers] if isinstance(workers, list) else []
    if not places or None in places:
        raise ValueError(f"{path}: functional_workers: expected cores as column-row, got {workers!r}"[:200])
    rows = {int(place[2]) for place in places if place is not None}
    if strange := sorted(rows - set(rows_of)):
        expected = "2-11" if 6 in rows_of else "1-5 and 7-11"
        raise ValueError(f"{path}: functional_workers: expected rows {expected}, got {strange[0]}")
    return board, sum(1 << bit for bit, row in zip(HARVESTABLE_ROWS, rows_of, strict=True) if row not in rows)


def device_descriptor(board: str, mask: int, columns: Sequence[int]) -> dict[str, Any]:
    """Returns the device descriptor of a board whose rows of `mask` are switched off; `columns` are those of cores."""
    arch = load_board(board).arch
    there = [row for bit, row in zip(HARVESTABLE_ROWS, _rows(arch), strict=True) if not mask >> bit & 1]
    workers = [f"{column}-{row}" for row in there for column in columns]
    return {"arch_name": arch.upper(), "board": board, "functional_workers": workers}


def _rows(arch: str) -> tuple[int, ...]:
    """The rows of a NoC that hold cores, in the order of the bits of a mask."""
    return tuple(range(2, 12)) if arch == "blackhole" else HARVESTABLE_ROWS


def read_runtime_params(path: Path) -> tuple[str, int]:
    """Returns the board of a file of runtime parameters, and the mask of its harvested rows. Raises ValueError.

    The file is one of ours, or one of TT-Buda's presets (`wh_n300_syslevel.yaml`), which name an arch.
    """
    document = _mapping(path)
    if isinstance(system := document.get("system_level_params"), dict):
        document |= _of_preset(path, system)
    if lacking := [key for key in KEYS if key not in document]:
        raise ValueError(f"{path}: expected {', '.join(KEYS)}, got no {lacking[0]}")
    board = str(document["board"])
    load_board(board)
    masks = document["harvested_rows"]
    if not isinstance(masks, list) or not masks or not all(isinstance(mask, int) for mask in masks):
        raise ValueError(f"{path}: harvested_rows: expected a mask for each chip, got {masks!r}")
    mask = max(masks, key=int.bit_count)
    rows_of_mask(mask)
    return board, mask


def _of_preset(path: Path, system: dict[str, Any]) -> dict[str, Any]:
    """Returns what TT-Buda's parameters of a system say, in our words. Raises ValueError."""
    chips = [key for key in system if re.fullmatch(r"system-device\d+-type", key)]
    arches = {str(system[key]).lower() for key in chips}
    if len(arches) != 1 or (arch := arches.pop()) not in DEFAULT_BOARD:
        raise ValueError(
            f"{path}: system_level_params: expected chips of {' or '.join(DEFAULT_BOARD)}, got {chips}"[:300]
        )
    masks = [system.get(key.removesuffix("type") + "harvesting_mask", 0) for key in chips]
    numbers = [int(re.findall(r"\d+", key)[0]) for key in chips]
    return {"arch_name": arch, "board": DEFAULT_BOARD[arch], "harvested_rows": masks, "chip_ids": numbers}


def write_runtime_params(path: Path, board: str, chip_ids: Sequence[int], masks: Sequence[int]) -> None:
    """Writes a file of runtime parameters. Raises OSError."""
    described = {
        "arch_name": load_board(board).arch,
        "board": load_board(board).board,
        "harvested_rows": list(masks),
        "chip_ids": list(chip_ids),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, yaml.safe_dump(described, sort_keys=False))


def _mapping(path: Path) -> dict[str, Any]:
    try:
        document = read_yaml(path)
    except OSError as error:
        raise ValueError(f"{path}: expected a readable file, got: {error.strerror}") from error
    if not isinstance(document, dict):
        raise ValueError(f"{path}: expected a mapping, got {type(document).__name__}")
    return document


def _board_of(path: Path, arch: Any, board: Any) -> str:
    """The board of that name, or else the default one of an architecture."""
    named = str(arch).lower()
    if named not in DEFAULT_BOARD:
        raise ValueError(f"{path}: arch_name: expected {', '.join(DEFAULT_BOARD)}, got {arch!r}")
    if board is None:
        return DEFAULT_BOARD[named]
    if load_board(str(board)).arch != named:
        raise ValueError(f"{path}: board: expected one of {named}, got {board!r}")
    return str(board)
