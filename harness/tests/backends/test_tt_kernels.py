"""What tt-metal compiles kernels from: one copy that stays, so that kernels of one run fit the next."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from opscope.harness.backends import tt
from opscope.harness.backends.pjrt import Pjrt
from opscope.harness.backends.tt import Tt
from opscope.harness.record.result_options import ResultOptions

ROOT = "TT_METAL_RUNTIME_ROOT"


def unpacked(folder: Path) -> Path:
    assets = folder / "libtt-tt-metal-runtime-assets-1"
    (assets / "runtime").mkdir(parents=True)
    (assets / "runtime" / "kernel.cpp").write_text("int main;")
    (assets / "runtime" / "link").symlink_to("kernel.cpp")
    return assets


@pytest.fixture
def roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """What the library would find of its root, for each client that is made."""
    found: list[str | None] = []
    monkeypatch.setenv(ROOT, "")
    monkeypatch.setattr(Tt, "_kernels", lambda self: tmp_path)
    monkeypatch.setattr(Pjrt, "open", lambda self, options: found.append(os.environ.get(ROOT)))
    return found


def opened(folder: Path, **options: Any) -> None:
    backend = Tt()
    backend._unpacked = [unpacked(folder)]
    backend.open(ResultOptions(**options))


def test_kernels_are_compiled_from_one_copy_that_stays(tmp_path: Path, roots: list[str | None]) -> None:
    for run in ("first", "second"):
        opened(tmp_path / run, optimization_level=1)
    assert roots == [str(tmp_path / "assets")] * 2
    assert (tmp_path / "assets" / "runtime" / "link").read_text() == "int main;"
    assert {path.name for path in tmp_path.iterdir()} == {"assets", "first", "second"}, "and nothing half made"


def test_level_0_compiles_no_kernel_and_keeps_nothing(tmp_path: Path, roots: list[str | None]) -> None:
    opened(tmp_path / "run")
    assert roots == [""]
    assert not (tmp_path / "assets").exists()
    assert not any((tmp_path / "run").iterdir())


def test_without_room_the_run_goes_on_with_its_own(
    tmp_path: Path, roots: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tt.shutil, "copytree", full)
    opened(tmp_path / "run", optimization_level=2)
    assert roots == [""]
