"""Results that any harness has stored, as the arguments of `judge`: .npz and .safetensors files, folders of .npy files.

Arrays are known by name: operands `in0`, `in1`, ..., results `out0`, ..., goldens `golden0`, ...; or `input`, `x`, `y`,
`expected` and others that harnesses write (`NAMES`). An .npz may also hold texts: `op`, `attrs` (JSON) and `target`.
"""

from __future__ import annotations

import json
import re
import struct
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import ml_dtypes
import numpy as np

from opscope.base import regular_file
from opscope.harness.record.element_types import numpy_dtype
from opscope.harness.record.errors import InputError
from opscope.harness.record.signature import shorten

NAMES = {
    "in": ("in", "input", "inputs", "x", "arg", "operand", "lhs", "rhs"),
    "out": ("out", "output", "outputs", "y", "result", "actual", "got"),
    "golden": ("golden", "expected", "ref", "want", "desired"),
}
"""What an array is -> the names that it may have, each with a number after it."""
PICKLES = frozenset({".pt", ".pth", ".bin", ".pkl", ".pickle", ".tensorbin"})
"""Suffixes of files that run code of their authors when they are read."""
SUFFIXES = (".npz", ".safetensors")
TEXTS = ("op", "attrs", "target")
_NUMBERED = re.compile(r"([a-zA-Z]+)[_.]?(\d*)")
_SAFE = {
    "F64": "f64", "F32": "f32", "F16": "f16", "BF16": "bf16", "F8_E4M3": "f8E4M3FN", "F8_E5M2": "f8E5M2",
    "I64": "i64", "I32": "i32", "I16": "i16", "I8": "i8", "U8": "ui8", "U16": "ui16", "U32": "ui32", "U64": "ui64",
    "BOOL": "i1",
}  # fmt: skip
"""Element type of safetensors -> MLIR's."""
LARGEST_HEADER = 100 << 20


@dataclass(frozen=True)
class StoredResult:
    """One op's operands and results."""

    name: str
    inputs: list[np.ndarray]
    outputs: list[np.ndarray]
    golden: list[np.ndarray]
    texts: Mapping[str, str] = field(default_factory=dict)
    """`op`, `attrs` and `target`, as far as the file says them."""
    refused: InputError | None = None
    """Why a file of a folder could not be read."""

    @property
    def what(self) -> str:
        """The op with its attributes, `softmax(axis=1)`; empty if the file names none."""
        name = self.texts.get("op", "")
        if not self.texts.get("attrs"):
            return name
        try:
            given = json.loads(self.texts["attrs"])
            words = ", ".join(f"{key}={value!r}" for key, value in given.items())
        except (ValueError, AttributeError) as error:
            raise InputError(f"{self.name}: attrs", "a JSON object", shorten(self.texts["attrs"], 60)) from error
        return f"{name}({words})" if words else name


def stored_results(place: Path, narrow: str = "") -> Iterator[StoredResult]:
    """The results in a file, or in a folder: one for each .npz and .safetensors file, one of its .npy files.

    `narrow` is the MLIR element type of arrays whose file only has their bits; without it two bytes are bf16. Raises
    InputError for what holds no results, for pickles, and for files that are not what their suffix says; one of several
    in a folder says so itself (`refused`).
    """
    if not place.exists():
        raise InputError(str(place), "a .npz or .safetensors file, or a folder of these or of .npy files", "nothing")
    if not place.is_dir():
        yield _of_file(place, narrow)
        return
    files = sorted(path for path in place.iterdir() if path.suffix in SUFFIXES)
    arrays = {path.stem: _typed(_read(path), narrow) for path in sorted(place.glob("*.npy"))}
    if not files and not arrays:
        others = sorted(path.name for path in place.iterdir())[:4]
        raise InputError(
            str(place), "a folder of .npz, .safetensors or .npy files", ", ".join(others) or "an empty one"
        )
    for path in files:
        try:
            yield _of_file(path, narrow)
        except InputError as error:
            yield StoredResult(str(path), [], [], [], refused=error)
    if arrays:
        texts = {
            name: (place / f"{name}.txt").read_text().strip() for name in TEXTS if (place / f"{name}.txt").is_file()
        }
        yield _named(str(place), arrays, texts)


