"""A place in the sources names a file that is there, or its name alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscope.base import source_places
from opscope.base.source_places import here
from opscope.base.tests.each import each


def test_a_file_that_only_another_folder_has_goes_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, seen in (("theirs", "sub/mm.py"), ("mine", "mm.py")):
        (tmp_path / folder).mkdir()
        if folder == "theirs":
            (tmp_path / folder / "sub").mkdir()
            (tmp_path / folder / "sub" / "mm.py").touch()
        monkeypatch.chdir(tmp_path / folder)
        source_places._is_there.cache_clear()
        assert here("jit(f)/sub/dot (sub/mm.py:3)") == f"jit(f)/sub/dot ({seen}:3)"
        assert here("sub/mm.py:3") == f"{seen}:3"
    source_places._is_there.cache_clear()


@each(
    "place",
    ["", "jit(f)/layer/add", "net.mlir:3", "jit(f)/add (models/layers.py:45)", "mul (jax/_src/nn/functions.py:12)"],
)
def test_other_places_stay(place: str) -> None:
    assert here(place) == place
