"""Two migrations that were made side by side are found before they meet a database."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ci.check_migrations import VERSIONS, check, main

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Three migrations, to be damaged: this project's first, and two after it."""
    (tmp_path / VERSIONS).mkdir(parents=True)
    first = shutil.copy(min((ROOT / VERSIONS).glob("[0-9]*.py")), tmp_path / VERSIONS)
    number = int(Path(first).name[:4])
    for later in (number + 1, number + 2):
        text = f'revision = "{later:04}"\ndown_revision = "{later - 1:04}"\n'
        (tmp_path / VERSIONS / f"{later:04}_later.py").write_text(text)
    assert check(tmp_path) == []
    return tmp_path


def test_this_project_has_one_line_of_them() -> None:
    assert check(ROOT) == []


def test_two_heads_of_one_number_are_found(copy: Path) -> None:
    newest = max((copy / VERSIONS).glob("[0-9]*.py"))
    shutil.copy(newest, newest.with_name(f"{newest.name[:4]}_other.py"))
    [line] = check(copy)
    assert line.endswith(f"got {newest.name[:4]}; try to number it anew")
    assert main(copy) == 1


def test_two_heads_on_one_base_are_found(copy: Path) -> None:
    """Alembic takes such files without a word, and then refuses to upgrade to `head`."""
    newest = max((copy / VERSIONS).glob("[0-9]*.py"))
    number = f"{int(newest.name[:4]) + 1:04}"
    other = newest.with_name(f"{number}_other.py")
    other.write_text(newest.read_text().replace(f'revision = "{newest.name[:4]}"', f'revision = "{number}"'))
    assert check(copy) == [
        f"{VERSIONS / other.name}: expected down_revision = '{newest.name[:4]}', got '{int(newest.name[:4]) - 1:04}'"
    ]


def test_one_that_is_missing_is_found(copy: Path) -> None:
    _, middle, last = sorted((copy / VERSIONS).glob("[0-9]*.py"))
    middle.unlink()
    [line] = check(copy)
    assert f"{last.name}: expected {middle.name[:4]}_..." in line
    shutil.rmtree(copy / VERSIONS)
    assert check(copy) == [f"{VERSIONS}: expected migrations, got none"]
