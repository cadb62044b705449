"""Names that are no text become text."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from opscope.base.file_names import as_text, label, resolved
from opscope.base.tests.each import each


@each(
    ("name", "text"),
    [
        ("caf\u00e9", "caf\u00e9"),
        (os.fsdecode(b"bad\xff"), "bad\\xff"),
        ("caf\udcc3\udca9", "caf\u00e9"),  # as an ASCII locale reads it
        ("half \ud800", "half \\ud800"),
    ],
)
def test_a_name_is_text(name: str, text: str) -> None:
    assert as_text(name) == text


def test_a_link_to_itself_is_resolved_to_itself(tmp_path: Path) -> None:
    (tmp_path / "to").symlink_to("file")
    (tmp_path / "loop").symlink_to("loop")
    assert resolved(tmp_path / "to") == tmp_path / "file"
    assert resolved(tmp_path / "loop") == tmp_path / "loop"


def test_a_label_is_one_line_that_any_locale_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert label("new\nline \u00e9") == "new\\nline \u00e9"
    monkeypatch.setattr(sys, "getfilesystemencoding", lambda: "ascii")
    assert label("caf\udcc3\udca9") == "caf\\xe9"
