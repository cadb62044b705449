"""What this process has read: the files that it opened, imported or mapped, folders that it listed, modules that it
looked for, variables that it asked for, programs that it started.

`begin` installs an audit hook, which forks of this process inherit; what was loaded before is counted as opened then.
A file is marked when it is opened (device, inode, size, times), so that its content can be told from a later one.
`Reading.report` gives all of that as JSON. What it cannot see: whether a file exists that is never opened, files that
native code opens and does not map, but for the readers that `READERS` names.
"""

from __future__ import annotations

import _posixsubprocess
import contextlib
import functools
import glob
import os
import re
import resource
import site
import socket
import sys
import time
from collections.abc import Iterator
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder, SourceFileLoader
from importlib.util import cache_from_source, source_from_cache
from typing import Any

Mark = tuple[int, ...]
"""Device, inode, size, and the times of the last change of content and of inode, in nanoseconds."""

_NO_FILES = ("/proc/", "/sys/", "/dev/")
_SHARED_MEMORY = "/dev/shm/"
_URI = re.compile(r"file:(?://[^/]*)?([^?#]*).*", re.DOTALL)
_IMPORTER = "<frozen importlib"
_MAPPED = re.compile(rb"^\S+ \S+ \S+ \S+ (\d+) +(/[^\n]+)$", re.MULTILINE)
_SOON = 2.0
"""Seconds between the times of a source and of its compiled file within which the latter may be of an older source."""
_PROGRAMS = {"subprocess.Popen", "os.posix_spawn", "os.exec", "os.system", "os.fork", "os.forkpty"}
READERS = {
    "safetensors": ("safe_open", 0),
    "h5py._hl.files": ("File.__init__", 1),
    "tensorflow.python.lib.io.file_io": ("FileIO.__init__", 1),
    "pyarrow.parquet.core": ("read_table", 0),
    "torch.jit._serialization": ("load", 0),
    "onnxruntime.capi.onnxruntime_inference_collection": ("InferenceSession.__init__", 1),
}
"""Readers of native code, which raise no event: module -> function, and the argument that is the file."""


