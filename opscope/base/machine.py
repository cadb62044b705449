"""What this process may use: of the machine, or of the container or cgroup that it is in, where that has less."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

SHARE = 0.75
"""Share of the memory that one child may hold by default."""

_PROC = Path("/proc/self")

LIMITS = {
    2: ("memory.max", "memory.current", "inactive_file"),
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
"""Version of a cgroup -> its files of the most memory and of the memory in use, and the row of `memory.stat` with what
the kernel takes back first."""


@lru_cache(maxsize=4)
def cgroups(controller: str = "") -> tuple[int, tuple[Path, ...]]:
    """The version of the cgroups that limit what `controller` counts, and the folders of those that this process is in:
    its own first, then the ones around it, as far as they are visible here.

    Without a controller, those of version 2. None are visible on other systems than Linux.
    """
    try:
        groups = (_PROC / "cgroup").read_text(encoding="utf-8").splitlines()
        mounts = [line.split() for line in (_PROC / "mountinfo").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return 2, ()
    paths = {name: path for _, names, path in (line.split(":", 2) for line in groups) for name in names.split(",")}
    version = 1 if controller and controller in paths else 2
    path = paths.get(controller if version == 1 else "")
    for words in mounts:
        kind, _, options = words[words.index("-") + 1 :]
        if kind == ("cgroup2" if version == 2 else "cgroup") and (version == 2 or controller in options.split(",")):
            if path is None or ".." in path.split("/"):  # the group is outside of what is visible
                return version, ()
            root, mount = words[3].rstrip("/"), Path(words[4])
            inner = path.removeprefix(root) if f"{path}/".startswith(f"{root}/") else ""
            own = mount / inner.strip("/")
            return version, (own, *(folder for folder in own.parents if folder.is_relative_to(mount)))
    return version, ()


def memory_limits() -> Iterator[tuple[Path, int]]:
    """The cgroups of this process that limit its memory, each with the bytes that its processes may hold."""
    version, folders = cgroups("memory")
    for folder in folders:
        limit = _number(folder / LIMITS[version][0])
        if limit is not None and limit < _physical():
            yield folder, limit


def processors() -> int:
    """Processors that this process may keep busy: those that it may run on, or its cgroups' share of their time."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    version, folders = cgroups("cpu")
    for folder in folders:
        if version == 2:
            quota, _, period = _text(folder / "cpu.max").partition(" ")
        else:
            quota, period = _text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us")
        if quota.isdecimal() and period.isdecimal():
            count = min(count, max(1, int(quota) // int(period)))
    return count


def blas_kernel() -> str:
    """The kernels that NumPy's BLAS has chosen for this processor, such as `SkylakeX`; empty where NumPy is not loaded,
    or not of a wheel with OpenBLAS."""
    numpy = sys.modules.get("numpy")
    if numpy is None or numpy.__file__ is None:
        return ""
    for path in (Path(numpy.__file__).parents[1] / "numpy.libs").glob("libscipy_openblas*"):
        library = ctypes.CDLL(str(path))  # it is loaded by now
        for name in ("scipy_openblas_get_corename64_", "scipy_openblas_get_corename"):
            if (corename := getattr(library, name, None)) is not None:
                corename.restype = ctypes.c_char_p
                return corename().decode()
    return ""


def machine_memory() -> int:
    """Bytes of memory that all processes here may hold together."""
    return min([_physical(), *(limit for _, limit in memory_limits())])


def free_memory() -> int:
    """Bytes of memory that processes here can still take."""
    import psutil  # most processes never ask

    free = int(psutil.virtual_memory().available)
    _, usage, reclaimable = LIMITS[cgroups("memory")[0]]
    for folder, limit in memory_limits():
        rows = dict(line.split(" ", 1) for line in _text(folder / "memory.stat").splitlines())
        held = (_number(folder / usage) or 0) - int(rows.get(reclaimable, 0))
        free = min(free, max(0, limit - held))
    return free


def memory_limit(limit: int | None) -> int:
    """Bytes that a child may hold: `limit`, or by default three quarters of the memory here."""
    return limit or int(machine_memory() * SHARE)


def _physical() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _text(file: Path) -> str:
    """The text of a small file; empty where there is none."""
    try:
        return file.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _number(file: Path) -> int | None:
    text = _text(file)
    return int(text) if text.isdecimal() else None
