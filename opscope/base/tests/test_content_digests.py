"""A source file is read once as long as nothing about it changes, and every change is noticed."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from opscope.base import content_digests, stored
from opscope.base.digest import digest_of_sources

OLD = 1_000_000_000
"""A time of change that is long ago; the inode's own time cannot be set, so tests set how long a change is new."""


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_known", {}), ("_loaded", set()), ("_news", False), ("SETTLED", -1_000_000_000)):
        monkeypatch.setattr(content_digests, name, value)


def source(folder: Path, text: str, name: str = "a.py") -> Path:
    path = folder / name
    path.write_text(text)
    os.utime(path, ns=(OLD, OLD))
    return path


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are read from now on."""
    read: list[str] = []
    opener = content_digests.regular_file.opener
    monkeypatch.setattr(
        content_digests.regular_file, "opener", lambda path, flags: (read.append(path), opener(path, flags))[1]
    )
    return read


def test_an_unchanged_file_is_not_read_again_not_even_by_the_next_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, kept = source(tmp_path, "1"), tmp_path / "sources.json"
    digest = content_digests.of(str(path))
    assert digest == hashlib.sha256(b"1").hexdigest()
    content_digests.save(kept)
    monkeypatch.setattr(content_digests, "_known", {})
    content_digests.load(kept)
    read = counted(monkeypatch)
    assert content_digests.of(str(path)) == digest
    assert str(path) not in read


def test_same_size_and_time_of_change_but_other_content_is_another_digest(tmp_path: Path) -> None:
    path = source(tmp_path, "1")
    before = digest_of_sources([path], root=tmp_path)
    source(tmp_path, "2")  # its size and time of change are those of before: the inode's own time tells
    assert digest_of_sources([path], root=tmp_path) != before
    source(tmp_path, "1")
    assert digest_of_sources([path], root=tmp_path) == before


def test_a_file_that_has_just_changed_is_read_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_digests, "SETTLED", 3_600_000_000_000)
    path = source(tmp_path, "1")
    content_digests.of(str(path))
    read = counted(monkeypatch)
    content_digests.of(str(path))
    assert read == [str(path)]


def test_a_damaged_file_of_digests_is_none(tmp_path: Path) -> None:
    path, kept = source(tmp_path, "1"), tmp_path / "sources.json"
    stored.write_json(kept, {"files": {str(path): [1, 2, 3, 4, "wrong"]}})
    kept.write_bytes(kept.read_bytes().replace(b"wrong", b"wrung"))
    content_digests.load(kept)
    assert content_digests.of(str(path)) == hashlib.sha256(b"1").hexdigest()


def test_names_count_and_what_is_no_file_is_refused(tmp_path: Path) -> None:
    one, other = source(tmp_path, "1"), source(tmp_path, "1", "b.py")
    assert digest_of_sources([one], root=tmp_path) != digest_of_sources([other], root=tmp_path)
    for path in (tmp_path / "none.py", tmp_path):
        with pytest.raises(OSError):
            content_digests.of(str(path))
