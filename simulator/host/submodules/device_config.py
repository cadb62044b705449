"""`pybuda.ttdevice.get_device_config`: what TT-Buda's tests ask of a card before they use it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opscope.compiler.target.system_desc import also_harvested, base_and_mask, load_board
from opscope.simulator.host.argument_checks import one_of
from opscope.simulator.host.devices.cards import read_links
from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.settings.enumerations import BackendDevice
from opscope.simulator.host.settings.options import described_card, option


@dataclass(frozen=True)
class GridSize:
    """Rows and columns of cores."""

    r: int
    c: int


@dataclass(frozen=True)
class DeviceConfig:
    """A card as it is planned for."""

    arch_name: str
    grid_size: GridSize
    """Rows and columns of cores that are switched on."""
    chip_ids: tuple[Any, ...]
    harvested: int
    links: dict[int, dict[int, tuple[int, int]]]

    def get_harvested_cfg(self) -> int:
        """Returns the mask of rows that are switched off."""
        return self.harvested

    def get_ethernet_connections(self) -> dict[int, dict[int, tuple[int, int]]]:
        """Returns the links of the cluster descriptor: chip -> channel -> chip and channel there; none without one."""
        return self.links


def get_device_config(
    arch: BackendDevice,
    chip_ids: Sequence[Any] | None = None,
    backend_cluster_descriptor_path: str = "",
    backend_runtime_params_path: str = "",
    store_backend_db_to_yaml: bool = False,
    backend_type: Any = None,
    device_yaml: str = "",
    backend_output_dir: str = "./tt_build",
    backend_device_descriptor_path_override: str | None = None,
    harvesting_mask: int = 0,
) -> DeviceConfig:
    """Returns what is known of a card of that architecture; rows are harvested by a mask, or as the options say.

    Without `backend_cluster_descriptor_path` the option of that name counts; the other paths are read from the options
    (`backend_..._path`), which devices read too. Raises PyBudaError.
    """
    if one_of("get_device_config: arch", arch, BackendDevice) is None:
        raise PyBudaError("get_device_config: expected an arch, got None; try pybuda.BackendDevice.Wormhole_B0")
    board, named = described_card()
    described = load_board(board or arch.arch)
    mask = harvesting_mask or named
    rows, columns = also_harvested(described, mask).buda.grid
    cluster = backend_cluster_descriptor_path or option("backend_cluster_descriptor_path")
    return DeviceConfig(
        arch.arch,
        GridSize(rows, columns),
        tuple(chip_ids or ()),
        mask or base_and_mask(described.board)[1],
        read_links(Path(cluster)) if cluster else {},
    )
