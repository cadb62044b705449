"""`opscope agents`: a marked block in a file of the user's, of which nothing else changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscope.harness.record.errors import InputError
from opscope.reports.agents.instructions import BEGIN, BLOCK, END, written


def test_the_block_is_written_once_and_the_rest_is_untouched(tmp_path: Path) -> None:
    file = tmp_path / "AGENTS.md"
    file.write_text("# Ours\n\nRead this.\n", encoding="utf-8")
    assert written(file) == f"wrote {file}"
    assert file.read_text(encoding="utf-8") == f"# Ours\n\nRead this.\n\n{BLOCK}"
    assert written(file) == f"kept {file}: its block is up to date"
    old = file.read_text(encoding="utf-8").replace(BLOCK, f"{BEGIN}\nof last year\n{END}\n") + "\nAnd this.\n"
    file.write_text(old, encoding="utf-8")
    assert written(file) == f"wrote {file}"
    assert file.read_text(encoding="utf-8") == f"# Ours\n\nRead this.\n\n{BLOCK}\nAnd this.\n"


def test_a_new_file_has_the_block_alone(tmp_path: Path) -> None:
    written(tmp_path / "docs" / "AGENTS.md")
    assert (tmp_path / "docs" / "AGENTS.md").read_text(encoding="utf-8") == BLOCK


@pytest.mark.parametrize(
    "text",
    [BEGIN, END, f"{END}{BEGIN}", f"{BEGIN}{END}{BEGIN}{END}"],
    ids=["no end", "no begin", "turned round", "twice"],
)
def test_a_file_with_other_marks_is_refused_and_kept(tmp_path: Path, text: str) -> None:
    file = tmp_path / "AGENTS.md"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="one block between"):
        written(file)
    assert file.read_text(encoding="utf-8") == text
