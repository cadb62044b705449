"""What the verdicts of a backend were made from, as one machine tells it to another (`harness/cache/made_of.py`).

Marks of files (device, inode, times) mean something on their own machine alone: a worker of a cluster makes the list of
an op, and sends each list once, later its name. Whoever takes it looks whether it holds where he is.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from opscope.base import patterns_files
from opscope.harness.backends import registry
from opscope.harness.cache import export_folder, made_of
from opscope.harness.cache.made_of import Made, Scope
from opscope.harness.lanes.flight import Ready

LOST = "the list of what its worker had read is lost"


def scope_of(backend: str, *ignored: Path | str) -> Scope:
    """What the lists of a backend's verdicts count, and from where; the folders `ignored` are the run's own."""
    own = registry.is_own(backend)
    file = registry.file_of(backend)
    declared: tuple[str, ...] | None = None
    if not own:
        patterns: Any = registry.declarations_of(backend).constants.get("made_of") or ()
        folder = Path(file).parent if file else Path.cwd()
        words = (patterns,) if isinstance(patterns, str) else map(str, patterns)
        declared = tuple(str(path) for pattern in words for path in patterns_files.of(folder, pattern))
    if registry.command_file(backend) is not None:
        declared = None  # its fingerprint says what its tools are made of
    return made_of.scope_of(file, *map(str, ignored), declared=declared, all_variables=not own)


class Sender:
    """Makes the lists of one lane on a worker, for another machine."""

    def __init__(self, backend: str, *own: Path) -> None:
        """`own` are folders that the worker writes."""
        self._scope = scope_of(backend, export_folder.cache_dir(), *own)
        self._sent: set[str] = set()

    def message(self, ready: Ready, *ignored: str) -> dict[str, Any]:
        """What is said of the op that the reporting child has run last; `ignored` are folders that it was given."""
        scope = replace(self._scope, ignored=(*self._scope.ignored, *(str(Path(path).resolve()) for path in ignored)))
        made = made_of.made(ready.read, scope)
        if made.unseen:
            return {"unseen": made.unseen}
        known, name = made.digest in self._sent, made.digest
        self._sent.add(name)
        return {"list": name} if known else {"list": name, "values": made.values}


class Receiver:
    """The lists that workers have sent."""

    def __init__(self) -> None:
        self._lists: dict[str, Made] = {}

    def made(self, message: dict[str, Any]) -> Made:
        """The list of an op by what its worker has said of it."""
        if "unseen" in message:
            return Made(unseen=message["unseen"])
        name = message["list"]
        if "values" in message:
            self._lists[name] = Made(message["values"])
        return self._lists.get(name) or Made(unseen=LOST)
