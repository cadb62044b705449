"""The reference of docs/python.md is what docstrings say, of every public name."""

from __future__ import annotations

import enum
import subprocess
import sys
from importlib import import_module
from types import ModuleType

import pytest

import opscope
from ci import python_reference as reference


def test_the_page_is_up_to_date() -> None:
    text = reference.PAGE.read_text(encoding="utf-8")
    assert text == reference.page(text), "docs/python.md: expected what docstrings say; try `make python`"


def test_every_public_name_is_in_it_once() -> None:
    names = [name for section in reference.SECTIONS.values() for name in section]
    assert sorted(names) == sorted([*opscope.__all__, "OpTests", "compiler.api"])


EACH_ALONE = """
import os, sys
for name in sys.argv[1:]:
    child = os.fork()
    if not child:
        parent, _, own = name.rpartition(".")
        exec(f"import {name}; from {parent} import {own} as other; assert {name} is other")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, name
"""


def test_each_module_in_it_can_be_imported_by_the_name_that_it_has_there() -> None:
    assert import_module("opscope.compiler.api").__name__ == "opscope.compiler.api"  # a file's own
    modules = [name for name in opscope.__all__ if isinstance(getattr(opscope, name), ModuleType)]
    assert "frames" in modules
    subprocess.run([sys.executable, "-c", EACH_ALONE, *(f"opscope.{name}" for name in modules)], check=True)


def test_a_page_without_the_mark_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected the line .* try git checkout"):
        reference.page("# From Python\n")


class Kind(enum.StrEnum):
    FLAT = "flat"


def test_a_class_is_its_fields_with_their_texts_and_its_methods_by_their_first_sentence() -> None:
    built = "".join(reference._members(opscope.Built))
    assert "\n| `loss: Callable[[Any], Any] \\| None = None` | The loss for `--training`: turns the results" in built
    assert built.endswith(
        "\nAnd `forward: Callable[[Mapping[str, Any]], Any]`.\n"
        "\n- `parameters`: Number of weights as publications count them.\n"
    )
    record = "".join(reference._members(opscope.OpTest))
    assert "\n| `cycles` | device cycles of one execution |\n" in record, "a field that is made of a row"
    assert "".join(reference._members(Kind)) == "\nIt has `flat`.\n"


def test_lines_of_a_signature_end_between_parameters() -> None:
    def wide(self: object, first: int | None = None, **options: int) -> int: ...

    text = reference.signature("wide" * 20, wide)
    assert text == "wide" * 20 + "(first: int | None = None,\n    **options: int) -> int"
