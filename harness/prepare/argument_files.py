"""Values of a model's arguments that come from files and not from the seed: the model's own files, or the user's.

`--weights` takes a safetensors file, `--inputs` an .npz; both name arguments. The parts that a pytest process calls
import no NumPy.
"""

from __future__ import annotations

import ast
import os
import shutil
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opscope.base.array_bits import as_type
from opscope.base.digest import file_digest
from opscope.base.installing import install_command
from opscope.harness.cache.export_folder import VALUES
from opscope.harness.record.errors import InputError, closest

if TYPE_CHECKING:
    import numpy as np

    from opscope.harness.record.records import TensorDesc
    from opscope.models.frontends.base import ExportResult

SUFFIXES = {"--weights": ".safetensors", "--inputs": ".npz"}
"""Option -> suffix of its file."""
MOST_LISTED = 6
"""Names that an error lists."""


@dataclass(frozen=True)
class FileValue:
    """The value of one argument."""

    file: str
    """A .npy file, relative to the export folder (see `opscope.harness.record.element_types.save`)."""
    digest: str
    """SHA-256 of the file."""


# --- in a pytest process


def files(inputs: str, weights: str | None) -> dict[str, str]:
    """Option -> file, for the options that are set. Raises InputError if a file is missing or has another suffix."""
    file_of_option = {"--weights": weights, "--inputs": inputs if inputs.endswith(".npz") else None}
    for option, path in file_of_option.items():
        if path is not None and (not path.endswith(SUFFIXES[option]) or not Path(path).is_file()):
            raise InputError(option, f"a {SUFFIXES[option]} file", f"{path!r}")
    return {option: path for option, path in file_of_option.items() if path is not None}


def shapes(path: Path | str) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """(name, shape) of the arrays in an .npz file, from their headers. Raises InputError if it is no .npz."""
    shape_of_array = []
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                with archive.open(member) as file:
                    magic = file.read(8)
                    if magic[:6] != b"\x93NUMPY":
                        raise ValueError(f"{member} is not an array")
                    size = struct.unpack("<H" if magic[6] == 1 else "<I", file.read(2 if magic[6] == 1 else 4))[0]
                    header = ast.literal_eval(file.read(size).decode())
                    shape_of_array.append((member.removesuffix(".npy"), tuple(header["shape"])))
    except (zipfile.BadZipFile, OSError, ValueError, SyntaxError, KeyError, struct.error) as error:
        raise InputError("--inputs", "an .npz file of arrays", f"{path} ({error})") from None
    return tuple(shape_of_array)


# --- in the child that prepares


def values(
    exported: ExportResult, descs: Sequence[TensorDesc], folder: Path, brought: Mapping[str, str]
) -> dict[int, FileValue]:
    """The values that the model's own file and those of `brought` (option -> file) give, by argument.

    `descs` are the arguments of the module, in order. The values lie in the export folder afterwards, which is under
    construction. Raises InputError for a name that no argument
    has, and for another shape or type.
    """
    from opscope.harness.record.element_types import NUMPY_NAMES, save
    from opscope.models.seeding import dtype_of

    value_of_argument = {}
    for index, spec in enumerate(exported.arguments):
        if spec.name in exported.files:
            value_of_argument[index] = _link(Path(exported.files[spec.name]), folder, index)
    names = [spec.name for spec in exported.arguments] or [f"arg{index}" for index in range(len(descs))]
    expected = {
        n: (i, d.shape, NUMPY_NAMES.get(d.data_type, d.data_type))
        for i, (n, d) in enumerate(zip(names, descs, strict=True))
    }
    for option, path in brought.items():
        for name, array in READERS[option](path):
            if name in exported.bound:
                continue
            if name not in expected:
                listed = ", ".join(names[:MOST_LISTED]) + (
                    f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
                )
                raise InputError(
                    f"{option} {path}", f"names of the model's arguments ({listed})", repr(name), closest(name, names)
                )
            index, shape, kind = expected[name]
            value = as_type(array, dtype_of(kind))
            if value.shape != shape or value.dtype.name != kind:
                got = f"{tuple(value.shape)} of {value.dtype.name}"
                raise InputError(f"{option} {path}: {name}", f"{tuple(shape)} of {kind}", got)
            place = _place(folder, index)
            save(place, value)
            value_of_argument[index] = FileValue(place.relative_to(folder).as_posix(), file_digest(place))
    return value_of_argument


def _from_npz(path: str) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays of an .npz file."""
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as archive:
            for name in archive.files:
                yield name, archive[name]
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise InputError("--inputs", "an .npz file of arrays", f"{path} ({error})") from None


def _from_safetensors(path: str) -> Iterator[tuple[str, np.ndarray]]:
    """The tensors of a safetensors file."""
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise InputError(
            "--weights", "safetensors to be installed", "no such package", install_command("weights")
        ) from None
    try:
        with safe_open(path, framework="np") as file:
            for name in file.keys():  # noqa: SIM118 - no mapping
                yield name, file.get_tensor(name)
    except (SafetensorError, OSError) as error:
        raise InputError("--weights", "a safetensors file", f"{path} ({error})") from None


READERS: dict[str, Callable[[str], Iterator[tuple[str, np.ndarray]]]] = {
    "--weights": _from_safetensors,
    "--inputs": _from_npz,
}
"""Option -> (name, array) of everything in its file."""


def label(brought: Mapping[str, str]) -> str:
    """The part of the provenance of captured inputs that names the user's files: `+weights@<12 digits>`."""
    return "".join(f"+{option.strip('-')}@{file_digest(Path(path))[:12]}" for option, path in sorted(brought.items()))


def _place(folder: Path, index: int) -> Path:
    """Where the value of an argument lies, free to be written."""
    place = folder / VALUES / f"argument{index}.npy"
    place.parent.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)
    return place


def _link(source: Path, folder: Path, index: int) -> FileValue:
    """Links `source` into the export folder, or copies it where the disk allows no link."""
    place = _place(folder, index)
    try:
        os.link(source, place)
    except OSError:
        shutil.copyfile(source, place)
    return FileValue(place.relative_to(folder).as_posix(), file_digest(place))
