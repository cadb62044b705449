"""Compiled page templates are kept between reports, and a damaged one is compiled again."""

from __future__ import annotations

from pathlib import Path

import jinja2
import pytest

from opscope.base import damage
from opscope.reports.pages.compiled_templates import CompiledTemplates

OPTIONS = {"trim_blocks": True}


def rendered(folder: Path, options: dict[str, bool] = OPTIONS) -> str:
    loader = jinja2.FileSystemLoader(folder)
    environment = jinja2.Environment(loader=loader, autoescape=True, bytecode_cache=CompiledTemplates(options))
    return environment.get_template("page.j2").render(name="<x>")


def test_a_template_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPSCOPE_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "page.j2").write_text("a {{ name }}")
    assert rendered(tmp_path) == "a &lt;x&gt;"
    [kept] = (tmp_path / "cache/templates").iterdir()
    with monkeypatch.context() as without_compiler:
        without_compiler.setattr(jinja2.Environment, "compile", None)
        assert rendered(tmp_path) == "a &lt;x&gt;"
    rendered(tmp_path, {"trim_blocks": False})
    (tmp_path / "page.j2").write_text("b {{ name }}")
    assert rendered(tmp_path) == "b &lt;x&gt;"
    assert len(list(kept.parent.iterdir())) == 3, "one for each text and each set of options"


def test_a_damaged_template_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPSCOPE_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "page.j2").write_text("a {{ name }}")
    rendered(tmp_path)
    [kept] = (tmp_path / "cache/templates").iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(whole[:-9] + b"123456789")
    said: list[str] = []
    monkeypatch.setattr(damage, "say", said.append)
    assert rendered(tmp_path) == "a &lt;x&gt;"
    assert "it is made again" in said[0]
    assert kept.read_bytes() == whole


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").write_text("no folder")
    monkeypatch.setenv("OPSCOPE_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "page.j2").write_text("a {{ name }}")
    assert rendered(tmp_path) == "a &lt;x&gt;"
