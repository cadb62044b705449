"""A device image (TTI): a compiled model with its parameters in one file, which runs without the compiler.

image = TTDeviceImage.load_from_disk("device_images/tt0.tti")
image.info()
inputs = [np.zeros(shape, np.float32) for shape in image.get_input_shapes()]
outputs = image.run(inputs)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from opscope.compiler.target.queue_content import QueueContent
from opscope.compiler.target.system_desc import also_harvested, load_board
from opscope.simulator.host import image_archive, safetensors_file
from opscope.simulator.host.compiled_module import ROLES, CompiledModule, LoadedModule, Value
from opscope.simulator.host.errors import ImageError, PyBudaError
from opscope.simulator.host.microbatch import joined, one_by_one

DEVICE, CONFIGURATION = "device.json", "compile_and_runtime_config.json"
BUILD = "backend_build_binaries/"
PARAMETERS = "tensors/parameters.safetensors"
ARCHS = {"grayskull": "Grayskull", "wormhole_b0": "Wormhole_B0", "blackhole": "Blackhole"}
"""Kind of chip -> its name in TT-Buda's `BackendDevice`."""


@dataclass(frozen=True)
class Versions:
    """What wrote an image."""

    version: str
    """Of opscope."""
    compiler: str
    """The first digits of the digest of the compiler's sources."""
    simulator: str
    """The first digits of the digest of the simulator's sources."""


@dataclass(frozen=True)
class ModuleDescription:
    """A compiled module in `device.json`: the fields of `CompiledModule`, with entries for what is bytes or text."""

    name: str
    kind: str
    host: str
    program: str
    netlist: str
    arguments: tuple[Value, ...]
    results: tuple[Value, ...]
    contents: tuple[QueueContent, ...]
    queues: tuple[str, ...]
    device_results: tuple[int, ...]
    host_results: tuple[int, ...]


@dataclass(frozen=True)
class DeviceDescription:
    """`device.json`: the device that an image was compiled for, and its modules."""

    versions: Versions
    name: str
    """The name of the device, such as `tt0`."""
    arch: str
    board: str
    chip_ids: tuple[int, ...]
    harvested: tuple[int, ...]
    """Mask of harvested rows of each chip."""
    devtype: str
    """TT-Buda's `BackendType`."""
    training: bool
    needs: tuple[str, ...]
    """Packages that a run needs beside NumPy: `jaxlib` if the host's part has operations that the device has not."""
    modules: tuple[ModuleDescription, ...]
    microbatch: int = 1
    """How many inputs one run is given; the card computes one after the other."""

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the cores that every chip has. Raises ValueError for rows that no chip has."""
        board = load_board(self.board)
        grids = [also_harvested(board, mask).buda.grid for mask in self.harvested] or [board.buda.grid]
        return min(grids)


@dataclass(frozen=True)
class TTDeviceImage:
    """A device image in memory."""

    path: Path
    device: DeviceDescription
    modules: tuple[CompiledModule, ...]
    loaded: tuple[LoadedModule, ...]
    """The modules on the board that the image was compiled for, or on that of `load_from_disk`."""
    parameters: Mapping[str, np.ndarray]
    """Values that stay from run to run, by name: parameters and states."""
    configuration: Mapping[str, Any] = field(default_factory=dict)
    """The compile options that were set, by module."""
    entries: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """Every entry of the file."""

    @classmethod
    def load_from_disk(cls, img_path: str | Path, board: str = "") -> TTDeviceImage:
        """Reads an image and checks all of it: digests, and that the board holds its plans.

        `board` is another board than that of the image, such as one with rows switched off. Raises ImageError, or the
        device's own error (WrongBoard, BadBinary, OutOfMemory, ...) for a plan that it does not hold.
        """
        if not isinstance(img_path, str | Path):
            raise ImageError(f"img_path: expected the name of a device image, got {img_path!r}"[:300])
        path = Path(img_path)
        entries = image_archive.read(path)
        device = _described(path, entries)
        tensors = {}
        for name in sorted(name for name in entries if name.startswith(image_archive.TENSORS)):
            tensors |= safetensors_file.decode(f"{path}: {name}", entries[name])
        modules = tuple(_module(path, row, entries) for row in device.modules)
        loaded = tuple(module.load(board) for module in modules)
        for module in loaded:
            _check_device(path, device, module)
            _check_values(path, module.module, tensors)
        needs = ("jaxlib",) if any(module.needs_jaxlib for module in loaded) else ()
        if device.needs != needs:
            raise ImageError(f"{path}: {DEVICE}: expected needs {list(needs)}, got {list(device.needs)}")
        values = {name: array for name, (_, array) in tensors.items()}
        return cls(path, device, modules, loaded, values, _json(path, entries, CONFIGURATION), entries)

    def info(self) -> None:
        """Prints what the image is."""
        print(self.info_text())

    def info_text(self) -> str:
        """Returns what `info` prints, in the form of TT-Buda's."""
        device = self.device
        masks = list(device.harvested)
        harvested = masks[0] if len(set(masks)) == 1 else masks or 0
        lines = [
            "Image Info...",
            "- Version Info:",
            f"    - pybuda_version: opscope {device.versions.version}",
            f"    - pybuda_commit: {device.versions.compiler}",
            f"    - buda_backend_commit: {device.versions.simulator}",
            f"- Device Name: {device.name}",
            "Device Info...",
            f"- arch: BackendDevice.{ARCHS.get(device.arch, device.arch)}",
            f"- chip_ids: {list(device.chip_ids)}",
            f"- backend device type: BackendType.{device.devtype}",
            f"- grid size: {list(device.grid)}",
            f"- harvested rows: {harvested}",
            "Compilation Graph State...",
            f"- training: {device.training}",
            f"- modules: {list(dict.fromkeys(module.name for module in self.modules))}",
            f"- ordered input shapes: {self.get_input_shapes()}",
            f"- ordered targets shapes: {self.get_target_shapes()}",
        ]
        return "\n".join(lines)

    @property
    def trains(self) -> bool:
        """Whether it holds the three passes of training, of which none runs alone."""
        return any(module.kind == "backward" for module in self.modules)

    def get_input_shapes(self) -> list[list[int]]:
        """Returns the shapes of the inputs of one run, in order: a leading size of 1 is that of the microbatch."""
        return self._shapes("input")

    def get_target_shapes(self) -> list[list[int]]:
        """Returns the shapes of the targets of training, in order."""
        return self._shapes("target")

    def _shapes(self, role: str) -> list[list[int]]:
        shapes = [value.shape for value in self.modules[0].inputs if value.role == role]
        return [[self.device.microbatch, *shape[1:]] if shape[:1] == (1,) else list(shape) for shape in shapes]

    def run(
        self, inputs: Sequence[np.ndarray] | Mapping[str, np.ndarray], *, per_core: bool = False
    ) -> list[np.ndarray]:
        """Runs the first module on inputs in their order, or by name, and returns its results in order.

        Raises ImageError for another number of inputs or an unknown name, BadInput for another shape or type.
        """
        if self.trains:
            raise ImageError(
                f"{self.path}: expected an image of inference, got one of training; try TTDevice.load_image and "
                "run_training"
            )
        module = self.modules[0]
        names = [value.name for value in module.inputs]
        if not isinstance(inputs, Mapping):
            if len(inputs) != len(names):
                raise ImageError(f"inputs: expected {len(names)} ({', '.join(names)[:200]}), got {len(inputs)}")
            inputs = dict(zip(names, inputs, strict=True))
        if strange := [name for name in inputs if name not in names]:
            raise ImageError(f"inputs: expected {', '.join(names)[:200]}, got {strange[0]!r}")
        size = self.device.microbatch
        try:
            each = one_by_one(f"{self.path}", [np.asarray(value) for value in inputs.values()], size)
        except PyBudaError as error:
            raise ImageError(str(error)) from error
        runs = [dict(zip(inputs, one, strict=True)) for one in each]
        return joined([self.loaded[0].run({**self.parameters, **one}, per_core=per_core) for one in runs])


