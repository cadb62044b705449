"""The reference of docs/python.md is what docstrings say, of every public name."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import pytest

import opscope
from ci import python_reference as reference


def test_the_page_is_up_to_date() -> None:
    text = reference.PAGE.read_text(encoding="utf-8")
    assert text == reference.page(text), "docs/python.md: expected what docstrings say; try `make python`"


def test_every_public_name_is_in_it_once() -> None:
    names = [name for section in reference.SECTIONS.values() for name in section]
    assert sorted(names) == sorted([*opscope.__all__, "OpTests", "compiler.api"])


def test_a_page_without_the_mark_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected the line .* try git checkout"):
        reference.page("# From Python\n")


@dataclass
class Shape:
    """What a shape is."""

    size: int | None
    """How large | how long."""
    name: str = ""
    _hidden: int = 0

    @property
    def area(self) -> int:
        """Its area.

        Of all of it.
        """
        return 1

    def larger(self, by: int = 2, *, other: str | None = None) -> Shape:
        """A larger one."""
        return self


Shape.__module__ = "opscope.shape"  # else it is none of opscope's


class Kind(enum.StrEnum):
    FLAT = "flat"


def test_a_class_is_its_fields_with_their_texts_and_its_methods_by_their_first_sentence() -> None:
    assert "".join(reference._members(Shape)) == (
        "\n| field | meaning |\n|---|---|\n"
        "| `size: int \\| None` | How large \\| how long. |\n"
        "\nAnd `name: str`.\n"
        "\n- `area`: Its area.\n"
        "- `larger(by: int = 2, *, other: str | None = None) -> Shape`: A larger one.\n"
    )
    assert "".join(reference._members(Kind)) == "\nIt has `flat`.\n"


def test_lines_of_a_signature_end_between_parameters() -> None:
    def wide(self: object, first: int | None = None, **options: int) -> int: ...

    text = reference.signature("wide" * 20, wide)
    assert text == "wide" * 20 + "(first: int | None = None,\n    **options: int) -> int"
