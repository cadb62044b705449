"""Changes stored lines as an older opscope, or another run, would have written them: with the right digests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from opscope.base import stored


def reseal(path: Path, change: Callable[[str], str], into: Path | None = None) -> None:
    """Writes the lines of a file again, each as `change` makes it, to `into` or in its own place."""
    lines = [stored.unsealed(line).decode() for line in path.read_bytes().splitlines()]
    (into or path).write_bytes(b"".join(stored.sealed(change(line)) + b"\n" for line in lines))
