"""Gives an import by an old name an error that states the new name.

Until 0.1 the packages could be imported as `harness`, `models`, ... Other projects may use these names now, so this
finder is the last on `sys.meta_path` and finds nothing: it only adds a line to the error for a name that nobody has.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

ROOMS = ("compiler", "dashboards", "harness", "models", "reports", "simulator")

missed: list[str] = []
"""What this process answered, for those whose error text nobody sees: `pytest.importorskip` in an old repro folder."""


class OldNames:
    """An import finder that raises an error for the old names of opscope's packages."""

    @staticmethod
    def find_spec(
        fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns None for every other name. Raises ModuleNotFoundError for an old one."""
        if path is not None or fullname not in ROOMS:
            return None
        line = f"No module named '{fullname}'; opscope's own is opscope.{fullname} now"
        missed.append(line)
        raise ModuleNotFoundError(line, name=fullname)


def install() -> None:
    """Adds the finder as the last one of this process; a second call changes nothing."""
    if OldNames not in sys.meta_path:
        sys.meta_path.append(OldNames)
