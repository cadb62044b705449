"""What each pass makes of small modules, line by line (`listings/*.txt`; `listing.py` says how they are written)."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscope.compiler.tests.listing import FILES, cases


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_a_pass_leaves(file: Path) -> None:
    expected = cases(file)
    assert len({case.name for case in expected}) == len(expected)
    assert {case.name: case.lines() for case in expected} == {case.name: case.after for case in expected}
