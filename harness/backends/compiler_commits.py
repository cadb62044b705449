"""Which commit each compiler of a run is: its own where it has one, else that of the folder that is tested."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from opscope.base import damage
from opscope.harness.backends import registry
from opscope.harness.backends.commands.identity import NoCommitError
from opscope.harness.record.commits.checkout import Commit, web_url
from opscope.harness.record.optest import backend_label
from opscope.harness.record.origin import own_commit

MOST = 200
"""Characters of a revision, and of the reason why there is none."""


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


def named(name: str, revision: Callable[[], Any], repository: Callable[[], Any]) -> dict[str, str]:
    """The commit that backend `name` names by what its `revision` and `repository` return: `revision`, `dirty`, `url`;
    or the `problem` with it as a line; empty if it names none."""
    try:
        text, page = str(revision() or ""), str(repository() or "")
    except Exception as error:  # noqa: BLE001  a run does not end because nobody knows its compiler's commit
        if not isinstance(error, NoCommitError):  # the fault of a class lies on some line of it
            traceback.print_exc()
        reason = " ".join(str(error).split()) or type(error).__name__
        line = f"--backend {name}: expected its revision, got {reason[:MOST]}; the tested folder's is stored"
        return {"problem": line}
    line = "".join(character for character in next(iter(text.splitlines()), "") if character.isprintable()).strip()
    commit = line.removesuffix("-dirty").removesuffix("+")[:MOST]
    if not commit:
        return {}
    dirty = "yes" if line[:MOST] != commit else ""
    parts = (("revision", commit), ("dirty", dirty), ("url", web_url(page)))
    return {key: value for key, value in parts if value}
