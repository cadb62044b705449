"""Files by their content: whole or not there, within a limit, and never outside of their folder."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from opscope.base.digest import file_digest
from opscope.harness.scale.blobs import Blobs


def sent(blobs: Blobs, data: bytes, part: int = 4) -> str:
    digest = hashlib.sha256(data).hexdigest()
    for offset in range(0, len(data), part):
        assert blobs.keep(digest, offset, len(data), data[offset : offset + part]) == ""
    return digest


def test_a_file_comes_in_parts_and_is_placed_where_it_is_needed(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "store")
    digest = sent(blobs, b"ten bytes.")
    assert blobs.has(digest)
    blobs.place(digest, tmp_path / "export", "values/3.npy")
    assert (tmp_path / "export" / "values" / "3.npy").read_bytes() == b"ten bytes."
    assert file_digest(tmp_path / "export" / "values" / "3.npy") == digest
    assert blobs.keep(hashlib.sha256(b"").hexdigest(), 0, 0, b"") == "", "an empty file is a file"


def test_files_damaged_in_transfer_are_not_kept(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    digest = hashlib.sha256(b"right").hexdigest()
    assert blobs.keep(digest, 0, 5, b"wrong") == f"expected the content of {digest[:12]}, got another"
    assert not blobs.has(digest)
    assert "expected a SHA-256" in blobs.keep("../../etc/passwd", 0, 1, b"x")


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "values/../../outside"])
def test_no_file_leaves_its_folder(path: str, tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "store")
    digest = sent(blobs, b"x")
    with pytest.raises(ValueError, match="expected a path below the folder"):
        blobs.place(digest, tmp_path / "export", path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["store"]


def test_the_longest_unused_goes_first(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path, limit=25)
    old, used = sent(blobs, b"a" * 10), sent(blobs, b"b" * 10)
    os.utime(tmp_path / old, (1, 1))
    os.utime(tmp_path / used, (2, 2))
    assert blobs.has(old), "which notes that it is used"
    newest = sent(blobs, b"c" * 10)
    assert [blobs.has(digest) for digest in (old, used, newest)] == [True, False, True]
