"""The tests in filecheck/: a file per conversion and pass, its RUN lines run in this process, or by lit itself."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import parse_argv_options
from filecheck.parser import Parser, pattern_for_opts

from opscope.compiler import passes
from opscope.compiler.commands.compile import opt

FOLDER = Path(__file__).parent / "filecheck"
FILES = sorted(FOLDER.glob("*.mlir"))
TT_MLIR = {"ttmlir-opt": "opscope opt --custom-form", "FileCheck": "filecheck", "%system_desc_path%": ""}
"""As in filecheck/lit.cfg.py."""


def run_line(line: str, path: Path) -> tuple[int, str]:
    """Exit code and last output of `opscope opt ... | filecheck ...`."""
    for theirs, ours in TT_MLIR.items():
        line = line.replace(theirs, ours)
    code, output = 0, ""
    for command in line.split(" | "):
        words = shlex.split(command.replace("%s", str(path)))
        if words[:2] == ["opscope", "opt"]:
            result = CliRunner().invoke(opt, words[2:], input=output)
            code, output = result.exit_code, result.output
        else:
            assert words[0] == "filecheck", f"{path}: expected opscope opt or filecheck, got {command}"
            code, output = check(words, output)
        if code:
            break
    return code, output


def check(words: list[str], text: str) -> tuple[int, str]:
    options = parse_argv_options(words)
    with Path(options.match_filename).open(encoding="utf-8") as lines:
        matcher = Matcher(options, FInput("-", text), Parser(options, lines, *pattern_for_opts(options)))
        matcher.stderr = io.StringIO()
        return matcher.run(), matcher.stderr.getvalue() + text


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_run_line_passes(path):
    lines = re.findall(r"^// RUN: (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert lines
    for line in lines:
        code, output = run_line(line, path)
        assert code == 0, f"{line}\n{output}"


def test_every_pass_has_a_file():
    assert {name.replace("-", "_") for name in passes.names()} <= {path.stem for path in FILES}


def test_a_check_that_does_not_hold_fails(tmp_path):
    path = tmp_path / "wrong.mlir"
    source = (FOLDER / "stablehlo_to_ttir.mlir").read_text(encoding="utf-8")
    path.write_text(source.replace('"ttir.lt"', '"ttir.gt"'), encoding="utf-8")
    code, output = run_line("opscope opt -p stablehlo-to-ttir %s | filecheck %s", path)
    assert code == 1
    assert "ttir.gt" in output


@pytest.mark.slow
def test_lit_runs_them_all(tmp_path):
    """With shell scripts named as the commands, so that this checkout's are run: lit hands on only the PATH."""
    root = FOLDER.parents[2]
    for name, code in (
        ("opscope", "import sys; from opscope.compiler.commands.compile import opt; opt(sys.argv[2:])"),
        ("filecheck", "from filecheck.main import main; main()"),
    ):
        script = tmp_path / name
        script.write_text(f'#!/bin/sh\nPYTHONPATH={root} exec {sys.executable} -P -c {shlex.quote(code)} "$@"\n')
        script.chmod(0o755)
    env = os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    code = f"import sys; from lit.main import main; sys.argv = ['lit', '-sv', '-j2', {str(FOLDER)!r}]; main()"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf"Passed\s*: {len(FILES)} ", done.stdout), done.stdout
