"""The cards that are there, by a cluster descriptor or else the one configured board, and which of them a `TTDevice`
means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opscope.base.yaml_text import read_yaml
from opscope.compiler.target.system_desc import DEFAULT_BOARD, MOST_CHIPS, load_board
from opscope.simulator.host.argument_checks import count, listed, one_of
from opscope.simulator.host.errors import NoMeaningHere, PyBudaError
from opscope.simulator.host.learning_rate_scheduler import LearningRateScheduler
from opscope.simulator.host.optimizers import Optimizer
from opscope.simulator.host.settings.enumerations import REFUSED, BackendDevice, BackendType, DataFormat, DeviceMode
from opscope.simulator.host.settings.options import described_card, option

CONFIGURED_BOARD = "n150"
"""The card that is there where no option names another."""


@dataclass(frozen=True)
class DetectedDevice:
    """One chip."""

    chip_id: int
    arch: BackendDevice
    board: str
    at: tuple[int, ...] = ()
    """Where a cluster descriptor says it is: x, y, rack and shelf."""


def detect_available_devices() -> list[BackendDevice]:
    """Returns the architecture of each chip that is there, in the order of their ids. Raises PyBudaError."""
    return [card.arch for card in detected_devices()]


def detected_devices(arch: BackendDevice | None = None) -> list[DetectedDevice]:
    """Returns the chips of the cluster descriptor (`backend_cluster_descriptor_path`), else the configured board.

    `arch`: of the chips of a descriptor that says none. Raises PyBudaError.
    """
    path = option("backend_cluster_descriptor_path")
    board = described_card()[0]
    if path is not None:
        return read_cluster(Path(path), _named(load_board(board).arch) if board else arch)
    board = board or CONFIGURED_BOARD
    return [DetectedDevice(0, _named(load_board(board).arch), board)]


def read_cluster(path: Path, arch: BackendDevice | None = None) -> list[DetectedDevice]:
    """Reads a cluster descriptor of tt-umd: `chips` or `arch` by id; `arch`: of chips that it says none of.

    Raises PyBudaError.
    """
    where, document = _descriptor(path)
    boards = document.get("boardtype") or {}
    named = document.get("arch") or {}
    chips = document.get("chips") or named
    if not isinstance(chips, dict) or not chips or not isinstance(named, dict) or not isinstance(boards, dict):
        raise PyBudaError(f"{where}: expected chips by id and their arch, got neither")
    arches = named or dict.fromkeys(chips, arch and arch.arch)
    cards = []
    for chip in sorted(chips):
        if not isinstance(chip, int) or arches.get(chip) is None:
            raise PyBudaError(f"{where}: expected an arch of each chip, got none of {chip!r}; try TTDevice(arch=...)")
        of_chip = _named(str(arches[chip]))
        board = str(boards.get(chip, "")) or DEFAULT_BOARD[of_chip.arch]
        try:
            load_board(board)
        except ValueError:
            board = DEFAULT_BOARD[of_chip.arch]
        at = chips[chip] if isinstance(chips[chip], list) else ()
        cards.append(DetectedDevice(chip, of_chip, board, tuple(at)))
    return cards


def read_links(path: Path) -> dict[int, dict[int, tuple[int, int]]]:
    """Returns a cluster descriptor's Ethernet links, from both ends: chip -> channel -> chip and channel there.

    Raises PyBudaError.
    """
    where, document = _descriptor(path)
    links: dict[int, dict[int, tuple[int, int]]] = {}
    for ends in document.get("ethernet_connections") or ():
        try:
            one, other = ((int(end["chip"]), int(end["chan"])) for end in ends)
        except (TypeError, ValueError, KeyError):
            raise PyBudaError(
                f"{where}: ethernet_connections: expected pairs of {{chip: N, chan: N}}, got {ends!r}"[:300]
            ) from None
        for here, there in ((one, other), (other, one)):
            links.setdefault(here[0], {})[here[1]] = there
    return links


def _descriptor(path: Path) -> tuple[str, dict[str, Any]]:
    """Returns how errors name a cluster descriptor, and what it says. Raises PyBudaError."""
    where = f"backend_cluster_descriptor_path: {path}"
    try:
        document: Any = read_yaml(path)
    except OSError as error:
        raise PyBudaError(f"{where}: expected a readable file, got: {error.strerror}") from None
    except ValueError as error:
        raise PyBudaError(f"{where}: expected YAML, got: {' '.join(str(error).split())}"[:300]) from None
    if not isinstance(document, dict):
        raise PyBudaError(f"{where}: expected a mapping with arch and chips, got {type(document).__name__}")
    return where, document


def _named(arch: str) -> BackendDevice:
    return BackendDevice.from_json(arch if arch.lower() != "wormhole" else "Wormhole_B0")


KINDS: dict[str, type] = {
    "arch": BackendDevice,
    "devtype": BackendType,
    "device_mode": DeviceMode,
    "fp32_fallback": DataFormat,
    "optimizer": Optimizer,
    "scheduler": LearningRateScheduler,
}
"""Argument -> its class; None is always allowed."""


def check_arguments(name: str, arguments: dict[str, Any]) -> None:
    """Checks what a device is given, by the names of `KINDS`. Raises PyBudaError, NoMeaningHere."""
    for what, kind in KINDS.items():
        one_of(f"{name}: {what}", arguments[what], kind)
    devtype = arguments["devtype"]
    if devtype is not None and devtype.name in REFUSED:
        raise NoMeaningHere(
            f"{name}: devtype: expected Silicon, Golden or NoBackend, got {devtype.name}: {REFUSED[devtype.name]}"
        )
    if devtype is BackendType.Invalid or arguments["fp32_fallback"] is DataFormat.Invalid:
        raise PyBudaError(f"{name}: expected a devtype and a format, got Invalid")


def cards(name: str, num_chips: Any, chip_ids: Any, arch: BackendDevice | None) -> tuple[BackendDevice, list[Any], str]:
    """Returns architecture, ids and board of the cards that are meant. Raises PyBudaError."""
    if num_chips is not None:
        count(f"{name}: num_chips", num_chips, 0)
        if num_chips > MOST_CHIPS:
            raise PyBudaError(f"{name}: num_chips: expected at most {MOST_CHIPS}, got {num_chips}")
    none_named = chip_ids is None or (isinstance(chip_ids, list | tuple) and not chip_ids)
    ids = None if none_named else _ids(name, num_chips, chip_ids)
    described = option("backend_cluster_descriptor_path") is not None
    if arch is not None and not described:
        return arch, ids if ids is not None else list(range(num_chips or 1)), arch.arch
    there: list[DetectedDevice] = detected_devices(arch)
    by_id: dict[Any, DetectedDevice] = {card.chip_id: card for card in there}
    if ids is not None:
        by_id |= {card.at: card for card in there if card.at}
        absent = [chip for chip in ids if chip not in by_id]
        if absent:
            known = ", ".join(str(card.chip_id) for card in there)
            raise PyBudaError(f"{name}: chip_ids: expected some of {known}, got {absent[0]!r}")
        chosen = [by_id[chip] for chip in ids]
    else:
        chosen = there if arch is None else [card for card in there if card.arch is arch]
        if (num_chips or 1) > len(chosen):
            raise PyBudaError(
                f"{name}: num_chips: expected at most {len(chosen)}, which are there, got {num_chips or 1}"
            )
        chosen = chosen[:num_chips] if num_chips else chosen
    kinds = sorted({card.arch.name for card in chosen} | ({arch.name} if arch is not None else set()))
    if len(kinds) > 1:
        raise PyBudaError(f"{name}: expected cards of one architecture, got {', '.join(kinds)}; try chip_ids")
    return chosen[0].arch, [card.chip_id for card in chosen], chosen[0].board


def _ids(name: str, num_chips: Any, chip_ids: Any) -> list[Any]:
    """Returns ids, or coordinates of chips as tuples, as many as `num_chips` says, if it does. Raises PyBudaError."""
    where = f"{name}: chip_ids"
    ids = [_id(where, chip) for chip in listed(where, chip_ids, "ids")]
    if len(set(ids)) != len(ids):
        raise PyBudaError(f"{where}: expected ids, each once, got {chip_ids!r}")
    if num_chips and num_chips != len(ids):
        raise PyBudaError(f"{where}: expected {num_chips} ids, as num_chips says, got {len(ids)}")
    return ids


def _id(where: str, chip: Any) -> int | tuple[int, ...]:
    if isinstance(chip, tuple | list) and chip and isinstance(chip, Sequence):
        return tuple(count(f"{where}: {chip!r}", number, 0) for number in chip)
    return count(where, chip, 0)
