"""A backend that fails its first ops with one text is said to fail, and keeps none of these verdicts."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

from opscope.base import stored
from opscope.harness.climb import keeping
from opscope.harness.record.one_failure import FIRST, failure_of_all, sentence
from opscope.harness.record.records import OpTest
from opscope.harness.record.stages import Stage, Status
from opscope.harness.tests.run_folder import NAMES, START, record_of


def records(folder: Path, count: int, status: Status = Status.COMPILE_FAILED, error: str = "no chip") -> list[OpTest]:
    fields = {"failed_stage": Stage.COMPILE, "error": error} if status is not Status.SUCCESS else {}
    test = record_of(folder, next(iter(NAMES)), status, **fields)
    return [test.model_copy(update={"test_start_ts": START + timedelta(seconds=second)}) for second in range(count)]


def test_twenty_failures_with_one_text_are_the_backends(tmp_path: Path) -> None:
    same = records(tmp_path, FIRST)
    failure = failure_of_all(same)
    assert failure is not None
    assert sentence("mine", failure).endswith("(opscope doctor --backend mine): no chip")
    assert failure_of_all(same[1:]) is None, "too few to tell"
    says_so = records(tmp_path, 1, error="xla@9.1 cannot be loaded: no symbol")
    assert failure_of_all(says_so) is says_so[0]
    assert sentence("xla@9.1", says_so[0]).startswith("No op could be run on xla@9.1")
    late = records(tmp_path, 30, error="another")[-1]
    assert failure_of_all([late, *same]) is not None, "the first of them decide, in the order of time"
    early = late.model_copy(update={"test_start_ts": START - timedelta(seconds=1)})
    assert failure_of_all([*same, early]) is None
    assert failure_of_all([*same, *records(tmp_path, 1, Status.SUCCESS)]) is None, "it works for one op"
    assert failure_of_all([same[0].model_copy(update={"expected": "known"}), *same]) is None
    skipped = record_of(tmp_path, next(iter(NAMES)), Status.SKIPPED, error="deselected")
    assert failure_of_all([*[skipped] * 5, *same]) is not None, "ops that were not tried say nothing"


def test_only_verdicts_of_that_run_and_backend_are_dropped(tmp_path: Path) -> None:
    kept = {}
    for number, (run, backend) in enumerate((("r1", "mine"), ("r1", "null"), ("r0", "mine"))):
        kept[run, backend] = tmp_path / keeping.FOLDER / "ab" / f"ab{number}.json"
        stored.write_json(kept[run, backend], {"results": [{"test": {"run_id": run, "backend": backend}}]})
    report = tmp_path / keeping.FOLDER / "ab" / "report.json"
    stored.write_json(report, {"fingerprint": "mine-1"})
    old = tmp_path / keeping.FOLDER / "ab" / "old.json"
    stored.write_json(old, {"results": [{"test": {"run_id": "r1", "backend": "mine"}}]})
    os.utime(old, (1e9, 1e9))
    assert keeping.drop(tmp_path, "r1", "mine", 1.1e9) == 1
    assert [path.exists() for path in (*kept.values(), report, old)] == [False, True, True, True, True]
