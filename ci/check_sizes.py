"""Checks the sizes of files and folders.

The median Python file has <= 150 lines, the 90th percentile <= 500, and none more than 800 . No
folder has more than 30 modules (except tests and models). Run as `python ci/check_sizes.py [ROOT]`; prints the figures
and every file or folder above its limit, and the exit code is 1 if there is any.
"""

from __future__ import annotations

import statistics
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MEDIAN, P90, MOST = 150, 500, 800
"""Limits in lines per file."""

MODULES = 30
"""Limit of modules per folder; in a larger one nobody finds anything."""

SHELVES = frozenset({"tests", "models"})
"""Folders with any number of similar files, also one level below."""

ROOMS = ("opscope", "harness", "compiler", "simulator", "models", "reports", "ci", "dashboards")


@dataclass(frozen=True)
class Sizes:
    """The measured sizes: lines per file, and a printable line for every broken limit."""

    lines: dict[Path, int]
    median: float
    p90: int
    broken: tuple[str, ...]


def python_files(root: Path) -> Iterator[Path]:
    """Every Python file of the rooms under `root`; skips virtual environments."""
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            parts = path.relative_to(root).parts
            if "__pycache__" not in parts and not any(part.startswith(".") for part in parts):
                yield path


def measure(root: Path) -> Sizes:
    """Measures all files under `root`; median and percentile leave out empty files (package markers)."""
    lines = {path.relative_to(root): len(path.read_bytes().splitlines()) for path in python_files(root)}
    counts = sorted(count for count in lines.values() if count)
    median = statistics.median(counts) if counts else 0.0
    p90 = counts[min(len(counts) - 1, len(counts) * 9 // 10)] if counts else 0
    broken = [f"{path}: expected at most {MOST} lines, got {n}; try a split" for path, n in lines.items() if n > MOST]
    if median > MEDIAN:
        broken.append(f"median file: expected at most {MEDIAN} lines, got {median:g}; try to split by purpose")
    if p90 > P90:
        long = ", ".join(f"{path} ({n})" for path, n in sorted(lines.items(), key=lambda item: -item[1]) if n > P90)
        broken.append(f"90th percentile: expected at most {P90} lines, got {p90}; try to split {long}")
    modules = Counter(path.parent for path in lines if path.name != "__init__.py")
    broken += [
        f"{folder}: expected at most {MODULES} modules, got {count}; try packages"
        for folder, count in modules.items()
        if count > MODULES and not SHELVES.intersection(folder.parts)
    ]
    return Sizes(lines, median, p90, tuple(broken))


def main(root: Path) -> int:
    """Prints the sizes of the tree at `root`; returns 0 if no limit is broken."""
    sizes = measure(root)
    longest = max(sizes.lines.items(), key=lambda item: item[1], default=(Path("-"), 0))
    print(
        f"sizes: {len(sizes.lines)} files, {sum(sizes.lines.values())} lines; median {sizes.median:g}, "
        f"p90 {sizes.p90}, longest {longest[0]} ({longest[1]})"
    )
    for line in sizes.broken:
        print(line)
    return 1 if sizes.broken else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent))
