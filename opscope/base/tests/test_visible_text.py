"""Nothing that acts on a terminal leaves by a door, and what does not act is left as it is."""

from __future__ import annotations

import io
import json
import sys
import unicodedata

import pytest

from opscope.base import terminal
from opscope.base.tests.each import each
from opscope.base.visible_text import VisibleStream, one_line, visible, visible_but_style

HOSTILE = "\x1b]0;title\x07\x1b[2J\x9b31m\x00\x7f\u202eevil\u2066\ud800\r\b\ufeff\U000e0041 %s {} [red]x[/red]"


def acts(text: str) -> str:
    """The characters of a text that a terminal obeys or hides."""
    kinds = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return "".join(c for c in text if unicodedata.category(c) in kinds and not "\u0600" <= c <= "\u0605")


def test_what_acts_is_escaped_and_only_that() -> None:
    assert acts(one_line(HOSTILE)) == ""
    assert one_line("a\x1b[31mb\u202e\U000e0041\ud800\x00\n\t") == r"a\u001b[31mb\u202e\udb40\udc41\ud800\0\n\t"
    plain = "größer ≥ 5 µs — 数 🙂 %s {} [b] \\ \xa0"
    assert one_line(plain) == visible(plain) == plain
    assert visible("a\n\tb\r") == "a\n\tb\\r"
    assert visible(visible(HOSTILE)) == visible(HOSTILE)


def test_every_format_character_is_known() -> None:
    signs = {
        0x6DD,
        0x70F,
        0x890,
        0x891,
        0x8E2,
        0x110BD,
        0x110CD,
        *range(0x600, 0x606),
        *range(0x13430, 0x13456),
        *range(0x1BCA0, 0x1BCA4),
    }
    every = (c for c in map(chr, range(sys.maxunicode + 1)) if not c.isprintable() and ord(c) not in signs)
    missed = [
        hex(ord(c)) for c in every if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") and one_line(c) == c
    ]
    assert missed == []


def test_json_stays_json_with_the_same_value() -> None:
    value = {"text": HOSTILE.replace("\ud800", ""), "a\x7f": [1, "\x85"]}
    for ascii_only in (True, False):
        assert json.loads(visible(json.dumps(value, ensure_ascii=ascii_only, indent=1))) == value


def test_only_colours_pass_the_door_of_pytest() -> None:
    red = "\x1b[31;1mred\x1b[0m"
    assert visible_but_style(f"{red}\x1b[2J\x1b]0;x\x07") == f"{red}\\u001b[2J\\u001b]0;x\\u0007"


@each("encoding", ["utf-8", "ascii"])
def test_a_stream_writes_any_text_in_any_encoding(encoding: str) -> None:
    buffer = io.BytesIO()
    stream = VisibleStream(io.TextIOWrapper(buffer, encoding=encoding))
    stream.write(f"é {HOSTILE}\n")
    stream.writelines(["a\x1b", "b\n"])
    stream.flush()
    shown = buffer.getvalue().decode(encoding)
    assert acts(shown.replace("\n", "")) == ""
    assert shown.endswith("a\\u001bb\n")


def test_commands_write_through_the_door_and_it_closes_again(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout
    with terminal.visible_output(), terminal.visible_output():
        print(HOSTILE)
        print(HOSTILE, file=sys.stderr)
        assert sys.stdout.stream is before
    assert sys.stdout is before
    out, err = capsys.readouterr()
    assert acts(out.rstrip("\n")) == acts(err.rstrip("\n")) == ""


def test_a_console_styles_its_own_words_and_escapes_those_of_others() -> None:
    from rich.table import Table
    from rich.text import Text

    buffer = io.StringIO()
    console = terminal.console(file=VisibleStream(buffer), force_terminal=True, width=200)
    table = Table("head")
    table.add_row(Text(HOSTILE))
    console.print(table)
    console.print(Text(HOSTILE, style="bold"))
    shown = buffer.getvalue()
    assert "\x1b[1m" in shown
    assert "\x1b]0" not in shown
    assert "\x1b[2J" not in shown
    assert not set(shown) & {"\x07", "\x9b", "\x00", "\u202e", "\ud800"}


def test_pytest_writes_through_the_door() -> None:
    from _pytest._io import TerminalWriter

    buffer = io.StringIO()
    writer = TerminalWriter(buffer)
    writer.hasmarkup = True
    terminal.guard_pytest(writer)
    terminal.guard_pytest(writer)
    writer.line(HOSTILE, red=True)
    writer.write("\rcollecting")
    shown = buffer.getvalue()
    assert shown.startswith("\x1b[31m")
    assert shown.endswith("\rcollecting")
    assert shown.count("\x1b") == 2
    assert "\x07" not in shown
