"""The user's own model files: which framework takes each, and what else its program depends on.

| word | what it is |
|---|---|
| `my_model.py`, `my_model.py:name` | Python that holds a model and example inputs (models/frontends/python.py) |
| `net.onnx`, `net.tflite` | a file of that format |
| `graph.pb` | a frozen GraphDef |
| `folder`, `folder:signature` | a SavedModel |
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from opscope.base.file_names import label, resolved
from opscope.harness.record.errors import InputError
from opscope.models import frontends, registry

FORMATS = {".py": "python", ".onnx": "onnx", ".tflite": "tflite", ".pb": "graphdef"}
"""Suffix -> framework whose exporter takes the file."""
OPEN_SHAPES = frozenset({"onnx", "tflite", "graphdef", "tf"})
"""Frameworks whose files may leave sizes open. A Python file has example inputs."""
SAVED_MODEL = "saved_model.pb"
"""The file that makes a folder a SavedModel."""
_LOCATION = re.compile(rb"\n\x08location\x12(.)", re.DOTALL)
"""In an ONNX file: the name of a file beside it that holds a tensor, with its length in front (protobuf)."""


@dataclass(frozen=True)
class UserFile:
    """One model of the user's."""

    name: str
    path: Path
    framework: str
    files: tuple[Path, ...]
    """What its program depends on."""
    entry: str


def named(word: str) -> UserFile | None:
    """The user's model that `word` names, or None. Raises InputError if its file does not exist."""
    path, entry = Path(word), ""
    if not path.exists() and ":" in path.name:
        head, _, entry = word.rpartition(":")
        path = Path(head)
    if path.is_file() and path.name == SAVED_MODEL:
        path = path.parent
    if path.is_dir():
        if not (path / SAVED_MODEL).is_file() and "/" not in word:
            return None  # a folder may have a registered model's name
        if not (path / SAVED_MODEL).is_file():
            raise InputError("--model", f"a SavedModel, which holds {SAVED_MODEL}", f"the folder {word!r}")
        return _file(path, "tf", entry, (path,))
    framework = FORMATS.get(path.suffix)
    if framework is None:
        return None
    if not path.is_file():
        kind = "Python" if framework == "python" else path.suffix
        raise InputError("--model", f"the path of a {kind} file", f"{word!r}, which is not a file")
    if framework == "python":
        return _file(path, framework, entry, tuple(p for p in registry.sources_of(resolved(path)) if p.is_file()))
    if entry:
        raise InputError("--model", f"a {path.suffix} file without a name after it", repr(word), str(path))
    return _file(path, framework, "", (path, *_tensor_files(path)))


def _file(path: Path, framework: str, entry: str, files: tuple[Path, ...]) -> UserFile:
    path = path.absolute()
    name = label(f"{path.stem}.{entry}" if entry else path.stem)
    return UserFile(name, path, framework, (*files, *frontends.sources(framework)), entry)


def _tensor_files(path: Path) -> list[Path]:
    """The files that hold tensors of an ONNX file."""
    if path.suffix != ".onnx":
        return []
    try:
        data = path.read_bytes()
    except OSError:  # its exporter says so
        return []
    names = {data[m.end() : m.end() + m[1][0]].decode("utf-8", "replace") for m in _LOCATION.finditer(data)}
    return [file for name in sorted(names) if (file := path.parent / name).is_file()]
