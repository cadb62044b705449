"""Prints the lines of Python per room, and what a change adds to them; no file may have more than 800.

Lines are a cost, so each change says what it costs: product and tests apart, against a revision (default: HEAD, or the
one before it where nothing was changed since). Run as `python ci/check_sizes.py [ROOT] [REVISION]`; the exit code is 1
if a file is too long.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath

MOST = 800
"""Limit in lines per file."""

ROOMS = ("opscope", "harness", "compiler", "simulator", "models", "reports", "ci", "dashboards")

Part = tuple[str, bool]
"""A room, and whether it is its tests."""


def python_files(root: Path) -> Iterator[Path]:
    """Every Python file of the rooms under `root`; skips virtual environments, and rooms that are links."""
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            parts = path.relative_to(root).parts
            if "__pycache__" not in parts and not any(part.startswith(".") for part in parts):
                yield path


def lines_of(root: Path) -> dict[PurePath, int]:
    """Lines of each file, by its path below `root`."""
    return {path.relative_to(root): len(path.read_bytes().splitlines()) for path in python_files(root)}


def by_part(lines: Iterable[tuple[PurePath, int]]) -> Counter[Part]:
    """Lines of each room, its tests apart."""
    sums: Counter[Part] = Counter()
    for path, count in lines:
        sums[path.parts[0], "tests" in path.parts] += count
    return sums


def changed_since(root: Path, revision: str) -> Counter[Part] | None:
    """Lines that the tree has more than a revision, by part; None where git does not know it."""
    command = ["git", "-C", str(root), "diff", "--numstat", "--no-renames", revision, "--", *ROOMS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return None
    rows = (line.split("\t") for line in done.stdout.splitlines() if line.endswith(".py"))
    return by_part((PurePath(path), int(added) - int(gone)) for added, gone, path in rows)


def table(sums: Counter[Part], change: Counter[Part] | None) -> list[str]:
    """A line for each room: lines of product and tests, each with its change."""

    def cell(part: Part) -> str:
        more = "" if change is None or not change[part] else f" ({change[part]:+,})"
        return f"{sums[part]:,}{more}"

    rooms = [room for room in ROOMS if any(sums[room, tests] for tests in (False, True))]
    rows = [("lines", "product", "tests"), *((room, cell((room, False)), cell((room, True))) for room in rooms)]
    for tests in (False, True):
        sums["all", tests] = sum(sums[room, tests] for room in rooms)
        if change is not None:
            change["all", tests] = sum(change[room, tests] for room in rooms)
    rows.append(("all", cell(("all", False)), cell(("all", True))))
    return [f"{room:<12}{product:>18}{tests:>18}" for room, product, tests in rows]


def main(root: Path, revision: str = "") -> int:
    """Prints the table of the tree at `root`; returns 0 if no file is too long."""
    lines = lines_of(root)
    change = changed_since(root, revision or "HEAD")
    if change is not None and not revision and not change:
        change = changed_since(root, "HEAD~1")
    print("\n".join(table(by_part(lines.items()), change)))
    broken = [
        f"{path}: expected at most {MOST} lines, got {count}; try a split"
        for path, count in lines.items()
        if count > MOST
    ]
    for line in broken:
        print(line)
    return 1 if broken else 0


if __name__ == "__main__":
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    sys.exit(main(root, *sys.argv[2:3]))
