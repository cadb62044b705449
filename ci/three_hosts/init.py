"""The first process of a host: gives it a file system and a name of its own, and is its power switch.

`python -m ci.three_hosts.init NAME HOSTS_FILE` in new namespaces. It prints `ready`, and ends once its standard input
does: the kernel then ends every other process of the host, and the host's network and files are gone with them. What is
installed (the interpreter and its packages) is seen read-only; the sources are a copy of the host's own, at a place
that no other host has, and the checkout is hidden.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
ROOMS = ("opscope", "harness", "models", "compiler", "simulator", "reports")
INSTALLED = (Path(sys.prefix), Path(sys.base_prefix).resolve())
OWN = ("/srv", "/tmp", "/var/tmp", "/run", "/dev/shm", "/sys/fs/cgroup")
"""Folders that each host has for itself, in memory, besides the home folder and what hides the checkout. It has no
cgroups: those are the machine's."""
VIRTUAL = ("/proc", "/sys", "/dev")
"""File systems of the kernel."""


def mount(*words: str | Path) -> None:
    """Runs mount(8)."""
    subprocess.run(["mount", *words], check=True)


def write_protect() -> None:
    """Makes every file system of the disk read-only for this host."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, place, _, options, *_ = line.split(" ")
        place = Path(place.encode().decode("unicode_escape"))
        if not str(place).startswith(VIRTUAL) and place.exists():
            kept = [option for option in options.split(",") if option in {"nosuid", "nodev", "noexec", "noatime"}]
            mount("-o", ",".join(["remount", "bind", "ro", *kept]), place)


def hide(folders: Iterable[str | Path], kept: Iterable[Path]) -> None:
    """Puts an empty folder of this host's own in the place of each; what is kept below them stays visible."""
    handles = {path: os.open(path, os.O_PATH) for path in kept}
    for folder in map(Path, folders):
        folder.mkdir(parents=True, exist_ok=True)  # it may have been below one that is hidden now
        mount("-t", "tmpfs", "-o", "mode=1777", "host", folder)
    for path, handle in handles.items():
        if not path.exists():
            path.mkdir(parents=True)
            mount("--no-canonicalize", "--bind", f"/proc/{os.getpid()}/fd/{handle}", path)
        os.close(handle)


def main(name: str, hosts: str) -> None:
    """Sets the host up, and waits for its end."""
    socket.sethostname(name)
    mount("--make-rprivate", "/")
    write_protect()
    mount("-t", "tmpfs", "-o", "mode=1777", "host", OWN[0])
    home = Path(OWN[0]) / name
    for room in ROOMS:
        leave_out = shutil.ignore_patterns("tests", "__pycache__")
        shutil.copytree(ROOT / room, home / "opscope" / room, symlinks=True, ignore=leave_out)
    (home / "work").mkdir()
    (home / "hosts").write_text(hosts)
    mount("--bind", home / "hosts", "/etc/hosts")
    hide([*OWN[1:], ROOT, Path.home()], INSTALLED)
    os.chdir(home)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # orphans of the host are nobody's zombies
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
