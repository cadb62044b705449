"""What a list of causes sees through, and what it does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from opscope.base import reading
from opscope.harness.backends.commands import description, identity
from opscope.harness.cache import made_of
from opscope.harness.tests.ops import NOTHING_READ

SCOPE = made_of.scope_of("")


def read(**values: Any) -> dict[str, Any]:
    """What a child says that it has read."""
    return {**NOTHING_READ, **values}


@pytest.mark.parametrize("program", ["/usr/bin/sh", "cat", sys.executable])
def test_where_python_is_installed_makes_no_program_known(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(sys, "prefix", "/usr")  # as without an environment of its own
    assert "nothing declares" in made_of.made(read(programs=[program]), SCOPE).unseen


def test_a_users_program_is_not_the_systems_of_that_name(tmp_path: Path) -> None:
    (tmp_path / "lscpu").write_text("#!/bin/sh\n")
    assert "nothing declares" in made_of.made(read(programs=[str(tmp_path / "lscpu")]), SCOPE).unseen
    assert made_of.made(read(programs=["/usr/bin/lscpu"]), SCOPE).unseen == ""


def test_a_second_run_of_a_process_sees_a_new_module(tmp_path: Path) -> None:
    (tmp_path / "path").mkdir()
    made = made_of.made(read(searched={str(tmp_path / "path"): ["layers"]}), SCOPE)
    name = made_of.Lists(tmp_path).keep(made)
    assert made_of.Lists(tmp_path).changed([name], SCOPE) == ""
    (tmp_path / "path" / "layers.py").write_text("")
    assert "layers, which is new" in made_of.Lists(tmp_path).changed([name], SCOPE)


def test_a_module_that_a_folder_has_hides_no_other(tmp_path: Path) -> None:
    """One was found elsewhere all the same, as a finder of an editable installation finds it first."""
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "other.py").write_text("")
    made = made_of.made(read(searched={str(tmp_path / "path"): ["layers", "other"]}), SCOPE)
    name = made_of.Lists(tmp_path).keep(made)
    (tmp_path / "path" / "layers.py").write_text("")
    assert "layers, which is new" in made_of.Lists(tmp_path).changed([name], SCOPE)


def test_what_a_run_writes_is_in_no_list_whatever_link_leads_there(tmp_path: Path) -> None:
    own, user = tmp_path / "own", tmp_path / "user"
    for folder in (own, user):
        folder.mkdir()
        (folder / "values").write_text("1")
    (user / "folder").symlink_to(own)
    (user / "file").symlink_to(own / "values")
    (user / "alias").symlink_to(user / "values")
    opened = [own / "values", user / "folder" / "values", user / "file", user / "values", user / "alias"]
    marks = {str(path): list(reading.mark(str(path)) or ()) for path in opened}
    made = made_of.made(read(files=marks), made_of.scope_of("", str(own)))
    assert sorted(made.values["files"]) == [str(user / "alias"), str(user / "values")]


@pytest.mark.slow
def test_a_tool_is_known_by_its_distribution(tmp_path: Path) -> None:
    """Not by the folder that it lies in; an editable one's code lies elsewhere."""

    def unseen(tool: str) -> str:
        (tmp_path / "mine.yaml").write_text(
            f'stages: [{{name: lower, command: ["{tool}", "{{input}}", "{{output}}"]}}]'
        )
        return identity.unseen(description.read(tmp_path / "mine.yaml"))

    programs = Path(sys.executable).parent
    assert unseen(str(programs / "pytest")) == "", "of the wheel of pytest"
    assert "add `fingerprint" in unseen(str(programs / "opscope")), "of a checkout"
    assert "add `fingerprint" in unseen(sys.executable)
    assert "add `fingerprint" in unseen("/usr/bin/env")


FILE = 'stages: [{name: lower, command: ["{here}/cc.sh", "{input}", "{output}", "%s"]}]\nfingerprint: ["passes"]\n'


@pytest.mark.parametrize(
    ("word", "old", "new"),
    [
        ("-I{here}/include", "include/a", ""),
        ("--files={here}/a,{here}/b", "b", ""),
        ("cat {here}/b", "b", ""),
        ("x", "passes/a", "passes/b"),
        ("x", "passes/there/a", ""),
    ],
)
def test_what_a_tool_is_said_to_read_counts_by_name_and_content(tmp_path: Path, word: str, old: str, new: str) -> None:
    """Behind a letter, a comma, a space; renamed; behind a link to a folder."""
    for folder in ("include", "passes", "elsewhere"):
        (tmp_path / folder).mkdir()
    (tmp_path / "passes/there").symlink_to(tmp_path / "elsewhere")
    for path in ("cc.sh", "include/a", "a", "b", "passes/a", "elsewhere/a"):
        (tmp_path / path).write_text("1")
    (tmp_path / "mine.yaml").write_text(FILE % word)
    before = identity.fingerprint(description.read(tmp_path / "mine.yaml"))
    assert identity.fingerprint(description.read(tmp_path / "mine.yaml")) == before
    if new:
        (tmp_path / old).rename(tmp_path / new)
    else:
        (tmp_path / old).write_text("2")
    assert identity.fingerprint(description.read(tmp_path / "mine.yaml")) != before


def test_libraries_are_those_that_the_tool_finds_by_its_own_variables(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()

    def build(value: int) -> None:
        (tmp_path / "lib.c").write_text(f"int fails(void) {{ return {value}; }}")
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", "lib/libtoy.so", "lib.c"], cwd=tmp_path, check=True)

    build(0)
    (tmp_path / "main.c").write_text("int fails(void); int main(void) { return fails(); }")
    subprocess.run(["gcc", "-o", "cc.sh", "main.c", "-Llib", "-ltoy"], cwd=tmp_path, check=True)
    (tmp_path / "mine.yaml").write_text(FILE % "x" + f"environment: {{LD_LIBRARY_PATH: {tmp_path}/lib}}\n")
    before = identity.fingerprint(description.read(tmp_path / "mine.yaml"))
    build(1)
    assert identity.fingerprint(description.read(tmp_path / "mine.yaml")) != before
