"""The files with which a repository gets nights: `opscope nightly --init` writes them once, and never over another."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from opscope.base.yaml_text import YamlError, read_yaml
from opscope.harness.record.run_folders import NIGHT_FILE
from opscope.harness.record.store import refused, write_whole

TEMPLATES = Path(__file__).parent / "templates"

FILES = {
    NIGHT_FILE: "nightly.yaml",
    Path(".github") / "workflows" / "opscope-nightly.yml": "opscope-nightly.yml",
    Path(".gitlab-ci.opscope.yml"): "gitlab-ci.opscope.yml",
}
"""File in the repository -> its template."""

MODELS = (".mlir", ".mlirbc", ".stablehlo")
"""Suffixes of files that are taken for models."""
DEPTH = 3
"""Folders below the repository's that are looked into."""
MOST = 20
"""Models that are named."""
EXAMPLE_MODEL, EXAMPLE_BACKEND = "mnist_mlp", "reference"
"""What a night begins with where the repository has no model, or no backend."""

_CLASS = re.compile(r"^class \w+\([^)]*\bBackend\b[^)]*\):", re.MULTILINE)


def write(root: Path) -> list[str]:
    """Writes the files that are not there yet; a line for each. Raises InputError where one cannot be written."""
    lines = []
    for place, template in FILES.items():
        target = root / place
        if target.exists() or target.is_symlink():
            lines.append(f"kept      {place}, which is there already")
            continue
        text = (TEMPLATES / template).read_text(encoding="utf-8")
        if place == NIGHT_FILE:
            text = text.replace("{models}", _flow(models_in(root) or [EXAMPLE_MODEL]))
            text = text.replace("{backends}", _flow(backends_in(root) or [EXAMPLE_BACKEND]))
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise refused(target, error, "a writable folder") from error
        write_whole(target, text, "a writable folder")
        lines.append(f"wrote     {place}")
    return lines


def models_in(root: Path) -> list[str]:
    """Files of the repository that are models, relative to it."""
    return [str(path.relative_to(root)) for path in _files(root) if path.suffix in MODELS][:MOST]


def backends_in(root: Path) -> list[str]:
    """Files of the repository that are backends: YAML with commands of stages, and Python with the class of one."""
    return [str(path.relative_to(root)) for path in _files(root) if _is_backend(path)]


def _is_backend(path: Path) -> bool:
    try:
        if path.suffix == ".py":
            text = path.read_text(encoding="utf-8")
            return bool(_CLASS.search(text)) and f'    name = "{path.stem}"' in text
        if path.suffix not in (".yaml", ".yml"):
            return False
        content = read_yaml(path)
    except (OSError, UnicodeDecodeError, YamlError):
        return False
    stages = content.get("stages") if isinstance(content, dict) else None
    return isinstance(stages, list) and bool(stages) and all(isinstance(s, dict) and "command" in s for s in stages)


def _files(folder: Path, depth: int = DEPTH) -> Iterator[Path]:
    """The files of a folder and of those below it, sorted, without hidden ones and tests."""
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return
    for path in entries:
        if path.name.startswith(".") or path.is_symlink():
            continue
        if path.is_file():
            yield path
        elif depth and path.name not in ("tests", "node_modules") and not (path / "pyvenv.cfg").is_file():
            yield from _files(path, depth - 1)


def _flow(words: list[str]) -> str:
    """A YAML list on one line, with quotes where a word needs them."""
    plain = re.compile(r"[\w][\w./-]*")
    return f"[{', '.join(word if plain.fullmatch(word) else json.dumps(word) for word in words)}]"
