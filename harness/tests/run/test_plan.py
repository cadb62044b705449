from __future__ import annotations

from pathlib import Path

import pytest

from opscope.base.tests.each import each
from opscope.harness.record import store
from opscope.harness.record.errors import InputError
from opscope.harness.record.selection import find_op_ids, matches_globs
from opscope.harness.record.stages import Status
from opscope.harness.run import finish_run, ops_again, plan, process_plan
from opscope.harness.run.request import Request
from opscope.harness.settings.settings import resolve
from opscope.harness.tests import run_folder
from opscope.harness.tests.run_folder import NAMES

FIRST, SECOND, THIRD = NAMES
MODEL = """
import time

from opscope.models.arguments import Built
from opscope.models.registry import model

@model(name="made", family="toy")
def build(dtype):
    time.sleep(60)
    return Built(lambda weights: weights, ())
"""


def request(folder: Path, *, run_dir: Path | None = None, **given: object) -> Request:
    words = {name: given.pop(name, ()) for name in ("models", "ops", "op_ids", "nodeids")}
    return Request(resume=None, run_dir=run_dir, settings=resolve(given, folder, {}), folder=folder, **words)


def orders_of_nothing(folder: Path) -> process_plan.Orders:
    """The orders of a run on the backend that does nothing."""
    asked = request(folder, backend="null")
    return process_plan.orders_of(asked, "run-1", folder / "run", asked.settings.values)


def orders_in(run_dir: Path, folder: Path) -> process_plan.Orders:
    """The orders of a run in `run_dir`."""
    asked = request(folder, backend="null")
    return process_plan.orders_of(asked, store.read_run(run_dir).run_id, run_dir, asked.settings.values)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return run_folder.write(tmp_path / ".opscope" / "runs" / "20260102-030405-m")


def test_again_takes_the_newest_run_and_its_settings(run: Path, tmp_path: Path) -> None:
    made = ops_again.from_run(request(tmp_path, op_ids=(SECOND,)))
    assert made.again
    assert made.run_dir != run, "what a run says stays as it is"
    assert made.run_dir.parent == run.parent
    asked = made.orders.context
    assert (asked.backend, asked.options.arch, made.orders.op_timeout) == ("null", "e150", 7.0)
    assert made.orders.attempts == {}
    assert [row.op_id for row in made.rows if made.selects(row)] == [SECOND]
    anew = ops_again.from_run(request(tmp_path, arch="p150"))
    assert anew.orders.context.options.arch == "p150"


def test_a_label_names_the_backend_of_the_run_whatever_file_is_called_so(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    backend = tmp_path / "own" / "lame.py"
    backend.parent.mkdir()
    backend.write_text("")
    (tmp_path / "lame").write_text("a file of its name that is no backend")
    record = store.read_run(run)
    options = {**record.origin.options, "backend": str(backend)}
    origin = record.origin.model_copy(update={"options": options})
    store.write_run(run, record.model_copy(update={"origin": origin}))
    assert ops_again.from_run(request(tmp_path, backend="lame")).orders.context.backend == str(backend)


def test_ids_may_be_shortened_but_not_guessed(run: Path) -> None:
    rows = store.load_run(run).rows
    assert find_op_ids(rows, ["aaaa", SECOND]) == {FIRST, SECOND}
    with pytest.raises(InputError, match=r"got ''"):
        find_op_ids(rows, [""])
    with pytest.raises(InputError, match=rf"try {SECOND}"):
        find_op_ids(rows, ["bbbb000000000009"])
    with pytest.raises(InputError, match="expected the id of an op of the run"):
        find_op_ids(rows, [THIRD])  # it could not be split off: there is nothing to run


def test_a_missing_run_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no run in \.opscope/runs"):
        ops_again.from_run(request(tmp_path))


@each(
    ("glob", "hit"),
    [
        ("stablehlo.dot*", True),
        ("dot_general", True),
        ("matmul", True),
        ("bbbb*", True),
        ("add", False),
        ("dot", False),
    ],
)
def test_globs_name_ops_and_families(glob: str, hit: bool) -> None:
    assert matches_globs(run_folder.row(SECOND), [glob]) is hit


def test_ids_of_tests_are_stable() -> None:
    assert plan.nodeid(run_folder.row(FIRST)) == f"m::stablehlo.add[{FIRST}]"


def test_closing_accounts_for_every_op(tmp_path: Path) -> None:
    folder = run_folder.write(tmp_path / ".opscope" / "runs" / "r", tests=False)
    made = plan.RunPlan(orders_in(folder, tmp_path), *store.read_manifest(folder))
    closed = finish_run.close(made, {plan.nodeid(run_folder.row(FIRST))}, interrupted=True)
    assert closed.problem == ""
    stored = store.load_run(folder)
    assert {t.op_id: t.status for t in stored.tests} == {FIRST: Status.NOT_RUN, SECOND: Status.SKIPPED}
    assert stored.record.outcome == "interrupted"
    assert stored.record.ended is not None
    again = finish_run.close(made, None, interrupted=False)
    assert len(store.load_run(folder).tests) == len(again.run.tests if again.run else ()) == 2, "nothing is added twice"


def test_closing_refuses_books_that_do_not_add_up(tmp_path: Path) -> None:
    folder = run_folder.write(tmp_path / ".opscope" / "runs" / "r")
    header, rows = store.read_manifest(folder)
    store.write_manifest(folder, header.model_copy(update={"module_ops": {"m": 7}}), rows)
    made = plan.RunPlan(orders_in(folder, tmp_path), *store.read_manifest(folder))
    closed = finish_run.close(made, None, interrupted=False)
    assert "do not add up" in closed.problem
    assert closed.run is not None
    assert "m: 7 ops ≠ 3 uses" in closed.run.ledger_line
