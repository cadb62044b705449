"""Where the record of an op comes from, with a lane that is a list: the journal, kept verdicts, a run, or no time."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from opscope.harness.climb import keeping
from opscope.harness.climb.reruns import Reruns
from opscope.harness.climb.result_cache import ResultCache, key
from opscope.harness.engine.climber import Climber, Terms
from opscope.harness.engine.goldens import AwaitedGoldens, CutOff, NoGoldens
from opscope.harness.lanes.flight import Ready
from opscope.harness.lanes.protocol import OpsToSend
from opscope.harness.limitations.limitations import Limitation
from opscope.harness.record import store
from opscope.harness.record.optest import RunContext, build_test, now
from opscope.harness.record.records import OpRow, OpTest, Use
from opscope.harness.record.stages import Stage, Status
from opscope.harness.tests.ops import NOTHING_READ

READY = Ready(
    "sim-n150", "reference-1", (Stage.COMPILE, Stage.RUN), "", "HiFi4", "1-abc", lasting=True, read=NOTHING_READ
)
ROW = OpRow(op_id="x1", op_name="stablehlo.add", module="m", uses=(Use(model="m", path="main/0"),))
KNOWN = Limitation(("stablehlo.add",), "reference", Stage.COMPILE, "unsupported", "no such kernel")


class FakeLane:
    """Gives the records that it was given, one after the other."""

    last_ready: Ready | None = None
    last_text: tuple[OpTest, str] | None = None

    def __init__(self, *ends: Status, there: bool = False) -> None:
        self.ends, self.there, self.did = list(ends), there, []

    def start(self) -> None:
        self.did.append("start")

    def ready(self) -> Ready:
        return READY

    def has_record(self, row: OpRow) -> bool:
        return self.there

    def run(self, row: OpRow, *, attempt: int = 1) -> OpTest:
        self.did.append(f"{row.op_id} {attempt}")
        return ended(self.ends.pop(0), row, attempt=attempt)

    def arrivals(
        self, ops: OpsToSend, attempts: Mapping[str, int], in_time: Callable[[], bool] = lambda: True
    ) -> Iterator[str]:
        return reversed([row.op_id for row, _ in ops.take() if in_time()][1:])

    def fresh(self) -> None:
        self.did.append("fresh")

    def close(self) -> None:
        self.did.append("close")


def ended(status: Status, row: OpRow = ROW, **fields: Any) -> OpTest:
    failed = {"error": "no kernel", "failed_stage": Stage.COMPILE} if status is Status.COMPILE_FAILED else {}
    return build_test(row, RunContext("old", "/old"), status=status, started=now(), **(failed | fields))


class FakeSlots:
    """Slots that say what was done with them, among what the lane did."""

    def __init__(self, did: list[str]) -> None:
        self.did = did

    def hand_on(self) -> None:
        self.did.append("hand on")

    def take(self, check: object) -> None:
        self.did.append("take")

    def give(self) -> None:
        self.did.append("give")


def journal(context: RunContext) -> store.Journal:
    return store.Journal(Path(context.run_dir), "w")


@pytest.fixture
def context(tmp_path: Path) -> RunContext:
    return RunContext("new", str(tmp_path / "run"))


def climbed(context: RunContext, lane: FakeLane, terms: Terms, row: OpRow = ROW) -> tuple[OpTest, str, int]:
    """The record of one op, its verdict and how many records the journal has then."""
    with Climber(context, lane, journal(context), terms) as climber:
        test, verdict = climber.climb(row)
    return test, verdict.outcome, len(list(store.read_journal(Path(context.run_dir))))


def test_an_op_runs_once_unless_its_failure_is_news(context: RunContext) -> None:
    lane = FakeLane(Status.COMPILE_FAILED, Status.COMPILE_FAILED, Status.SUCCESS)
    test, outcome, lines = climbed(context, lane, Terms(reruns=Reruns(2), attempts={"x1": 4}))
    assert lane.did == ["x1 4", "fresh", "x1 5", "fresh", "x1 5", "close"], "a rerun is known as one"
    assert (test.status, test.stability, test.attempt, outcome, lines) == (Status.COMPILE_FAILED, "flaky", 4, "fail", 1)
    lane = FakeLane(Status.COMPILE_FAILED)
    test, outcome, _ = climbed(context, lane, Terms(reruns=Reruns(2), limitations=[KNOWN]))
    assert (lane.did, test.stability, outcome) == (["x1 1", "close"], "", "xfail")
    assert test.expected
    lane = FakeLane(Status.SUCCESS)
    assert climbed(context, lane, Terms(reruns=Reruns(2)))[1] == "pass"
    assert lane.did == ["x1 1", "close"]


class FakeLaneWithTexts(FakeLane):
    """One whose child has written each record with spaces that we would not."""

    def run(self, row: OpRow, *, attempt: int = 1) -> OpTest:
        test = super().run(row, attempt=attempt)
        self.last_text = test, f"{test.model_dump_json()[:-1]} }}"
        return test


def test_the_journal_has_a_record_as_the_child_wrote_it_unless_it_was_changed_since(context: RunContext) -> None:
    ends = (Status.SUCCESS,), (Status.COMPILE_FAILED,), (Status.COMPILE_FAILED, Status.COMPILE_FAILED)
    terms = Terms(), Terms(limitations=[KNOWN]), Terms(reruns=Reruns(1))
    for each, given, (as_written, filled) in zip(
        ends, terms, ((True, ""), (False, "expected"), (False, "stability")), strict=True
    ):
        test, _, lines = climbed(context, FakeLaneWithTexts(*each), given)
        last = Path(context.run_dir, "journal", "w.jsonl").read_bytes().splitlines()[-1]
        assert last.endswith(b" }") is as_written
        assert list(store.read_journal(Path(context.run_dir)))[lines - 1] == test
        assert not filled or getattr(test, filled)


def test_a_recorded_op_is_judged_anew_and_not_written_again(context: RunContext) -> None:
    recorded = {"x1": ended(Status.COMPILE_FAILED)}
    for limitations, outcome in (((), "fail"), ((KNOWN,), "xfail")):
        lane = FakeLane()
        with Climber(context, lane, journal(context), Terms(recorded=recorded, limitations=limitations)) as climber:
            assert climber.climb(ROW)[1].outcome == outcome
        assert lane.did == ["close"]
    assert not list(Path(context.run_dir).rglob("*.jsonl"))


@pytest.mark.parametrize(("left", "there", "ran"), [(60.0, False, True), (-1.0, False, False), (-1.0, True, True)])
def test_after_the_deadline_only_what_has_arrived_is_taken(
    context: RunContext, left: float, there: bool, ran: bool
) -> None:
    lane = FakeLane(Status.SUCCESS, there=there)
    test, _, _ = climbed(context, lane, Terms(deadline=time.time() + left, attempts={"x1": 2}))
    assert lane.did == ["x1 2", "close"][not ran :]
    assert (test.status, test.attempt) == (Status.SUCCESS if ran else Status.NOT_RUN, 2)
    assert test.error_message == (None if ran else "budget")


@pytest.mark.parametrize(
    ("error", "terms", "reason"),
    [
        (CutOff("not_run: budget: it was at golden"), {}, "budget"),
        (NoGoldens("no goldens of m: killed"), {}, "no goldens of m: killed"),
        (None, {"lost": {"m": "no goldens of m: timeout"}}, "no goldens of m: timeout"),
    ],
)
def test_an_op_without_its_golden_is_not_run_and_says_why(
    context: RunContext, error: Exception | None, terms: dict[str, Any], reason: str
) -> None:
    def row(row: OpRow, in_time: Callable[[], bool], check: object) -> OpRow:
        assert error is not None
        raise error

    lane, goldens = FakeLane(), cast("AwaitedGoldens", SimpleNamespace(row=row))
    test, _, lines = climbed(context, lane, Terms(goldens=goldens, **terms))
    assert (test.status, test.error_message, lines, lane.did) == (Status.NOT_RUN, reason, 1, ["close"])


def test_a_kept_verdict_is_taken_unless_it_is_news_that_has_no_label(context: RunContext, tmp_path: Path) -> None:
    cache = ResultCache(tmp_path / "cache", context, READY)
    cache.keep(ROW, ended(Status.COMPILE_FAILED), READY)
    for terms, taken in (
        (Terms(cache), True),
        (Terms(cache, reruns=Reruns(1), limitations=[KNOWN]), True),
        (Terms(cache, reruns=Reruns(1)), False),
        (Terms(reruns=Reruns(1)), False),
    ):
        lane = FakeLane(Status.COMPILE_FAILED, Status.COMPILE_FAILED)
        test, _, _ = climbed(context, lane, terms)
        assert (test.cached_from == "old") is taken
        assert lane.did[:-1] == ([] if taken else ["x1 1", "fresh", "x1 2"])
    lane = FakeLane(Status.COMPILE_FAILED, Status.COMPILE_FAILED)
    lane.last_ready = READY
    assert climbed(context, lane, Terms(cache, reruns=Reruns(1)))[0].stability == "deterministic"
    assert climbed(context, FakeLane(), Terms(cache, reruns=Reruns(1)))[0].cached_from == "old", "now it has one"


def test_records_come_as_they_arrive_and_the_rest_in_order(context: RunContext, tmp_path: Path) -> None:
    rows = [ROW.model_copy(update={"op_id": name}) for name in ("a", "b", "c", "d", "kept", "known")]
    cache = ResultCache(tmp_path / "cache", context, READY)
    cache.keep(rows[4], ended(Status.SUCCESS, rows[4]), READY)
    terms = Terms(cache, recorded={"known": ended(Status.SUCCESS, rows[5])})
    climber = Climber(context, FakeLane(), journal(context), terms)
    assert [row.op_id for row in climber.arrivals(rows)] == ["kept", "known", "d", "c", "b", "a"]


# --- what is kept


def explained(folder: Path, **sizes: int) -> OpTest:
    """A wrong result whose explanation has files of these sizes."""
    place = folder / "artifacts" / "x1" / "compare-reference"
    place.mkdir(parents=True, exist_ok=True)
    for name, size in sizes.items():
        (place / name.replace("_", ".")).write_bytes(b"x" * size)
    return ended(Status.WRONG_RESULT, artifact="artifacts/x1/compare-reference/compare.txt")


def test_a_diagnostic_of_a_megabyte_is_kept_and_a_longer_one_is_not(
    context: RunContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "ARTIFACT_BYTES", 10)
    cache = ResultCache(tmp_path / "cache", context, READY)
    for size, kept in ((11, False), (10, True)):
        cache.keep(ROW, explained(Path(context.run_dir), compare_txt=size), READY)
        assert cache.has(ROW) is kept
    kept_test = cache.find(ROW)
    assert kept_test is not None
    assert (Path(context.run_dir) / str(kept_test.artifact)).read_text() == "x" * 10


def test_files_beside_an_explanation_are_kept_up_to_a_megabyte_in_all(
    context: RunContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "ARTIFACT_BYTES", 10)
    cache = ResultCache(tmp_path / "cache", context, READY)
    cache.keep(ROW, explained(Path(context.run_dir), a_svg=4, b_npy=7, c_json=6, d_json=1, compare_txt=3), READY)
    stored_ones = cache._store.get(key(ROW, context, READY))
    assert stored_ones is not None
    [entry] = stored_ones["results"]
    assert {name: base64.b64decode(text) for name, text in entry["files"].items()} == {
        "a.svg": b"xxxx",
        "c.json": b"xxxxxx",
    }
    other = RunContext("other", str(tmp_path / "other"))
    kept = ResultCache(tmp_path / "cache", other, READY).find(ROW)
    assert kept is not None
    assert kept.artifact == "artifacts/x1/compare-reference/compare.txt"
    names = sorted(path.name for path in (tmp_path / "other" / "artifacts" / "x1" / "compare-reference").iterdir())
    assert names == ["a.svg", "c.json", "compare.txt"]


def test_flaky_and_infrastructure_failures_are_not_kept(context: RunContext, tmp_path: Path) -> None:
    cache = ResultCache(tmp_path / "cache", context, READY)
    for test in (
        ended(Status.RUN_FAILED, flaky=True),
        ended(Status.RUN_FAILED, error="MemoryError"),
        ended(Status.CRASHED),
        ended(Status.RUN_FAILED, artifact="artifacts/x1/gone.txt"),
    ):
        cache.keep(ROW, test, READY)
        assert not cache.has(ROW)
    assert len(key(ROW, context, READY)) == 32
    cache.keep(ROW, ended(Status.RUN_FAILED, error="no kernel"), READY)
    kept = cache.find(ROW)
    assert kept is not None
    assert (kept.artifact, kept.attempt, kept.cached_from) == (None, 1, "old")


def test_an_op_runs_in_a_slot_and_a_kept_verdict_needs_none(context: RunContext) -> None:
    lane = FakeLane(Status.SUCCESS)
    slots: Any = FakeSlots(lane.did)
    climbed(context, lane, Terms(slots=slots))
    assert lane.did == ["hand on", "take", "x1 1", "give", "close"]
    lane.did.clear()
    climbed(context, lane, Terms(slots=slots, recorded={"x1": ended(Status.SUCCESS)}))
    assert lane.did == ["give", "close"]


def test_an_op_whose_time_is_over_once_it_has_a_slot_does_not_run(context: RunContext) -> None:
    lane = FakeLane(Status.SUCCESS)
    slots: Any = FakeSlots(lane.did)
    slots.take = lambda check: time.sleep(0.02)
    assert climbed(context, lane, Terms(slots=slots, deadline=time.time() + 0.01))[0].status is Status.NOT_RUN
