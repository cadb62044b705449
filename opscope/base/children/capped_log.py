"""The capped log of a child: the first bytes of its output go to a file, the last ones are kept in memory."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

FILE_LIMIT = 4 * 1024 * 1024
TAIL_LIMIT = 32 * 1024


class CappedLog:
    """Receives bytes. At most FILE_LIMIT of them go to the file, which is created with the first."""

    def __init__(self, path: Path | None = None) -> None:
        """Writes to the file at `path`. With None, only the last bytes are kept, in memory."""
        self._path, self._file, self._written = path, None, 0
        self._tail = bytearray()

    def write(self, data: bytes) -> None:
        """Adds output. If the disk refuses it, the file is incomplete but the run goes on."""
        self._tail += data
        del self._tail[:-TAIL_LIMIT]
        room = FILE_LIMIT - self._written
        if self._path is None or room <= 0:
            return
        try:
            file = self._open(self._path)
            file.write(data[:room])
            self._written += len(data)
            if len(data) >= room:
                file.write(b"\n[output capped here]\n")
            file.flush()
        except OSError:
            self._path = None

    def mark(self) -> None:
        """Clears the tail, because the output that follows belongs to another task."""
        self._tail.clear()

    def tail(self, lines: int = 60) -> str:
        """The last lines since the mark."""
        return "\n".join(self._tail.decode(errors="replace").splitlines()[-lines:]) + "\n"

    def last_line(self) -> str:
        """The last line since the mark that is not blank. If Python itself crashed, the line above its stack."""
        lines = [line.strip() for line in self._tail.decode(errors="replace").splitlines() if line.strip()]
        fatal = [line for line in lines if line.startswith("Fatal Python error")]
        return (fatal or lines or [""])[-1]

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self, path: Path) -> BinaryIO:
        if self._file is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("ab")
        return self._file
