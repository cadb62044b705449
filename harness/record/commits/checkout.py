"""A folder's git checkout: commit, branch, author, whether files differ from it, and where its commits are shown.

git is asked once, with one deadline for all that it is asked. Where it is missing, too slow, or refuses the checkout of
another user, commit and branch are read from its files.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

from opscope.base.variables import variables_now

PATIENCE = 10.0
"""Seconds that git has to answer."""
OF_A_HOOK = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")
"""Variables with which git starts a hook: they name that repository, whatever folder is asked about."""

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_SHORT_REMOTE = re.compile(r"(?:[^\s@/]+@)?(?P<host>[\w.-]+):(?P<path>(?!//)[^\s]+)")
"""`git@host:path`, as ssh takes it."""


@dataclass(frozen=True)
class Commit:
    """A commit, of the tested folder or of a compiler; all empty if none is known."""

    revision: str = ""
    dirty: bool = False
    """Whether tracked files differ from it."""
    branch: str = ""
    """Empty if a commit is checked out and no branch."""
    author: str = ""
    """Name of its author, without the address."""
    url: str = ""
    """Page of its repository, without login; empty if that is not known."""
    parents: tuple[str, ...] = ()
    """The commits that it follows, as far as a shallow clone has them; several of a merge."""


def checkout(folder: Path) -> Commit:
    """What is checked out in `folder`, a submodule or worktree being a checkout of its own."""
    place = git_folder(folder)
    if place is None:
        return Commit()
    status, newest, remote = _answers(
        folder,
        ["status", "--porcelain=v2", "--branch", "--untracked-files=no"],
        ["log", "-1", "--no-show-signature", "--format=%P%n%aN"],
        ["ls-remote", "--get-url"],
    )
    parents, _, author = (newest or "").partition("\n")
    known = {"author": _line(author), "url": web_url(_line(remote)), "parents": tuple(parents.split())}
    if status is None:
        revision, branch = _of_files(place)
        return Commit(revision, False, branch, **known)
    lines = status.splitlines()
    heads = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# branch."))
    revision, branch = heads.get("branch.oid", ""), heads.get("branch.head", "")
    return Commit(
        revision="" if revision == "(initial)" else revision,
        dirty=any(not line.startswith("#") for line in lines),
        branch="" if branch == "(detached)" else branch,
        **known,
    )


def authors_between(folder: Path, old: str, new: str) -> tuple[str, ...]:
    """Who wrote the commits after `old` up to `new`, most commits first; empty where git does not have both."""
    if git_folder(folder) is None or not (_COMMIT.fullmatch(old) and _COMMIT.fullmatch(new)):
        return ()
    (names,) = _answers(folder, ["log", "--no-merges", "--no-show-signature", "--format=%aN", f"{old}..{new}"])
    authors = [line.strip() for line in (names or "").splitlines() if line.strip()]
    return tuple(sorted(dict.fromkeys(authors), key=lambda name: -authors.count(name)))


def default_branch(folder: Path) -> str:
    """The branch that a clone of the remote checks out; empty where that is not known."""
    if git_folder(folder) is None:
        return ""
    (name,) = _answers(folder, ["rev-parse", "--abbrev-ref", "--verify", "--quiet", "origin/HEAD"])
    return _line(name).partition("/")[2]


def web_url(remote: str) -> str:
    """The page of a remote repository, `https://host/owner/name`, without login, parameters and `.git`.

    Empty for a path on this machine, and for anything that is no address of a repository.
    """
    short = _SHORT_REMOTE.fullmatch(remote.strip())
    if short is not None:
        return _page("https", short["host"], short["path"])
    try:
        parts = urlsplit(remote.strip())
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return ""
    if parts.scheme in ("http", "https"):
        return _page(parts.scheme, f"{host}:{port}" if port else host, parts.path)
    return _page("https", host, parts.path) if parts.scheme in ("ssh", "git+ssh", "ssh+git", "git") else ""


def _page(scheme: str, host: str, path: str) -> str:
    path = path.strip("/").removesuffix(".git").strip("/")
    if not path or not re.fullmatch(r"[\w.-]+(:\d+)?", host):
        return ""
    return f"{scheme}://{host}/{quote(path, safe='/~%')}"


def _answers(folder: Path, *commands: Sequence[str]) -> list[str | None]:
    """What git prints for each of the commands, which run side by side; None where it fails or takes too long."""
    environment = {name: value for name, value in variables_now().items() if name not in OF_A_HOOK}
    environment |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C.UTF-8"}
    processes: list[subprocess.Popen[bytes] | None] = []
    answers: list[str | None] = []
    until = time.monotonic() + PATIENCE
    for command in commands:
        try:
            processes.append(
                subprocess.Popen(
                    ["git", "-C", str(folder), *command],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env=environment,
                )
            )
        except OSError:
            processes.append(None)
    for process in processes:
        if process is None:
            answers.append(None)
            continue
        try:
            output, _ = process.communicate(timeout=max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            answers.append(None)
        else:
            answers.append(None if process.returncode else output.decode("utf-8", "replace"))
    return answers


def _line(text: str | None) -> str:
    """The first line of an answer."""
    return next(iter((text or "").splitlines()), "").strip()


# --- without git


def git_folder(folder: Path) -> Path | None:
    """The folder with the HEAD of the checkout that `folder` lies in; None if it is in none."""
    folder = folder.absolute()
    for place in (folder, *folder.parents):
        git = place / ".git"
        try:
            if git.is_dir():
                return git
            if git.is_file():  # a worktree, or a submodule
                return place / git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
        except (OSError, UnicodeDecodeError):
            return None
    return None


def _of_files(git: Path) -> tuple[str, str]:
    """(commit, branch) that a git folder names; empty where its files say nothing."""
    try:
        head = (git / "HEAD").read_text(encoding="utf-8").strip()
        if not head.startswith("ref:"):
            return (head if _COMMIT.fullmatch(head) else ""), ""
        ref = head.removeprefix("ref:").strip()
        common = git / "commondir"
        shared = git / common.read_text(encoding="utf-8").strip() if common.is_file() else git
        branch = ref.removeprefix("refs/heads/") if ref.startswith("refs/heads/") else ""
        for loose in (git / ref, shared / ref):
            if loose.is_file():
                return loose.read_text(encoding="utf-8").strip(), branch
        for line in (shared / "packed-refs").read_text(encoding="utf-8").splitlines():
            revision, _, name = line.partition(" ")
            if name == ref:
                return revision, branch
    except (OSError, UnicodeDecodeError):
        return "", ""
    return "", branch