def mark(path: str) -> Mark | None:
    """The mark of a file as it is now; None if there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116 - once for each of a thousand files
    except (OSError, ValueError):
        return None
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


class Reading:
    """The record of this process."""

    def __init__(self) -> None:
        self.files: dict[str, Mark | None] = {}
        """File -> its mark when it was first opened; None where there was none."""
        self.folders: dict[str, Mark | None] = {}
        """Folders that were listed."""
        self.patterns: set[tuple[str, bool]] = set()
        """Patterns of files, and whether they find hidden ones."""
        self.links: dict[str, str] = {}
        """Link -> where it points to, of those that were asked for that."""
        self.variables: set[str] = set()
        """Names that were asked for; `*` for all."""
        self.programs: set[str] = set()
        self.wanted: set[str] = {"sitecustomize", "usercustomize"}
        """Modules that were asked for; the interpreter asks for two of them before there is a hook."""
        self.place = False
        """Whether the current folder was asked for, or a path that is relative to it."""
        self.beside: dict[str, frozenset[str]] = {}
        """What lay beside the modules of a server when it was to fork first."""
        self._written: set[str] = set()
        self._settings: set[str] = set()
        """Files of settings that it has written because there were none: what they say later counts."""
        self._temporary: set[str] = set()
        """Folders that the process has made."""
        self._modules: set[str] = set()
        self._began = time.time_ns()
        self._sent: tuple[int, ...] = ()
        self._size = b""
        """The size of this process's address space when its mapped files were last looked at."""
        self._changed: set[str] = set()

    def begin(self) -> None:
        """Installs the hook, and counts what is loaded already."""
        self._take_modules()
        sys.addaudithook(self._hear)
        _watch_variables(self.variables)
        _compile_anew()
        _watch_spawns(self.programs)
        _watch_places(self)
        sys.meta_path.insert(0, _Readers())

    def _hear(self, event: str, words: tuple[Any, ...]) -> None:
        if event == "open":
            if not isinstance(words[0], int) and words[0] is not None and not _is_ours():
                self._take_open(words[0], words[2])
        elif event == "import":
            self.wanted.add(words[0])
            if words[1]:
                self._take_file(words[1])
        elif event in ("os.listdir", "os.scandir"):
            looks = sys._getframe(1).f_code.co_filename.startswith(_IMPORTER) or _caller() == "importlib.metadata"
            if not looks and not _is_ours():
                folder = f"/proc/self/fd/{words[0]}" if isinstance(words[0], int) else self._absolute(words[0] or ".")
                folder = os.path.realpath(folder) if isinstance(words[0], int) else folder
                if not _is_no_file(f"{folder}/") and not self._is_own(folder):
                    self.folders.setdefault(folder, mark(folder))
        elif event in ("os.rename", "os.link"):
            if not _is_ours():
                self._take_file(words[0])  # what has the other name was made from it
                if self._is_own(_absolute(words[0])):
                    self._take_written(_absolute(words[1]))
        elif event == "os.mkdir":
            folder = _absolute(words[0])
            if mark(folder) is None:
                self._temporary.add(folder)
        elif event in ("glob.glob/2", "pathlib.Path.glob", "pathlib.Path.rglob"):
            if not _is_ours():
                self._take_pattern(event, words)
        elif event == "sqlite3.connect":
            if isinstance(words[0], (str, bytes, os.PathLike)) and words[0] != ":memory:":
                self._take_database(os.fsdecode(words[0]))
        elif event == "socket.connect":
            if words[0].type != socket.SOCK_DGRAM and not _is_ours():
                self.programs.add(f"a server ({_address(words[1])})")
        elif event == "ctypes.dlopen":
            if words[0]:
                self._take_library(words[0])
        elif event in _PROGRAMS and not _is_ours():
            self.programs.add(_program(event, words))

    def _take_open(self, path: Any, flags: Any) -> None:
        path = self._absolute(path)
        if not path or _is_no_file(path):
            return
        anew = isinstance(flags, int) and flags & (os.O_TRUNC | os.O_EXCL)
        if isinstance(flags, int) and (flags & os.O_WRONLY or (flags & os.O_RDWR and (anew or mark(path) is None))):
            self._take_written(path)
        elif path.endswith(".pyc"):
            source = _source_of(path)
            if source is not None:
                self._take_file(source)
        else:
            self._take_file(path)

    def _take_written(self, path: str) -> None:
        """Counts a file as the process's own, unless it has read what was there before."""
        if self.files.get(path) is None:
            self._written.add(path)
            hidden = os.path.expanduser("~/.")  # noqa: PTH111
            if path.startswith(hidden) and not path.startswith(f"{hidden}cache/") and mark(path) is None:
                self._settings.add(path)  # ~/.keras/keras.json

    def _take_file(self, path: Any) -> None:
        path = self._absolute(path)
        if path in self.files or not path or _is_no_file(path):
            return
        if self._is_own(path):  # a link of its own may lead to what is not
            path = os.path.realpath(path)
            if path in self.files or self._is_own(path):
                return
        self.files[path] = mark(path)

    def _take_pattern(self, event: str, words: tuple[Any, ...]) -> None:
        """Counts what a pattern finds: where its last part is a mere name, no folder is listed for that."""
        if event == "glob.glob/2":
            folder = "" if words[2] is None else os.fsdecode(words[2])
            pattern, hidden = os.path.join(folder, os.fsdecode(words[0])), False  # noqa: PTH118
        else:
            between = "**" if event.endswith("rglob") else ""
            pattern, hidden = os.path.join(glob.escape(str(words[0])), between, str(words[1])), True  # noqa: PTH118
        pattern = self._absolute(pattern)
        if not _is_no_file(pattern) and not self._is_own(os.path.dirname(pattern)):  # noqa: PTH120
            self.patterns.add((pattern, hidden))

    def _take_database(self, name: str) -> None:
        """Counts a file of SQLite, and what was written to it last, which has a file of its own."""
        path = _URI.sub(r"\1", name)
        for file in (path, f"{path}-wal"):
            if file == path or mark(file) is not None:
                self._take_file(file)

    def _absolute(self, path: Any) -> str:
        """A path that was asked for."""
        whole = _absolute(path)
        if whole and not os.fsdecode(path).startswith(os.sep):
            self.place = True
        return whole

    def _take_library(self, name: Any) -> None:
        if isinstance(name, (str, bytes)) and "/" in os.fsdecode(name):
            self._take_file(name)

    def _take_modules(self) -> None:
        """Counts the files of modules of which no event has said so."""
        for name in sys.modules.keys() - self._modules:
            self._modules.add(name)
            file = getattr(sys.modules.get(name), "__file__", None)
            if isinstance(file, str):
                self._take_file(_source_of(file) or file)

    def _take_mapped(self) -> Iterator[str]:
        """Counts what is mapped; gives what is mapped of a file that is another by now."""
        try:
            with open("/proc/self/maps", "rb") as file:  # noqa: PTH123
                lines = set(_MAPPED.findall(file.read()))
        except OSError:
            return
        for inode, path_bytes in lines:
            path = os.fsdecode(path_bytes)
            if path.startswith((*_NO_FILES, "/memfd:", "/SYSV", "/anon")) or self._is_own(path):
                continue
            known = self.files.get(path)
            now = mark(path) if known is None else known
            # By the inode alone: some file systems show another device there than to `stat`.
            if now is not None and now[1] == int(inode):
                self.files[path] = now
            elif not path.endswith(" (deleted)") or not self.programs:
                yield path
            if known is None and now is not None and now[4] > self._began and not self.programs:
                yield path

    def _is_own(self, path: str) -> bool:
        """Whether the process has written a file itself."""
        if path in self._written or not self._temporary:
            return path in self._written
        while path and path not in self._temporary:
            path = path.rpartition(os.sep)[0]
        return bool(path)

    def report(self) -> dict[str, Any] | None:
        """All of it as JSON; None if nothing is new since the last report."""
        self._take_modules()
        size = _address_space()
        if size != self._size or not size:  # a look takes milliseconds: as long as nothing is mapped, none is needed
            self._size = size
            self._changed |= set(self._take_mapped())
        changed = sorted(self._changed)
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        if not self.programs and (usage.ru_maxrss or usage.ru_utime):
            self.programs.add("a program that native code started")
        news = (len(self.files), len(self.folders), len(self.variables), len(self.programs), len(self.wanted))
        news = (
            *news,
            len(self.links),
            len(self.patterns),
            self.place,
            len(changed),
            os.getpid(),
        )  # not what it has written: that is no cause
        if news == self._sent:
            return None
        self._sent = news
        missing = sorted(name for name in self.wanted.copy() if name not in sys.modules)
        searched = _searched(missing)
        for folder in searched:
            if os.path.isfile(folder):  # noqa: PTH113  an archive, which may get other modules
                self._take_file(folder)
        written_in = {os.path.dirname(path) for path in self._written.copy()}  # noqa: PTH120
        return {
            "files": {path: each for path, each in self.files.copy().items() if not self._is_own(path)}
            | {path: mark(path) for path in self._settings.copy() if mark(path) is not None},
            "folders": {
                path: None if path in written_in else each
                for path, each in self.folders.copy().items()
                if not self._is_own(path)
            },
            "variables": sorted(self.variables),
            "programs": sorted(self.programs),
            "changed": changed,
            "searched": searched,
            "links": self.links.copy(),
            "patterns": sorted(self.patterns.copy()),
            "place": self.place or "" in sys.path,
            "sites": _sites(),
        }


