"""Writes device images: `write_image(path, modules, values)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import yaml

from opscope.base.digest import digest_of_sources, source_files
from opscope.base.places import HOME
from opscope.compiler.target.device_files import device_descriptor
from opscope.compiler.target.system_desc import SystemDesc, also_harvested, load_board
from opscope.simulator.host import image_archive, safetensors_file
from opscope.simulator.host.compiled_module import CompiledModule, LoadedModule
from opscope.simulator.host.errors import ImageError
from opscope.simulator.host.tt_device_image import (
    ARCHS,
    BUILD,
    CONFIGURATION,
    DEVICE,
    PARAMETERS,
    DeviceDescription,
    ModuleDescription,
    Versions,
)
from opscope.simulator.timing.events.geometry import GEOMETRIES

TENSOR_FORMAT = "safetensors"
REFUSED_FORMATS = {
    "pkl": "a pickle runs code when it is read",
    "pickle": "a pickle runs code when it is read",
    "bin": "TT-Buda's tiles without a header say neither shape nor type",
    "tbin": "TT-Buda's tiles without a header say neither shape nor type",
}
"""Name of a serialisation -> why no image has it."""
_FOLDERS = ("graph_", "temporal_epoch_")
"""Folders of the back end's output that go below `epoch_programs/`."""


def write_image(
    path: str | Path,
    modules: Sequence[CompiledModule],
    values: Mapping[str, np.ndarray],
    *,
    device_name: str = "tt0",
    devtype: str = "Silicon",
    training: bool = False,
    microbatch: int = 1,
    sources: Mapping[str, str] | None = None,
    runtime: Mapping[str, Any] | None = None,
    tensor_format: str = TENSOR_FORMAT,
) -> None:
    """Writes an image of modules that were compiled for one device; that device need not be there.

    `values` has every argument that stays from run to run, by name. `sources` is source text for people to read: file
    name -> text; nothing of it is ever imported. Each run is given `microbatch` inputs. `runtime` are options of
    the runtime, to be kept with the image. Raises ImageError if a value is missing or modules are for different
    devices, DeviceError if the board does not hold a plan, OSError.
    """
    path = Path(path)
    if tensor_format != TENSOR_FORMAT:
        why = REFUSED_FORMATS.get(tensor_format, "no other format is read")
        raise ImageError(f"tensor_format: expected {TENSOR_FORMAT}, got {tensor_format!r}: {why}")
    if not modules:
        raise ImageError(f"{path}: expected at least one compiled module, got none; try place_module first")
    kinds = [module.kind for module in modules]
    if len(set(kinds)) < len(kinds):
        raise ImageError(f"{path}: expected modules of different kinds, got {', '.join(kinds)}")
    loaded = [module.load() for module in modules]
    entries: dict[str, bytes | list[bytes | memoryview]] = {}
    descriptions = [_add_module(entries, number, module) for number, module in enumerate(modules)]
    board = _one_device(path, loaded)
    device = DeviceDescription(
        versions(),
        device_name,
        board.arch,
        board.board,
        *_chips(loaded[0]),
        devtype,
        training,
        ("jaxlib",) if any(module.needs_jaxlib for module in loaded) else (),
        tuple(descriptions),
        microbatch,
    )
    entries[PARAMETERS] = safetensors_file.encode(_tensors(modules, values))
    configuration = {module.kind: module.options for module in modules}
    whole = {
        DEVICE: _json(device),
        CONFIGURATION: _json({"compiler": configuration, "runtime": dict(runtime or {})}),
        f"{BUILD}device_desc.yaml": _yaml(_device_desc(board, device)),
        f"{BUILD}cluster_desc.yaml": _yaml(_cluster_desc(device)),
        **entries,
        **{f"module_files/{name}": text.encode() for name, text in (sources or {}).items()},
    }
    for name in whole:
        image_archive.check_name(path, name)
    image_archive.write(path, whole)


def versions() -> Versions:
    """Returns the version of opscope, and digests of the sources of compiler and simulator."""
    from importlib import metadata

    try:
        version = metadata.version("opscope")
    except metadata.PackageNotFoundError:
        version = "0"
    rooms = (digest_of_sources(source_files(HOME / room), root=HOME)[:8] for room in ("compiler", "simulator"))
    return Versions(version, *rooms)


