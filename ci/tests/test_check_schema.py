"""A schema that changed alone, or generated code that was edited by hand, is found."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ci.check_schema import FLATC, GENERATED, SCHEMA, check, has_flatc

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The schema and its generated files, to be damaged."""
    shutil.copytree(ROOT / GENERATED, tmp_path / GENERATED, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / SCHEMA, tmp_path / SCHEMA)
    return tmp_path


def test_this_project_is_in_step() -> None:
    assert check(ROOT) == []


def test_a_changed_schema_needs_generating(copy: Path) -> None:
    schema = copy / SCHEMA
    schema.write_text(schema.read_text() + "\n// one more line\n")
    assert "expected the Python of schema" in check(copy)[0]
    schema.unlink()
    assert check(copy) == [f"{SCHEMA}: expected a file, got none; try make flatc"]


@pytest.mark.skipif(not has_flatc(), reason=f"flatc {FLATC} is not installed: hand edits show only with it")
def test_an_edited_file_is_named(copy: Path) -> None:
    edited = copy / GENERATED / "Program.py"
    edited.write_text(edited.read_text() + "\n")
    assert [line.split(":")[0] for line in check(copy)] == [str(GENERATED / "Program.py")]
