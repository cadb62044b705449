"""Tables of the documentation are those of the code, and what people write of it stays short."""

from __future__ import annotations

import pytest

from ci import doc_tables, doc_words


@pytest.mark.parametrize("page", doc_tables.TABLES)
def test_tables_are_those_of_the_code(page: str) -> None:
    text = (doc_tables.ROOT / "docs" / page).read_text(encoding="utf-8")
    assert text == doc_tables.filled(text, doc_tables.TABLES[page]), f"docs/{page}: try `make tables`"


def test_every_row_says_something() -> None:
    tables = [made() for page in doc_tables.TABLES.values() for made in page.values()]
    assert len(tables) > 10
    assert [
        line for text in tables for line in text.splitlines() if line.count("|") > 2 and line.startswith("|  | |")
    ] == []
    assert "| `ttir-to-ttnn` from level 2 | `ttnn-optimizer` |" in doc_tables.passes()
    assert "| `stablehlo-to-ttir` | `inline` |" in doc_tables.passes()


def test_a_page_without_the_place_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected <!-- keys: generated, .* try git checkout docs"):
        doc_tables.filled("# Backends\n", {"keys": doc_tables.keys})


def test_a_dependency_without_a_reason_is_refused() -> None:
    project = '\ndependencies = [\n    "numpy",\n]\n\n[project.scripts]'
    with pytest.raises(ValueError, match="expected what numpy is for, got none"):
        list(doc_tables.reasons(project))


def test_reasons_are_comments_above_requirements() -> None:
    project = (
        '\ndependencies = [\n    # trace\n    # models\n    "jax",\n    "jaxlib",\n    # arithmetic\n    "numpy",\n]\n'
        '\n[project.optional-dependencies]\nfast = [\n    # speed\n    "c",\n]\n\n[project.scripts]'
    )
    assert list(doc_tables.reasons(project)) == [
        ("", ["jax", "jaxlib"], "trace models"),
        ("", ["numpy"], "arithmetic"),
        ("fast", ["c"], "speed"),
    ]


def test_what_people_write_stays_short() -> None:
    total = sum(doc_words.words(page.read_text(encoding="utf-8")) for page in doc_words.pages())
    assert doc_words.MOST * 0.8 < total <= doc_words.MOST, "try `python -m ci.doc_words`: the longest pages"


def test_what_commands_write_is_not_counted() -> None:
    text = "One two | --- |\n<!-- a: generated, see b.py -->\nthree\n<!-- end of a -->\nfour\n"
    assert doc_words.words(text) == 3
    assert doc_words.words("one\n<!-- `make x` writes everything below this line. -->\ntwo") == 1