def _described(path: Path, entries: Mapping[str, bytes]) -> DeviceDescription:
    try:
        device = msgspec.json.decode(_entry(path, entries, DEVICE), type=DeviceDescription)
        _ = device.grid
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ImageError(f"{path}: {DEVICE}: expected the description of a device, got: {error}") from error
    if device.microbatch < 1:
        raise ImageError(f"{path}: {DEVICE}: expected a microbatch of 1 or more, got {device.microbatch}")
    if not device.modules:
        raise ImageError(f"{path}: {DEVICE}: expected at least one module, got none")
    for module in device.modules:
        roles = [value.role for value in module.arguments]
        if strange := set(roles) - set(ROLES):
            raise ImageError(f"{path}: {module.name}: expected a role of {', '.join(ROLES)}, got {min(strange)!r}")
    return device


def _entry(path: Path, entries: Mapping[str, bytes], name: str) -> bytes:
    if name not in entries:
        raise ImageError(f"{path}: expected an entry {name}, got none; try to compile the model again")
    return entries[name]


def _json(path: Path, entries: Mapping[str, bytes], name: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(_entry(path, entries, name), type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ImageError(f"{path}: {name}: expected JSON, got: {error}") from error


def _module(path: Path, row: ModuleDescription, entries: Mapping[str, bytes]) -> CompiledModule:
    try:
        netlist = _entry(path, entries, row.netlist).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ImageError(f"{path}: {row.netlist}: expected text, got {error.reason}") from error
    files = {name: _entry(path, entries, name) for name in (row.host, row.program)}
    return CompiledModule(
        row.name,
        row.kind,
        files[row.host],
        files[row.program],
        row.arguments,
        row.results,
        row.contents,
        row.queues,
        row.device_results,
        row.host_results,
        netlist,
    )


def _check_device(path: Path, device: DeviceDescription, module: LoadedModule) -> None:
    """Checks that a program was compiled for the device that `device.json` describes. Raises ImageError."""
    made = module.binary
    wanted = (made.board, made.arch, made.chip_ids or (0,), made.harvested or (0,) * max(len(made.chip_ids), 1))
    got = (device.board, device.arch, device.chip_ids, device.harvested)
    if wanted != got:
        raise ImageError(f"{path}: {DEVICE}: expected the device of {module.module.name}, {wanted}, got {got}")


def _check_values(path: Path, module: CompiledModule, tensors: Mapping[str, tuple[str, np.ndarray]]) -> None:
    """Checks that each argument that stays has a value of its shape and type. Raises ImageError."""
    for value in module.kept:
        element_type, array = tensors.get(value.name, ("none", np.empty(0)))
        if (value.shape, value.element_type) != (array.shape, element_type):
            raise ImageError(
                f"{path}: expected a value of {value.name}, {list(value.shape)} of {value.element_type}, "
                f"got {list(array.shape)} of {element_type}"
            )
