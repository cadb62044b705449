"""The ladder with a backend that fails on demand: the first stage that fails is the verdict."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from opscope.base.damage import Damaged
from opscope.harness.backends import registry
from opscope.harness.backends.base import BackendError
from opscope.harness.lanes.ladder import climb
from opscope.harness.record.optest import RunContext
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage, Status
from opscope.harness.tests.ops import FAULTY, add_row

C, R, X = Stage.COMPILE, Stage.RUN, Stage.COMPARE


def take(folder, module=b"fine", *, until=None, golden=True, row=None, keep_ir=False):
    context = RunContext("r1", str(folder / "run"), FAULTY, ResultOptions(until=until), keep_ir)
    row = row or add_row(folder, "op1", module, golden=golden)
    return climb(row, registry.load(FAULTY), context=context, export_dir=folder)


@pytest.mark.parametrize(
    ("module", "status", "reached", "failed", "climbed"),
    [
        (b"fine", Status.SUCCESS, X, None, [C, R, X]),
        (b"compile:refuse", Status.COMPILE_FAILED, Stage.SPLIT, C, [C]),
        (b"run:refuse", Status.RUN_FAILED, C, R, [C, R]),
        (b"run:wrong", Status.WRONG_RESULT, R, X, [C, R, X]),
        (b"run:bug", Status.RUN_FAILED, C, R, [C, R]),
    ],
)
def test_the_first_stage_that_fails_is_the_verdict(tmp_path, module, status, reached, failed, climbed):
    test = take(tmp_path, module)
    assert (test.status, test.stage_reached, test.failed_stage) == (status, reached, failed)
    assert [time.stage for time in test.stages] == climbed
    assert all(time.seconds >= 0 for time in test.stages)
    assert test.success is (status is Status.SUCCESS)
    assert (test.error_message is None) is test.success
    assert test.test_start_ts <= test.test_end_ts


def test_a_wrong_result_is_explained_beside_its_reason(tmp_path):
    test = take(tmp_path, b"run:wrong")
    assert test.artifact == "artifacts/op1/compare-faulty/compare.txt"
    folder = (tmp_path / "run" / test.artifact).parent
    assert {path.name for path in folder.iterdir()} == {"compare.json", "compare.svg", "compare.txt", "result-0.npy"}
    assert f"result 0: {test.results[0].reason}" in (folder / "compare.txt").read_text()
    assert not (folder.parent / "compare-faulty.txt").exists()


def test_the_real_diagnostic_is_kept_whole_and_fingerprinted(tmp_path):
    test = take(tmp_path, b"compile:refuse")
    assert test.error_message.startswith("no kernel for op1 of tensor<4x")
    text = (tmp_path / "run" / test.artifact).read_text()
    assert "line 1\nline 2" in text
    assert test.artifact == "artifacts/op1/compile-faulty.mlir"
    assert (tmp_path / "run/artifacts/op1/compile-faulty.map.svg").read_text() == "<svg/>"
    assert test.error_signature == take(tmp_path, b"compile:refuse").error_signature
    bug = take(tmp_path, b"run:bug")
    assert bug.error_message == "KeyError: 'a bug in the backend'"
    assert "faulty.py" in (tmp_path / "run" / bug.artifact).read_text()
    assert bug.error_signature != test.error_signature


def test_a_success_carries_numbers_and_what_the_compiler_chose(tmp_path):
    test = take(tmp_path)
    assert test.pcc == pytest.approx(1)
    assert [check.tolerance for check in test.results] == ["exact"]
    assert test.outputs[0].buffer_type == "l1"
    assert (test.ran_on, test.card_type, test.math_fidelity) == ("host", "host", "exact")
    assert (test.model_name, test.uses, test.op_kind) == ("toy", 1, "eltwise")


def test_until_stops_and_is_passed(tmp_path):
    test = take(tmp_path, until="compile")
    assert (test.status, test.stage_reached, test.success) == (Status.PASSED, C, True)
    assert [time.stage for time in test.stages] == [C]
    assert take(tmp_path, until="split").stages == ()
    assert take(tmp_path, b"compile:refuse", until="run").status is Status.COMPILE_FAILED
    assert "--until compile" in test.repro


def test_an_op_without_golden_that_ran_is_no_golden(tmp_path):
    test = take(tmp_path, golden=False)
    assert (test.status, test.stage_reached, test.success) == (Status.NO_GOLDEN, R, False)
    assert test.error_message == "XLA could not run it"
    assert take(tmp_path, b"run:refuse", golden=False).status is Status.RUN_FAILED


def test_an_unsplittable_op_fails_at_split(tmp_path):
    row = add_row(tmp_path, "op1").model_copy(update={"module": None, "unsplittable": "a token"})
    test = take(tmp_path, row=row)
    assert (test.status, test.failed_stage, test.error_message) == (Status.COMPILE_FAILED, Stage.SPLIT, "a token")


def test_a_backend_that_writes_to_its_inputs_harms_nobody(tmp_path):
    assert take(tmp_path, b"run:scribble").status is Status.WRONG_RESULT
    assert take(tmp_path).status is Status.SUCCESS


def test_lost_files_are_damage_and_no_verdict(tmp_path):
    row = add_row(tmp_path, "op1")
    (tmp_path / "values" / "left.npy").unlink()
    with pytest.raises(Damaged, match=r"left\.npy: expected what was stored, got no such file"):
        take(tmp_path, row=row)


def test_a_golden_of_another_type_fails(tmp_path):
    row = add_row(tmp_path, "op1")
    np.save(tmp_path / "values" / "sum.npy", np.zeros((4, 8), np.float64))
    test = take(tmp_path, row=row)
    assert (test.status, test.failed_stage) == (Status.WRONG_RESULT, X)


def test_the_repro_line_names_what_is_not_default(tmp_path):
    row = add_row(tmp_path, "op1")
    context = RunContext("r1", "/a run", "xla", ResultOptions(arch="p150", data_format="Bfp8_b", math_fidelity="LoFi"))
    from opscope.harness.record.optest import repro_line

    assert repro_line(row.op_id, context) == (
        "pytest --op-by-op --op op1 --run-dir r1 --backend xla --arch p150 --data-format Bfp8_b --math-fidelity LoFi"
    )
    plain = dataclasses.replace(context, backend="reference", options=ResultOptions())
    assert repro_line(row.op_id, plain) == "pytest --op-by-op --op op1 --run-dir r1"


def test_results_that_nobody_computed_are_a_fault_of_the_backend(tmp_path, monkeypatch):
    """They would not be compared, and the op would have passed in silence."""
    backend = registry.load(FAULTY)
    usual = backend.climb

    def forgetful(stage, job):
        usual(stage, job)
        job.ran_on = "none"

    monkeypatch.setattr(backend, "climb", forgetful)
    context = RunContext("r1", str(tmp_path / "run"), FAULTY)
    with pytest.raises(BackendError, match=r"results and job\.ran_on 'none'") as refused:
        climb(add_row(tmp_path, "op1"), backend, context=context, export_dir=tmp_path)
    assert refused.value.hint.startswith("job.ran_on = 'host'")


def test_what_only_the_author_of_goldens_can_read_is_skipped(tmp_path):
    """A newer jax may write an op otherwise: that is no fault of the compiler that is tested."""
    backend, row = registry.load(FAULTY), add_row(tmp_path, "op1", b"fine")  # which is no StableHLO
    context = RunContext("r1", str(tmp_path / "run"), FAULTY, ResultOptions(goldens_by="jaxlib@0.10.2"))
    test = climb(row, backend, context=context, export_dir=tmp_path)
    assert test.status is Status.SKIPPED
    assert "its StableHLO, by jaxlib@0.10.2, cannot be read here: " in test.error_message
