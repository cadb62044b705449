"""What a user reads says "stages", "counts" and "cached verdict": words that only the source uses stay in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

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
MAY_BE = ("climb", "walk", "ladder", "ledger", "rung", "kept ")
"""What a text with one of them has in it: to look for these takes a hundredth of the time."""
SHOWN = frozenset({".yaml", ".yml", ".j2", ".html", ".sql", ".js"})
"""Files that hold texts of dashboards, pages, questions and boards."""
NAMES = re.compile(
    r"{[{%].*?[}%]}|(?:class|id)=\"[^\"]*\"|[\w.]*(?:_\w+|\.\w+)+|\b(?:FROM|JOIN|UPDATE)\s+\w+", re.IGNORECASE
)
"""Names of code in them."""
CODE = re.compile(r"^```.*?^```|`[^`\n]*`|^ {4,}.*$|^ +\w+/ .*$|\]\([^)]*\)", re.MULTILINE | re.DOTALL)


def strings(source: str) -> Iterator[str]:
    """Strings of a file that are no documentation and more than a name: those that are left once it is compiled."""
    code = source.replace("from __future__ import annotations", "")  # which makes strings of them
    left: list[object] = [compile(code, "a file", "exec", dont_inherit=True, optimize=2)]
    while left:
        match left.pop():
            case CodeType() as code:
                left += code.co_consts
            case tuple() | frozenset() as several:
                left += several
            case str() as text if " " in text:
                yield text


def found_in(source: str) -> list[str]:
    """The strings of a file with a word of ours."""
    if not any(map(source.lower().__contains__, MAY_BE)):
        return []
    return [text for text in strings(source) if OURS.search(text)]


def pages() -> list[Path]:
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_pages_and_help_have_none_of_our_own_words() -> None:
    for page in pages():
        prose = CODE.sub(" ", page.read_text(encoding="utf-8"))
        assert [found.group() for found in OURS.finditer(prose)] == [], page.name


@pytest.mark.parametrize("room", ROOMS)
def test_what_is_printed_has_none_of_our_own_words(room: str) -> None:
    files = [file for file in (ROOT / room).rglob("*.py") if "tests" not in file.parts]
    assert files
    assert [(file.name, text) for file in files for text in found_in(file.read_text(encoding="utf-8"))] == []


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
    documented = '"""The ladder."""\nname = "ladder"\n"""Of the ladder."""\nclass A:\n    """A climb up."""\n'
    said = 'def f(x: tuple[Rung, int] = ("the walk", 1)):\n    print(f"the {x} walk ended")\n'
    code = "from __future__ import annotations\n" + documented + said
    assert {*found_in(code)} == {"the walk", " walk ended"}
