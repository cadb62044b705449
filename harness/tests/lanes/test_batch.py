"""Rows of a batch that run alone: other bits are said, and an op without a batch is left alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from opscope.harness.backends.base import Backend, Job, StageError, Target
from opscope.harness.backends.xla import Xla
from opscope.harness.lanes.batch import BY_BATCH
from opscope.harness.lanes.ladder import climb
from opscope.harness.prepare import mlir
from opscope.harness.record.optest import RunContext
from opscope.harness.record.records import OpRow, OpTest, Source, TensorDesc, Use
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import BATCH_DEPENDENT, Stage, Status

ROWS, TERMS, COLUMNS = 12, 64, 24


class Products(Backend):
    """A product whose sums run backwards for one row."""

    name = "products"
    stages = (Stage.COMPILE, Stage.RUN)

    def __init__(self, alike: bool = False, refuses: bool = False) -> None:
        self.alike, self.refuses, self.compiled, self.runs = alike, refuses, 0, 0

    def target(self, options: ResultOptions) -> Target:
        return Target("host", None, "exact")

    def available(self) -> str | None:
        return None

    def climb(self, stage: Stage, job: Job) -> None:
        if stage is Stage.COMPILE:
            mlir.load(job.module)
            self.compiled += 1
            return
        self.runs += 1
        left, right = job.inputs
        if self.refuses and len(left) == 1:
            raise StageError("no kernel for one row")
        total = np.zeros((len(left), right.shape[1]), np.float32)
        order = range(left.shape[1])
        for k in order if len(left) > 1 or self.alike else reversed(order):
            total += left[:, k : k + 1] * right[k : k + 1]
        job.outputs, job.ran_on = [total], "host"


@pytest.fixture
def row(tmp_path: Path) -> OpRow:
    kinds = [f"tensor<{m}x{n}xf32>" for m, n in ((ROWS, TERMS), (TERMS, COLUMNS), (ROWS, COLUMNS))]
    (tmp_path / "dot.mlir").write_text(
        f"func.func @main(%x: {kinds[0]}, %y: {kinds[1]}) -> {kinds[2]} {{\n"
        f"  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : ({kinds[0]}, {kinds[1]}) -> {kinds[2]}\n"
        f"  return %0 : {kinds[2]}\n}}\n"
    )
    random = np.random.default_rng(0)
    left, right = (random.normal(size=size).astype(np.float32) for size in ((ROWS, TERMS), (TERMS, COLUMNS)))
    for name, array in (("x", left), ("y", right), ("z", (left.astype(np.float64) @ right).astype(np.float32))):
        np.save(tmp_path / f"{name}.npy", array)
    return OpRow(
        op_id="dot",
        op_name="stablehlo.dot_general",
        module="dot.mlir",
        inputs=(TensorDesc(shape=left.shape, data_type="f32"), TensorDesc(shape=right.shape, data_type="f32")),
        outputs=(TensorDesc(shape=(ROWS, COLUMNS), data_type="f32"),),
        sources=(Source(kind="captured", path="x.npy"), Source(kind="captured", path="y.npy")),
        golden=("z.npy",),
        uses=(Use(model="net", path="main/0"),),
        provenance="captured:net:0:main/0",
    )


def run(row: OpRow, backend: Backend, folder: Path, *, asked: bool = True) -> OpTest:
    options = ResultOptions(batch_invariance=asked, repeat=1)
    return climb(row, backend, context=RunContext("run", str(folder / "run"), options=options), export_dir=folder)


def test_rows_that_have_other_bits_alone_are_said(row: OpRow, tmp_path: Path) -> None:
    backend = Products()
    test = run(row, backend, tmp_path)
    assert (test.status, test.stability) == (Status.SUCCESS, BATCH_DEPENDENT)
    assert (backend.compiled, backend.runs) == (2, 1 + 8)
    first, said = test.outcomes
    assert first == "success"
    assert said.startswith("alone: other bits in result 0, rows 0, ")
    assert test.results[0].passed
    assert BY_BATCH in test.results[0].flags
    assert not test.flaky
    assert not test.fails_run


def test_the_same_bits_leave_the_record_as_it_is(row: OpRow, tmp_path: Path) -> None:
    backend = Products(alike=True)
    test = run(row, backend, tmp_path)
    assert (test.stability, test.outcomes, backend.runs) == ("", (), 9)
    plain = run(row, Products(alike=True), tmp_path, asked=False)
    assert plain.results == test.results


def test_nothing_runs_unless_it_is_asked_for(row: OpRow, tmp_path: Path) -> None:
    backend = Products()
    assert run(row, backend, tmp_path, asked=False).stability == ""
    assert (backend.compiled, backend.runs) == (1, 1)


def test_a_batch_of_one_that_fails_is_said_and_the_op_is_right(row: OpRow, tmp_path: Path) -> None:
    test = run(row, Products(refuses=True), tmp_path)
    assert (test.status, test.stability) == (Status.SUCCESS, BATCH_DEPENDENT)
    assert test.outcomes == ("success", "a row alone: run_failed: StageError: no kernel for one row")


ONE = "tensor<6x8xf32>"
NO_BATCH = {
    "reverse": f"stablehlo.reverse %x, dims = [0] : {ONE}",
    "slice": f"stablehlo.slice %x [0:6, 0:8] : ({ONE}) -> {ONE}",
}


@pytest.mark.parametrize("op", NO_BATCH)
def test_ops_that_mix_rows_have_no_batch(op: str, tmp_path: Path) -> None:
    (tmp_path / "op.mlir").write_text(
        f"func.func @main(%x: {ONE}) -> {ONE} {{\n  %0 = {NO_BATCH[op]}\n  return %0 : {ONE}\n}}\n"
    )
    values = np.arange(48, dtype=np.float32).reshape(6, 8)
    np.save(tmp_path / "x.npy", values)
    np.save(tmp_path / "y.npy", values[::-1].copy() if op == "reverse" else values)
    desc = (TensorDesc(shape=(6, 8), data_type="f32"),)
    row = OpRow(
        op_id=op,
        op_name=f"stablehlo.{op}",
        module="op.mlir",
        inputs=desc,
        outputs=desc,
        sources=(Source(kind="captured", path="x.npy"),),
        golden=("y.npy",),
        uses=(Use(model="net", path="main/0"),),
        provenance="captured:net:0:main/0",
    )
    test = run(row, Xla(), tmp_path)
    assert (test.status, test.stability) == (Status.SUCCESS, "")
