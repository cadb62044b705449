"""Backends declare what they can: no backend's name stands in the core, and nothing is imported to learn a flag."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from opscope.base.tests.each import each
from opscope.base.tests.statements import parsed
from opscope.harness.backends import registry
from opscope.harness.backends.base import Backend
from opscope.harness.limitations.limitation_coverage import limits
from opscope.harness.programs.derived_exports import check
from opscope.harness.record.errors import InputError
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.tests.ops import FAULTY

CORE = Path(registry.__file__).parent.parent
NAMES = {*registry.own_names(), *registry.own_commands()}
MAY_NAME = re.compile(rf"""["'}}\s](?:{"|".join(map(re.escape, sorted(NAMES)))})["'{{]|\bbackends\b""")
"""What a statement with one of them has in it."""


def core_files() -> Iterator[Path]:
    for path in CORE.rglob("*.py"):
        if not {"backends", "tests"} & set(path.relative_to(CORE).parts):
            yield path


def named(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Where a constant is a backend's name or its flag, or an import reaches into a backend's module."""
    modules = {name.replace("-", "_") for name in NAMES}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            word = re.fullmatch(r"(?:--backend )?([\w-]+)", node.value)
            if word is not None and word[1] in NAMES:
                yield node.lineno, node.value
        elif isinstance(node, ast.ImportFrom) and ".backends." in f"{node.module}.":
            last = str(node.module).rpartition(".")[2]
            if any(last == module or last.startswith(f"{module}_") for module in modules):
                yield node.lineno, str(node.module)


def test_the_core_names_no_backend_but_the_default() -> None:
    places = [
        f"{path.relative_to(CORE)}:{before + line} {word}"
        for path in core_files()
        for before, tree in parsed(path.read_text(encoding="utf-8"), MAY_NAME)
        for line, word in named(tree)
    ]
    of_voices = {place for place in places if place.startswith("prepare/authorities/voices.py:")}
    assert {place.split()[-1] for place in of_voices} == {"stablehlo-interpreter", "iree"}, "whose code a voice is"
    assert [place.split()[-1] for place in places if place not in of_voices] == ["reference"], places


@each("name", registry.own_names())
def test_a_flag_in_the_source_is_the_flag_of_the_class(name: str) -> None:
    needs_argument = registry.declares(name, "needs_argument")
    backend = registry.load(f"{name}:{sys.executable}" if needs_argument else name)
    assert isinstance(backend, Backend)
    for flag in ("lasting", "takes_apart", "in_op_table", "forkable", "takes_argument", "needs_argument"):
        assert registry.declares(name, flag) is getattr(backend, flag), flag


def test_a_users_backend_may_declare_or_leave_out_any_of_it(tmp_path: Path) -> None:
    backend = registry.load(FAULTY)
    assert (backend.lasting, backend.takes_apart, dict(backend.compile_depths)) == (False, False, {})
    backend.warm_up(ResultOptions())
    with pytest.raises(InputError, match=r"hands over its program \(reference\), got .*; try --backend reference"):
        check("compile-split", FAULTY)
    text = Path(FAULTY).read_text(encoding="utf-8")
    unread = tmp_path / "unread.py"
    unread.write_text(text.replace('    name = "faulty"\n', '    name = "unread"\n    takes_apart: bool = True\n'))
    check("compile-split", str(unread))
    assert "opscope_backend_unread" not in sys.modules, "a flag is read, not imported"
    assert not registry.declares(str(tmp_path / "absent.py"), "takes_apart")


def test_the_op_table_shows_what_its_backends_do_not_have() -> None:
    assert (
        {limit.row.backend for limit in limits()} == {n for n in NAMES if registry.declares(n, "in_op_table")} != set()
    )
