"""The builds that a gate compares: backends, or two revisions of a compiler of one's own, which are built here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from opscope.base.temporary_folder import TemporaryFolder
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import backend_label
from opscope.harness.triage.revisions import Chain, Checkouts, Repository, State, revision, top_of


@dataclass(frozen=True)
class Source:
    """Where a build comes from."""

    name: str
    """As it is called: `tt@0.1.2`, `own@v1.0`."""
    backend: str
    """What a run is given."""
    environment: Mapping[str, str] | None = None
    """That of its runs; None: as here."""
    system_desc: str = ""
    """The file of the system descriptor that it compiles for; empty: that of the board."""
    commit: str = ""
    """Of a revision: its commit, 12 digits."""


@contextmanager
def of_revisions(old: str, new: str, repo: Path, backend: str, command: str) -> Iterator[tuple[Source, Source]]:
    """Two revisions of a repository, each in a worktree of its own until the end: built there by `command`, if any.

    `backend` is a file in it, or one that the command makes. Raises InputError.
    """
    top = top_of("--repo", repo)
    with TemporaryFolder("gate") as scratch:
        sides = [Checkouts(Chain((Repository("", top),)), Path(scratch) / side) for side in ("old", "new")]
        try:
            first, last = (
                _built(each, top, flag, name, backend, command)
                for each, flag, name in zip(sides, ("--old", "--new"), (old, new), strict=True)
            )
            yield first, last
        finally:
            for each in sides:
                each.remove()


def _built(checkouts: Checkouts, top: Path, flag: str, name: str, backend: str, command: str) -> Source:
    commit = revision(top, name, (flag, f"a revision of {top}", repr(name)))
    checkouts.check_out(State((commit,), 0))
    code, text = checkouts.build(command) if command else (0, "")
    if code:
        said = next((line for line in reversed(text.splitlines()) if line.strip()), f"exit code {code}")
        raise InputError(f"{flag} {name}", "a revision that can be built", said, command)
    file = checkouts.file(backend)
    if not file:
        raise InputError(f"{flag} {name}", f"--backend {backend} in it", "none", "--build COMMAND that makes it")
    return Source(f"{backend_label(backend)}@{name}", file, checkouts.environment, commit=commit[:12])
