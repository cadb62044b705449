"""What a user reads says "stages", "counts" and "cached verdict": words that only the source uses stay in it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = (
    "compiler",
    "dashboards",
    "harness",
    "models",
    "opscope/base",
    "opscope/pybuda",
    "opscope/wire",
    "reports",
    "simulator",
)
OURS = re.compile(
    r"(?<![\w./-])(climb(s|ed|ing)?|walk(s|ed|ing)?|ladders?|ledgers?|rungs?|kept (verdict|result)s?)(?![\w/(-]|\.\w)",
    re.I,
)
CODE = re.compile(r"^```.*?^```|`[^`\n]*`|^ {4,}.*$|^ +\w+/ .*$|\]\([^)]*\)", re.MULTILINE | re.DOTALL)


def strings(source: str) -> Iterator[str]:
    """All strings of a file that are no documentation and more than a name."""
    tree = ast.parse(source)
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in alone
            and " " in node.value
        ):
            yield node.value


def pages() -> list[Path]:
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_pages_and_help_have_none_of_our_own_words(page: Path) -> None:
    prose = CODE.sub(" ", page.read_text(encoding="utf-8"))
    assert [found.group() for found in OURS.finditer(prose)] == []


@pytest.mark.parametrize("room", ROOMS)
def test_what_is_printed_has_none_of_our_own_words(room: str) -> None:
    files = [file for file in (ROOT / room).rglob("*.py") if "tests" not in file.parts]
    sources = {file: source for file in files if OURS.search(source := file.read_text(encoding="utf-8"))}
    assert files
    found = [(file.name, text) for file, source in sources.items() for text in strings(source) if OURS.search(text)]
    assert found == []


def test_labels_of_dashboards_and_pages_have_none_of_our_own_words() -> None:
    files = [*(ROOT / "dashboards").rglob("*.yaml"), *(ROOT / "reports" / "pages").rglob("*.j2")]
    shown = {
        file.name: re.sub(r"{[{%].*?[}%]}|class=\"[^\"]*\"|id=\"[^\"]*\"", " ", file.read_text(encoding="utf-8"))
        for file in files
    }
    assert len(shown) > 20
    assert [(name, found.group()) for name, text in shown.items() for found in OURS.finditer(text)] == []


def test_a_word_of_ours_is_found_in_prose_and_in_strings_but_not_in_code() -> None:
    assert OURS.search(CODE.sub(" ", "The `ladder` of the\nledger"))
    assert not OURS.search(CODE.sub(" ", "View `ladder`, [a](harness/walk.py), `climb/doubts.py`"))
    found = [
        text
        for text in strings('"""The ladder."""\nname = "ladder"\nprint(f"the {name} walk ended")')
        if OURS.search(text)
    ]
    assert found == [" walk ended"]
