"""README.md and docs/python.md are true: their examples run, and the pages and names that they mention exist."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opscope

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = (ROOT / "docs" / "python.md").read_text(encoding="utf-8").partition("<!-- `make python`")[0]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("**/*.md")]


@pytest.mark.slow
def test_the_python_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    example, live, _ = re.findall(r"```python\n(.*?)```", PYTHON, re.DOTALL)
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
    exec(compile(live, "docs/python.md", "exec"), {})
    assert capsys.readouterr().out.startswith("2 ops: 2 success; ")


def test_the_examples_of_the_judge_say_what_the_pages_say(capsys: pytest.CaptureFixture[str]) -> None:
    *_, short = re.findall(r"```python\n(.*?)```", PYTHON, re.DOTALL)
    exec(compile(short, "docs/python.md", "exec"), {})
    assert capsys.readouterr().out.startswith("wrong ")  # the tail of a body in float32, held to 10 ulp
    page = (ROOT / "docs" / "judge.md").read_text(encoding="utf-8")
    first, *others = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(first, "docs/judge.md", "exec"), {})
    body, *answers = capsys.readouterr().out.splitlines()
    assert body.startswith("right, as its steps have it")
    assert [line for line in answers if line in ("right", "wrong")] == ["wrong", "right", "right"]
    helpers: dict[str, Any] = {}
    x = np.linspace(-4, 4, 256, dtype=np.float32)
    exec("from opscope import judge\nimport numpy as np\nx = np.linspace(0.1, 4, 64)\ny = x\n", helpers)
    for each in others[1:]:
        exec(compile(each, "docs/judge.md", "exec"), helpers)
    helpers["assert_right"](np.tanh(x), "tanh", x)
    helpers["assert_with_judge"]("tanh", [x], np.tanh(x), np.tanh(x), ulp_threshold=2)
    for wrong in (np.zeros_like(x), 1.001 * np.tanh(x)):
        with pytest.raises(AssertionError, match="wrong"):
            helpers["assert_right"](wrong, "tanh", x)
        with pytest.raises(AssertionError, match="wrong"):
            helpers["assert_with_judge"]("tanh", [x], np.tanh(x), wrong)
        assert not helpers["correct"](None, [x], np.tanh(x), wrong)[0]
    assert helpers["correct"]("tanh", [x], np.tanh(x), np.tanh(x))[0]


def test_every_name_that_a_page_imports_is_public() -> None:
    imported = {
        name
        for page in PAGES
        for names in re.findall(r"from opscope import ([\w, ]+)", page.read_text(encoding="utf-8"))
        for name in names.split(", ")
    }
    assert {"run_op_by_op", "split", "frames"} <= imported <= set(opscope.__all__)


def test_every_page_and_picture_that_a_page_links_to_exists() -> None:
    for page in PAGES:
        links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        missing = [link for link in links if not (page.parent / link).exists()]
        assert not missing, f"{page.name}: {missing}"


def test_the_readme_fits_on_a_screen() -> None:
    assert len(README.splitlines()) <= 90
