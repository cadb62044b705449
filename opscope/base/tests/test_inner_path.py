"""A name below a folder leads nowhere else, by `..` or by a link; links and pipes are not copied."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from opscope.base.inner_path import copy_folder, inside


@pytest.mark.parametrize("name", ["a", "a/b/c.txt", "new/x", "a/./b", "a..b/.c"])
def test_a_place_below_the_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "a").mkdir()
    assert inside(tmp_path, name) == tmp_path / name


@pytest.mark.parametrize("name", ["..", "../x", "a/../../x", "a/../b", "/etc/passwd", "", ".", "out/x", "out", "link"])
def test_a_place_elsewhere_or_behind_a_link_is_refused(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "out").symlink_to(tmp_path)
    (folder / "a").mkdir()
    (folder / "link").symlink_to("a")
    with pytest.raises(OSError, match="a path that leads out of its folder"):
        inside(folder, name)


def test_the_folder_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "folder").symlink_to("real")
    assert inside(tmp_path / "folder", "a") == tmp_path / "folder" / "a"


def test_files_are_copied_and_nothing_else(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "a").write_bytes(b"1")
    copy_folder(source, tmp_path / "copy")
    assert (tmp_path / "copy" / "deep" / "a").read_bytes() == b"1"
    (source / "link").symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="leads out"):
        copy_folder(source, tmp_path / "two")
    (source / "link").unlink()
    os.mkfifo(source / "pipe")
    with pytest.raises(OSError, match="no regular file"):
        copy_folder(source, tmp_path / "three")
