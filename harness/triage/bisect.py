"""The first revision at which an op fails as recorded: git bisect, one replay of a repro folder at each step.

Revisions are checked out in a worktree of their own; the user's checkout stays as it is. In a repository of opscope the
whole of opscope is that of the revision; in another one, the backend is: its file (`backend`, a path in the
repository), and whatever can be imported from the top of it. A revision that cannot be built or started, or that fails
otherwise, is skipped.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from opscope.base.file_names import resolved
from opscope.base.places import PACKAGE
from opscope.base.temporary_folder import TemporaryFolder
from opscope.base.visible_text import cut
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import OpTest
from opscope.harness.record.signature import shorten
from opscope.harness.triage import bundle
from opscope.harness.triage.replay import OTHER, PASSES, SAME

GOOD, BAD, SKIP = 0, 1, 125
"""The meaning of exit codes for `git bisect run`."""


@dataclass(frozen=True)
class Bisected:
    """What git found."""

    candidates: tuple[str, ...]
    """The first bad commit; several where those between could not be tested, oldest first."""
    text: str
    """The commits, a line each."""
    steps: tuple[str, ...]
    """Each revision that was tried, and what became of the op."""


@dataclass(frozen=True)
class Replay:
    """How the op of a repro folder is run at each revision."""

    build: str = ""
    """A shell command that runs at the top of the revision."""
    backend: str = ""
    """Like `system_desc`, a file in the repository, or one that `build` makes there."""
    system_desc: str = ""
    python: str = ""
    """What runs opscope; default: this interpreter."""
    any_failure: bool = False
    """Whether every failure counts as the recorded one."""


AS_RECORDED = Replay()


def bisect(
    folder: Path,
    repo: Path,
    good: str,
    bad: str,
    how: Replay = AS_RECORDED,
    report: Callable[[str], None] = lambda text: None,
) -> Bisected:
    """The first revision of `repo` between `good` and `bad` at which the op of a repro folder fails as recorded.

    Raises InputError.
    """
    bundle.read(folder)
    top = Path(_git(repo, "rev-parse", "--show-toplevel", refused=("--repo", "a git repository", str(repo))))
    first, last = (
        _git(top, "rev-parse", "--verify", f"{name}^{{commit}}", refused=(flag, f"a revision of {top}", repr(name)))
        for flag, name in (("--good", good), ("--bad", bad))
    )
    if _code(top, "merge-base", "--is-ancestor", first, last) != 0 or first == last:
        raise InputError("--good", "an ancestor of --bad", f"{good} and {bad}", "git log")
    with TemporaryFolder("bisect") as scratch:
        tree = Path(scratch) / "tree"
        _git(top, "worktree", "add", "--detach", "--quiet", str(tree), last)
        trial = _Trial(resolved(folder), tree, how)
        try:
            return _search(trial, first, last, report)
        finally:
            _code(top, "worktree", "remove", "--force", str(tree))
            _code(top, "worktree", "prune")


@dataclass(frozen=True)
class _Trial:
    """How one revision is tried."""

    folder: Path
    tree: Path
    how: Replay

    def _replay(self) -> str:
        """The program to run: the tree's own where it is a checkout of opscope, also one whose rooms were import
        names."""
        before = (self.tree / "harness/triage/replay.py").is_file() and not (self.tree / "opscope").is_dir()
        return "harness.triage.replay" if before else "opscope.harness.triage.replay"

    def __call__(self) -> tuple[int, str]:
        """What git bisect takes the checked out revision for, and why."""
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(self.tree), str(PACKAGE.parent)]),
            "OPSCOPE_WORKTREE": str(self.tree),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        if self.how.build:
            built = subprocess.run(
                self.how.build,
                shell=True,
                cwd=self.tree,
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            if built.returncode:
                return SKIP, "cannot be built"
        command = [self.how.python or sys.executable, "-P", "-m", self._replay(), str(self.folder), "--json"]
        for option, value in (("--backend", self.how.backend), ("--system-desc", self.how.system_desc)):
            kind, colon, file = value.rpartition(":")  # tt:build/libtt.so
            if file and not (self.tree / file).is_file():
                return SKIP, f"has no {file}"
            command += [option, f"{kind}{colon}{self.tree / file}"] if file else []
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        try:
            test = OpTest.model_validate_json(done.stdout)
        except ValueError:  # an exit code alone may be that of an interpreter that did not get so far
            return SKIP, (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        outcome = f"{test.status}{f' at {test.failed_stage}' if test.failed_stage else ''}"
        if done.returncode == PASSES:
            return GOOD, outcome
        bad = done.returncode == SAME or (self.how.any_failure and done.returncode == OTHER)
        return (BAD, outcome) if bad else (SKIP, f"{outcome}: a different failure")


def _search(trial: _Trial, first: str, last: str, report: Callable[[str], None]) -> Bisected:
    """git bisect over the worktree, both ends checked before."""
    steps: list[str] = []

    def tried(revision: str) -> int:
        code, why = trial()
        words = {GOOD: "good", BAD: "bad", SKIP: "skipped"}
        steps.append(f"{revision[:12]} {words[code]}: {why}")
        report(steps[-1])
        return code

    for flag, revision, expected, words in (
        ("--bad", last, BAD, "a revision at which the op fails as recorded"),
        ("--good", first, GOOD, "a revision at which the op does not fail so"),
    ):
        _git(trial.tree, "checkout", "--quiet", "--detach", revision)
        if tried(revision) != expected:
            raise InputError(flag, words, steps[-1], "another revision, or --any-failure")
    _git(trial.tree, "bisect", "start", last, first)
    try:
        while True:
            current = _git(trial.tree, "rev-parse", "HEAD")
            word = {GOOD: "good", BAD: "bad", SKIP: "skip"}[tried(current)]
            done = subprocess.run(["git", "bisect", word], cwd=trial.tree, capture_output=True, text=True, check=False)
            if done.returncode != 0 or "is the first bad commit" in done.stdout:
                break
        log = _git(trial.tree, "bisect", "log")
    finally:
        _code(trial.tree, "bisect", "reset")
    candidates = _candidates(log)
    if not candidates:
        raise InputError("git bisect", "a first bad commit", cut((done.stderr or done.stdout).strip(), 160))
    order = _git(trial.tree, "rev-list", "--reverse", last, f"^{first}").split()
    candidates = sorted(candidates, key=order.index)
    text = "\n".join(_git(trial.tree, "log", "-1", "--format=%h %as %an: %s", each) for each in candidates)
    return Bisected(tuple(candidates), text, tuple(steps))


def _candidates(log: str) -> list[str]:
    """The commits that the end of a bisect log names."""
    marks = ("# first bad commit: [", "# possible first bad commit: [")
    return [line.split("[", 1)[1].split("]", 1)[0] for line in log.splitlines() if line.startswith(marks)]


def _git(folder: Path, *words: str, refused: tuple[str, str, str] | None = None) -> str:
    """The output of git. Raises InputError if it fails."""
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        message = shorten(done.stderr, 160)
        if refused is not None:
            raise InputError(*refused)
        raise InputError(f"git {shlex.join(words)}", "to succeed", message)
    return done.stdout.strip()


def _code(folder: Path, *words: str) -> int:
    return subprocess.run(["git", *words], cwd=folder, capture_output=True, check=False).returncode
