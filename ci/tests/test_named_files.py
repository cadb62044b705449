"""Every file of ours that a document, a configuration or a docstring names is there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from opscope.base.places import HOME

ROOMS = "harness|compiler|simulator|reports|dashboards|models|ci|docs|opscope/base"
NAMED = re.compile(rf"\b(?:{ROOMS})/[\w/.-]+\.(?:py|md|yaml|sql|sh)\b")
MADE_UP = {
    "ci/calibration/fit_cycles.py",  # `constants_ARCH.py` is one file for each board
}
"""Files that name what is not there for a reason. So do tests, and templates of files for other repositories."""
GONE = {"harness/rooms.py"}
"""Named in measurements of former revisions."""

pytestmark = pytest.mark.skipif(not (HOME / ".git").exists(), reason="not a checkout")


def test_every_file_that_is_named_is_there(tmp_path: Path) -> None:
    root = HOME
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "*.py", "*.md", "*.yaml", "*.toml", ".ci/*", "Makefile"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    missing = {}
    for name in listed.stdout.split():
        if name in MADE_UP or "/tests/" in name or "/templates/" in name:
            continue
        names = set(NAMED.findall((root / name).read_text(encoding="utf-8", errors="replace"))) - GONE
        if absent := {path for path in names if not ((root / path).exists() or (root / "opscope" / path).exists())}:
            missing[name] = sorted(absent)
    assert not missing


@pytest.mark.parametrize("table", ["known", "equivalent"])
def test_each_row_of_a_table_of_mutants_is_a_line_of_its_file(table: str) -> None:
    """What moves takes its rows along: the mutants themselves are made in longer runs alone."""
    text = (HOME / "ci/mutation" / f"{table}.yaml").read_text(encoding="utf-8")
    rows = [row.get("mutant", row) for row in yaml.load(text, yaml.CSafeLoader)]
    assert rows
    texts = {path: (HOME / path).read_text(encoding="utf-8") for path in {row["path"] for row in rows}}
    for row in rows:
        text, names = texts[row["path"]], row["function"].split(".")
        assert row["before"] in {line.strip() for line in text.splitlines()}, row
        assert all(re.search(rf"(def|class) {name}\b", text) for name in names if name != "<module>"), row
