"""A pass that fails names itself, and the command in its diagnostic fails in the same way."""

from __future__ import annotations

import re
import shlex

import pytest
from click.testing import CliRunner

from opscope.compiler import api
from opscope.compiler.commands.compile import compile_command, opt
from opscope.compiler.passes.ttnn_compute_config import TtnnComputeConfig
from opscope.compiler.target import binary
from opscope.compiler.tests import programs

SIGNATURE = "(%a: tensor<2x3xf64>) -> tensor<2x3xf64>"
REFUSED = {
    "stablehlo-to-ttir": "%0 = stablehlo.tanh %a : tensor<2x3xf64>\n"
    "%1 = stablehlo.complex %a, %a : tensor<2x3xcomplex<f64>>\n"
    "%2 = stablehlo.real %1 : (tensor<2x3xcomplex<f64>>) -> tensor<2x3xf64>\nreturn %2 : tensor<2x3xf64>",
    "ttir-to-ttnn": "%0 = stablehlo.tanh %a : tensor<2x3xf64>\nreturn %0 : tensor<2x3xf64>",
}
OPTIONS = api.CompileOptions(data_format="Bfp8_b", math_fidelity="LoFi")
BOARD = api.load_board("p150")


def module(name: str) -> str:
    return programs.module(REFUSED[name], SIGNATURE)


def again(diagnostic: str, path) -> list[str]:
    (command,) = re.findall(r"to reproduce: (opscope .*)", diagnostic)
    words = shlex.split(command)
    assert words[-1] == "FILE"
    return [*words[2:-1], str(path)]


@pytest.mark.parametrize("name", REFUSED)
def test_the_pipeline_in_the_diagnostic_reproduces_a_refusal(name, tmp_path):
    path = tmp_path / "op.mlir"
    path.write_text(module(name))
    with pytest.raises(api.StageFailure) as caught:
        api.compile(module(name), BOARD, OPTIONS)
    failure = caught.value
    assert f"pass {name} failed" in failure.diagnostic
    assert failure.message in failure.diagnostic
    assert len(failure.diagnostic.splitlines()) == 2
    result = CliRunner().invoke(opt, again(failure.diagnostic, path))
    assert result.exit_code == 1
    assert f"{failure.stage}: {failure.op}: {failure.message}" in result.output
    assert f"pass {name} failed; to reproduce: opscope opt -p" in result.output


def test_a_fault_inside_a_pass_is_reproduced_with_its_options(tmp_path, monkeypatch):
    source = programs.module(
        "%0 = stablehlo.tanh %a : tensor<2x3xf32>\nreturn %0 : tensor<2x3xf32>",
        "(%a: tensor<2x3xf32>) -> tensor<2x3xf32>",
    )
    path = tmp_path / "op.mlir"
    path.write_text(source)
    seen = []

    def broken(self, ctx, op):
        seen.append((self.board, self.math_fidelity, str(op)))
        raise ZeroDivisionError("boom")

    monkeypatch.setattr(TtnnComputeConfig, "apply", broken)
    with pytest.raises(api.StageFailure, match="ZeroDivisionError: boom") as caught:
        api.compile(source, BOARD, OPTIONS)
    assert "pass ttnn-compute-config failed" in caught.value.diagnostic
    result = CliRunner().invoke(opt, again(caught.value.diagnostic, path))
    assert result.exit_code == 1
    assert "internal error: ZeroDivisionError: boom" in result.output
    assert len(seen) == 2
    assert seen[0] == seen[1]
    assert "ttnn-deallocate" not in caught.value.diagnostic


def test_the_last_stage_names_its_command(tmp_path, monkeypatch):
    source = programs.module("return %a : tensor<2xf32>", "(%a: tensor<2xf32>) -> tensor<2xf32>")
    path = tmp_path / "op.mlir"
    path.write_text(source)
    boards = []

    def broken(made):
        boards.append(made.board)
        raise ZeroDivisionError("boom")

    monkeypatch.setattr(binary, "write", broken)
    with pytest.raises(api.StageFailure, match="boom") as caught:
        api.compile(source, BOARD, OPTIONS)
    result = CliRunner().invoke(compile_command, again(caught.value.diagnostic, path))
    assert result.exit_code == 1
    assert "boom" in result.output
    assert boards == ["p150", "p150"]
