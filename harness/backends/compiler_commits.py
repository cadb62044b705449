"""Which commit each compiler of a run is: its own where it has one, else that of the folder that is tested."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from opscope.base import damage
from opscope.harness.backends import registry
from opscope.harness.record.commits.checkout import Commit
from opscope.harness.record.optest import backend_label
from opscope.harness.record.origin import own_commit


def commits(named: Mapping[str, Mapping[str, str]], folder: Path) -> dict[str, Commit]:
    """Label of each backend -> the commit of its compiler; an empty one stands for that of `folder`.

    `named` maps a backend to what its lane reported of its commit (harness/backends/life.py).
    """
    compilers = {}
    for backend, commit in named.items():
        if problem := commit.get("problem"):
            damage.say(problem)
        own = Commit(commit.get("revision", ""), bool(commit.get("dirty")), url=commit.get("url", ""))
        if not own.revision and registry.declares(backend, "of_this_project"):
            own = own_commit(folder)
        compilers[backend_label(backend)] = own
    return compilers
