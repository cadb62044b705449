"""docs/pybuda.md: its program runs as it is printed, and its tables are those that decide."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

from opscope.pybuda import aliases
from opscope.simulator.host.name_tables import filled

PAGE = Path(__file__).parents[3] / "docs" / "pybuda.md"


@pytest.mark.slow
def test_the_walk_runs_as_it_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "walk.py"
    program.write_text("\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    aliases.install()
    try:
        runpy.run_path(str(program))
    finally:
        for name in aliases.ELSEWHERE:
            sys.modules.pop(name, None)
    printed = capsys.readouterr().out
    assert printed.startswith("(1, 32, 128) float32\n")
    assert "- grid size: [8, 12]\n- harvested rows: 2050\n" in printed
    assert printed.endswith("(1, 32, 128)\n")


def test_the_tables_are_those_that_decide() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert filled(text) == text, "try: python -m opscope.simulator.host.name_tables docs/pybuda.md"
    assert text.count("| `") > 180
