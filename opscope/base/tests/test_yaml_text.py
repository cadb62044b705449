"""YAML of strangers: values, or one line that says where and why not."""

from __future__ import annotations

import itertools
import os
import re
import time
from pathlib import Path

import pytest

from opscope.base.yaml_text import DEEPEST, YamlError, parse_with_nodes, parse_yaml, read_yaml

PAIRS = tuple(itertools.pairwise("abcdefghijklm"))
BOMB = "a: &a [x, x]\n" + "\n".join(f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]" for before, name in PAIRS)
MERGES = "a: &a {x: 1}\n" + "\n".join(
    f"{name}: &{name} {{<<: [{', '.join([f'*{before}'] * 9)}]}}" for before, name in PAIRS
)

BAD = {
    "a date that does not exist": ("a: 2026-02-30", "day is out of range for month"),
    "a zone that does not exist": ("a: 2001-12-14t21:59:43.10+99:99", "offset must be"),
    "5,000 brackets": ("[" * 5000, f"line 1: more than {DEEPEST} levels"),
    "5,000 levels": ("\n".join(" " * level + "a:" for level in range(5000)), f"line {DEEPEST}: more than"),
    "aliases that multiply": (BOMB, "by its aliases"),
    "merges that multiply": (MERGES, "by its aliases"),
    "an alias of itself": ("a: &a [*a]", "line 1: an alias inside of what it stands for"),
    "5,000 digits": (f"a: {'9' * 5000}", "digits"),
    "10,000 hexadecimal digits": (f"x: 1\na: 0x{'f' * 10_000}", "line 2: a number of more than 64 bits"),
    "no number": ("a: !!int x", "invalid literal"),
    "half a surrogate pair": ('a: "\\ud800"', "line 1: found invalid Unicode"),
    "half a surrogate pair itself": ("a: \ud800", "surrogates not allowed"),
    "NUL": ("a: \0", "#x0000"),
    "an object of Python": ("!!python/object/apply:os.system [ls]", "could not determine a constructor"),
    "a list as a key": ("{[a]: 1}", "unhashable"),
}


@pytest.mark.parametrize(("text", "reason"), BAD.values(), ids=BAD)
def test_bad_yaml_is_one_line_at_once(text: str, reason: str) -> None:
    started = time.process_time()
    with pytest.raises(YamlError, match=re.escape(reason)) as error:
        parse_yaml(text)
    assert "\n" not in str(error.value)
    assert time.process_time() - started < 5


def test_good_yaml_has_its_values_and_lines() -> None:
    text = "# comment\nbase: &base {x: 1, when: 2026-02-28}\nrow: {<<: *base, y: [1.5, 'ü', null, 0xff]}\n"
    values, root = parse_with_nodes(text)
    assert values["row"]["x"] == 1
    assert values["row"]["y"] == [1.5, "ü", None, 255]
    assert root is not None
    assert [key.start_mark.line for key, _ in root.value] == [1, 2]
    assert parse_with_nodes("") == (None, None)


def test_only_a_regular_file_of_text_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(OSError, match="no regular file"):
            read_yaml(path)
    (tmp_path / "latin").write_bytes(b"a: \xe9")
    with pytest.raises(YamlError, match="no UTF-8"):
        read_yaml(tmp_path / "latin")
    (tmp_path / "good").write_text("a: [1]")
    assert read_yaml(tmp_path / "good") == {"a": [1]}