def _is_no_file(path: str) -> bool:
    """Whether a path leads to what the kernel tells, and not to a file."""
    return path.startswith(_NO_FILES) and not path.startswith(_SHARED_MEMORY)


def _address(address: Any) -> str:
    """Where a server is, for a reader."""
    return ":".join(map(str, address[:2])) if isinstance(address, tuple) else os.fsdecode(address)


def _sites() -> list[str]:
    """The folders whose .pth files say where modules are looked for."""
    return [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]


def _address_space() -> bytes:
    """The size of this process's address space, in pages; empty where it cannot be read."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123
            return file.read().partition(b" ")[0]
    except OSError:
        return b""


def _searched(missing: list[str]) -> dict[str, list[str]]:
    """Folder -> the modules that were looked for in it and were not there; `name/` where a mere folder would count, and
    `name+` where a source is that a package or an extension of its name goes before."""
    searched: dict[str, set[str]] = {}
    for name, module in list(sys.modules.items()):
        spec = getattr(module, "__spec__", None)
        origin = getattr(spec, "origin", None)
        parts = getattr(spec, "submodule_search_locations", None)
        last = name.rpartition(".")[2]
        if isinstance(origin, str) and os.sep in origin:
            # A folder of the path may lie in another one: where the module is says which was the last.
            there = os.path.dirname(origin)  # noqa: PTH120
            there = there if parts is None else os.path.dirname(there)  # noqa: PTH120
            for folder in _path_of(name):
                if folder == there:
                    if parts is None and origin.endswith(".py") and not _is_installed(there):
                        searched.setdefault(folder, set()).add(f"{last}+")
                    break
                searched.setdefault(folder, set()).add(last)
        elif origin is None and parts is not None:  # a namespace package: any folder of its name joins it
            known = {os.path.dirname(part) for part in parts if isinstance(part, str)}  # noqa: PTH120
            for folder in _path_of(name):
                if folder not in known:
                    searched.setdefault(folder, set()).add(f"{last}/")
    for name in missing:
        for folder in _path_of(name):
            searched.setdefault(folder, set()).add(name.rpartition(".")[2])
    return {folder: sorted(names) for folder, names in searched.items()}


def _is_installed(folder: str) -> bool:
    """Whether a folder is one of installed packages, or of the standard library."""
    return folder.startswith(os.path.dirname(os.__file__)) or f"{os.sep}site-packages" in folder  # noqa: PTH120


def _may_be_module(name: str) -> bool:
    return name.endswith((".py", ".so")) or ("." not in name and name != "__pycache__")


@functools.lru_cache(maxsize=1)
def _folders_searched(modules: int) -> tuple[str, ...]:
    """The folders in which so many modules were looked for."""
    return tuple(_searched([]))


def _modules_beside() -> dict[str, frozenset[str]]:
    """Folder -> what may be a module in it, of the folders in which loaded modules were looked for."""
    beside = {}
    for folder in _folders_searched(len(sys.modules)):
        if not _is_installed(folder):
            with contextlib.suppress(OSError):
                names = os.listdir(folder)  # noqa: PTH208
                beside[folder] = frozenset(name for name in names if _may_be_module(name))
    return beside


def _path_of(name: str) -> list[str]:
    """The folders in which a module is looked for."""
    parent = name.rpartition(".")[0]
    path = getattr(sys.modules.get(parent), "__path__", ()) if parent else sys.path
    try:
        return [_absolute(folder or ".") for folder in path if isinstance(folder, str)]
    except Exception:  # noqa: BLE001  a package's path may be anything
        return []


def _absolute(path: Any) -> str:
    try:
        return os.path.abspath(os.fsdecode(path))  # noqa: PTH100
    except (OSError, TypeError, ValueError):
        return ""


def _source_of(path: str) -> str | None:
    """The source of a compiled file; None for any other file, or one whose source is elsewhere."""
    if not path.endswith(".pyc"):
        return None
    try:
        return source_from_cache(path)
    except (NotImplementedError, ValueError):
        return path


def _program(event: str, words: tuple[Any, ...]) -> str:
    """The program that an event names."""
    if event in ("os.fork", "os.forkpty"):
        return "a fork of its process"
    word = words[0]
    if event == "subprocess.Popen":
        word = words[0] or (words[1] if isinstance(words[1], (str, bytes)) else next(iter(words[1])))
    return os.fsdecode(word) if isinstance(word, (str, bytes, os.PathLike)) else str(word)


def _watch_variables(names: set[str]) -> None:
    """Has reads of `os.environ` note the names; a copy of all counts as `*`."""
    kind = type(os.environ)
    get, each = kind.__getitem__, kind.__iter__

    def getitem(self: Any, name: Any) -> Any:
        word: Any = name
        word = os.fsdecode(word) if isinstance(word, (str, bytes)) else ""
        if word and word not in names and not _is_ours():
            names.add(word)
        return get(self, name)

    def iterate(self: Any) -> Any:
        if "*" not in names and not _is_ours():
            names.add("*")
        return each(self)

    kind.__getitem__, kind.__iter__ = getitem, iterate  # type: ignore[method-assign]  reads raise no audit event


_BETWEEN = frozenset(
    {"os", "_collections_abc", "collections.abc", "subprocess", "pathlib", "tempfile", "shutil", "glob", "contextlib"}
    | {"io", "weakref", "posixpath", __name__}
)
"""Modules that read for those that call them."""


def _reader() -> Any:
    """The frame that reads: that of the first module which does not read for others."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") in _BETWEEN:
        frame = frame.f_back
    return frame


