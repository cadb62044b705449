"""A release is what changelog.d says, in the order of the changelog's groups; what cannot be released is one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci import release
from opscope.base.tests.captured import captured


def test_fragments_become_points_by_group() -> None:
    texts = ["Runs: a line is short\nand another.\n", "Models: GPT-2 is there.", "Runs: it ends."]
    assert release.edition(texts, ["Models", "Runs", "Results"]) == (
        "### Models\n- GPT-2 is there.\n\n### Runs\n- A line is short and another.\n- It ends."
    )


@pytest.mark.parametrize(
    ("version", "line"),
    [
        ("0.2", "expected a version such as 0.2.0, got '0.2'"),
        ("0.1.0", "expected a version without a tag, got 0.1.0; try the next one"),
        ("0.2.0", "expected a checkout without changes, got some; try git stash"),
    ],
)
def test_what_cannot_be_released_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str, line: str
) -> None:
    (tmp_path / "a").write_text("1")
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (("init", "-q"), ("add", "a"), (*who, "commit", "-qm", "one"), ("tag", "v0.1.0")):
        captured(["git", *words], cwd=tmp_path, check=True)
    (tmp_path / "a").write_text("2")
    assert release.main([version], root=tmp_path) == 2
    assert capsys.readouterr().err == f"ci.release: {line}\n"
