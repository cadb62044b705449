"""A failed op leaves its IR where compiling it again is cheap, and a kept verdict brings it along."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from opscope.harness.backends import registry
from opscope.harness.backends.base import Job
from opscope.harness.climb.result_cache import ResultCache
from opscope.harness.lanes import failed_ir
from opscope.harness.lanes.flight import Ready
from opscope.harness.lanes.ladder import climb
from opscope.harness.lanes.lane import Lane, LaneConfig
from opscope.harness.record.optest import RunContext
from opscope.harness.record.records import OpTest
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage, Status
from opscope.harness.tests.ops import FAULTY, NOTHING_READ, add_row
from opscope.harness.tests.own_backend import own_backend

DIES_OF_IR = own_backend(
    "dies",
    """
    if job.ir_dir is not None:
        os.kill(os.getpid(), signal.SIGKILL)
    raise StageError("no kernel", "", ".txt")
    """,
    top="import os, signal",
).replace("class Own(Backend):\n", "class Own(Backend):\n    cheap_ir = True\n")
READY = Ready("none", "faulty-1", (Stage.COMPILE, Stage.RUN), "", "exact", "1", lasting=True, read=NOTHING_READ)


def take(folder: Path, module: bytes, cheap: bool = True) -> tuple[OpTest, list[Stage]]:
    """An op's record, and the stages that its backend was asked for."""
    backend, asked = registry.load(FAULTY), []
    backend.cheap_ir = cheap
    real = backend.climb

    def with_ir(stage: Stage, job: Job) -> None:
        asked.append(stage)
        if job.ir_dir is not None:
            (job.ir_dir / "0-stablehlo.mlir").write_text("module\n")
        real(stage, job)

    backend.climb = with_ir
    context = RunContext("first", str(folder / "run"), FAULTY, ResultOptions())
    return climb(add_row(folder, "op1", module), backend, context=context, export_dir=folder), asked


@pytest.mark.parametrize("word", [b"compile:refuse", b"run:refuse", b"run:wrong"])
def test_a_failed_op_is_compiled_again_and_not_run(tmp_path: Path, word: bytes) -> None:
    test, asked = take(tmp_path, word)
    assert (tmp_path / "run/artifacts/op1/ir-faulty/0-stablehlo.mlir").read_text() == "module\n"
    assert asked.count(Stage.COMPILE) == 2
    assert asked.count(Stage.RUN) <= 1
    plain, _ = take(tmp_path / "plain", word, cheap=False)
    assert [time.stage for time in test.stages] == [time.stage for time in plain.stages]
    assert (test.status, test.error_message, test.artifact) == (plain.status, plain.error_message, plain.artifact)
    assert not (tmp_path / "plain/run/artifacts/op1/ir-faulty").exists()


def test_an_op_that_passes_or_takes_long_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert take(tmp_path / "a", b"fine")[1] == [Stage.COMPILE, Stage.RUN]
    monkeypatch.setattr(failed_ir, "MOST_SECONDS", -1.0)
    assert take(tmp_path / "b", b"compile:refuse")[1] == [Stage.COMPILE]


def test_the_verdict_stands_where_the_child_dies_of_it(tmp_path: Path) -> None:
    backend = tmp_path / "dies.py"
    backend.write_text(DIES_OF_IR)
    context = RunContext("first", str(tmp_path / "run"), str(backend))
    with Lane(LaneConfig(context, {"toy": str(tmp_path)}, op_timeout=20)) as lane:
        test = lane.run(add_row(tmp_path, "op1", b"any"))
    assert (test.status, test.error_message) == (Status.COMPILE_FAILED, "no kernel")


def test_a_kept_verdict_brings_it_along(tmp_path: Path) -> None:
    test, _ = take(tmp_path, b"compile:refuse")
    context = RunContext("first", str(tmp_path / "run"), FAULTY, ResultOptions())
    row = add_row(tmp_path, "op1", b"compile:refuse")
    ResultCache(tmp_path, context, READY).keep(row, test, READY)
    again = replace(context, run_id="second", run_dir=str(tmp_path / "again"))
    kept = ResultCache(tmp_path, again, READY).find(row)
    assert kept is not None
    assert kept.cached_from == "first"
    assert (tmp_path / "again/artifacts/op1/ir-faulty/0-stablehlo.mlir").read_text() == "module\n"
