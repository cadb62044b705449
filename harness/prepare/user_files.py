"""The user's own model files: which framework takes each, and what else its program depends on.

| word | what it is |
|---|---|
| `my_model.py`, `my_model.py:name` | Python that holds a model and example inputs (models/frontends/python.py) |
| `net.onnx`, `net.tflite` | a file of that format |
| `graph.pb` | a frozen GraphDef |
| `folder`, `folder:signature` | a SavedModel |

Files that a pattern finds in several folders are named by these, and so are two files of one name.
"""

from __future__ import annotations

import glob
import re
from collections import Counter
from collections.abc import Mapping, Sequence
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
_STAMP = re.compile(r"_\d{12,}$")
"""The time of its writing, in milliseconds, at the end of a file's name: tt-xla writes `shlo_compiler_<ms>.mlir`."""


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


def found(pattern: str) -> list[Path]:
    """The files that a pattern finds, sorted; `**` stands for any folders."""
    names = glob.glob(pattern, recursive=True)  # noqa: PTH207 - Path.glob takes no absolute pattern
    return sorted(path for path in map(Path, names) if path.is_file())


def stems(pattern: str, files: Sequence[Path]) -> dict[Path, str]:
    """A name for each file that a pattern finds: its stem, or where folders are part of the pattern `folder.stem`.

    Then the time in milliseconds that some tools put at the end of a file's name is left out, so that the name is the
    same on another night; several such files of one folder are numbered in their order.
    """
    fixed = 0
    for part in Path(pattern).parts[:-1]:
        if glob.has_magic(part):
            break
        fixed += 1
    else:
        return {file: file.stem for file in files}
    plain = {file: _folder_name(file, fixed) for file in files}
    several, numbers, names = Counter(plain.values()), Counter[str](), {}
    for file, name in plain.items():
        numbers[name] += 1
        names[file] = f"{name}.{numbers[name]}" if several[name] > 1 else name
    return names


def _folder_name(file: Path, fixed: int) -> str:
    """The folders of a file after so many, and its stem without a time."""
    return ".".join([*file.parts[fixed:-1], _STAMP.sub("", file.stem)])


def apart(names: Mapping[Path, str]) -> dict[Path, str]:
    """Names that differ, for files of one name in different folders: with as many folders before them as that takes."""
    depth = max(len(path.parts) for path in names)
    for count in range(1, depth):
        longer = {path: ".".join([*path.parts[-1 - count : -1], name]) for path, name in names.items()}
        if len(set(longer.values())) == len(names):
            return longer
    return dict(names)
