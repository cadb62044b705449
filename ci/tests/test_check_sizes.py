"""The size check measures what it says, and this project keeps to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.check_sizes import main, measure


def write(root: Path, name: str, lines: int) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x = 1\n" * lines)


def test_a_file_over_the_limit_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "harness/long.py", 801)
    for number in range(20):
        write(tmp_path, f"harness/short_{number}.py", 10)
    assert main(tmp_path) == 1
    assert "harness/long.py: expected at most 800 lines, got 801" in capsys.readouterr().out


def test_median_and_percentile_are_limits_of_their_own(tmp_path: Path) -> None:
    for number in range(10):
        write(tmp_path, f"models/m{number}.py", 151 if number < 6 else 600)
    sizes = measure(tmp_path)
    assert (sizes.median, sizes.p90) == (151, 600)
    assert [line.split(":")[0] for line in sizes.broken] == ["median file", "90th percentile"]


def test_empty_files_do_not_count(tmp_path: Path) -> None:
    write(tmp_path, "compiler/__init__.py", 0)
    write(tmp_path, "compiler/one.py", 12)
    sizes = measure(tmp_path)
    assert (sizes.median, sizes.p90, sizes.broken) == (12, 12, ())


def test_a_folder_of_too_many_modules_is_named(tmp_path: Path) -> None:
    for number in range(31):
        for folder in ("harness", "harness/tests", "models/torch"):
            write(tmp_path, f"{folder}/m{number}.py", 3)
    assert measure(tmp_path).broken == ("harness: expected at most 30 modules, got 31; try packages",)


def test_this_project_keeps_to_its_sizes() -> None:
    assert measure(Path(__file__).resolve().parents[2]).broken == ()
