"""`opscope ops --against-backend`: what a backend's compiler made of each op, and this one's beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from opscope.compiler.commands.ops import ops
from opscope.harness.backends import registry
from opscope.harness.cli.emissions import emissions
from opscope.harness.record.errors import InputError
from opscope.harness.run.api import run_op_by_op
from opscope.harness.tests.own_backend import own_backend

pytestmark = pytest.mark.slow

SMALL = """module @small {
  func.func public @main(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<8x4xf32> {
    %0 = stablehlo.add %x, %y : tensor<4x8xf32>
    %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
    return %1 : tensor<8x4xf32>
  }
}
"""
OTHER = own_backend(
    "other",
    r"""
    if b"transpose" not in job.module:
        raise StageError("failed to legalize operation 'stablehlo.add'", "the whole log")
    if job.ir_dir is not None and stage is Stage.STABLEHLO_TO_TTIR:
        (job.ir_dir / "ttir.mlir").write_text(
            'module {\n%0 = "ttir.permute"(%a) <{permutation = array<i32: 1, 0>}> : (tensor<4x8xf32>)'
            " -> tensor<8x4xf32> loc(unknown)\n}\n"
        )
    """,
    stages="Stage.STABLEHLO_TO_TTIR, Stage.TTIR_TO_TTNN, Stage.TTNN_TO_FLATBUFFER, Stage.RUN",
    at="host",
)
"""A compiler that writes its IR as tt-mlir's backend does, gets an attribute wrong and refuses additions."""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.mlir"
    path.write_text(SMALL, encoding="utf-8")
    return path


def test_a_backend_is_run_and_differences_and_refusals_are_listed(small, tmp_path):
    (tmp_path / "other.py").write_text(OTHER, encoding="utf-8")
    result = CliRunner().invoke(ops, ["--against-backend", str(tmp_path / "other.py"), "--model", str(small), "--json"])
    assert result.exit_code == 0, result.output
    emitted = json.loads(result.stdout)
    assert emitted["ops"] == 2
    (stop,) = emitted["stops"]
    assert (stop["name"], stop["here"]) == ("stablehlo.add", "")
    assert stop["there"] == "stablehlo-to-ttir: failed to legalize operation 'stablehlo.add'"
    (group,) = emitted["groups"]
    assert (group["difference"]["kind"], group["difference"]["what"]) == ("attribute type", "permutation")
    assert (group["difference"]["ours"], group["difference"]["theirs"]) == ("array<i64>", "array<i32>")


def test_a_finished_run_gives_the_ir_that_it_kept(small, tmp_path):
    run_op_by_op(str(small), backend="reference", keep_ir=True, until="ttnn-to-flatbuffer", run_dir=tmp_path / "kept")
    run_op_by_op(str(small), backend="reference", until="ttnn-to-flatbuffer", run_dir=tmp_path / "plain")
    made = {
        name: (ttir, ttnn, stage)
        for _, name, _, ttir, ttnn, stage, _ in emissions("reference", (tmp_path / "kept",), (), "n150")
    }
    assert set(made) == {"stablehlo.add", "stablehlo.transpose"}
    assert len(list(emissions("reference", (tmp_path / "kept",) * 2, (), "n150"))) == 2
    ttir, ttnn, stage = made["stablehlo.transpose"]
    assert '"ttir.permute"' in ttir
    assert '"ttnn.permute"' in ttnn
    assert stage == ""
    with pytest.raises(InputError, match="a run that kept its IR"):
        list(emissions("reference", (tmp_path / "plain",), (), "n150"))
    with pytest.raises(InputError, match="a run of backend xla, got one of reference"):
        list(emissions("xla", (tmp_path / "kept",), (), "n150"))


def test_the_module_is_the_one_that_the_backends_compiler_read(small, tmp_path):
    run_op_by_op(str(small), backend="reference", keep_ir=True, until="ttnn-to-flatbuffer", run_dir=tmp_path / "kept")
    (folder, *_) = sorted((tmp_path / "kept" / "artifacts").glob("*/ir-reference"))
    (folder / "shlo.mlir").write_text("module { }\n", encoding="utf-8")
    modules = {op_id: module for op_id, _, module, *_ in emissions("reference", (tmp_path / "kept",), (), "n150")}
    assert len(modules) == 2
    assert modules.pop(folder.parent.name) == b"module { }\n"
    assert all(module.startswith(b"ML\xefR") for module in modules.values())


def test_tt_mlir_differs_from_this_compiler_only_for_reasons_that_are_written_down():
    if "tt" not in registry.names() or (missing := registry.load("tt").available()) is not None:
        pytest.skip(f"tt-mlir is not installed: {missing if 'tt' in registry.names() else 'no backend of this name'}")
    result = CliRunner().invoke(ops, ["--against-backend", "tt", "--json"])
    assert result.exit_code == 0, result.output
    emitted = json.loads(result.stdout)
    ttir, _ = emitted["agreements"]
    assert ttir["both"] > 900
    assert [group["difference"] for group in emitted["groups"] if not group["reason"]] == []
    assert {stop["name"] for stop in emitted["stops"] if not stop["here"]} <= {
        "stablehlo.cholesky",
        "stablehlo.if",
        "stablehlo.map",
        "stablehlo.reduce",
        "stablehlo.rng",
        "stablehlo.select_and_scatter",
        "stablehlo.triangular_solve",
    }
