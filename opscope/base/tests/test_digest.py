"""Digests: what they depend on, and what they do not."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from opscope.base.digest import file_digest, files_digest, json_digest, source_files, words_digest


def test_words_are_set_apart_and_one_word_is_its_sha_256() -> None:
    assert words_digest("abc") == hashlib.sha256(b"abc").hexdigest()
    assert words_digest("abc", digits=12) == words_digest("abc")[:12]
    assert len({words_digest("ab", "c"), words_digest("a", "bc"), words_digest("abc")}) == 3
    assert words_digest("\udc80"), "a path may hold bytes that are no text"


def test_json_does_not_depend_on_the_order_of_keys() -> None:
    assert json_digest({"a": 1, "b": Path("x")}) == json_digest({"b": "x", "a": 1})
    assert json_digest([1, 2], digits=16) != json_digest([2, 1], digits=16)


def test_files_count_with_name_and_content_but_not_with_the_place_of_their_root(tmp_path: Path) -> None:
    def written(root: str, **files: str) -> tuple[Path, list[Path]]:
        paths = [tmp_path / root / "below" / name for name in files]
        for path, text in zip(paths, files.values(), strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path / root, paths

    def digest(place: tuple[Path, list[Path]], *words: str) -> str:
        return files_digest(place[1], *words, root=place[0], digits=20)

    first = digest(written("one", a="x", b="y"))
    assert len(first) == 20
    assert digest(written("two", a="x", b="y")) == first
    others = [
        digest(written("three", a="x", c="y")),
        digest(written("four", a="xy", b="")),
        digest(written("two", a="x", b="y"), "word"),
        digest(written("two", b="y", a="x")),
    ]
    assert len({first, *others}) == 5
    big = tmp_path / "big"
    big.write_bytes(b"0" * 3_000_001)
    assert file_digest(big) == hashlib.sha256(big.read_bytes()).hexdigest()
    before = files_digest([big])
    big.write_bytes(b"0" * 3_000_000 + b"1")
    assert files_digest([big]) != before
    with pytest.raises(OSError, match="missing"):
        files_digest([tmp_path / "missing"])


def test_sources_are_found_in_a_fixed_order_without_tests(tmp_path: Path) -> None:
    for name in ("b.py", "a.yaml", "notes.md", "tests/test_a.py", "below/c.fbs", "__pycache__/b.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    names = [Path(path).relative_to(tmp_path).as_posix() for path in source_files(tmp_path, tmp_path / "below")]
    assert names == ["a.yaml", "b.py", "below/c.fbs", "below/c.fbs"]
