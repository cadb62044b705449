"""A cgroup with little memory, as a container has: of version 2, or of version 1 where that holds the memory."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from opscope.base import machine


@contextlib.contextmanager
def in_group(size: int, command: Sequence[str]) -> Iterator[list[str]]:
    """The command line that runs `command` in a cgroup of `size` bytes, below that of this process.

    Skips the test where none can be made.
    """
    version, folders = machine.cgroups("memory")
    group, why = folders[0] / "opscope-test" if folders else Path(), "there are none"
    try:
        if folders:
            group.mkdir()
            (group / machine.LIMITS[version][0]).write_text(str(size), encoding="ascii")
    except OSError as error:
        why, folders = error.strerror, ()
        with contextlib.suppress(OSError):
            group.rmdir()
    if not folders:
        pytest.skip(f"no cgroup with a limit of memory can be made: {why}")
    try:
        yield ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh", *command]
    finally:
        for _ in range(100):
            with contextlib.suppress(OSError):  # the kernel has not yet buried all of them
                group.rmdir()
                break
            time.sleep(0.05)
