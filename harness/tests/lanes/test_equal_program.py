"""A release that makes an equal program of an op takes the verdict of the one before: it does not run it."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opscope.base import stored
from opscope.harness.backends import registry
from opscope.harness.backends.base import Backend, Job, Target
from opscope.harness.lanes.ladder import climb
from opscope.harness.record.optest import RunContext
from opscope.harness.record.records import TAKEN, WHOLE_MODEL, OpRow, OpTest
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.spared_work import savings
from opscope.harness.record.stages import Stage, Status
from opscope.harness.record.structure import CALLS
from opscope.harness.tests.ops import add_row


class Release(Backend):
    """A compiler whose programs something else runs, which counts them."""

    stages = (Stage.COMPILE, Stage.RUN)

    def __init__(self, version: str, runtime: str = "device 1", wrong: float = 0.0) -> None:
        self.name, self._runtime, self._wrong, self.ran = f"toy@{version}", runtime, wrong, 0

    def target(self, options: ResultOptions) -> Target:
        return Target("host", None, "exact")

    def fingerprint(self, options: ResultOptions) -> str:
        return self.name

    def available(self) -> None:
        return None

    def program(self, job: Job) -> str:
        return self._runtime and f"{self._runtime} {job.module.decode()}"

    def climb(self, stage: Stage, job: Job) -> None:
        job.compiled_by = self.name
        if stage is Stage.RUN:
            self.ran += 1
            job.outputs, job.ran_on, job.cycles = [np.add(*job.inputs) + self._wrong], "simulator", 7


def taken(folder: Path, backend: Release, row: OpRow | None = None, **changes: Any) -> OpTest:
    """The record of an addition by a release, with the verdicts that earlier releases have left in the folder."""
    exported = folder / "toy"
    row = row or add_row(exported, "op1")
    stored.seal(exported, "toy")
    context = RunContext(f"run of {backend.name}", str(folder / "run"), backend.name, verdicts=str(folder / "results"))
    return climb(row, backend, context=dataclasses.replace(context, **changes), export_dir=exported)


def test_an_equal_program_takes_the_verdict_and_says_whose(tmp_path: Path) -> None:
    first = taken(tmp_path, Release("1"))
    assert (first.status, first.cached_from) == (Status.SUCCESS, "")
    second_release = Release("2")
    second = taken(tmp_path, second_release)
    assert second_release.ran == 0
    assert (second.status, second.stage_reached, second.ran_on) == (Status.SUCCESS, Stage.COMPARE, "simulator")
    assert second.cached_from == f"toy@1{TAKEN}run of toy@1"
    assert (second.backend, second.compiled_by, second.cycles) == ("toy@2", "toy@2", 7)
    assert [each.stage for each in second.stages] == [Stage.COMPILE]
    assert second.results == first.results
    third = taken(tmp_path, Release("3"))
    assert third.cached_from == second.cached_from, "the release that ran it"
    assert savings([], [first, second, third]).lines == [
        "programs: 2 verdicts are those of another release with an equal program (--no-cache runs every op)"
    ]


@pytest.mark.parametrize(
    ("changes", "backend"),
    [
        ({}, Release("2", "device 2")),
        ({}, Release("2", "")),
        ({"verdicts": ""}, Release("2")),
        ({"options": ResultOptions(until=Stage.RUN)}, Release("2")),
        ({"options": ResultOptions(math_fidelity="LoFi")}, Release("2")),
    ],
    ids=["another device", "runs its own", "without kept verdicts", "until run", "another option"],
)
def test_it_runs_where_something_else_could_decide(tmp_path: Path, changes: dict[str, Any], backend: Release) -> None:
    taken(tmp_path, Release("1"))
    backend.ran = 0
    assert taken(tmp_path, backend, **changes).cached_from == ""
    assert backend.ran == 1


def test_it_runs_on_other_values_and_other_programs(tmp_path: Path) -> None:
    taken(tmp_path, Release("1"))
    other = add_row(tmp_path / "toy", "op1")
    np.save(tmp_path / "toy" / "values" / "sum.npy", np.load(tmp_path / "toy" / "values" / "sum.npy") + 1)
    release = Release("2")
    judged = taken(tmp_path, release, other)
    assert (judged.cached_from, release.ran) == ("", 1)
    assert judged.second_authority, "another golden: whom the sum contradicts is asked"
    another = add_row(tmp_path / "toy", "op1", b"another program")
    release = Release("2")
    assert taken(tmp_path, release, another).cached_from == ""
    assert release.ran == 1


def test_a_failure_is_no_verdict_to_take(tmp_path: Path) -> None:
    assert taken(tmp_path, Release("1", wrong=1.0)).status is Status.WRONG_RESULT
    release = Release("2", wrong=1.0)
    assert taken(tmp_path, release).status is Status.WRONG_RESULT
    assert release.ran == 1


MODEL = b"""func.func @main(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = stablehlo.add %a, %b : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}"""


class Priced(Release):
    """One whose runtime leaves the cycles of kernels beside the IR, and takes any text for a program."""

    def program(self, job: Job) -> str:
        return "one program"

    def climb(self, stage: Stage, job: Job) -> None:
        super().climb(stage, job)
        if stage is Stage.RUN and job.ir_dir is not None:
            (job.ir_dir / CALLS).write_text('[["my.add", 7]]')


@pytest.mark.parametrize("whole", [True, False], ids=["model", "op"])
def test_a_verdict_is_taken_with_the_price_of_its_kernels(tmp_path: Path, whole: bool) -> None:
    row = add_row(tmp_path / "toy", "op1", MODEL)
    row = row.model_copy(update={"op_name": WHOLE_MODEL}) if whole else row
    assert taken(tmp_path, Priced("0"), row).cached_from == ""
    # A whole model has its price from the start; of an op, the first that asks for it has to run.
    for keep_ir, ran in ((False, 0), (True, int(not whole)), (True, 0)):
        release = Priced("1")
        test = taken(tmp_path, release, row, keep_ir=keep_ir)
        assert (test.status, test.cycles, release.ran) == (Status.SUCCESS, 7, ran)
        assert bool(test.cached_from) is not bool(ran)
        left = [*(tmp_path / "run").rglob(CALLS)]
        assert [each.read_text() for each in left] == ['[["my.add", 7]]'] * keep_ir
        shutil.rmtree(tmp_path / "run", ignore_errors=True)


def test_whose_programs_are_known(tmp_path: Path) -> None:
    assert not registry.is_users("tt@0.1.3")
    assert not registry.is_users("reference")
    assert registry.is_users(str(tmp_path / "mine.py"))
