"""The states of a chain of repositories in order: each differs from the one before by one commit of one of them.

A repository pins the next one of the chain: by a text in a file of it, or by a submodule. Where a commit moves the pin
forward, the commits of the pinned repository between the old pin and the new one come first, each a state of its own
(with those that it pins in turn), and then the commit itself. History is followed along first parents.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from opscope.base.places import PACKAGE
from opscope.harness.record.errors import InputError
from opscope.harness.record.signature import shorten

PIN = "--pin"
_PIN = "NAME=REPOSITORY:FILE:PATTERN, whose pattern has one group, or NAME=REPOSITORY:SUBMODULE"


@dataclass(frozen=True)
class Repository:
    """One of the chain."""

    name: str
    """As it is called in messages; empty for the first."""
    top: Path
    path: str = ""
    """The file of the repository before it that pins it, or the submodule there."""
    pattern: re.Pattern[str] | None = None
    """Its group is the pinned commit in that file; None: a submodule."""


@dataclass(frozen=True)
class State:
    """What every repository of the chain has checked out."""

    commits: tuple[str, ...]
    level: int
    """Which of them the last step changed."""


def top_of(where: str, folder: Path) -> Path:
    """The top of the git repository that a folder lies in. Raises InputError that names `where`."""
    return Path(git(folder, "rev-parse", "--show-toplevel", refused=(where, "a git repository", str(folder))))


def read_pin(word: str) -> Repository:
    """The repository that a word of `--pin` names. Raises InputError."""
    name, equals, rest = word.partition("=")
    repository, *where = rest.split(":", 2)
    if not (name.isidentifier() and equals and repository and where and all(where)):
        raise InputError(PIN, _PIN, repr(word))
    try:
        pattern = re.compile(where[1], re.MULTILINE) if len(where) == 2 else None
    except re.error as error:
        raise InputError(PIN, _PIN, f"{where[1]!r}: {error}") from None
    if pattern is not None and pattern.groups != 1:
        raise InputError(PIN, _PIN, f"{pattern.groups} groups in {pattern.pattern!r}")
    return Repository(name, top_of(PIN, Path(repository)), where[0], pattern)


@dataclass(frozen=True)
class Chain:
    """Repositories, each pinned by the one before it."""

    repositories: tuple[Repository, ...]

    def between(self, good: str, bad: str) -> list[State]:
        """The states from one commit of the first repository to a later one, both included. Raises InputError."""
        return [first := self._at(0, good), *self._walk(first, 0, bad)]

    def merged(self, state: State) -> list[State]:
        """Where a state's last step is a merge: the states from where the merged branch began to its end; else none."""
        top, commit = self.repositories[state.level].top, state.commits[state.level]
        _, *parents = git(top, "rev-list", "--parents", "-1", commit).split()
        if len(parents) < 2:
            return []
        base = git(top, "merge-base", *parents[:2])
        first = self._at(state.level, base, state.commits[: state.level])
        return [first, *self._walk(first, state.level, parents[1])]

    def name(self, state: State) -> str:
        """The commits of a state, the outermost first."""
        return " ".join(f"{r.name}@{c[:12]}".lstrip("@") for r, c in zip(self.repositories, state.commits, strict=True))

    def text(self, state: State) -> str:
        """The commit of a state's last step, with its date, author and subject."""
        repository = self.repositories[state.level]
        line = git(repository.top, "log", "-1", "--format=%h %as %an: %s", state.commits[state.level])
        return f"{repository.name} {line}".strip()

    def _walk(self, state: State, level: int, until: str) -> Iterator[State]:
        """The states after `state`, to the one in which the repository of this level is at `until`."""
        top = self.repositories[level].top
        for commit in git(top, "rev-list", "--first-parent", "--reverse", until, f"^{state.commits[level]}").split():
            reached = self._at(level, commit, state.commits[:level], state.commits[level + 1 :])
            if (below := level + 1) < len(self.repositories):
                old, new = state.commits[below], reached.commits[below]
                if is_ancestor(self.repositories[below].top, old, new):
                    yield from self._walk(state, below, new)
            yield (state := reached)

    def _at(self, level: int, commit: str, above: tuple[str, ...] = (), before: tuple[str, ...] = ()) -> State:
        """The state in which the repository of this level is at a commit, and those below it where it pins them.

        What it does not pin there stays as `before` has it. Raises InputError where that has none.
        """
        commits = [commit]
        for number, pinned in enumerate(self.repositories[level + 1 :]):
            found = pinned_in(self.repositories[level + number].top, commits[-1], pinned)
            if found is None and not before:
                raise InputError(PIN, f"a commit of {pinned.name} in {pinned.path}", f"none at {commit[:12]}")
            commits.append(found or before[number])
        return State((*above, *commits), level)


