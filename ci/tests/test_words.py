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
SHOWN = frozenset({".yaml", ".yml", ".j2", ".html", ".sql", ".js"})
"""Files that hold texts of dashboards, pages, questions and boards."""
NAMES = re.compile(
    r"{[{%].*?[}%]}|(?:class|id)=\"[^\"]*\"|[\w.]*(?:_\w+|\.\w+)+|\b(?:FROM|JOIN|UPDATE)\s+\w+", re.IGNORECASE
)
"""Names of code in them."""
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


def test_files_that_are_shown_or_written_for_users_have_none_of_our_own_words() -> None:
    found, looked = [], 0
    for file in (each for room in ROOMS for each in (ROOT / room).rglob("*")):
        inside = {"tests", "__pycache__", "node_modules"} & set(file.parts)
        if not inside and (file.suffix in SHOWN or file.parent.name == "templates") and file.suffix != ".py":
            looked += 1
            text = NAMES.sub(" ", file.read_text(encoding="utf-8"))
            found += [(file.name, word.group()) for word in OURS.finditer(text)]
    assert looked > 100
    assert found == []


def test_a_word_of_ours_is_found_in_prose_and_in_strings_but_not_in_code() -> None:
    assert OURS.search(CODE.sub(" ", "The `ladder` of the\nledger"))
    assert not OURS.search(CODE.sub(" ", "View `ladder`, [a](harness/walk.py), `climb/doubts.py`"))
    found = [
        text
        for text in strings('"""The ladder."""\nname = "ladder"\nprint(f"the {name} walk ended")')
        if OURS.search(text)
    ]
    assert found == [" walk ended"]
