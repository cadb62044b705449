"""Memory that a process shares with its child: written by one, mapped by the other by its path.

It has no name in /dev/shm (`memfd_create`), so that nothing is left of it, however its processes end. Other systems
than Linux have a temporary file in its place, which is removed with the block.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType

_NO_WRITES = 0x10
"""F_SEAL_FUTURE_WRITE, which Python has no name for."""
_LEAST = 1 << 16
"""Bytes of the smallest block; a block that grows at least doubles."""


class SharedBlock:
    """Memory of this process, which others may map while it lives."""

    def __init__(self, anonymous: bool = hasattr(os, "memfd_create")) -> None:
        """Without `anonymous` it is a temporary file. Raises OSError if there is no descriptor left."""
        if anonymous:
            self._descriptor = os.memfd_create("opscope", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            self.path = f"/proc/{os.getpid()}/fd/{self._descriptor}"
        else:
            self._descriptor, self.path = tempfile.mkstemp(prefix="opscope-block-")
        self._anonymous, self._memory = anonymous, None
        self.size = 0

    def reserve(self, size: int) -> mmap.mmap:
        """Returns the memory, of at least `size` bytes, with what is in it. No view of it may exist any more.

        Raises OSError if there is no memory for it.
        """
        if self._memory is None or size > self.size:
            self.size = max(_LEAST, 2 * self.size, size)
            os.ftruncate(self._descriptor, self.size)
            if self._memory is not None:
                self._memory.close()
            self._memory = mmap.mmap(self._descriptor, self.size)
        return self._memory

    def seal(self) -> None:
        """From now on nothing but the mapping that is there writes to the memory, and nothing gives it another size:
        neither this process by its descriptors nor another one. Other systems than Linux cannot do so."""
        if self._anonymous:
            with suppress(OSError):  # a kernel before 5.1
                fcntl.fcntl(self._descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | _NO_WRITES)

    def close(self) -> None:
        """Gives the memory back; whoever has mapped it keeps it until then."""
        if self._descriptor < 0:
            return
        if self._memory is not None:
            self._memory.close()
        os.close(self._descriptor)
        self._descriptor = -1
        if not self._anonymous:
            with suppress(FileNotFoundError):
                Path(self.path).unlink()

    def __enter__(self) -> SharedBlock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()


class MappedBlock:
    """A block of another process, mapped again where it has grown."""

    def __init__(self) -> None:
        self._path, self._size, self._memory = "", 0, mmap.mmap(-1, 1)

    def at(self, path: str, size: int) -> mmap.mmap:
        """Returns the block at a path. Raises OSError or ValueError if there is none of that size."""
        if (path, size) != (self._path, self._size):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                mapped = mmap.mmap(descriptor, size, prot=mmap.PROT_READ)
            finally:
                os.close(descriptor)
            self._memory.close()
            self._path, self._size, self._memory = path, size, mapped
        return self._memory

    def close(self) -> None:
        """Unmaps it."""
        self._memory.close()
        self._path, self._size, self._memory = "", 0, mmap.mmap(-1, 1)
