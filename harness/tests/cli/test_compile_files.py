"""`opscope compile FILE` reads what a sweep reads: open dimensions, branches, one of several models; what is bad."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from opscope.base.tests.in_this_process import in_this_process
from opscope.compiler.commands.compile import compile_command
from opscope.harness.cli import read_file
from opscope.harness.cli.main import FILES, main, root
from opscope.harness.prepare import mlir
from opscope.harness.record.errors import InputError

OPEN = """func.func public @main(%x: tensor<?x16xf32>, %w: tensor<16x8xf32>) -> tensor<?x8xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<?x16xf32>, tensor<16x8xf32>) -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}"""
SEVERAL = """func.func @first(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = stablehlo.tanh %x : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
func.func @second(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = stablehlo.abs %x : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}"""
BRANCHES = """func.func @main(%p: tensor<i1>, %a: tensor<2xf32>) -> tensor<2xf32> {
  %c = tensor.extract %p[] : tensor<i1>
  cf.cond_br %c, ^left, ^join(%a : tensor<2xf32>)
^left:
  %0 = stablehlo.abs %a : tensor<2xf32>
  cf.br ^join(%0 : tensor<2xf32>)
^join(%x: tensor<2xf32>):
  %1 = stablehlo.negate %x : tensor<2xf32>
  return %1 : tensor<2xf32>
}"""
LOOP = """func.func @main(%p: tensor<i1>, %a: tensor<2xf32>) -> tensor<2xf32> {
  %c = tensor.extract %p[] : tensor<i1>
  cf.br ^again(%a : tensor<2xf32>)
^again(%x: tensor<2xf32>):
  %0 = stablehlo.abs %x : tensor<2xf32>
  cf.cond_br %c, ^again(%0 : tensor<2xf32>), ^end
^end:
  return %0 : tensor<2xf32>
}"""


@pytest.fixture
def net(tmp_path: Path) -> Path:
    return tmp_path / "net.mlir"


def compiled(*words: object) -> Result:
    """What the command says; `test_the_command_line_hands_the_reader_over` reads in a fork, as users do."""
    with in_this_process(read_file):
        return CliRunner().invoke(root, ["compile", *map(str, words)], obj=FILES)


@pytest.mark.parametrize("shape", [["--shape", "arg0=4x16"], ["--shape", "0=4"], ["--shape", "0=4,arg1=16x8"]])
def test_open_dimensions_take_sizes(net: Path, shape: list[str]) -> None:
    net.write_text(OPEN)
    result = compiled(net, *shape, "--to", "ttir")
    assert result.exit_code == 0, result.output
    assert "tensor<4x8xf32>" in result.output
    assert "?" not in result.output
    assert "ttir.matmul" in result.output


def test_bytecode_is_read_by_the_same_door(net: Path) -> None:
    net.write_bytes(mlir.to_bytecode(mlir.load(OPEN)))
    assert "tensor<4x8xf32>" in compiled(net, "--shape", "0=4", "--to", "ttir").output


def test_a_name_takes_one_of_several_models(net: Path) -> None:
    net.write_text(SEVERAL)
    first, second = (compiled(f"{net}:{name}", "--to", "ttir").output for name in ("first", "second"))
    assert ("ttir.tanh" in first, "ttir.abs" in first) == (True, False)
    assert ("ttir.tanh" in second, "ttir.abs" in second) == (False, True)
    assert compiled(f"{net}:second").exit_code == 0
    assert net.with_name("net.second.ttnn").is_file()
    net.write_text(SEVERAL.replace("@first", "@main"))
    assert "ttir.tanh" in compiled(net, "--to", "ttir").output


def test_blocks_that_branch_are_compiled(net: Path) -> None:
    net.write_text(BRANCHES)
    result = compiled(net, "--to", "ttir")
    assert result.exit_code == 0, result.output
    assert "ttir.abs" in result.output
    assert "cf." not in result.output


@pytest.mark.parametrize(
    ("text", "words", "line"),
    [
        (OPEN, ["--shape", "x=4"], "{net}: --shape x=4: expected an argument or an open dimension (arg0: [?, 16])"),
        (OPEN, ["--shape", "arg0=x"], "--shape: expected NAME=SIZE with sizes above 0, got 'arg0=x'; try batch=4"),
        (OPEN, ["--shape", "0=4", "--shape", "0=5"], "--shape: expected one size for '0', got 4 and 5"),
        (OPEN, ["--shape", "arg0=4x17"], "{net}: --shape arg0=4x17: expected "),
        (SEVERAL, [], "{net}: expected a file of one model, or the name of one, got first, second; try {net}:first"),
        (LOOP, [], "{net}: "),
        ("hello", [], "{net}: expected StableHLO as text, MLIR bytecode or portable artifact, got a text"),
        ("", ["--shape", "0=4"], "{net}: expected StableHLO as text, MLIR bytecode or portable artifact, got an"),
    ],
)
def test_bad_files_and_sizes_are_one_line_and_exit_2(net: Path, text: str, words: list[str], line: str) -> None:
    net.write_text(text)
    result = compiled(net, *words, "--to", "ttir")
    assert result.exit_code == 2, result.output
    assert result.output.startswith(f"Error: {line.format(net=net)}")
    assert result.output.count("\n") == 1
    assert "Traceback" not in result.output


def test_a_model_that_is_not_there(net: Path) -> None:
    net.write_text(SEVERAL)
    result = compiled(f"{net}:third", "--to", "ttir")
    assert result.exit_code == 2
    assert f"{net}: expected a public function 'third', got first, second; try {net}:first" in result.output
    net.unlink()
    assert "expected a readable file" in compiled(net).output


def test_without_sizes_the_compiler_says_what_gives_them(net: Path) -> None:
    net.write_text(OPEN)
    result = compiled(net, "--to", "ttir")
    assert result.exit_code == 1
    assert "try sizes for it (--shape)" in result.output


def test_the_command_line_hands_the_reader_over(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net.write_text(OPEN)
    with pytest.raises(SystemExit) as ended:
        main(["compile", str(net), "--shape", "0=4", "--to", "ttir"])
    assert not ended.value.code
    assert "tensor<4x8xf32>" in capsys.readouterr().out
    alone = CliRunner().invoke(compile_command, [str(net), "--shape", "0=4"])
    assert alone.exit_code == 2
    assert "--shape: expected" in alone.output


def test_a_parser_that_does_not_come_back_is_an_error(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net.write_text(OPEN)
    monkeypatch.setattr(read_file, "_read", lambda *words: os.abort())
    with pytest.raises(InputError, match="expected StableHLO that the parser comes back from, got the end of the pars"):
        read_file.read(str(net))
