"""Ops of a compiled program as rows: what they are run on, what they are held to, and that nothing of it is lost."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from opscope.harness.backends.base import StageError
from opscope.harness.backends.reference import Reference
from opscope.harness.lanes.ladder import climb
from opscope.harness.prepare.inputs import row_golden, row_inputs
from opscope.harness.programs.derived_exports import check
from opscope.harness.programs.pieces import Collected, collect
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import RunContext
from opscope.harness.record.records import OpRow
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage, Status
from opscope.harness.tests.verdict.test_intermediates import CALLS

HEADS = """func.func @main(%x: tensor<2x8x16xf32>, %w: tensor<16x4xf32>) -> tensor<2x8x4xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [2] x [0]
    : (tensor<2x8x16xf32>, tensor<16x4xf32>) -> tensor<2x8x4xf32>
  %1 = stablehlo.tanh %0 : tensor<2x8x4xf32>
  %2 = stablehlo.add %1, %1 : tensor<2x8x4xf32>
  return %2 : tensor<2x8x4xf32>
}"""
OPTIONS = ResultOptions(unsupported_types="fallback")


def rows_of(
    folder: Path, module: str, *inputs: np.ndarray, options: ResultOptions = OPTIONS, roles: tuple[str, ...] = ()
) -> list[OpRow]:
    for name in ("ops", "values"):
        (folder / name).mkdir()
    into = Collected(folder, None, "jax", "compile-split:x")
    backend = Reference()
    collect(into, module.encode(), inputs, lambda text: backend.take_apart(text, options, roles), (), "net")
    return into.finished()


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


@pytest.fixture
def heads(tmp_path: Path) -> list[OpRow]:
    return rows_of(tmp_path, HEADS, normal(2, 8, 16), normal(16, 4))


def test_each_op_gets_what_the_walk_has_for_its_inputs(heads: list[OpRow], tmp_path: Path) -> None:
    by_name = {row.op_name: row for row in heads}
    exact = normal(2, 8, 16).astype(np.float64) @ normal(16, 4).astype(np.float64)
    (seen,) = row_inputs(by_name["ttnn.tanh"], tmp_path)
    assert np.abs(seen - exact).max() < 1e-5  # the device's own product is off by 1e-3
    (right,) = row_golden(by_name["ttnn.tanh"], tmp_path)
    np.testing.assert_allclose(right, np.tanh(seen), rtol=1e-5)
    assert len(by_name["ttnn.add"].inputs) == 1, "one argument, read twice"
    assert {row.held_to for row in heads} >= {"stablehlo.dot_general", "stablehlo.tanh", "stablehlo.add"}
    assert all(row.golden or row.no_golden for row in heads)


def test_pieces_climb_from_where_the_compiler_has_them(heads: list[OpRow], tmp_path: Path) -> None:
    context = RunContext("run", str(tmp_path / "run"), options=ResultOptions(workflow="compile-split"))
    for row in heads:
        test = climb(row, Reference(), context=context, export_dir=tmp_path)
        assert test.status is Status.SUCCESS, test
        assert [time.stage for time in test.stages] == [Stage.TTNN_TO_FLATBUFFER, Stage.RUN, Stage.COMPARE]
        assert test.workflow == "compile-split"
        assert test.op_kind in ("matmul", "eltwise", "data_movement", "creation")


def test_a_wrong_value_is_reported(heads: list[OpRow], tmp_path: Path) -> None:
    row = next(row for row in heads if row.op_name == "ttnn.matmul")
    path = tmp_path / row.sources[0].path if row.sources[0].path else tmp_path
    np.save(path, np.load(path) + np.float32(0.1))
    context = RunContext("run", str(tmp_path / "run"))
    test = climb(row, Reference(), context=context, export_dir=tmp_path)
    assert test.status is Status.WRONG_RESULT


def test_ops_of_loops_are_rows_beside_the_loop(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, CALLS, normal(4, 4), np.array(3, np.int32))
    names = {row.op_name for row in rows}
    assert {"ttnn.while", "ttnn.tanh", "ttnn.gt", "ttnn.add"} <= names
    paths = {use.path.partition("#")[0] for row in rows for use in row.uses}
    assert {"main/0@twice/0", "main/1@twice/0", "main/3.body/0"} <= paths
    (add,) = [row for row in rows if row.op_name == "ttnn.add"]
    assert len(add.uses) == 2
    assert json.loads(add.model_dump_json())["level"] == "ttnn"


NORMED = """func.func @main(%x: tensor<1x8x8x32xf32>, %w: tensor<3x3x32x32xf32>, %s: tensor<32xf32>)
    -> tensor<1x8x8x32xf32> {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x8x8x32xf32>, tensor<3x3x32x32xf32>) -> tensor<1x8x8x32xf32>
  %1 = stablehlo.broadcast_in_dim %s, dims = [3] : (tensor<32xf32>) -> tensor<1x8x8x32xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<1x8x8x32xf32>
  return %2 : tensor<1x8x8x32xf32>
}"""


def test_the_program_is_the_one_that_knows_what_stays(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("known", "unknown")]
    files = {}
    for folder, roles in zip(folders, (("input", "parameter", "parameter"), ()), strict=True):
        folder.mkdir()
        options = ResultOptions(unsupported_types="fallback", optimization_level=2, amp_level=1)
        inputs = (normal(1, 8, 8, 32), normal(3, 3, 32, 32), normal(32))
        files[folder.name] = {
            row.op_name: row for row in rows_of(folder, NORMED, *inputs, options=options, roles=roles)
        }
    known, unknown = files["known"], files["unknown"]
    assert "ttnn.multiply" in unknown
    conv = known["ttnn.conv2d"]
    assert conv.uses[0].path.startswith("main/2#"), "the factors went into the weights"
    assert "ttcore.load_cached" not in known
    assert all(row.sources for row in known.values()), "what is computed once has inputs too"
    # Operands lie as they do in the program: weights of the product in block floats, activations in L1.
    assert [desc.layout.rpartition(",")[2] for desc in conv.inputs] == ["Bfp8_b", "Bfp8_b"]
    context = RunContext("run", str(tmp_path / "run"), options=options)
    test = climb(conv, Reference(), context=context, export_dir=folders[0])
    assert test.status is Status.SUCCESS, test
    assert test.inputs == conv.inputs


def test_a_refusal_of_the_compiler_names_its_stage(tmp_path: Path) -> None:
    infeed = """func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
      %t = stablehlo.create_token : !stablehlo.token
      %0:2 = "stablehlo.infeed"(%t) {infeed_config = ""} : (!stablehlo.token) -> (tensor<3xf32>, !stablehlo.token)
      return %0#0 : tensor<3xf32>
    }"""
    with pytest.raises(StageError, match="infeed"):
        rows_of(tmp_path, infeed, normal(3))


def test_backends_that_keep_their_program_are_refused() -> None:
    with pytest.raises(InputError, match=r"--workflow compile-split: expected one backend that hands over its program"):
        check("compile-split", "xla")
    with pytest.raises(InputError, match="got reference, xla"):
        check("compile-split", "reference,xla")
    check("compile-split", "reference")
