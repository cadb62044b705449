"""What a YAML file's tools read that nothing declares, as `strace` sees it: for `opscope backend check`."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

from opscope.harness.backends.commands import identity
from opscope.harness.backends.commands.description import CommandFile

LOG = "OPSCOPE_TRACED"
"""The variable with the file to which what the tools open is written; they are traced where it is set."""
_READ = re.compile(r'(?:open|openat|execve)\((?:AT_FDCWD, )?"(/[^"]*)", (?!O_WRONLY|O_RDWR)[^\n]*\) = \d')
_OF_THE_SYSTEM = ("/proc/", "/sys/", "/dev/", "/etc/", "/usr/", "/lib/", "/lib64/", "/bin/", "/sbin/")


def is_possible() -> bool:
    """Whether this machine has what traces programs."""
    return shutil.which("strace") is not None


def words() -> list[str]:
    """What stands in front of a command that is traced; nothing where none is."""
    log = os.environ.get(LOG)
    return ["strace", "-f", "-qq", "-A", "-o", log, "-e", "trace=open,openat,execve"] if log else []


def undeclared(file: CommandFile, log: Path) -> list[str]:
    """The files that traced tools have read and that no verdict rests on; none of the system's own, or temporary ones.

    Raises OSError if there is no log.
    """
    known = {os.path.realpath(path) for path in identity.declared(file)}
    temporary = os.path.realpath(tempfile.gettempdir())
    read = {os.path.realpath(path) for path in _READ.findall(log.read_text(encoding="utf-8", errors="replace"))}
    return sorted(
        path
        for path in read - known
        if not path.startswith((*_OF_THE_SYSTEM, f"{temporary}{os.sep}")) and Path(path).is_file()
    )
