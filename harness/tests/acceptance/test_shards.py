"""A sweep in shares, joined again, through the command lines that a CI job has."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscope.harness.record import store
from opscope.harness.record.records import OpTest
from opscope.harness.scale.costs import read as costs_of
from opscope.harness.tests.acceptance.conftest import MODEL, Place
from opscope.harness.tests.run_folder import lasting

pytestmark = pytest.mark.slow


def sweep(place: Place, name: str, *words: str) -> Path:
    run = place.folder / name
    done = place.run(f"pytest --model {MODEL} --op-by-op --no-report --no-cache --run-dir {run}", *words)
    assert done.code == 0, done.out + done.err
    return run


def test_shares_joined_are_the_whole_sweep(place: Place) -> None:
    whole = sweep(place, "whole")
    costs = place.run("opscope", "costs", str(whole))
    (place.folder / "costs.json").write_text(costs.out)
    shares = [
        sweep(place, f"s{index}", "--shard", f"{index}/3", "--shard-costs", "costs.json", *(("-n", "2") * (index == 2)))
        for index in (1, 2, 3)
    ]
    done = place.run("opscope", "merge", *map(str, shares), "--into", "joined", "--publish", "sqlite:///all.sqlite")
    assert done.code == 0, done.out + done.err
    assert lasting(place.folder / "joined") == lasting(whole)
    measured = costs_of(place.folder / "costs.json")
    work = [sum(measured[test.op_id] for test in _ran(share)) for share in shares]
    assert max(work) <= sum(work) / 3 + max(measured.values()), "no share has more than its part and one op"
    assert (place.folder / "joined" / "report.html").is_file()
    assert (place.folder / "all.sqlite").is_file()
    wrong = place.run("opscope", "merge", str(shares[0]), str(shares[2]), "--into", "wrong")
    assert (wrong.code, wrong.out, len(wrong.err.splitlines())) == (2, "", 1)


def _ran(run: Path) -> list[OpTest]:
    return [test for test in store.load_run(run).tests if test.stages]
