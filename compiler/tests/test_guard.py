"""Input that nobody vouches for: whatever the native parser does to its child is one typed error."""

from __future__ import annotations

import ctypes
import os
import time

import jax
import pytest
from click.testing import CliRunner

from opscope.base.children.forks import WarmFork
from opscope.compiler import api
from opscope.compiler.commands import compile
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.ir import guard
from opscope.compiler.tests.mutations import mutants, run

ADD = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }"


def test_what_the_parser_reads_or_refuses_in_words_passes():
    guard.vet(ADD)
    guard.vet("func.func @main(")
    guard.vet(b"\xff\xfe")


@pytest.mark.parametrize(
    ("harm", "how"),
    [
        (lambda module: os.abort(), "SIGABRT"),
        # quick: [abort], an ending that says what it is as well
        pytest.param(lambda module: ctypes.string_at(0), "SIGSEGV", marks=pytest.mark.slow),
        pytest.param(lambda module: os._exit(3), "exit code 3", marks=pytest.mark.slow),
        (lambda module: time.sleep(60), "not back after 0.2 s"),
    ],
    ids=["abort", "fault", "exit", "hang"],
)
def test_a_crash_is_an_error_like_others(harm, how):
    began = time.monotonic()
    with pytest.raises(guard.ParserCrashed, match=f"got {how}: parser-crashed") as caught:
        guard.vet(ADD, seconds=0.2 if "back" in how else 60.0, fork=WarmFork(harm))
    assert isinstance(caught.value, CompilerInputError)
    assert time.monotonic() - began < 50


@pytest.mark.parametrize(
    "command",
    # quick: the other, which reads by guard.py too
    [compile.compile_command, pytest.param(compile.opt, marks=pytest.mark.slow)],
)
def test_the_command_line_says_so_and_leaves(command, monkeypatch, tmp_path):
    monkeypatch.setattr(guard, "_fork", lambda: WarmFork(lambda data: os.abort()))
    path = tmp_path / "bad.mlir"
    path.write_text(ADD, encoding="utf-8")
    words = [str(path), *(["-p", "stablehlo-to-ttir"] if command is compile.opt else [])]
    result = CliRunner().invoke(command, words)
    assert result.exit_code == 2
    assert "parser-crashed" in result.output


class ForkAskedFor(CompilerInputError):
    """In place of a fork."""


@pytest.mark.parametrize("form", ["text", "bytes", "file", "depths"])
def test_the_python_api_reads_in_a_fork_what_comes_from_outside(form, monkeypatch, tmp_path):
    """What becomes of a fork that crashes: test_a_crash_is_an_error_like_others."""

    def asked():
        raise ForkAskedFor

    path = tmp_path / "bad.mlir"
    path.write_text(ADD, encoding="utf-8")
    monkeypatch.setattr(guard, "_fork", asked)
    source = {"bytes": ADD.encode(), "file": path}.get(form, ADD)

    def read():
        if form == "depths":
            api.take_step(api.Compilation(ADD.encode(), "n150"), api.CompileDepth.GENERATE_INITIAL_GRAPH)
        else:
            api.stablehlo_to_ttir(source)

    with pytest.raises(ForkAskedFor):
        read()


def test_what_was_parsed_here_needs_no_fork(monkeypatch):
    def refuse():
        raise AssertionError("a fork")

    monkeypatch.setattr(guard, "_fork", refuse)
    lowered = jax.jit(lambda x: x + 1).lower(jax.ShapeDtypeStruct((2,), "float32"))
    assert api.stablehlo_to_ttir(lowered)
    assert api.stablehlo_to_ttir(lowered.compiler_ir())
    monkeypatch.setattr(guard, "is_child", lambda: True)
    assert api.stablehlo_to_ttir(ADD), "a lane needs none either"


def test_text_that_is_no_unicode_is_refused():
    with pytest.raises(CompilerInputError, match="Unicode, got the character"):
        api.stablehlo_to_ttir("\ud800")


def test_a_constant_of_any_size_is_one_element_of_text():
    source = """func.func @main() -> tensor<4000000000000xf32> {
      %0 = stablehlo.constant dense<1.0> : tensor<4000000000000xf32>
      return %0 : tensor<4000000000000xf32>
    }"""
    with pytest.raises(api.StageFailure, match="expected a constant of at most"):
        api.compile(source, api.load_board("n150"))


def test_mutants_end_in_typed_errors():
    counts, bad = run(15, seed=5)
    assert not bad
    assert sum(counts.values()) == 15
    assert len(set(mutants(15, seed=5))) > 12


@pytest.mark.slow
def test_more_mutants():
    _, bad = run(500, seed=6)
    assert not bad
