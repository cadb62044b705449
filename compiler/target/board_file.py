"""Reads a board file: every figure is there, of its kind, and possible, or one line says which is not.

Raises ValueError: `FILE: expected X, got Y`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from opscope.base.yaml_text import YamlError, read_yaml
from opscope.compiler.target.formats import FORMATS

Check = tuple[str, Callable[[Any], bool]]
"""What is expected, and whether a value is it."""
ARCHS = ("grayskull", "wormhole_b0", "blackhole")
MOST = 1 << 48
"""No figure of a board is larger; what is, was mistyped."""


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < MOST


def _is_size(value: Any) -> bool:
    return _is_count(value) and value > 0


def _is_rate(value: Any) -> bool:
    return type(value) in (int, float) and 0 < value < MOST


def _is_list(value: Any, of: Callable[[Any], bool], least: int = 0) -> bool:
    return isinstance(value, list) and len(value) >= least and all(map(of, value)) and len(set(value)) == len(value)


def _is_grid(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_size, value))


def _is_format(value: Any) -> bool:
    return value in FORMATS and FORMATS[value].on_device


NAME: Check = ("a name", lambda value: isinstance(value, str) and value != "")
COUNT: Check = ("a whole number of 0 or more", _is_count)
SIZE: Check = ("a whole number above 0", _is_size)
RATE: Check = ("a number above 0", _is_rate)
GRID: Check = ("rows and columns above 0, such as [8, 8]", _is_grid)
BOARD: Mapping[str, Check] = {
    "board": NAME,
    "arch": (f"one of {', '.join(ARCHS)}", lambda value: value in ARCHS),
    "clock_ghz": RATE,
    "chips": SIZE,
    "physical_grid": GRID,
    "harvested_rows": ("a list of rows that differ", lambda value: _is_list(value, _is_count)),
    "formats": ("a list of formats of a device that differ", lambda value: _is_list(value, _is_format, 1)),
    "dst_formats": ("a list of formats of a device that differ", lambda value: _is_list(value, _is_format, 1)),
    "cycles_per_tile_matmul": SIZE,
    "noc_bytes_per_clock": SIZE,
    "dram_gb_per_s": RATE,
    "dram_efficiency": ("a share above 0 and up to 1", lambda value: _is_rate(value) and value <= 1),
}
LINK: Mapping[str, Check] = {"gb_per_s": RATE, "hop_ns": RATE}
ETHERNET = "ethernet"
"""A link between chips, which a board may lack."""
RUNTIME = "runtime"
"""What tt-metal finds and sets aside (`runtime_facts.py`), which a board may lack."""
PROFILE: Mapping[str, Check] = {
    "grid": GRID,
    "l1_bytes": SIZE,
    "l1_unreserved_base": COUNT,
    "l1_regions": (
        "names with their bytes",
        lambda value: isinstance(value, dict) and all(NAME[1](name) and _is_size(size) for name, size in value.items()),
    ),
    "dram_channels": SIZE,
    "dram_channel_bytes": SIZE,
    "dram_unreserved_base": COUNT,
    "alignment": (
        "powers of two for l1 and dram",
        lambda value: (
            isinstance(value, dict)
            and set(value) == {"l1", "dram"}
            and all(_is_size(size) and size & (size - 1) == 0 for size in value.values())
        ),
    ),
    "tile_header_bytes": COUNT,
}
PROFILES = ("ttnn", "buda")


def read_board(path: Path, boards: Path) -> dict[str, Any]:
    """Returns the checked figures of a board file, with those of the board of the folder `boards` that it is like.

    What is under `runtime` is checked by `runtime_facts`.
    """
    raw = _figures(path)
    if "like" in raw:
        other = boards / f"{raw.pop('like')}.yaml"
        if not other.is_file():
            raise ValueError(f"{path.name}: expected a board's name at `like`, got {other.stem!r}")
        raw = _over(_figures(other), raw)
    parts = (*PROFILES, *({ETHERNET, RUNTIME} & set(raw)))
    figures: Check = ("figures by name", lambda value: isinstance(value, dict))
    check_figures(path.name, raw, {**BOARD, **dict.fromkeys(parts, figures)})
    if ETHERNET in raw:
        check_figures(f"{path.name}: {ETHERNET}", raw[ETHERNET], LINK)
    for world in PROFILES:
        check_figures(f"{path.name}: {world}", raw[world], PROFILE)
        _check_profile(f"{path.name}: {world}", raw[world], raw["physical_grid"])
    if raw["board"] != path.stem:
        raise ValueError(f"{path.name}: expected the file's name at `board`, got {raw['board']!r}")
    if beyond := [row for row in raw["harvested_rows"] if row >= raw["physical_grid"][0]]:
        raise ValueError(f"{path.name}: expected harvested_rows below {raw['physical_grid'][0]}, got {beyond[0]}")
    if raw["buda"]["grid"][0] != (left := raw["physical_grid"][0] - len(raw["harvested_rows"])):
        raise ValueError(
            f"{path.name}: buda: expected a grid of {left} rows, all that are not harvested, got {raw['buda']['grid']}"
        )
    return raw


def _over(other: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Returns another board's figures with a board's own over them, also in each part; what is null is left out."""
    merged = {**other, **own}
    for part in (*PROFILES, ETHERNET, RUNTIME):
        below, above = other.get(part), own.get(part)
        if isinstance(below, dict) and isinstance(above, dict):
            merged[part] = {**below, **above}
    return {key: value for key, value in merged.items() if value is not None or key not in (ETHERNET, RUNTIME)}


def _figures(path: Path) -> dict[str, Any]:
    try:
        raw = read_yaml(path)
    except YamlError as error:
        raise ValueError(f"{path.name}: expected YAML, got: {error}") from error
    if not isinstance(raw, dict):
        raise ValueError(f"{path.name}: expected figures by name, got {type(raw).__name__}")
    return raw


def check_figures(where: str, raw: Mapping[str, Any], checks: Mapping[str, Check]) -> None:
    """Checks that each figure is there and what is expected, and no other. Raises ValueError."""
    for key, (expected, holds) in checks.items():
        if key not in raw:
            raise ValueError(f"{where}: expected {key}, {expected}, got none")
        if not holds(raw[key]):
            raise ValueError(f"{where}: expected {key} to be {expected}, got {raw[key]!r}")
    if strange := sorted(set(raw) - set(checks)):
        raise ValueError(f"{where}: expected only {', '.join(checks)}, got {strange[0]!r}")


def _check_profile(where: str, raw: Mapping[str, Any], physical: list[int]) -> None:
    if raw["grid"][0] > physical[0] or raw["grid"][1] > physical[1]:
        raise ValueError(f"{where}: expected a grid within the physical one of {physical}, got {raw['grid']}")
    for base, size in (("l1_unreserved_base", "l1_bytes"), ("dram_unreserved_base", "dram_channel_bytes")):
        if raw[base] >= raw[size]:
            raise ValueError(f"{where}: expected {base} below {size} ({raw[size]}), got {raw[base]}")
    if sum(raw["l1_regions"].values()) != raw["l1_unreserved_base"]:
        raise ValueError(
            f"{where}: expected l1_regions whose sizes sum to {raw['l1_unreserved_base']}, got {raw['l1_regions']}"
        )
