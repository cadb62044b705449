"""Counts the progress of a run in another process: records in its journal, of the ops in its manifest.

Each look reads only what was added since the last one, so watching a run of 20,000 ops costs nearly nothing.
"""

from __future__ import annotations

from pathlib import Path

from opscope.harness.record.store import JOURNAL_DIR, MANIFEST_FILE


class Counter:
    """Counts the lines of a run folder as they come."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self._read: dict[Path, int] = {}
        self._done = 0
        self._total = 0

    def look(self) -> tuple[int, int]:
        """(ops with a record, ops of the manifest); zeros before there is one."""
        try:
            if not self._total:
                with (self.run_dir / MANIFEST_FILE).open("rb") as file:
                    self._total = sum(1 for _ in file) - 1
            for path in (self.run_dir / JOURNAL_DIR).glob("*.jsonl"):
                self._done += self._more(path)
        except OSError:
            return 0, 0
        return min(self._done, self._total), self._total

    def _more(self, path: Path) -> int:
        """Lines that were added to a file since the last look."""
        offset = self._read.get(path, 0)
        if path.stat().st_size == offset:
            return 0
        with path.open("rb") as file:
            file.seek(offset)
            added = file.read()
        self._read[path] = offset + len(added)
        return added.count(b"\n")
