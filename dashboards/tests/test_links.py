"""Links and texts made in SQL: whatever is in a name, a table shows it as text and a link leads where it says."""

from __future__ import annotations

import sqlite3
from html.parser import HTMLParser
from urllib.parse import unquote

import pytest

from opscope.dashboards import links

NASTY = (
    "plain",
    "a<b>c",
    "</span><script>alert(1)</script>",
    'it\'s 100% <"quoted" & more>',
    "<img src=x onerror=f()>",
    "tensor<1x2xf32>",
    "'; DROP TABLE t; --",
    "<",
    "&lt;b&gt;",
)


class Page(HTMLParser):
    """Tags and texts of a cell, as a browser reads it."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def cell(expression: str, **row: str) -> str:
    """What SQLite makes of an expression over one row."""
    connection = sqlite3.connect(":memory:")
    names = ", ".join(f"? AS {name}" for name in row)
    return connection.execute(f"SELECT {expression} FROM (SELECT {names})", tuple(row.values())).fetchone()[0]


@pytest.mark.parametrize("value", NASTY)
def test_text_stays_text(value: str) -> None:
    shown = cell(links.text("error"), error=value)
    if "<" not in value:
        assert shown == value
        return
    page = Page(shown)
    assert [tag for tag, _ in page.tags] == ["span"]
    assert page.text == value


@pytest.mark.parametrize("value", ["f32[8] -> f32[4,2]", "tensor<8xf32> -> <b>"])
def test_an_arrow_is_one_sign(value: str) -> None:
    """A narrow cell breaks between `-` and `>`, and before what follows a space: an arrow alone is a line."""
    shown = Page(cell(links.text("types", arrows=True), types=value)).text
    assert shown == value.replace(" ->", "\N{NO-BREAK SPACE}→")


@pytest.mark.parametrize("value", ["pytest --op-by-op --ops 1234 --backend 'a<b>.py'", *NASTY])
def test_each_word_of_a_command_is_whole(value: str) -> None:
    page = Page(cell(links.command("repro", ""), repro=value))
    assert page.text == value
    assert page.tags == [("span", {"style": "display:inline-block"})] * len(value.split(" "))


@pytest.mark.parametrize("value", NASTY)
def test_the_link_of_an_op_carries_its_name(value: str) -> None:
    page = Page(cell(links.op("op", ""), op=value))
    ((tag, attributes),) = page.tags
    assert tag == "a"
    assert page.text == value
    address = str(attributes["href"])
    assert address.startswith("/superset/dashboard/opscope-op/?native_filters=(")
    rison = unquote(address)
    assert rison.count(f"!('{value.replace('!', '!!').replace(chr(39), '!' + chr(39))}')") == 2
    assert not set('<>" ') & set(address)


@pytest.mark.parametrize("path", ["artifacts/0a/run.txt", "artifacts/a b/#1 <x>.txt"])
def test_the_link_of_a_log_is_its_address(path: str) -> None:
    page = Page(cell(links.artifact("artifact", "http://h:1/base"), artifact=path, run_id="r 1"))
    ((_, attributes),) = page.tags
    assert unquote(str(attributes["href"])) == f"http://h:1/base/r 1/{path}"
    assert attributes["target"] == "_blank"
    assert cell(links.artifact("artifact", "http://h"), artifact="", run_id="r") == ""


def test_an_address_cannot_leave_its_attribute() -> None:
    page = Page(cell(links.artifact("artifact", "http://h/'\"><script>"), artifact="a", run_id="r"))
    assert [tag for tag, _ in page.tags] == ["a"]
