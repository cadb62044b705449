"""The folder of the rooms, in a checkout and in an installed package."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

import pytest

from opscope.base import places

ROOMS = ("compiler", "dashboards", "harness", "models", "reports", "simulator")


def test_the_rooms_are_at_home() -> None:
    assert (places.HOME / "harness" / "__init__.py").is_file()
    assert (places.PACKAGE / "base" / "places.py").is_file()


def test_in_a_checkout_a_link_leads_to_each_room_and_modules_are_named_by_its_folder() -> None:
    links = {path.name: path.readlink() for path in places.PACKAGE.iterdir() if path.is_symlink()}
    assert links == {room: Path("..", room) for room in ROOMS}
    assert importlib.import_module("opscope.harness").__file__ == str(places.HOME / "harness" / "__init__.py")


@pytest.mark.parametrize(
    ("rooms", "home", "link"),
    [("opscope/harness", "opscope", ""), ("harness", ".", "link"), ("harness", ".", "file")],
    ids=["wheel", "checkout", "checkout without links"],
)
def test_home_holds_the_rooms(tmp_path: Path, rooms: str, home: str, link: str) -> None:
    """A system that has no links, or whose git makes none, has a file in the place of each."""
    copy = tmp_path / "opscope" / "base" / "places.py"
    copy.parent.mkdir(parents=True)
    copy.write_bytes(Path(str(places.__file__)).read_bytes())
    (tmp_path / rooms).mkdir()
    if link == "link":
        (tmp_path / "opscope" / "harness").symlink_to("../harness")
    elif link:
        (tmp_path / "opscope" / "harness").write_text("../harness")
    spec = importlib.util.spec_from_file_location("places", copy)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert tmp_path / home == module.HOME