def pinned_in(outer: Path, commit: str, pinned: Repository) -> str | None:
    """The commit of a repository that a commit of the one before it pins; None if it pins none.

    Raises InputError where the pinned repository has no such commit.
    """
    if pinned.pattern is None:
        entry = git(outer, "ls-tree", commit, "--", pinned.path).split()
        found = entry[2] if entry[1:2] == ["commit"] else None
    else:
        shown = subprocess.run(["git", "show", f"{commit}:{pinned.path}"], cwd=outer, capture_output=True, check=False)
        match = pinned.pattern.search(shown.stdout.decode(errors="replace"))
        found = match[1] if match else None
    if found is None:
        return None
    refused = (f"{PIN} {pinned.name}", f"a commit of {pinned.top}", f"{found!r} at {commit[:12]}", "git fetch there")
    return revision(pinned.top, found, refused)


def revision(top: Path, name: str, refused: tuple[str, ...]) -> str:
    """The commit that a name stands for. Raises InputError of the words `refused`."""
    return git(top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", refused=refused)


class Checkouts:
    """A worktree of each repository of a chain; the user's own checkouts stay as they are.

    A submodule's lies in the worktree of the repository that has it. A text that pins a commit says, in the worktree,
    the one of the state.
    """

    def __init__(self, chain: Chain, folder: Path) -> None:
        """`folder` is empty and the worktrees' own."""
        self._chain, self.folder = chain.repositories, folder
        self._places: list[Path] = []
        for number, repository in enumerate(self._chain):
            inside = number and repository.pattern is None
            self._places.append(self._places[-1] / repository.path if inside else folder / (repository.name or "tree"))

    @property
    def tree(self) -> Path:
        """The worktree of the first repository."""
        return self._places[0]

    @property
    def environment(self) -> dict[str, str]:
        """Of a build, and of what runs it: what lies at the top of the first worktree can be imported, and
        `OPSCOPE_WORKTREE_NAME`, in capitals, says where another one is."""
        others = zip(self._chain[1:], self._places[1:], strict=True)
        return {
            **os.environ,
            "OPSCOPE_WORKTREE": str(self.tree),
            **{f"OPSCOPE_WORKTREE_{each.name.upper()}": str(place) for each, place in others},
            "PYTHONPATH": os.pathsep.join([str(self.tree), str(PACKAGE.parent)]),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def build(self, command: str) -> tuple[int, str]:
        """Runs a shell command at the top of the first worktree; its exit code, and what it wrote."""
        log = self.folder / "build.log"
        with log.open("wb") as output:
            done = subprocess.run(
                command,
                shell=True,
                cwd=self.tree,
                env=self.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
        return done.returncode, log.read_text(errors="replace")

    def file(self, name: str) -> str:
        """A file of the first worktree as an option has it, `tt:build/libtt.so`; empty if it is not there."""
        kind, colon, path = name.rpartition(":")
        return f"{kind}{colon}{self.tree / path}" if (self.tree / path).is_file() else ""

    def check_out(self, state: State) -> None:
        """Brings all worktrees to a state. Raises InputError."""
        for repository, place, commit in zip(self._chain, self._places, state.commits, strict=True):
            if (place / ".git").is_file():
                git(place, "-c", "submodule.recurse=false", "checkout", "--quiet", "--force", "--detach", commit)
            else:
                git(repository.top, "worktree", "add", "--detach", "--quiet", "--force", str(place), commit)
        for number, pinned in enumerate(self._chain[1:]):
            commit, outer = state.commits[number + 1], self._chain[number].top
            if pinned.pattern and pinned_in(outer, state.commits[number], pinned) not in (commit, None):
                _pin(self._places[number] / pinned.path, pinned.pattern, commit)

    def remove(self) -> None:
        """Removes the worktrees, the innermost first."""
        for repository, place in reversed([*zip(self._chain, self._places, strict=True)]):
            succeeds(repository.top, "worktree", "remove", "--force", "--force", str(place))
            succeeds(repository.top, "worktree", "prune")


def _pin(file: Path, pattern: re.Pattern[str], commit: str) -> None:
    """Makes a file pin another commit than it does."""
    text = file.read_text(encoding="utf-8")
    if match := pattern.search(text):
        file.write_text(text[: match.start(1)] + commit + text[match.end(1) :], encoding="utf-8")


def is_ancestor(top: Path, first: str, last: str) -> bool:
    """Whether one commit is in the history of another."""
    return succeeds(top, "merge-base", "--is-ancestor", first, last)


def git(folder: Path, *words: str, refused: Sequence[str] = ()) -> str:
    """The output of git. Raises InputError if it fails: of the words `refused`, else of what git says."""
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise InputError(*(refused or (f"git {shlex.join(words)}", "to succeed", shorten(done.stderr, 160))))
    return done.stdout.strip()


def succeeds(folder: Path, *words: str) -> bool:
    """Whether git ends with 0."""
    return subprocess.run(["git", *words], cwd=folder, capture_output=True, check=False).returncode == 0
