"""Migrations of the database are one line, each on top of the one before it: two made side by side would both merge.

Run as `python ci/check_migrations.py [ROOT]`; exit code 1 where two have one number, one is missing, or one does not
follow the one below it. Reads the files alone: neither Alembic nor a database is needed.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

VERSIONS = Path("reports/database/migrations/versions")
FIELDS = ("revision", "down_revision")


def check(root: Path) -> list[str]:
    """What is wrong below `root`, one line each."""
    problems = []
    files = sorted((root / VERSIONS).glob("[0-9]*.py"))
    first = int(files[0].name[:4]) if files else 0  # it stands for those that it replaced
    for position, path in enumerate(files, first):
        number = f"{position:04}"
        if not path.name.startswith(f"{number}_"):
            problems.append(
                f"{VERSIONS / path.name}: expected {number}_..., as one more than the one before it, "
                f"got {path.name[:4]}; try to number it anew"
            )
            break  # all that follow are wrong for the same reason
        expected = {"revision": number, "down_revision": f"{position - 1:04}" if position > first else None}
        fields = _fields(path)
        problems += [
            f"{VERSIONS / path.name}: expected {name} = {expected[name]!r}, got {fields.get(name)!r}"
            for name in FIELDS
            if fields.get(name) != expected[name]
        ]
    return problems if files else [f"{VERSIONS}: expected migrations, got none"]


def _fields(path: Path) -> dict[str, object]:
    """What the file gives to its names of `FIELDS`."""
    return {
        target.id: ast.literal_eval(line.value)
        for line in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(line, ast.Assign)
        for target in line.targets
        if isinstance(target, ast.Name) and target.id in FIELDS
    }


def main(root: Path) -> int:
    """Print what is wrong; 0 when nothing is."""
    problems = check(root)
    print("\n".join(problems) or f"migrations: one line, {VERSIONS}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent))