def _of_file(path: Path, narrow: str) -> StoredResult:
    if path.suffix in PICKLES:
        way = 'numpy.savez("result.npz", op="tanh", in0=x.numpy(), out0=y.numpy()), or safetensors.torch.save_file'
        raise InputError(str(path), "a file that can be read without running code of its author", "a pickle", way)
    if path.suffix not in SUFFIXES:
        raise InputError(str(path), "a .npz or .safetensors file, or a folder", repr(path.suffix or path.name))
    regular_file.check(path)
    if path.suffix == ".safetensors":
        arrays, texts = _safetensors(path)
        return _named(str(path), {name: _typed(array, narrow) for name, array in arrays.items()}, texts)
    with path.open("rb") as file:
        archive = _loaded(path, file)
        if isinstance(archive, np.ndarray):
            raise InputError(str(path), "an archive of arrays", "one array", "a folder of .npy files")
        known = {name: _member(path, archive, name) for name in archive}
    texts = {name: str(array) for name, array in known.items() if name in TEXTS and array.dtype.kind in "US"}
    return _named(str(path), {n: _typed(a, narrow) for n, a in known.items() if a.dtype.kind not in "US"}, texts)


def _read(path: Path) -> np.ndarray:
    """The array in a .npy file."""
    regular_file.check(path)
    with path.open("rb") as file:
        array = _loaded(path, file)
        if not isinstance(array, np.ndarray):
            raise InputError(str(path), "one array", "an archive", "the name of an .npz file")
        return array


def _loaded(path: Path, file: BinaryIO) -> np.ndarray | np.lib.npyio.NpzFile:
    try:
        return np.load(file, allow_pickle=False)
    except (ValueError, EOFError, OSError, SyntaxError, KeyError, OverflowError, zipfile.BadZipFile) as error:
        raise _refused(path, error) from error


def _member(path: Path, archive: np.lib.npyio.NpzFile, name: str) -> np.ndarray:
    try:
        return archive[name]
    except Exception as error:  # a damaged archive raises what zipfile, zlib and NumPy do
        raise _refused(f"{path}: {name}", error) from error


def _refused(where: Path | str, error: Exception) -> InputError:
    got = shorten(str(error), 100) or type(error).__name__
    if "pickle" in got.lower():
        return InputError(str(where), "arrays of numbers", "Python objects, which run code when they are read")
    return InputError(str(where), "arrays as numpy.save and numpy.savez write them", got)


def _typed(array: np.ndarray, narrow: str) -> np.ndarray:
    """An array in its own type, where the file only has its bits."""
    if array.dtype.kind != "V" or array.dtype.names is not None or array.dtype.name in ml_dtypes.__all__:
        return array
    if not narrow and array.dtype.itemsize != 2:
        raise InputError("--type", "the element type of arrays of single bytes", "none", "--type f8E4M3FN")
    dtype = numpy_dtype(narrow or "bf16")
    if dtype.itemsize != array.dtype.itemsize:
        raise InputError("--type", f"a type of {array.dtype.itemsize} bytes", narrow)
    return array.view(dtype)


def _named(name: str, arrays: Mapping[str, np.ndarray], texts: Mapping[str, str]) -> StoredResult:
    """Operands, results and goldens by their names, each in the order of its numbers."""
    found: dict[str, list[tuple[int, int, str]]] = {role: [] for role in NAMES}
    for key in arrays:
        match = _NUMBERED.fullmatch(key.rpartition(".")[2] if key.count(".") and not key[-1].isdigit() else key)
        word = match[1].lower() if match else ""
        for role, names in NAMES.items():
            if match and word in names:
                found[role].append((names.index(word) if word in ("lhs", "rhs") else 0, int(match[2] or 0), key))
    if not found["out"]:
        have = ", ".join(sorted(arrays)) or "no arrays"
        raise InputError(name, "a result by the name of out0, output or y", shorten(have, 100), "in0=x, out0=y")
    by_role = {role: [arrays[key] for _, _, key in sorted(keys)] for role, keys in found.items()}
    return StoredResult(name, by_role["in"], by_role["out"], by_role["golden"], texts)


def _safetensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Tensors and texts of a safetensors file: eight bytes of length, a JSON header, the bytes of all tensors."""
    data = path.read_bytes()
    try:
        (length,) = struct.unpack_from("<Q", data)
        if length > min(LARGEST_HEADER, len(data)):
            raise ValueError(f"a header of {length} bytes")
        header = json.loads(data[8 : 8 + length])
        texts = {str(k): str(v) for k, v in header.pop("__metadata__", {}).items() if k in TEXTS}
        arrays = {}
        for name, about in header.items():
            start, end = about["data_offsets"]
            dtype = numpy_dtype(_SAFE[about["dtype"]])
            arrays[name] = np.frombuffer(data[8 + length :][start:end], dtype).reshape(about["shape"])
    except (struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(str(path), "a safetensors file", shorten(str(error), 80) or type(error).__name__) from error
    return arrays, texts
