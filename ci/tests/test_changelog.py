"""The changelog stays a page, and each file of changelog.d says where its change goes."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

LONGEST = 3
"""Lines of a change."""


def test_each_change_is_short_and_names_its_group() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    groups = {line.removeprefix("### ") for line in lines if line.startswith("### ")}
    assert len(lines) <= 100, "CHANGELOG.md: expected at most 100 lines an edition; try to merge what one sentence says"
    for path in sorted((ROOT / "changelog.d").glob("*.md")):
        text = path.read_text(encoding="utf-8").strip()
        if path.name != "README.md":
            assert text.partition(":")[0] in groups, f"{path}: expected one of {sorted(groups)} first"
            assert text.count("\n") < LONGEST, f"{path}: expected at most {LONGEST} lines"
