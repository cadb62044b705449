"""Damage that changes nothing would let every attack end well: bytes do change, each kind is in its file's place."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ci.attacks import damage


@pytest.mark.parametrize("way", damage.WAYS)
def test_a_way_changes_bytes_and_the_same_bytes_again(way: str) -> None:
    data = bytes(range(256)) * 20
    first, second = (damage.spoiled(data, random.Random(3), (way,)) for _ in range(2))
    assert first == second
    assert first[0] == way
    assert first[1] != data


def test_nothing_is_changed_of_no_data() -> None:
    assert damage.spoiled(b"", random.Random(1), ("flip",)) == ("flip", b"")


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        ("a pipe", Path.is_fifo),
        ("/dev/zero", Path.is_char_device),
        ("a folder", Path.is_dir),
        ("a link to itself", Path.is_symlink),
        ("an empty file", lambda path: path.read_bytes() == b""),
        ("garbage", lambda path: b"\xff" in path.read_bytes()),
        ("nothing", lambda path: not path.exists()),
        ("below a file", lambda path: path.parent.is_file()),
    ],
)
def test_a_kind_is_in_the_place_of_a_file(tmp_path: Path, kind: str, check) -> None:
    assert check(damage.put_in_place(tmp_path / "file.npz", kind))