def _add_module(entries: dict[str, Any], number: int, module: CompiledModule) -> ModuleDescription:
    """Adds the entries of one module, and returns its description."""
    tail = "" if number == 0 else f"_{module.kind}"
    host, program = f"{BUILD}host{tail}.ttnn", f"{BUILD}program{tail}.ttnn"
    netlist = f"{module.name}{tail}.yaml"
    entries |= {netlist: module.netlist.encode(), host: module.host, program: module.program}
    if module.stablehlo:
        entries[f"module_files/{module.name}{tail}.mlirbc"] = module.stablehlo
    for name, text in module.backend_files.items():
        if name.startswith("hlks/"):
            entries[f"{BUILD}hlks{tail}/{name.removeprefix('hlks/')}"] = text.encode()
        elif name.startswith(_FOLDERS):
            entries[f"{BUILD}epoch_programs{tail}/{name}"] = text.encode()
    return ModuleDescription(
        module.name,
        module.kind,
        host,
        program,
        netlist,
        module.arguments,
        module.results,
        module.contents,
        module.queues,
        module.device_results,
        module.host_results,
    )


def _chips(module: LoadedModule) -> tuple[tuple[int, ...], tuple[int, ...]]:
    chips = module.binary.chip_ids or (0,)
    return chips, module.binary.harvested or (0,) * len(chips)


def _one_device(path: Path, loaded: Sequence[LoadedModule]) -> SystemDesc:
    """Returns the board of all modules. Raises ImageError if they are for different ones."""
    devices = {(module.binary.board, *_chips(module)) for module in loaded}
    if len(devices) > 1:
        raise ImageError(f"{path}: expected modules for one device, got {len(devices)}: {sorted(devices)}")
    return load_board(loaded[0].binary.board)


def _tensors(modules: Sequence[CompiledModule], values: Mapping[str, np.ndarray]) -> dict[str, tuple[str, np.ndarray]]:
    tensors: dict[str, tuple[str, np.ndarray]] = {}
    for module in modules:
        for argument in module.kept:
            if argument.name not in values:
                raise ImageError(f"{module.name}.{argument.name}: expected a value of this {argument.role}, got none")
            value = np.asarray(values[argument.name])
            if value.shape != argument.shape:
                raise ImageError(
                    f"{module.name}.{argument.name}: expected {list(argument.shape)}, got {list(value.shape)}"
                )
            before = tensors.setdefault(argument.name, (argument.element_type, value))
            if (before[0], before[1].shape) != (argument.element_type, value.shape):
                raise ImageError(f"{module.name}.{argument.name}: expected one type in all modules, got two")
    return tensors


def _json(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1)


def _yaml(value: Any) -> bytes:
    return yaml.safe_dump(value, default_flow_style=None, sort_keys=False, width=160).encode()


def _device_desc(board: SystemDesc, device: DeviceDescription) -> dict[str, Any]:
    """What tt-umd reads of a chip, here of the one with the fewest rows, and the figures of the board."""
    grids = {
        chip: also_harvested(board, mask).buda for chip, mask in zip(device.chip_ids, device.harvested, strict=True)
    }
    described = {name: value for name, value in asdict(board).items() if name not in ("ttnn", "buda")}
    profile = {name: value for name, value in asdict(board.buda).items() if name != "l1_regions"}
    descriptor = device_descriptor(
        board.board, max(device.harvested, key=int.bit_count), GEOMETRIES[board.arch].columns
    )
    figures = {"buda": profile, "grids": {chip: list(buda.grid) for chip, buda in grids.items()}}
    return _plain({**described, **descriptor, **figures})


def _cluster_desc(device: DeviceDescription) -> dict[str, Any]:
    """What tt-umd reads of the chips, in a row. A plan's chips exchange data by queues, so that no links are there."""
    chips = device.chip_ids
    return {
        "arch": dict.fromkeys(chips, ARCHS[device.arch]),
        "chips": {chip: [place, 0, 0, 0] for place, chip in enumerate(chips)},
        "ethernet_connections": [],
        "boardtype": dict.fromkeys(chips, device.board),
        "harvesting": {chip: {"harvest_mask": mask} for chip, mask in zip(chips, device.harvested, strict=True)},
    }


def _plain(value: Any) -> Any:
    """Returns a value with lists for tuples."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
