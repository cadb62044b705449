"""The cards that are there: those of a cluster descriptor, else the one configured board."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opscope.base.yaml_text import read_yaml
from opscope.compiler.api import CompilerInputError
from opscope.compiler.target.system_desc import DEFAULT_BOARD, load_board
from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.settings.enumerations import BackendDevice
from opscope.simulator.host.settings.options import configuration, option

CONFIGURED_BOARD = "n150"
"""The card that is there where no option names another."""


@dataclass(frozen=True)
class DetectedDevice:
    """One chip."""

    chip_id: int
    arch: BackendDevice
    board: str


def detect_available_devices() -> list[BackendDevice]:
    """Returns the architecture of each chip that is there, in the order of their ids. Raises PyBudaError."""
    return [card.arch for card in detected_devices()]


def detected_devices() -> list[DetectedDevice]:
    """Returns the chips of the cluster descriptor (`backend_cluster_descriptor_path`), else the configured board."""
    path = option("backend_cluster_descriptor_path")
    if path is not None:
        return read_cluster(Path(path))
    try:
        board = configuration().device[0] or CONFIGURED_BOARD
    except CompilerInputError as error:
        raise PyBudaError(str(error)) from None
    return [DetectedDevice(0, _named(load_board(board).arch), board)]


def read_cluster(path: Path) -> list[DetectedDevice]:
    """Reads a cluster descriptor of tt-umd: `chips` or `arch` by id. Raises PyBudaError."""
    where = f"backend_cluster_descriptor_path: {path}"
    try:
        document: Any = read_yaml(path)
    except OSError as error:
        raise PyBudaError(f"{where}: expected a readable file, got: {error.strerror}") from None
    except ValueError as error:
        raise PyBudaError(f"{where}: expected YAML, got: {' '.join(str(error).split())}"[:300]) from None
    if not isinstance(document, dict):
        raise PyBudaError(f"{where}: expected a mapping with arch and chips, got {type(document).__name__}")
    arches, boards = document.get("arch") or {}, document.get("boardtype") or {}
    chips = document.get("chips") or arches
    if not isinstance(chips, dict) or not chips or not isinstance(arches, dict) or not isinstance(boards, dict):
        raise PyBudaError(f"{where}: expected chips by id and their arch, got neither")
    cards = []
    for chip in sorted(chips):
        if not isinstance(chip, int) or chip not in arches:
            raise PyBudaError(f"{where}: expected an arch of each chip, got none of {chip!r}")
        arch = _named(str(arches[chip]))
        board = str(boards.get(chip, "")) or DEFAULT_BOARD[arch.arch]
        try:
            load_board(board)
        except ValueError:
            board = DEFAULT_BOARD[arch.arch]
        cards.append(DetectedDevice(chip, arch, board))
    return cards


def _named(arch: str) -> BackendDevice:
    return BackendDevice.from_json(arch if arch.lower() != "wormhole" else "Wormhole_B0")
