"""IREE as a backend: its phases as stages, its own words, and what it does to its inputs."""

from __future__ import annotations

import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from opscope.harness.backends import registry
from opscope.harness.backends.base import Job, StageError
from opscope.harness.lanes.ladder import climb
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import RunContext
from opscope.harness.record.records import OpRow, Source, TensorDesc, Use
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage, Status
from opscope.harness.tests.ops import climbed

pytest.importorskip("iree.compiler", reason="pip install 'opscope[iree]'")
pytest.importorskip("iree.runtime", reason="pip install 'opscope[iree]'")

SCATTER = """func.func @main(%a: tensor<4x8xf32>, %i: tensor<1x1xi32>, %u: tensor<1x8xf32>) -> tensor<4x8xf32> {
  %0 = "stablehlo.scatter"(%a, %i, %u) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>,
      indices_are_sorted = false, unique_indices = false}
    : (tensor<4x8xf32>, tensor<1x1xi32>, tensor<1x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}"""


@pytest.fixture(scope="module")
def iree():
    return registry.load("iree")


def job_of(module, inputs, *results, **options):
    descs = tuple(TensorDesc(shape=shape, data_type=kind) for shape, kind in results)
    return Job("op", module.encode(), list(inputs), ResultOptions(), descs, **options)


def unary(name, kind, shape):
    text = f"tensor<{'x'.join(map(str, (*shape, kind)))}>"
    return f"func.func @main(%a: {text}) -> {text} {{ %0 = stablehlo.{name} %a : {text} return %0 : {text} }}"


def test_irees_stages_are_its_phases(iree, tmp_path):
    assert [str(stage) for stage in iree.stages] == ["input", "flow", "stream", "executable", "vm", "run"]
    assert iree.available() is None
    left, right = np.random.default_rng(0).standard_normal((2, 32, 32), dtype=np.float32)
    text = "tensor<32x32xf32>"
    module = f"""func.func @main(%a: {text}, %b: {text}) -> {text} {{
      %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : ({text}, {text}) -> {text}
      return %0 : {text} }}"""
    job = climbed(iree, job_of(module, [left, right], ((32, 32), "f32"), ir_dir=tmp_path))
    np.testing.assert_allclose(job.outputs[0], left.astype(np.float64) @ right, rtol=1e-4, atol=1e-5)
    assert job.ran_on == "host"
    assert "linalg" in (tmp_path / "input.mlir").read_text()
    assert "flow.dispatch" in (tmp_path / "flow.mlir").read_text()
    assert "stream." in (tmp_path / "stream.mlir").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "dtype", "name"),
    [
        ("bf16", ml_dtypes.bfloat16, "negate"),
        ("i1", np.bool_, "not"),
        ("ui8", np.uint8, "not"),
        ("i64", np.int64, "negate"),
        ("f64", np.float64, "abs"),
    ],
)
def test_values_of_every_type_come_back_as_they_are_declared(iree, kind, dtype, name):
    array = np.arange(6).reshape(2, 3).astype(dtype)
    job = climbed(iree, job_of(unary(name, kind, (2, 3)), [array], ((2, 3), kind)))
    numpy = {"negate": np.negative, "not": np.logical_not if kind == "i1" else np.invert, "abs": np.abs}[name]
    assert job.outputs[0].dtype == np.dtype(dtype)
    np.testing.assert_array_equal(job.outputs[0], numpy(array))


@pytest.mark.slow
def test_scalars_and_empty_tensors_have_buffers_too(iree):
    job = climbed(iree, job_of(unary("negate", "f32", ()), [np.array(2, np.float32)], ((), "f32")))
    assert job.outputs[0].shape == ()
    assert job.outputs[0] == -2


def test_a_refusal_has_irees_message_and_the_next_op_runs(iree):
    custom = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.custom_call @nobody(%a) : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32> }"""
    with pytest.raises(StageError, match=r"stablehlo\.custom_call") as refusal:
        climbed(iree, job_of(custom, [np.ones(4, np.float32)], ((4,), "f32")))
    assert "nobody" in refusal.value.diagnostic
    with pytest.raises(StageError, match="unknown"):
        iree.climb(Stage.INPUT, job_of(unary("no_such_op", "f32", (4,)), []))
    fine = climbed(iree, job_of(unary("negate", "f32", (4,)), [np.ones(4, np.float32)], ((4,), "f32")))
    np.testing.assert_array_equal(fine.outputs[0], -np.ones(4))


@pytest.mark.slow  # quick: test_lane.py::test_overwritten_inputs_are_recorded_and_harm_no_later_op, of another backend
def test_an_op_that_writes_into_its_input_is_flagged_and_still_judged(iree, tmp_path):
    (tmp_path / "op.mlir").write_text(SCATTER)
    values = [np.ones((4, 8), np.float32), np.array([[2]], np.int32), np.full((1, 8), 5, np.float32)]
    golden = values[0].copy()
    golden[2] += 5
    for name, value in zip(("a", "i", "u", "golden"), (*values, golden), strict=True):
        np.save(tmp_path / f"{name}.npy", value)
    kinds = (((4, 8), "f32"), ((1, 1), "i32"), ((1, 8), "f32"))
    row = OpRow(
        op_id="s",
        op_name="stablehlo.scatter",
        module="op.mlir",
        inputs=tuple(TensorDesc(shape=shape, data_type=kind) for shape, kind in kinds),
        outputs=(TensorDesc(shape=(4, 8), data_type="f32"),),
        sources=tuple(Source(kind="captured", path=f"{name}.npy") for name in "aiu"),
        golden=("golden.npy",),
        uses=(Use(model="toy", path="main/0"),),
    )
    context = RunContext("r", str(tmp_path / "run"), "iree")
    for _ in range(2):  # what the first run wrote must not be the second one's input
        test = climb(row, iree, context=context, export_dir=tmp_path)
        assert (test.status, test.overwritten_inputs) == (Status.SUCCESS, (0,))
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), values[0])


def test_iree_has_no_device_formats(iree):
    with pytest.raises(InputError, match="--data-format: expected none with --backend iree"):
        iree.target(ResultOptions(data_format="Bfp8_b"))


SIGNALS = """
import re
from opscope.harness.backends.base import climb_smallest
from opscope.harness.backends.iree import Iree

def signals():
    return re.findall(r"Sig(?:Ign|Cgt):.*", open("/proc/self/status").read())

iree = Iree()
iree.warm_up()
before = signals()
climb_smallest(iree)
assert signals() == before, (before, signals())
"""


@pytest.mark.slow
def test_an_op_takes_no_signals_that_the_warm_up_has_not():
    """What an op leaves changed costs its lane: the next op would have a process of its own."""
    subprocess.run([sys.executable, "-c", SIGNALS], check=True, timeout=120)
