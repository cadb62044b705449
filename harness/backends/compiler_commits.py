"""Which commit each compiler of a run is: its own where it has one, else that of the folder that is tested."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from opscope.harness.backends import registry
from opscope.harness.record.optest import backend_label
from opscope.harness.record.origin import Commit, own_commit


def commits(backends: Sequence[str], folder: Path) -> dict[str, Commit]:
    """Label of each backend -> the commit of its compiler; an empty one stands for that of `folder`."""
    ours = {backend for backend in backends if registry.declares(backend, "of_this_project")}
    own = own_commit(folder) if ours else Commit()
    return {backend_label(backend): own if backend in ours else Commit() for backend in backends}
