"""Import of our own rooms in a project that has folders of the same names.

The import names of the rooms are their folder names (`models`, `reports`, ...), and a user's project may well have its
own. An op-by-op run needs ours; so it asks a finder that answers for these names only, from the folder that this
package lies in, before `sys.path` is looked at. Nothing is claimed unless an op-by-op run was asked for.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

ROOMS = ("compiler", "dashboards", "harness", "models", "reports", "simulator")
HOME = Path(__file__).resolve().parent.parent
"""The folder that holds the rooms."""


class RoomFinder(MetaPathFinder):
    """Finds the rooms in `HOME`, and nothing else."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a room; None for any other name, and for what lies inside a room (its `__path__` decides)."""
        if path is not None or fullname not in ROOMS:
            return None
        return PathFinder.find_spec(fullname, [str(HOME)])


def is_ours(module: ModuleType) -> bool:
    """Whether a loaded module lies in `HOME`."""
    places = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
    return any(place and Path(place).resolve().is_relative_to(HOME) for place in places)


def claim() -> None:
    """Makes the names of the rooms ours in this process; namesakes that were already imported are forgotten.

    Calling it twice changes nothing.
    """
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ROOMS and not is_ours(module):
            del sys.modules[name]
    if not any(isinstance(finder, RoomFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, RoomFinder())
    importlib.invalidate_caches()
