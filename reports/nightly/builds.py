"""The builds that a gate compares: backends, or two revisions of a compiler of one's own, which are built here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from opscope.base.file_names import resolved
from opscope.base.temporary_folder import TemporaryFolder
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import backend_label, release_in
from opscope.harness.triage.revisions import Chain, Checkouts, Repository, State, git, revision, top_of
from opscope.reports.nightly.history import asked_releases


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
    tree: str = ""
    """Of a revision: its worktree, the folder from which it imports first."""


@dataclass(frozen=True)
class Revisions:
    """How `opscope bisect` finds the commits between two builds."""

    repo: Path
    backend: str
    """The backend's file in it, as `--backend` has it."""
    build: str
    system_desc: str = ""
    """Likewise the system descriptor, where one was given."""
    ends: tuple[str, str] | None = None
    """Where the histories of both part, which is the old one if the new one follows from it, and the new one; None
    where nothing is known to be between them."""

    @property
    def words(self) -> list[str]:
        """Words of a command line."""
        options = {"--repo": "" if self.repo == Path() else str(self.repo), "--backend": self.backend}
        options |= {"--build": self.build, "--system-desc": self.system_desc}
        return [word for pair in options.items() if pair[1] for word in pair]


def between(repo: Path, backend: str, build: str, commits: str, new: Source) -> Revisions | None:
    """How the commits `OLD..NEW` between two builds are found; None where the backend is no file of the repository.

    Without `backend` it is that of the new build.
    """
    old, _, last = commits.partition("..")
    at = Revisions(repo, backend or _file_in(repo, new.backend), build, _file_in(repo, new.system_desc))
    with suppress(InputError):
        first, ending = (revision(repo, name, ("--commits", "a commit", name)) for name in (old, last))
        if (parting := git(repo, "merge-base", first, ending)) != ending:
            at = replace(at, ends=(old if parting == first else parting[:12], last))
    return at if at.backend else None


def _file_in(repo: Path, backend: str) -> str:
    """A backend's file as `--backend` of a repository has it; empty if it is none of its checkout."""
    kind, colon, name = backend.rpartition(":")
    with suppress(InputError):
        top, file = resolved(top_of("--repo", repo)), resolved(Path(name))
        if file.is_file() and file.is_relative_to(top):
            return f"{kind}{colon}{file.relative_to(top)}"
    return ""


def releases_from(old: str, new: str) -> tuple[str, list[str]] | None:
    """`tt@0.1.1..0.1.3` of two builds that are releases of one backend, and the releases between them; None of others,
    and where the new one is not the later."""
    versions = [release_in(backend) for backend in (old, new)]
    names = {backend.removesuffix(f"@{version}") for backend, version in zip((old, new), versions, strict=True)}
    if not all(versions) or len(names) > 1:
        return None
    word = f"{old}..{versions[1]}"
    with suppress(InputError):
        return word, [release.version for release in asked_releases(word)][1:-1]
    return None


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
    return Source(
        f"{backend_label(backend)}@{name}", file, checkouts.environment, commit=commit[:12], tree=str(checkouts.tree)
    )
