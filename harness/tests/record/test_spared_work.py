"""What a run was spared, counted on a run in which every number differs."""

from __future__ import annotations

from opscope.harness.record.optest import RunContext, build_test
from opscope.harness.record.records import OpRow, StageTime, Use
from opscope.harness.record.spared_work import savings
from opscope.harness.record.stages import Stage, Status
from opscope.harness.tests.run_folder import START


def row(op_id: str, *models: str, module: str | None = "m") -> OpRow:
    uses = tuple(Use(model=model, path=f"main/{n}") for n, model in enumerate(models))
    return OpRow(op_id=op_id, op_name="stablehlo.add", module=module, uses=uses)


def test_shares_of_merging_and_cache() -> None:
    rows = [row("a", "x", "x", "y"), row("b", "x"), row("c", "x", "y", "y", "y", "z"), row("d", "x", module=None)]
    context = RunContext("r", "/r", backend="null")
    times = (StageTime(stage=Stage.COMPILE, seconds=1.5), StageTime(stage=Stage.RUN, seconds=0.5))
    tests = [
        build_test(one, context, status=Status.SUCCESS, started=START, stages=times, cached_from=earlier)
        for one, earlier in zip(rows, ("", "r0", "r0"), strict=False)
    ]
    spared = savings(rows, tests)
    assert (spared.uses, spared.by_model, spared.unique, spared.verdicts, spared.kept) == (9, 6, 3, 3, 2)
    assert spared.lines == [
        "merging: 9 uses are 3 unique ops (6 with each model alone), 67 % saved",
        "cache: 2 of 3 verdicts come from earlier runs, 67 % saved, which took 4.0 s to run (--no-cache runs every op)",
    ]
    assert savings(rows[1:2], tests[:1]).lines == []
    # One model: its own ops are all that there are. No time is told where none is known.
    alone = savings(rows[:1], [tests[1].model_copy(update={"stages": ()})])
    assert (alone.by_model, alone.unique) == (2, 1)
    assert alone.lines[1] == "cache: 1 of 1 verdicts come from earlier runs, 100 % saved (--no-cache runs every op)"
    assert savings([row("a", "x", "x")], []).lines == ["merging: 2 uses are 1 unique op, 50 % saved"]
    two = savings([row("a", "x", "x"), row("b", "y")], [])
    assert (two.by_model, two.lines) == (2, ["merging: 3 uses are 2 unique ops, 33 % saved"])
    thousand = savings([row(f"{n}", "x", "y") for n in range(1000)], [])
    assert thousand.lines == ["merging: 2,000 uses are 1,000 unique ops (2,000 with each model alone), 50 % saved"]