def _caller() -> str:
    """The module that reads."""
    frame = _reader()
    return "" if frame is None else str(frame.f_globals.get("__name__"))


def _is_ours() -> bool:
    """Whether one of our own modules reads a file or a variable, or starts a program, such as a fork of a server."""
    frame = _reader()
    package = "" if frame is None else f"{frame.f_globals.get('__package__')}."
    a_model = package.startswith("opscope.models.") and package.count(".") > 2 and ".frontends." not in package
    return package.startswith("opscope.") and not a_model


def _watch_spawns(programs: set[str]) -> None:
    """Has processes count that `multiprocessing` starts: it calls what `subprocess` calls, without its event."""
    start = _posixsubprocess.fork_exec

    def fork_exec(*words: Any) -> int:
        if not _is_ours() and _caller() != "subprocess":
            programs.add(os.fsdecode(words[1][0]) if len(words) > 1 and words[1] else "a program")
        return start(*words)

    _posixsubprocess.fork_exec = fork_exec


def _watch_places(reading: Reading) -> None:
    """Has `os.readlink` note where links point to, `os.getcwd` that the current folder counts, and `os.open` in which
    folder a file is: no event says so."""
    follow, current, opens = os.readlink, os.getcwd, os.open

    def readlink(path: Any, *, dir_fd: int | None = None) -> Any:
        target = follow(path, dir_fd=dir_fd)
        if dir_fd is None and not _is_ours():
            link = reading._absolute(path)
            if link and not _is_no_file(link) and not reading._is_own(link):
                reading.links.setdefault(link, os.fsdecode(target))
        return target

    def getcwd() -> str:
        reading.place = reading.place or not (_is_ours() or _caller() == "tempfile")
        return current()

    def open_in(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if dir_fd is not None and not _is_ours():
            reading._take_open(os.path.join(follow(f"/proc/self/fd/{dir_fd}"), os.fsdecode(path)), flags)  # noqa: PTH118
        return opens(path, flags, mode, dir_fd=dir_fd)

    os.readlink, os.getcwd, os.open = readlink, getcwd, open_in
    os.supports_dir_fd |= {readlink, open_in}


def _compile_anew() -> None:
    """Has a source be compiled whose compiled file is of nearly the same time: it may be of an older source, as these
    times are compared by whole seconds."""
    stats = SourceFileLoader.path_stats
    folders = tuple(f"{folder}{os.sep}" for folder in {sys.prefix, sys.base_prefix})

    def path_stats(self: SourceFileLoader, path: str) -> Any:
        source = stats(self, path)
        compiled = None if path.startswith(folders) else mark(_compiled(path))
        if compiled is not None and abs(compiled[3] / 1e9 - source["mtime"]) <= _SOON:
            raise OSError("its compiled file may be of an older source")
        return source

    SourceFileLoader.path_stats = path_stats  # type: ignore[method-assign]


def _compiled(path: str) -> str:
    """The place of a source's compiled file."""
    try:
        return cache_from_source(path)
    except (NotImplementedError, ValueError):
        return ""


class _Readers(MetaPathFinder):
    """Has the readers of native code say which files they open, as soon as their module is loaded. Notes what is looked
    for, also where nobody imports it."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """The module as the path's own finder finds it, with its reader wrapped."""
        if of_process is not None:
            of_process.wanted.add(fullname)
        if fullname not in READERS or (spec := PathFinder.find_spec(fullname, path, target)) is None:
            return None
        loader: Any = spec.loader
        if loader is not None and hasattr(loader, "exec_module"):
            execute = loader.exec_module

            def exec_module(module: Any) -> None:
                execute(module)
                _wrap(module, *READERS[fullname])

            with contextlib.suppress(AttributeError):
                loader.exec_module = exec_module
        return spec


def _wrap(module: Any, name: str, position: int) -> None:
    """Replaces a reader of a module by one that notes its file."""
    *outer, last = name.split(".")
    for word in outer:
        module = getattr(module, word, None)
    reader = getattr(module, last, None)
    if module is None or reader is None:
        return

    def noting(*words: Any, **options: Any) -> Any:
        file = words[position] if len(words) > position else next(iter(options.values()), None)
        if of_process is not None and isinstance(file, (str, bytes, os.PathLike)):
            of_process._take_file(file)
        return reader(*words, **options)

    setattr(module, last, noting)


of_process: Reading | None = None
"""The record of this process, or of that of which it is a fork."""


def begin() -> None:
    """Begins the record of this process, once."""
    global of_process
    if of_process is None:
        of_process = Reading()
        of_process.begin()


def is_outdated() -> bool:
    """Whether a file that this process has read was edited since, or a module is there that goes before one of its own
    since it was asked first."""
    if of_process is None:
        return False
    then, now = of_process.beside, _modules_beside()
    of_process.beside = {**now, **then}
    return any(now.get(folder, names) != names for folder, names in then.items()) or any(
        mark(path) != known for path, known in of_process.files.copy().items() if not of_process._is_own(path)
    )


def report() -> dict[str, Any] | None:
    """What this process has read so far; None if nothing is new since the last report."""
    return None if of_process is None else of_process.report()
