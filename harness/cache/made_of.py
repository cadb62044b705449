"""What a kept result was made from: a list that is checked before the result is used again, as a compiler cache does.

A list names files by the digests of their content, absent ones, folders by the names in them, modules that were looked
for in vain, and variables by salted digests. It is made from what a child says that it has read
(`opscope/base/reading.py`), and stored once by its own digest. It is never part of a key, and never compared
with another list. Where a list cannot be made, the reason says why the result is not kept.
"""

from __future__ import annotations

import ast
import contextlib
import glob
import hashlib
import os
import secrets
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

from opscope.base import content_digests, patterns_files, reading
from opscope.base.digest import json_digest
from opscope.base.places import HOME, PACKAGE
from opscope.base.python_text import parsed
from opscope.base.variables import OF_NATIVE_CODE, is_harmless, is_one_of, variables_now
from opscope.harness.cache.json_store import JsonStore
from opscope.harness.record.store import MANIFEST_FILE

FOLDER = "lists"
"""The subfolder of the cache folder."""
REQUESTS = "requests"
"""The subfolder with the lists of each request for an export."""
MOST = 16
"""So many lists of one request are kept, the newest first."""
RUNS = "runs"
"""The subfolder of `lists` with the names of each run's lists."""
ABSENT = "absent"
EVERY = "*"
"""All variables but the harmless."""
RUN = "exports_of"
"""The option of a run's record that names the run for its exports."""
_OURS = ("harness", "compiler", "simulator", "reports", "dashboards", "ci", "base")
"""Rooms whose sources are part of keys already (harness/cache/verdict_fingerprint.py)."""
_OF_THE_MACHINE = frozenset({"uname", "ldconfig", "lscpu", "nvidia-smi", "getconf", "sysctl", "lsb_release"})
"""Programs of the system that tell about the machine and compute nothing."""
_OF_THE_SYSTEM = ("/usr/bin/", "/usr/sbin/", "/bin/", "/sbin/")
_PATHS = frozenset({"PYTHONPATH", "PATH", "LD_LIBRARY_PATH", "LD_PRELOAD"})
_SERVER = "a server"
_USES = {False: "runs", True: "asks"}
_NOT_COUNTED = ("__pycache__", ".opscope", ".git", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis")
_UNCOUNTED_FILES = ("/usr/share/locale", "/usr/lib/locale", "/etc/ld.so", "/usr/share/zoneinfo", "/usr/lib/ssl")


@dataclass(frozen=True)
class Scope:
    """From where paths of a list count, and which started programs its declaration sees through."""

    roots: tuple[tuple[str, str], ...]
    """Name and folder of each root; a path belongs to the first that holds it."""
    ignored: tuple[str, ...] = ()
    """Folders that the run itself writes."""
    declared: tuple[str, ...] | None = ()
    """Files and folders that say what started programs are made of; None where all programs are seen through."""
    all_variables: bool = False


@dataclass(frozen=True)
class Made:
    """A list, or the reason why there is none."""

    values: Mapping[str, Any] = field(default_factory=dict)
    unseen: str = ""
    """Why the result is not kept."""

    @cached_property
    def digest(self) -> str:
        """The name of the list."""
        return json_digest(self.values, digits=32)


def scope_of(file: str, *ignored: str, declared: tuple[str, ...] | None = (), all_variables: bool = False) -> Scope:
    """The scope of results of a model's or backend's file; an empty one is ours."""
    # Last, as what lies in somebody's home is usually a part of something else that is found there.
    roots = (*_roots(file), ("{user}", os.path.abspath(os.path.expanduser("~"))))  # noqa: PTH100, PTH111
    return Scope(roots, tuple(map(os.path.realpath, filter(None, ignored))), declared, all_variables)


def declared_in(path: str) -> tuple[str, ...]:
    """The files that a model's file declares as what the programs that it runs are made of: `made_of = ("op.sh",)`."""
    try:
        patterns = _declared_patterns(Path(path).read_bytes()) if path.endswith(".py") else ()
    except (OSError, SyntaxError, ValueError):
        return ()
    return tuple(str(file) for pattern in patterns for file in patterns_files.of(Path(path).parent, pattern))


@lru_cache(maxsize=1024)  # a file may hold hundreds of models, and each asks more than once
def _declared_patterns(text: bytes) -> tuple[str, ...]:
    words = [
        ast.literal_eval(line.value)
        for line in parsed(text).body
        if isinstance(line, ast.Assign) and any(getattr(each, "id", "") == "made_of" for each in line.targets)
    ]
    return tuple(str(each) for word in words for each in ([word] if isinstance(word, str) else word))


@cache
def _roots(file: str) -> tuple[tuple[str, str], ...]:
    roots: list[tuple[str, str]] = []
    if file:
        folder = Path(file).absolute().parent
        roots.append(("{file}", str(folder)))
        top = next((each for each in (folder, *folder.parents) if (each / ".git").exists()), None)
    else:
        top = None
    roots += [("{prefix}", sys.prefix), ("{base}", sys.base_prefix), ("{opscope}", str(HOME)), ("{home}", str(PACKAGE))]
    if top is not None:
        roots.append(("{top}", str(top)))
    return tuple(roots)


def made(report: Mapping[str, Any] | None, scope: Scope) -> Made:
    """The list of what a child has read, by its report. Says why there is none where its content is not known."""
    if report is None:
        return Made(unseen="its process did not say what it has read")
    files: dict[str, str] = {}
    real: dict[str, str] = {}
    programs = _programs(report["programs"], scope)
    for program in programs:
        if not scope.declared:
            return Made(unseen=f"it {_USES[program.startswith(_SERVER)]} {program}, which nothing declares")
    for path in report["changed"]:
        return Made(unseen=f"{path} changed while it was in use")
    for path, then in report["files"].items():
        if not path or _is_uncounted(path, scope, real) or (path.endswith(".lock") and not (then and then[2])):
            continue
        digest = _digest_then(path, None if then is None else tuple(then))
        if digest is None:
            return Made(unseen=f"{path} changed while it was in use")
        files[_named(path, scope.roots)] = digest
    for path in filter(os.path.isfile, programs):
        files.setdefault(_named(path, scope.roots), _digest_now(path))
    folders: dict[str, str] = {}
    for path, then in report["folders"].items():
        if path.startswith(_installed()) or _is_uncounted(path, scope, real):
            continue
        if then is not None and (now := reading.mark(path)) is not None and now[3] != then[3]:
            return Made(unseen=f"{path} got other files while it was in use")
        folders[_named(path, scope.roots)] = _names_in(path, scope.ignored)
    names = [EVERY] if scope.all_variables or programs else list(report["variables"])
    for path, modules in report["searched"].items():
        if shadow := _has_one(path, [module for module in modules if module.endswith("+")]):
            return Made(unseen=f"{path} got {shadow} while it was in use, which goes before {shadow}.py")
    salt = json_digest(sorted(files))[:8]
    values = {
        "files": files,
        "folders": folders,
        "searched": {
            _named(path, scope.roots): missing
            for path, modules in report["searched"].items()
            if not _is_ours(path) and (missing := _missing(path, modules))
        },
        "sites": {_named(path, scope.roots): _path_files(path) for path in report["sites"]},
        "links": {_named(path, scope.roots): _named(to, scope.roots) for path, to in report["links"].items()},
        "patterns": [
            [_named(pattern, scope.roots), hidden, _found(pattern, hidden, scope)]
            for pattern, hidden in report["patterns"]
            if not pattern.startswith(_installed())
        ],
        "place": _place(scope) if report["place"] else "",
        "declared": _contents(scope) if programs else {},
        "asked": sorted(name for name in names if not is_harmless(name)),
        "salt": salt,
        "variables": _variables(names, salt, scope.roots),
    }
    return Made(values)


def changed(values: Mapping[str, Any], scope: Scope) -> str:
    """The first thing of a list that is another by now; empty if all of it holds."""
    now = _variables(values["asked"], values["salt"], scope.roots)
    then = values["variables"]
    for name in sorted(now.keys() | then.keys()):
        if now.get(name) != then.get(name):
            return f"variable {name}"
    for name, digest in values["sites"].items():
        if _path_files(_placed(name, scope.roots)) != digest:
            return "a .pth file of the installed packages"
    if values["place"] and values["place"] != _place(scope):
        return "the current folder"
    for name, to in values["links"].items():
        if _target(_placed(name, scope.roots), scope) != to:
            return _readable(name, scope)
    for name, hidden, digest in values["patterns"]:
        if _found(_placed(name, scope.roots), hidden, scope) != digest:
            return f"what {_readable(name, scope)} finds"
    if values["declared"] and (what := first_other(values["declared"], _contents(scope))):
        return _readable(what, scope)
    for name, digest in values["files"].items():
        if _digest_now(_placed(name, scope.roots)) != digest:
            return _readable(name, scope)
    for name, digest in values["folders"].items():
        if _names_in(_placed(name, scope.roots), scope.ignored) != digest:
            return f"the files of {_readable(name, scope)}"
    for name, modules in values["searched"].items():
        if shadow := _has_one(_placed(name, scope.roots), modules):
            return f"{_readable(name, scope)}/{shadow}, which is new"
    return ""


class Lists:
    """The lists of a cache folder, as one run may use them: what is checked once is not checked again."""

    def __init__(self, cache_dir: Path) -> None:
        _entries.cache_clear()  # of an earlier run of this process
        self._store = JsonStore(cache_dir / FOLDER)
        self._checked: dict[tuple[str, Scope], str] = {}

    def keep(self, made: Made) -> str:
        """Stores a list; returns its name."""
        if not self._store.has(made.digest):
            self._store.put(made.digest, dict(made.values))
        return made.digest

    def changed(self, names: Iterable[str], scope: Scope) -> str:
        """What is another by now of some lists; empty if all hold."""
        for name in names:
            if (name, scope) not in self._checked:
                values = self._store.get(name)
                try:
                    self._checked[name, scope] = "a list that is gone" if values is None else changed(values, scope)
                except (KeyError, TypeError, AttributeError):
                    self._checked[name, scope] = "a list that cannot be read"
            if what := self._checked[name, scope]:
                return what
        return ""

    def contents(self, names: Iterable[str]) -> tuple[dict[str, int], list[str]]:
        """How many files, folders and variables some lists name, and those files that belong to the user's own."""
        named: dict[str, set[str]] = {"files": set(), "folders": set(), "variables": set()}
        for name in names:
            values = self._store.get(name) or {}
            for kind, known in named.items():
                known |= set(values.get(kind, ()))
        own = sorted(path.partition("}/")[2] for path in named["files"] if path.startswith(("{file}/", "{top}/")))
        return {kind: len(known) for kind, known in named.items()}, own

    def other_in_run(self, made: Made, run: str) -> str:
        """A file of which two lists of a run name another content, this one and one that any of its processes has kept;
        empty if there is none."""
        folder = self._store.root / RUNS / run
        if (folder / made.digest).exists():
            return ""
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            for name in os.listdir(folder):  # noqa: PTH208
                files = (self._store.get(name) or {}).get("files", {})
                for path, digest in made.values["files"].items():
                    if files.get(path, digest) != digest:
                        return path.partition("}/")[2] or path
            (folder / made.digest).touch()
        return ""


def new_run() -> str:
    """A name that no other run has, in this process or another."""
    return secrets.token_hex(8)


# --- files


def _digest_then(path: str, then: reading.Mark | None) -> str | None:
    """The digest of what a process had when it opened a file; None if that is not known any more."""
    now = reading.mark(path)
    if now != then:
        known = None if then is None else content_digests.of_mark(path, then)
        return None if known is None else known[:32]
    return _digest_now(path)


def _digest_now(path: str) -> str:
    """The digest of a file's content; of a folder, that it is one."""
    try:
        return "folder" if os.path.isdir(path) else content_digests.of(path)[:32]  # noqa: PTH112
    except (OSError, ValueError):
        return ABSENT


def _is_uncounted(path: str, scope: Scope, real: dict[str, str]) -> bool:
    """Whether a list does not name a path; `real` has where the folders lead that were asked for before."""
    if path.startswith(_UNCOUNTED_FILES) or _is_ours(path):
        return True
    folder, name = os.path.split(path)
    if folder not in real:
        real[folder] = os.path.realpath(folder)
    place = f"{real[folder].rstrip(os.sep)}{os.sep}{name}"
    if name in ("", os.curdir, os.pardir) or os.path.islink(place):  # noqa: PTH114 - once for each of a thousand files
        place = os.path.realpath(path)
    return any(place == folder or place.startswith(f"{folder}{os.sep}") for folder in scope.ignored)


@cache
def _our_folders() -> tuple[str, ...]:
    rooms = [HOME / name for name in _OURS] + [PACKAGE / name for name in _OURS]
    return tuple(f"{folder}{os.sep}" for folder in rooms)


def _is_ours(path: str) -> bool:
    """Whether a file is a source of ours that keys count already."""
    return path.startswith(_our_folders()) and f"{os.sep}tests{os.sep}" not in path


def _named(path: str, roots: Sequence[tuple[str, str]]) -> str:
    """A path as a list holds it: relative to the first root that holds it."""
    for name, folder in roots:
        if path == folder or path.startswith(f"{folder}{os.sep}"):
            return f"{name}{path[len(folder) :]}"
    return path


def _placed(name: str, roots: Sequence[tuple[str, str]]) -> str:
    """The path of a name in a list."""
    if name.startswith("{"):
        head, _, rest = name.partition("}")
        folder = dict(roots).get(f"{head}}}")
        return f"{folder}{rest}" if folder is not None else name
    return name


def _readable(name: str, scope: Scope) -> str:
    """A path for a reader: relative to the file that asked, or whole."""
    return (
        name.removeprefix("{file}/").removeprefix("{top}/")
        if name.startswith(("{file}/", "{top}/"))
        else _placed(name, scope.roots)
    )


def _names_in(path: str, ignored: Sequence[str]) -> str:
    """A digest of the names in a folder, without what runs leave there."""
    try:
        with os.scandir(path) as entries:
            names = [
                entry.name
                for entry in entries
                if not (entry.name in _NOT_COUNTED or _is_left_behind(entry.name))
                and not (
                    entry.is_dir()
                    and (Path(entry.path, MANIFEST_FILE).exists() or os.path.realpath(entry.path) in ignored)
                )
            ]
    except OSError:
        return ABSENT
    return json_digest(sorted(names), digits=32)


def _path_files(folder: str) -> str:
    """A digest of the .pth files of a folder, which say where modules are looked for."""
    names = [name for name in sorted(_entries(folder)) if name.endswith(".pth")]
    return json_digest([(name, _digest_now(os.path.join(folder, name))) for name in names], digits=32)  # noqa: PTH118


@cache
def _installed() -> tuple[str, ...]:
    """The folders of installed packages and of the standard library."""
    return tuple(f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib", "purelib", "platlib"))


def _place(scope: Scope) -> str:
    """The current folder as a list holds it."""
    return _named(os.getcwd(), scope.roots)  # noqa: PTH109


def _target(link: str, scope: Scope) -> str:
    """Where a link points to, as a list holds it."""
    try:
        return _named(os.readlink(link), scope.roots)  # noqa: PTH115
    except OSError:
        return ABSENT


def _found(pattern: str, hidden: bool, scope: Scope) -> str:
    """A digest of the names that a pattern finds, without what runs leave there."""
    names = glob.glob(pattern, recursive=True, include_hidden=hidden)  # noqa: PTH207  a pattern, not a folder
    real: dict[str, str] = {}
    counted = [
        _named(name, scope.roots)
        for name in names
        if not (_is_uncounted(name, scope, real) or _is_left_behind(name))
        and not (set(Path(name).parts) - set(Path(pattern).parts)) & set(_NOT_COUNTED)
    ]
    return json_digest(sorted(counted), digits=32)


def _is_left_behind(path: str) -> bool:
    """Whether an editor or Python has left a file."""
    return path.endswith((".swp", ".swx", "~", ".pyc")) or os.path.basename(path).startswith(".#")  # noqa: PTH119


def _contents(scope: Scope) -> dict[str, str]:
    """The digests of what is declared."""
    return {_named(path, scope.roots): _digest_now(path) for path in scope.declared or ()}


def first_other(then: Mapping[str, str], now: Mapping[str, str]) -> str:
    """The first name with another digest; empty if there is none."""
    return next((name for name in sorted({*then, *now}) if then.get(name) != now.get(name)), "")


@cache
def _entries(path: str) -> frozenset[str]:
    """The names in a folder of the path, read once."""
    try:
        return frozenset(os.listdir(path))  # noqa: PTH208
    except OSError:
        return frozenset()


def _has_one(path: str, modules: Iterable[str]) -> str:
    """The first module of some that a folder has; empty if it has none."""
    names = _entries(path)
    if not names:
        return Path(path).name if os.path.isfile(path) else ""  # noqa: PTH113  an archive, whose modules are not looked at
    stems = {name.partition(".")[0] for name in names if name.endswith((".py", ".so", ".pyc"))}
    for module in modules:
        if module.endswith("+"):  # besides the source itself
            if any(f"{module[:-1]}{suffix}" in names for suffix in EXTENSION_SUFFIXES) or _is_package(
                path, module[:-1]
            ):
                return module[:-1]
        elif module.endswith("/") and (module[:-1] in names or module[:-1] in stems):
            return module[:-1]
        elif module in stems or (module in names and _is_package(path, module)):
            return module
    return ""


def _missing(path: str, modules: list[str]) -> list[str]:
    """The modules of some that a folder does not have."""
    return [each for each in modules if not _has_one(path, [each])] if _has_one(path, modules) else modules


def _is_package(path: str, module: str) -> bool:
    return os.path.exists(os.path.join(path, module, "__init__.py"))  # noqa: PTH110, PTH118


# --- programs, variables


def _programs(names: Sequence[str], scope: Scope) -> list[str]:
    """The programs that a child started and that compute something, by their files where these are known."""
    import shutil

    paths = [] if scope.declared is None else [shutil.which(name) or name for name in names]
    return [path for path in paths if not (Path(path).name in _OF_THE_MACHINE and path.startswith(_OF_THE_SYSTEM))]


def _variables(names: Iterable[str], salt: str, roots: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Salted digests of the variables that count and are set."""
    names = set(names)
    counted = {}
    for name, value in variables_now().items():
        if is_harmless(name) or not (EVERY in names or name in names or is_one_of(name, OF_NATIVE_CODE)):
            continue
        whole = os.path.abspath if name in _PATHS else str
        words = os.pathsep.join(_named(whole(word) if word else "", roots) for word in value.split(os.pathsep))
        counted[name] = hashlib.sha256(f"{salt}\0{name}\0{words}".encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return counted
