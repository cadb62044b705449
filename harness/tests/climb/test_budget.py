"""What a budget is spent on first: nothing for what is known, then what failed, then what is new, then the cheap."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from opscope.harness.climb import budget
from opscope.harness.record import history, run_folders, store
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import RunContext, build_test
from opscope.harness.record.records import OpRow, StageTime, Use
from opscope.harness.record.stages import Stage, Status
from opscope.harness.settings.settings import resolve
from opscope.harness.tests.run_folder import START


def row(op_id: str, uses: int = 1, name: str = "stablehlo.add") -> OpRow:
    return OpRow(op_id=op_id, op_name=name, module="m", uses=tuple(Use(model="m", path=f"{n}") for n in range(uses)))


def past(folder: Path, run: str, *tests: tuple[str, Status, float], backend: str = "null", attempt: int = 1) -> None:
    """A run of an earlier day: op, how it ended, what it took."""
    run_dir = run_folders.runs_root(folder) / run
    context = RunContext(run, str(run_dir), backend=backend)
    with store.Journal(run_dir, f"w{attempt}") as journal:
        for op_id, status, seconds in tests:
            times = (
                StageTime(stage=Stage.COMPILE, seconds=seconds / 2),
                StageTime(stage=Stage.RUN, seconds=seconds / 2),
            )
            made = build_test(row(op_id), context, status=status, started=START, stages=times, attempt=attempt)
            journal.append(made)


@pytest.fixture
def context(tmp_path: Path) -> RunContext:
    return RunContext("now", str(run_folders.runs_root(tmp_path) / "20260109-now"), backend="null")


def test_the_order(tmp_path: Path, context: RunContext) -> None:
    past(tmp_path, "20260101-a", ("flop", Status.SUCCESS, 1.0), ("cheap", Status.CRASHED, 9.0))
    past(
        tmp_path,
        "20260102-b",
        ("cheap", Status.SUCCESS, 0.1),
        ("dear", Status.SUCCESS, 10.0),
        ("used", Status.SUCCESS, 10.0),
        ("flop", Status.RUN_FAILED, 1.0),
        ("late", Status.TIMEOUT, 120.0),
        ("kept", Status.SUCCESS, 5.0),
    )
    past(tmp_path, "20260103-c", ("cheap", Status.SKIPPED, 0.0), ("dear", Status.NOT_RUN, 0.0))
    past(tmp_path, "20260104-d", ("cheap", Status.CRASHED, 0.1), ("dear", Status.CRASHED, 0.1), backend="xla")
    rows = [row("dear"), row("late", 3), row("cheap"), row("new"), row("used", 300), row("flop"), row("kept")]
    expected = ("kept", "flop", "late", "new", "used", "cheap", "dear")
    for seed in range(5):
        random.Random(seed).shuffle(rows)
        assert budget.order(rows, tmp_path, context, lambda r: r.op_id == "kept") == expected


def test_the_highest_attempt_of_the_newest_run_tells(tmp_path: Path, context: RunContext) -> None:
    past(tmp_path, "20260101-a", ("x", Status.CRASHED, 3.0))
    past(tmp_path, "20260102-b", ("x", Status.SUCCESS, 1.0), attempt=2)
    past(tmp_path, "20260102-b", ("x", Status.CRASHED, 2.0), attempt=1)
    assert history.past_of_ops(tmp_path, context, ["x", "y"]) == {"x": history.Past(failed=False, seconds=1.0)}


def test_a_history_file_comes_before_runs_in_this_folder(tmp_path: Path, context: RunContext) -> None:
    past(tmp_path, "20260101-a", ("x", Status.CRASHED, 3.0), ("y", Status.SUCCESS, 1.0))
    history_file = tmp_path / "history.json"
    history_file.write_text(history.text({"x": history.Past(False, 1.0), "z": history.Past(True, 9.0)}))
    rows = [row("x"), row("y", 2), row("z")]
    assert budget.order(rows, tmp_path, context, pasts=history.read_file(str(history_file))) == ("z", "y", "x")
    assert history.read_file(None) == {}


@pytest.mark.parametrize(
    "text", ["[]", "{", '{"opscope_history": 2, "ops": {}}', '{"opscope_history": 1, "ops": {"x": 3}}']
)
def test_another_file_is_no_history(tmp_path: Path, text: str) -> None:
    (tmp_path / "f").write_text(text)
    with pytest.raises(InputError, match="--budget-history: expected a file that opscope gate wrote, got"):
        history.read_file(str(tmp_path / "f"))
    with pytest.raises(InputError, match="got no regular file"):
        history.read_file("/dev/zero")


def test_journals_of_any_kind_are_forgiven(tmp_path: Path, context: RunContext) -> None:
    journal = run_folders.runs_root(tmp_path) / "20260101-a" / store.JOURNAL_DIR / "w.jsonl"
    journal.parent.mkdir(parents=True)
    good = {"op_id": "x", "backend": "null", "status": "success", "stages": [{"stage": "run", "seconds": 2}]}
    lines = [json.dumps(good), "[]", "not JSON", '{"op_id": "y"}', json.dumps(good | {"status": "odd"}), '{"torn']
    journal.write_text("\n".join(lines))
    assert history.past_of_ops(tmp_path, context, ["x"]) == {"x": history.Past(failed=False, seconds=2.0)}
    # A record without the number of its attempt is of the first.
    again = good | {"attempt": 1, "stages": [{"stage": "run", "seconds": 3}]}
    journal.write_text("\n".join(map(json.dumps, (good, again))))
    assert history.past_of_ops(tmp_path, context, ["x"]) == {"x": history.Past(failed=False, seconds=3.0)}


def test_unmeasured_ops_are_estimated_by_their_peers() -> None:
    rows = [row("a"), row("b"), row("c"), row("d"), row("e", name="stablehlo.dot")]
    known = {name: history.Past(False, seconds) for name, seconds in (("a", 1.0), ("b", 2.0), ("c", 9.0))}
    assert history.estimates(rows, known) == {"a": 1.0, "b": 2.0, "c": 9.0, "d": 2.0, "e": 2.0}
    assert set(history.estimates(rows, {}).values()) == {0.1}


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1800), ("1h30m", 5400), ("1.5h", 5400), ("2M", 120)]
)
def test_times_are_read(tmp_path: Path, text: str, seconds: float) -> None:
    assert resolve({"budget": text}, tmp_path, {})["budget"] == seconds


@pytest.mark.parametrize("text", ["", "0s", "30", "m", "30 m", "-3s", "3d", "1h x"])
def test_other_times_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"^--budget: expected a time with a unit, got .*; try 30m, 90s or 1h30m"):
        resolve({"budget": text}, tmp_path, {})


def test_an_op_that_took_less_than_a_second_is_no_cheaper_than_it_was(tmp_path: Path, context: RunContext) -> None:
    """Uses per second: 1 / 0.2, 1 / 0.1, 2 / 0.1, and at most 1 / 1e-6 of what took no time."""
    times = {"slow": 0.2, "quick": 0.1, "used": 0.1, "free": 0.0, "twice": 0.0}
    pasts = {op_id: history.Past(False, seconds) for op_id, seconds in times.items()}
    rows = [row("slow"), row("quick"), row("used", 2), row("free"), row("twice", 2)]
    assert budget.order(rows, tmp_path, context, pasts=pasts) == ("twice", "free", "used", "quick", "slow")


def test_only_the_budget_leaves_an_op_out(context: RunContext) -> None:
    for status, reason, out in (
        (Status.NOT_RUN, "budget", True),
        (Status.NOT_RUN, "interrupted", False),
        (Status.SKIPPED, "budget", False),
    ):
        test = build_test(row("x"), context, status=status, started=START, error=reason)
        assert budget.left_out(test) is out


def test_ten_runs_are_looked_at_and_none_that_nothing_is_asked_of(tmp_path: Path, context: RunContext) -> None:
    past(tmp_path, "20260101-a", ("old", Status.CRASHED, 1.0))
    past(tmp_path, "20260102-b", ("x", Status.CRASHED, 1.0))
    for day in range(3, 12):
        past(tmp_path, f"202601{day:02}-c", ("y", Status.SUCCESS, 1.0))
    past(tmp_path, "20260109-now", ("x", Status.SUCCESS, 7.0), ("now", Status.SUCCESS, 7.0))  # the run itself
    failed, fine = history.Past(True, 1.0), history.Past(False, 1.0)
    assert history.past_of_ops(tmp_path, context, ["x", "y", "old"]) == {"y": fine}
    (tmp_path / ".opscope/runs/20260111-c/journal/w1.jsonl").unlink()
    assert history.past_of_ops(tmp_path, context, ["y"]) == {"y": fine}
    past(tmp_path, "20260111-c", ("x", Status.CRASHED, 1.0))
    assert history.past_of_ops(tmp_path, context, ["x", "y", "old"]) == {"x": failed, "y": fine}


def test_of_two_records_of_one_attempt_the_later_tells(tmp_path: Path, context: RunContext) -> None:
    past(tmp_path, "20260101-a", ("x", Status.CRASHED, 3.0), ("x", Status.SUCCESS, 1.0))
    assert history.past_of_ops(tmp_path, context, ["x"]) == {"x": history.Past(failed=False, seconds=1.0)}
