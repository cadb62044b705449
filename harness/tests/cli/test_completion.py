"""Completion of ops, models, runs and questions, asked for as bash asks for it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click
import pytest

from opscope.base.tests.captured import captured
from opscope.harness.cli import completion
from opscope.harness.cli.main import root
from opscope.harness.tests import run_folder
from opscope.harness.tests.run_folder import NAMES

SCRIPT = """
eval "$(_OPSCOPE_COMPLETE=bash_source opscope)"
COMP_WORDS=({words}); COMP_CWORD=2; _opscope_completion opscope; printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return run_folder.write(tmp_path / ".opscope" / "runs" / "20261123-run")


def offered(command: str, parameter: str, incomplete: str) -> list[str]:
    context = click.Context(root, info_name="opscope", resilient_parsing=True)
    got = root.get_command(context, command)
    assert got is not None
    (parameters,) = (each for each in got.params if each.name == parameter)
    return [item.value for item in parameters.shell_complete(context, incomplete) if item.type == "plain"]


def test_every_parameter_that_is_completed_is_there() -> None:
    for command, parameter in completion.WORDS:
        got = root.get_command(click.Context(root, resilient_parsing=True), command)
        assert got is not None
        assert parameter in {each.name for each in got.params}, (command, parameter)


def test_words_are_those_of_this_folder(run: Path) -> None:
    ids = list(NAMES)
    assert offered("show", "what", "2026") == ["20261123-run"]
    assert offered("readiness", "model", "") == ["m"]
    assert set(offered("repro", "op_id", "")) >= set(ids[:2])
    assert offered("reduce", "op_id", "dot_general") == [ids[1]], "by its name, if that is one op"
    assert offered("probe", "run_dir", str(run)[:-2]) == [str(run)]
    assert offered("ops", "names", "stablehlo.d") == ["stablehlo.dot_general"]
    assert "resnet50_onnx" in offered("plan", "what", "resnet50")
    assert offered("sql", "query", "top_err") == ["top_errors"]


def test_where_nothing_is_known_files_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert offered("repro", "op_id", "x") == []
    damaged = tmp_path / ".opscope" / "runs" / "one"
    damaged.mkdir(parents=True)
    for name in ("run.json", "manifest.jsonl"):
        (damaged / name).write_text("{}\nnothing\n")
    assert offered("repro", "op_id", "x") == []
    assert offered("readiness", "model", "") == []


def test_bash_gets_it(run: Path) -> None:
    bash, opscope = shutil.which("bash"), Path(sys.executable).with_name("opscope")
    if bash is None or not opscope.is_file():
        pytest.skip("no bash, or opscope is not installed beside this Python")
    done = captured(
        [bash, "-c", SCRIPT.format(words="opscope reduce dot_general")],
        timeout=120,
        env={"PATH": f"{opscope.parent}:/usr/bin:/bin", "HOME": str(run)},
    )
    assert (done.stdout.split(), done.stderr) == ([list(NAMES)[1]], "")
