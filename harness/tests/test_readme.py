"""README.md and docs/python.md are true: their examples run, and the pages and names that they mention exist."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

import opscope

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("**/*.md")]


def test_the_python_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PYTHON, re.DOTALL)
    (tmp_path / "example.py").write_text(example)
    monkeypatch.chdir(tmp_path)
    runpy.run_path("example.py", run_name="__main__")  # an interpreter of its own would import all this once more
    ops, *records = capsys.readouterr().out.splitlines()
    assert ops == "['stablehlo.dot_general', 'stablehlo.tanh']"
    assert [line.split()[1:4] for line in records] == [
        ["stablehlo.dot_general", "success", "compare"],
        ["stablehlo.tanh", "success", "compare"],
    ]
    assert all(float(line.split()[4]) > 0.9999 for line in records)


def test_every_name_that_a_page_imports_is_public() -> None:
    imported = {
        name
        for page in PAGES
        for names in re.findall(r"from opscope import ([\w, ]+)", page.read_text(encoding="utf-8"))
        for name in names.split(", ")
    }
    assert {"run_op_by_op", "split", "frames"} <= imported <= set(opscope.__all__)
    assert set(re.findall(r"`(\w+)`", PYTHON.partition("What else there is")[2])) == set(opscope.__all__)


def test_every_page_and_picture_that_a_page_links_to_exists() -> None:
    for page in PAGES:
        links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        missing = [link for link in links if not (page.parent / link).exists()]
        assert not missing, f"{page.name}: {missing}"


def test_the_readme_fits_on_a_screen() -> None:
    assert len(README.splitlines()) <= 90
