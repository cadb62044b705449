"""Models and StableHLO files by name, for commands: the module, its arguments, and values of those that stay."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import numpy as np

from opscope.base import regular_file
from opscope.base.plugins import plugins
from opscope.simulator.host.errors import ImageError

Arguments: TypeAlias = "list[tuple[str, str]]"
"""Name and role of each argument, in order."""
GROUP = "opscope.valued_sources"
"""Entry points `(name) -> StableHLO bytecode, [(argument, role, value or None)]` for models that are known by name."""


def is_file(what: str) -> bool:
    """Whether a word names a file, which need not be there, and no model."""
    path = Path(what)
    return path.exists() or bool(path.suffix) or path.parent != Path()


def source(what: str) -> tuple[bytes, Arguments, dict[str, np.ndarray]]:
    """Returns a model's StableHLO, its arguments, and values of those that stay; a file has neither.

    Raises ImageError for a name that nothing knows, or a file that cannot be read.
    """
    if is_file(what):
        try:
            return regular_file.read_bytes(Path(what)), [], {}
        except OSError as error:
            got = (error.strerror or str(error)).lower()
            raise ImageError(f"{what}: expected a readable StableHLO file, got: {got}") from error
    for entry in plugins(GROUP):
        try:
            source, arguments = entry.load()(what)
        except ValueError as error:
            raise ImageError(f"MODEL: {str(error).removeprefix('--model: ')}") from error
        values = {name: value for name, _, value in arguments if value is not None}
        return source, [(name, role) for name, role, _ in arguments], values
    raise ImageError(f"{what}: expected a file, got none; try installing a package that registers models ({GROUP})")
