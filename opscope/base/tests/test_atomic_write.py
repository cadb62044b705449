"""Files that appear whole: folders made, older ones replaced, nothing left beside them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from opscope.base.atomic_write import write_whole


def test_a_file_and_its_folder_appear_and_an_older_one_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "below" / "file.txt"
    write_whole(path, "é\udc80")
    assert path.read_bytes() == "é?".encode(), "what UTF-8 has no bytes for is no reason to lose the rest"
    write_whole(path, b"\xff")
    assert path.read_bytes() == b"\xff"
    assert [other.name for other in path.parent.iterdir()] == ["file.txt"]


def test_permissions_are_as_asked_from_the_first_byte(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        write_whole(tmp_path / "open", "")
        write_whole(tmp_path / "secret", "", permissions=0o600)
    finally:
        os.umask(before)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("open", "secret")] == [0o644, 0o600]


def test_what_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_whole(path, "before")

    def refuse(part: str, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, "after")
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_writers_at_once_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "file"
    texts = [str(number) * 200_000 for number in range(4)]

    def write(text: str) -> None:
        for _ in range(20):
            write_whole(path, text)

    threads = [threading.Thread(target=write, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert not path.exists() or path.read_text() in texts
    assert list(tmp_path.iterdir()) == [path]


def test_pieces_are_one_file_or_none(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", ["one ", b"two"])
    assert (tmp_path / "a").read_text() == "one two"

    def broken() -> Iterator[str]:
        yield "three"
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        write_whole(tmp_path / "a", broken())
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a", "one two")]
