"""What is stored is read back as it was, and any bit that changed is noticed."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from opscope.base import damage, stored
from opscope.base.damage import Damaged


def flipped(data: bytes, at: int) -> bytes:
    """The bytes with one bit of one byte turned."""
    return data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]


def test_a_sealed_line_is_json_and_every_flip_in_it_is_noticed() -> None:
    line = stored.sealed('{"name":"add","error":"not a \\u0000 multiple"}')
    assert json.loads(line)["name"] == "add"
    assert stored.unsealed(line) == b'{"name":"add","error":"not a \\u0000 multiple"}'
    for at in range(len(line)):
        changed = flipped(line, at)
        if stored.is_sealed(changed):
            with pytest.raises(Damaged):
                stored.unsealed(changed)
        else:  # no other field is called `digest`, so that a record refuses it, or it is no JSON any more
            assert b'"name"' in changed
            assert b'{"digest":"' not in changed or changed[43:45] != b'",'


def test_a_line_without_a_digest_is_as_it_was() -> None:
    assert stored.unsealed(b'{"name":"add"}') == b'{"name":"add"}'


def test_a_file_is_bound_to_its_name(tmp_path: Path) -> None:
    stored.write_json(tmp_path / "a.json", {"x": 1})
    stored.write_bytes(tmp_path / "b", b"\0\1")
    assert stored.read_json(tmp_path / "a.json") == {"x": 1}
    assert stored.read_bytes(tmp_path / "b") == b"\0\1"
    (tmp_path / "a.json").rename(tmp_path / "c.json")
    (tmp_path / "b").rename(tmp_path / "d")
    with pytest.raises(Damaged, match="got another content"):
        stored.read_json(tmp_path / "c.json")
    with pytest.raises(Damaged, match="got another content"):
        stored.read_bytes(tmp_path / "d")
    with pytest.raises(FileNotFoundError):
        stored.read_bytes(tmp_path / "b")


@pytest.mark.parametrize("content", [b"", b"{", b'{"x": 1}\n', b"opscope stored 1 \n"])
def test_what_others_wrote_is_damage(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    for read in (stored.read_json, stored.read_bytes):
        with pytest.raises(Damaged):
            read(tmp_path / "file")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A sealed folder with three files."""
    folder = tmp_path / "key"
    (folder / "values").mkdir(parents=True)
    for name, content in (("module", b"m" * 100), ("values/1.npy", b"1" * 3_000_000), ("values/2.npy", b"2" * 10)):
        (folder / name).write_bytes(content)
    stored.seal(folder, "key")
    return folder


def test_a_sealed_folder_can_be_moved_and_not_renamed(folder: Path, tmp_path: Path) -> None:
    stored.check_all(folder)
    (tmp_path / "elsewhere").mkdir()
    moved = folder.rename(tmp_path / "elsewhere" / "key")
    stored.check_all(moved)
    assert stored.checked(moved, "module") == moved / "module"
    renamed = moved.rename(tmp_path / "another")
    with pytest.raises(Damaged, match="got that of key"):
        stored.check_all(renamed)


@pytest.mark.parametrize("path", ["module", "values/1.npy", "values/2.npy"])
@pytest.mark.parametrize("what", ["flip", "cut", "remove"])
def test_damage_in_a_folder_is_noticed_where_the_file_is_read(folder: Path, path: str, what: str) -> None:
    stored.checked(folder, path)
    data = (folder / path).read_bytes()
    if what == "remove":
        (folder / path).unlink()
    else:
        (folder / path).write_bytes(
            flipped(data, random.Random(path).randrange(len(data))) if what == "flip" else data[:-1]
        )
        os.utime(folder / path, (1, 1))
    with pytest.raises(Damaged, match=path):
        stored.checked(folder, path)
    others = {"module", "values/1.npy", "values/2.npy"} - {path}
    assert {stored.checked(folder, other) for other in others} == {folder / other for other in others}
    if what == "flip":
        stored.check_sizes(folder)
    else:
        with pytest.raises(Damaged, match=path):
            stored.check_sizes(folder)


def test_files_in_each_others_place_and_files_of_nobody_are_damage(folder: Path) -> None:
    (folder / "values" / "3.npy").write_bytes(b"3")
    with pytest.raises(Damaged, match="a file that was not stored"):
        stored.checked(folder, "values/3.npy")
    (folder / "values" / "2.npy").rename(folder / "values" / "x")
    (folder / "module").rename(folder / "values" / "2.npy")
    with pytest.raises(Damaged):
        stored.checked(folder, "values/2.npy")


def test_a_file_is_read_once_as_long_as_it_does_not_change(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored.checked(folder, "module")
    monkeypatch.setattr(stored, "mark_of", lambda path: pytest.fail("it was read again"))
    stored.checked(folder, "module")


def test_a_folder_without_digests_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    assert stored.checked(tmp_path, "file") == tmp_path / "file"
    assert stored.digests_of(tmp_path, ["file"]) is None
    with pytest.raises(Damaged):
        stored.check_sizes(tmp_path)


def test_damage_is_said_once_and_counted_where_something_is_lost() -> None:
    damage.forget()
    lines: list[str] = []
    damage.show_by(lines.append)
    damage.say("cache: made again")
    damage.say("cache: made again")
    assert (lines, damage.losses()) == (["cache: made again"], 0)
    damage.found("run.json:1", "another \x1b content")
    damage.found("run.json:1", "another \x1b content")
    assert damage.losses() == 1
    assert lines[1] == "run.json:1: damaged (another \\x1b content); the rest is read"
    for number in range(100):
        damage.found(number, "gone")
    assert damage.losses() == 101
    assert len(lines) < 30
    damage.forget()


def test_a_folder_that_was_taken_away_is_damage_and_never_a_verdict(folder: Path) -> None:
    folder.rename(folder.with_name(".gone"))
    with pytest.raises(Damaged, match="no such file"):
        stored.checked(folder, "module")
    with pytest.raises(FileNotFoundError) as caught:
        (folder / "module").read_bytes()
    assert "no such file" in str(stored.gone(caught.value, folder))
    assert stored.gone(caught.value, folder.with_name("other")) is None


def test_a_folder_that_gets_its_name_while_it_is_read_is_known_by_what_was_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ".making-1"
    folder.mkdir()
    (folder / "a.npy").write_bytes(b"a")
    expected = {"a.npy": stored.mark_of(folder / "a.npy")}
    stored.expect(folder, expected)
    stored.seal(folder, "final")

    def renamed(path: Path) -> object:
        folder.rename(tmp_path / "final")
        raise FileNotFoundError(path)

    monkeypatch.setattr(stored, "read_json", renamed)
    assert stored.marks(folder) == expected
