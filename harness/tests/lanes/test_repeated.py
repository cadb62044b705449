"""Ops that run twice in their lane: what differs in bits is said, and nothing else changes."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from opscope.harness.backends.base import Backend, Job, StageError, Target
from opscope.harness.backends.xla import Xla
from opscope.harness.lanes import canary
from opscope.harness.lanes.ladder import climb
from opscope.harness.lanes.repeated import VARIES
from opscope.harness.record.optest import RunContext
from opscope.harness.record.records import OpRow, OpTest, Source, TensorDesc, Use
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import VARYING, Stage, Status

TERMS, WIDTH = 12, 4096


class Threads(Backend):
    """Adds up rows on a thread each, in the order in which the threads come."""

    name = "threads"
    stages = (Stage.COMPILE, Stage.RUN)
    repeats = True

    def __init__(self, in_order: bool = False, breaks_at: int = 0) -> None:
        self.in_order, self.breaks_at, self.runs = in_order, breaks_at, 0

    def target(self, options: ResultOptions) -> Target:
        return Target("host", None, "exact")

    def available(self) -> str | None:
        return None

    def climb(self, stage: Stage, job: Job) -> None:
        if stage is Stage.COMPILE:
            job.state["program"] = "sum"
            return
        assert job.state.pop("program") == "sum", "used up, as by a virtual machine"
        if len(job.inputs) == 2:
            left, right = job.inputs
            job.outputs, job.ran_on = [left @ right], "host"
            return
        self.runs += 1
        if self.runs == self.breaks_at:
            raise StageError("the device is lost")
        (rows,) = job.inputs
        total, lock = np.zeros(WIDTH, np.float32), threading.Lock()

        def add(row: np.ndarray, wait: float) -> None:
            time.sleep(0 if self.in_order else wait)
            with lock:
                np.add(total, row, out=total)

        waits = np.random.default_rng().permutation(TERMS) * 0.004  # a scheduler's whims
        threads = [threading.Thread(target=add, args=pair) for pair in zip(rows, waits, strict=True)]
        for thread in threads:
            thread.start()
            if self.in_order:
                thread.join()
        for thread in threads:
            thread.join()
        rows[:] = 0  # the next run gets its own
        job.outputs, job.ran_on = [total], "host"


@pytest.fixture
def row(tmp_path: Path) -> OpRow:
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "sum.mlir").write_text(
        f"""func.func @main(%x: tensor<{TERMS}x{WIDTH}xf32>) -> tensor<{WIDTH}xf32> {{
          %zero = stablehlo.constant dense<0.0> : tensor<f32>
          %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
            : (tensor<{TERMS}x{WIDTH}xf32>, tensor<f32>) -> tensor<{WIDTH}xf32>
          return %0 : tensor<{WIDTH}xf32>
        }}"""
    )
    rows = np.random.default_rng(0).normal(size=(TERMS, WIDTH)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    np.save(tmp_path / "sum.npy", rows.astype(np.float64).sum(axis=0).astype(np.float32))
    return OpRow(
        op_id="sum",
        op_name="stablehlo.reduce",
        module="ops/sum.mlir",
        inputs=(TensorDesc(shape=(TERMS, WIDTH), data_type="f32"),),
        outputs=(TensorDesc(shape=(WIDTH,), data_type="f32"),),
        sources=(Source(kind="captured", path="rows.npy"),),
        golden=("sum.npy",),
        op_params={"body": "stablehlo.add"},
        uses=(Use(model="net", path="main/0"),),
        provenance="captured:net:0:main/0",
    )


def run(row: OpRow, backend: Threads, folder: Path, **options: int) -> OpTest:
    context = RunContext("run", str(folder / "run"), options=ResultOptions(**options))
    return climb(row, backend, context=context, export_dir=folder)


def test_a_sum_in_the_order_of_threads_is_right_and_does_not_repeat(row: OpRow, tmp_path: Path) -> None:
    backend = Threads()
    test = run(row, backend, tmp_path)
    assert (test.status, test.stability, backend.runs) == (Status.SUCCESS, VARYING, 2)
    first, second = test.outcomes
    assert first == "success"
    assert re.fullmatch("success: other bits in result 0 [0-9a-f]{32}", second)
    assert not second.endswith(test.results[0].digest)
    assert test.canary.startswith("code: a known-good op is right 10 times on ")
    assert test.results[0].passed
    assert VARIES in test.results[0].flags
    assert not test.flaky
    assert not test.fails_run


def test_a_sum_in_one_order_repeats_and_its_record_is_as_before(row: OpRow, tmp_path: Path) -> None:
    backend = Threads(in_order=True)
    test = run(row, backend, tmp_path)
    assert (test.status, test.stability, test.outcomes, backend.runs) == (Status.SUCCESS, "", (), 2)
    assert VARIES not in test.results[0].flags
    once = run(row, Threads(in_order=True), tmp_path, repeat=1)
    assert once.results == test.results


@pytest.mark.parametrize(("repeat", "runs"), [(1, 1), (3, 3)])
def test_it_runs_as_often_as_it_is_asked_to(row: OpRow, tmp_path: Path, repeat: int, runs: int) -> None:
    backend = Threads(in_order=True)
    assert run(row, backend, tmp_path, repeat=repeat).status is Status.SUCCESS
    assert backend.runs == runs


def test_a_run_that_breaks_leaves_the_op_right_and_is_said(row: OpRow, tmp_path: Path) -> None:
    test = run(row, Threads(in_order=True, breaks_at=2), tmp_path)
    assert (test.status, test.stability) == (Status.SUCCESS, VARYING)
    assert test.outcomes == ("success", "run_failed: StageError: the device is lost")


class Card(Backend):
    """A device whose products lose a bit now and then."""

    name = "card"
    stages = (Stage.COMPILE, Stage.RUN)
    repeats = True

    def __init__(self, place: str, bad: tuple[int, ...] = (), breaks: tuple[int, ...] = ()) -> None:
        self.place, self.bad, self.breaks, self.runs = place, bad, breaks, 0

    def target(self, options: ResultOptions) -> Target:
        return Target("host", None, "exact")

    def available(self) -> str | None:
        return None

    def climb(self, stage: Stage, job: Job) -> None:
        if stage is Stage.COMPILE:
            assert b"dot_general" in job.module
            return
        self.runs += 1
        if self.runs in self.breaks:
            raise StageError("the device is lost")
        left, right = job.inputs
        product = left @ right
        product[0, 0] += self.runs in self.bad
        job.outputs, job.ran_on = [product], self.place


@pytest.mark.parametrize(
    ("backend", "said"),
    [
        (Card("silicon"), "code: a known-good op is right 10 times on "),
        (Card("silicon", bad=(3, 7)), "card: 2 of 10 runs of a known-good op are wrong on "),
        pytest.param(  # quick: the row above, and the last one for what breaks
            Card("silicon", breaks=(10,)),
            "card: 1 of 10 runs of a known-good op are wrong on ",
            marks=pytest.mark.slow,
        ),
        (Card("host", bad=(3,)), "code: 1 of 10 runs of a known-good op are wrong on "),
        (Card("silicon", bad=tuple(range(11))), "code: a known-good op gives the same bits 10 times on "),
        (Card("silicon", breaks=tuple(range(11))), ""),
    ],
)
def test_a_known_good_op_tells_card_from_code(backend: Card, said: str) -> None:
    blamed = canary.blames(backend, ResultOptions())
    assert blamed.startswith(said) if said else blamed == ""


def test_a_host_that_cannot_multiply_is_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    product = canary._signs()
    product[5, 5] *= -1
    monkeypatch.setattr(canary, "_signs", lambda: product)
    assert canary.blames(Card("silicon"), ResultOptions()).startswith("node: 10 of 10 products by NumPy are wrong on ")


def test_xla_is_right_about_it_and_who_refuses_it_says_nothing() -> None:
    assert canary.blames(Xla(), ResultOptions()).startswith("code: a known-good op is right 10 times")
    refusing = Card("silicon")
    refusing.stages = (Stage.LEGALIZE, Stage.RUN)
    refusing.climb = lambda stage, job: pytest.fail("ran") if stage is Stage.RUN else [][0]
    assert canary.blames(refusing, ResultOptions()) == ""


@pytest.mark.parametrize("attempt", [1, 2])
def test_a_failure_that_runs_again_asks_the_canary(row: OpRow, tmp_path: Path, attempt: int) -> None:
    context = RunContext("run", str(tmp_path / "run"), options=ResultOptions())
    test = climb(row, Threads(breaks_at=1), context=context, export_dir=tmp_path, attempt=attempt)
    assert test.status is Status.RUN_FAILED
    assert test.canary.partition(":")[0] == ("code" if attempt > 1 else "")
