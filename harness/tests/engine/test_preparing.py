"""The preparation of a run on its thread: which ops are known, whatever becomes of their goldens meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from opscope.harness.cache.growing_export import GrowingExport
from opscope.harness.engine import preparing as module
from opscope.harness.engine.model_jobs import Means
from opscope.harness.engine.preparing import Preparing
from opscope.harness.prepare.preparation import Preparation
from opscope.harness.record.manifests import Manifest, merge_all
from opscope.harness.record.records import ManifestHeader, ModelFailure, OpRow, Use
from opscope.harness.record.stages import ModelStatus

ROW = OpRow(op_id="0" * 16, op_name="stablehlo.add", module="ops/0.mlirbc", uses=(Use(model="m", path="main/0"),))
FAILURE = ModelFailure(model="m", framework="", status=ModelStatus.PREPARE_FAILED, error="timeout")
CUT_OFF = FAILURE.model_copy(update={"status": ModelStatus.NOT_RUN, "error": "budget: it was at golden"})


class FakeJobs:
    """One model, whose goldens fail after its split: at once, or when it may."""

    def __init__(self, fails_at_once: bool, may_fail: threading.Event, outcome: ModelFailure = FAILURE) -> None:
        self.fails_at_once, self.may_fail, self.end = fails_at_once, may_fail, outcome
        self.outcomes: dict[str, ModelFailure] = {}

    def __call__(self, _: Any, means: Means, report: Callable[[Any], None], *more: Any) -> FakeJobs:
        assert means.splits is not None
        self.report, self.exports = report, {"m": GrowingExport(means.changed)}
        self.tasks = [SimpleNamespace(name="m", export=None)]
        return self

    def done(self) -> Manifest:
        header = ManifestHeader(models=("m",), export_dirs=("d",), module_ops={"m": 2}, structural={"m": 1})
        self.exports["m"].split(header, [ROW])
        if not self.fails_at_once:
            self.report({"event": "split", "model": "m"})
            self.may_fail.wait(10)
        self.outcomes["m"] = self.end
        self.exports["m"].fails("timeout")
        self.report({"event": "failed", "model": "m"})
        return merge_all([self.end])


@pytest.mark.parametrize("fails_at_once", [True, False])
def test_the_ops_of_a_model_are_those_of_its_split_however_fast_its_goldens_fail(
    fails_at_once: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or jobs of one sweep would divide different ops."""
    may_fail = threading.Event()
    monkeypatch.setattr(module, "ModelJobs", FakeJobs(fails_at_once, may_fail))
    preparing = Preparing(Preparation(("m",)), tmp_path, Means())
    if fails_at_once:
        preparing._thread.join()
    early = preparing.split(lambda event: None)
    assert early is not None
    assert (early[0].models, early[0].unfinished, early[1]) == (("m",), ("m",), [ROW])
    may_fail.set()
    header, rows = preparing.finish(lambda event: None, early)
    assert (header.models, header.failed, header.unfinished) == (("m",), (FAILURE,), ())
    assert [row.no_golden for row in rows] == ["no goldens of m: timeout"]


def test_a_model_that_the_budget_cuts_off_is_unfinished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ops are those of the split, so that it is prepared again by the rest of the run."""
    may_fail = threading.Event()
    monkeypatch.setattr(module, "ModelJobs", FakeJobs(False, may_fail, CUT_OFF))
    preparing = Preparing(Preparation(("m",)), tmp_path, Means())
    early = preparing.split(lambda event: None)
    may_fail.set()
    header, rows = preparing.finish(lambda event: None, early)
    assert (header.models, header.failed, header.unfinished, header.lost) == (("m",), (CUT_OFF,), ("m",), {})
    assert (rows, header.by_outcome()) == ([ROW], {"ran": 0, "not_run": 1})
