"""The folder of the rooms, in a checkout and in an installed package."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from opscope.base import places


def test_the_rooms_are_at_home() -> None:
    assert (places.HOME / "harness" / "__init__.py").is_file()
    assert (places.PACKAGE / "base" / "places.py").is_file()


@pytest.mark.parametrize(("rooms", "home"), [("opscope/harness", "opscope"), ("harness", ".")])
def test_in_a_wheel_the_rooms_lie_in_the_package(tmp_path: Path, rooms: str, home: str) -> None:
    copy = tmp_path / "opscope" / "base" / "places.py"
    copy.parent.mkdir(parents=True)
    copy.write_bytes(Path(str(places.__file__)).read_bytes())
    (tmp_path / rooms).mkdir()
    spec = importlib.util.spec_from_file_location("places", copy)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert tmp_path / home == module.HOME
