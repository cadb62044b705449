from __future__ import annotations

import dataclasses
import io
import shlex
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from opscope.harness.page import ladder_table, summary, what_next
from opscope.harness.record import store
from opscope.harness.record.causes import cause_of_test, short
from opscope.harness.record.origin import ANSWERS, Origin
from opscope.harness.record.records import ImportCheck, ModelFailure, OpTest
from opscope.harness.record.run_folders import NIGHT_FILE
from opscope.harness.record.selection import DESELECTED
from opscope.harness.record.stages import ImportStatus, ModelStatus, Stage, Status
from opscope.harness.run import finish_run
from opscope.harness.tests import run_folder
from opscope.harness.tests.run_folder import NAMES


def shown(page: summary.Run, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False, emoji=False)
    summary.show(page, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.fixture
def page(tmp_path: Path) -> summary.Run:
    return finish_run.stored_page(run_folder.write(tmp_path / "run"))


def test_ladder_counts_unique_ops_and_uses(page: summary.Run) -> None:
    assert ladder_table.ladder(page.tests) == {"eltwise": {"compare": (1, 2)}, "matmul": {"split": (1, 1)}}


def test_page(page: summary.Run, tmp_path: Path) -> None:
    text = shown(page)
    second = list(NAMES)[1]
    assert "eltwise" in text
    assert "1 (2)" in text
    cause = short(cause_of_test(next(test for test in page.tests if test.op_id == second)))
    assert f"\n  cause {cause}: compile_failed at compile: no [dots] here\n" in text
    assert f"    stablehlo.dot_general [{second}] (2x3xf32)\n      from layer0 (m.py:0)\n" in text
    assert f"pytest --op-by-op --op {second} --run-dir run-1 --backend null\n" in text, "can be copied whole"
    assert "its region refers to a symbol" in text
    assert "  2.00 s  stablehlo.add" in text
    assert "2 unique ops = 1 success + 1 compile_failed\n" in text
    assert "m: 6 ops = 3 uses of unique ops + 1 unsplittable + 2 structural\n" in text
    assert f"run       {tmp_path}/run" in text


def test_slowest_ops_of_two_backends_say_on_which(page: summary.Run) -> None:
    """One line for each backend reads as the same op twice."""
    (slow,) = (test for test in page.tests if test.op_name == "stablehlo.add")
    text = shown(dataclasses.replace(page, tests=[*page.tests, slow.model_copy(update={"backend": "other"})]))
    slowest = text.partition("Slowest ops")[2]
    assert [f"on {name}, mostly" in slowest for name in (slow.backend, "other")] == [True, True]
    assert f"on {slow.backend}, mostly" not in shown(page)


def test_a_kept_op_is_not_among_the_slowest(page: summary.Run) -> None:
    """Its times are those of the run that it was kept from."""
    (slow,) = (test for test in page.tests if test.op_name == "stablehlo.add")
    kept = slow.model_copy(update={"cached_from": "an_earlier_run"})
    others = [test for test in page.tests if test is not slow]
    slowest = [
        shown(dataclasses.replace(page, tests=[*others, one])).partition("Slowest ops")[2] for one in (slow, kept)
    ]
    assert ["stablehlo.add" in rows for rows in slowest] == [True, False]


def test_listed_failures_are_not_listed_again(page: summary.Run) -> None:
    second = list(NAMES)[1]
    text = shown(dataclasses.replace(page, listed_above=frozenset([second])))
    assert "Failing ops (1, numbers and commands in FAILURES)\n" in text
    assert text.count("no [dots] here") == 1
    assert f"    stablehlo.dot_general [{second}] (2x3xf32)\n" in text
    assert f"--op {second}" not in text
    assert "from layer0" not in text


def test_known_limitations_are_apart(tmp_path: Path) -> None:
    folder = run_folder.write(tmp_path / "run", tests=False)
    expected = run_folder.record_of(
        folder, list(NAMES)[1], Status.RUN_FAILED, failed_stage=Stage.RUN, error="no", expected="never: no such unit"
    )
    with store.Journal(folder, "main") as journal:
        journal.append(expected)
    text = shown(finish_run.stored_page(folder))
    assert "Expected failures (1)" in text
    assert "1 x  stablehlo.dot_general: never: no such unit" in text
    assert "Failing ops" not in text


def test_ops_of_a_killed_run_count_as_not_run(tmp_path: Path) -> None:
    page = finish_run.stored_page(run_folder.write(tmp_path / "run", tests=False))
    assert {t.status for t in page.tests} == {Status.NOT_RUN}
    assert page.ledger.adds_up
    assert "2 unique ops = 2 not_run" in shown(page)


def test_a_run_of_selected_ops_says_what_does_not_count_it(tmp_path: Path) -> None:
    folder = run_folder.write(tmp_path / "run", tests=False)
    first, second, _ = NAMES
    assert "deselected" not in shown(finish_run.stored_page(folder))
    with store.Journal(folder, "main") as journal:
        journal.append(run_folder.record_of(folder, first, Status.STOPPED))
        journal.append(run_folder.record_of(folder, second, Status.SKIPPED, error=DESELECTED))
    line = "1 of 2 ops were deselected: diff, unblock, readiness and dashboards keep to the last run of all ops"
    assert line in shown(finish_run.stored_page(folder), width=200)


def test_json_has_the_documented_shape(page: summary.Run) -> None:
    got = summary.answer(page).model_dump(mode="json")
    assert set(got) == {
        "run",
        "ledger",
        "ledgers",
        "disagreements",
        "models",
        "op_tests",
        "savings",
        "whole_models",
        "isolation",
    }
    assert got["models"] == {"ran": 1, "asked": 1, "failed": [], "imports": []}
    assert got["ledger"]["adds_up"] is True
    assert got["ledger"]["by_status"] == {"success": 1, "compile_failed": 1}
    assert {"op_id", "op_name", "status", "stage_reached", "pcc"} <= set(got["op_tests"][0])


def test_a_run_of_many_models_fits_on_a_screen_and_says_what_it_leaves_out(page: summary.Run) -> None:
    models = tuple(f"model_of_a_long_name_{number}" for number in range(191))
    right, failing = page.tests
    causes = [
        failing.model_copy(
            update={"op_id": f"{cause:02}{op}", "error_message": f"no {'x' * cause} here " * 9, "uses": 99 - cause}
        )
        for cause in range(40)
        for op in range(3)
    ]
    known = [
        failing.model_copy(update={"op_id": f"known{number}", "expected": f"never: reason {number}"})
        for number in range(30)
    ]
    header = page.header.model_copy(
        update={
            "failed": tuple(
                ModelFailure(model=f"lost{n}", framework="jax", status=ModelStatus.EXPORT_FAILED, error="why " * 60)
                for n in range(9)
            ),
            "imports": tuple(
                ImportCheck(model=model, framework="jax", status=status, error="differs " * 40)
                for model in models[:8]
                for status in (ImportStatus.DIFFERS, ImportStatus.NOT_CHECKED)
            ),
            "module_ops": dict.fromkeys(models, 3),
        }
    )
    (name,) = page.ledgers
    books = page.ledgers[name].model_copy(
        update={"module_ops": dict.fromkeys(models, 3), "uses": dict.fromkeys(models, 3)}
    )
    run = dataclasses.replace(
        page,
        record=page.record.model_copy(update={"models": models}),
        header=header,
        tests=[right, *causes, *known],
        ledgers={name: books},
        places={"run": "/r", "report": "/r/report.html", "database": "sqlite:////d"},
    )
    text = shown(run, width=100)
    assert len(text.splitlines()) <= 60, text
    heading = next(n for n, line in enumerate(text.splitlines()) if line.startswith("Failing ops (120, 40 causes)"))
    section = text.splitlines()[heading + 1 : heading + 32]
    assert [line.startswith("  cause ") for line in section[:30]] == [True, False, False] * 10
    assert section[30].strip() == "and 30 more causes, of 90 ops; see the report, or opscope unblock"
    assert "191 models: 573 ops = 573 uses of unique ops + 0 unsplittable + 0 structural" in text
    assert "Expected failures (30), such as 1 x stablehlo.dot_general: never: reason 0\n" in text


def test_nothing_is_cut_on_a_narrow_terminal(tmp_path: Path) -> None:
    folder = run_folder.write(tmp_path / "run", tests=False)
    page = finish_run.stored_page(folder)
    everywhere = [
        run_folder.record_of(folder, list(NAMES)[n % 2], Status.STOPPED, stage_reached=stage)
        for n, stage in enumerate(s for s in Stage if s is not Stage.COMPILE)
    ]
    page = dataclasses.replace(page, tests=[*everywhere * 30, *page.tests])
    text = shown(page, width=80)
    assert "…" not in text
    assert "30 (30)" in text
    assert all(word in text for word in ("stablehlo-to-ttir 30 (", "to-flatbuffer", "compare", "not run"))
    wide = shown(page, width=200)
    assert all(word in wide for word in ("stablehlo", "to flatbuffer", "compare", "not run", " all "))


def test_an_unexpected_pass_is_red(tmp_path: Path) -> None:
    folder = run_folder.write(tmp_path / "run", tests=False)
    said = "unexpected pass: expected to fail at run (never: no such unit); delete the row"
    with store.Journal(folder, "main") as journal:
        journal.append(run_folder.record_of(folder, list(NAMES)[1], Status.SUCCESS, expected=said))
    text = " ".join(shown(finish_run.stored_page(folder)).split())
    assert "Failing ops (1)" in text
    assert said in text
    assert "Expected failures" not in text


def test_files_in_the_users_folder_have_relative_names(page: summary.Run, tmp_path: Path) -> None:
    page = dataclasses.replace(page, places={**page.places, "database": f"sqlite:///{tmp_path}/.opscope/r.sqlite"})
    text = shown(dataclasses.replace(page, folder=tmp_path), width=200)
    assert "--run-dir run-1 --backend null\n" in text
    assert "run       run\n" in text
    assert "database  sqlite:///.opscope/r.sqlite\n" in text
    assert str(tmp_path) not in text
    elsewhere = shown(dataclasses.replace(page, folder=tmp_path / "ru"), width=200)
    assert f"run       {tmp_path}/run\n" in elsewhere, "a beginning of a name is no folder"


def test_ops_run_again_come_first_with_their_figures(page: summary.Run, tmp_path: Path) -> None:
    first, second = list(NAMES)[:2]
    (tmp_path / "run" / "artifacts" / second).mkdir(parents=True)
    options = {**page.record.origin.options, ANSWERS: {"run": "earlier", "ops": [first, second]}}
    origin = page.record.origin.model_copy(update={"options": options})
    record = page.record.model_copy(update={"origin": origin})
    text = shown(dataclasses.replace(page, record=record), width=160)
    assert "ops of run earlier, run again" in text
    assert "Run again (2)" in text
    assert "    success" in text
    assert f"IR and diagnostics in {tmp_path}/run/artifacts/{second}\n" in text
    assert f"artifacts/{first}" not in text
    assert "Slowest ops" not in text
    stopped = run_folder.record_of(tmp_path, first, Status.STOPPED, error="stopped after run", stage_reached=Stage.RUN)
    assert summary.result_text(stopped) == "stopped: stopped after run; from layer0 (m.py:0)"


def test_a_run_says_what_share_of_their_domains_its_ops_saw(page: summary.Run, tmp_path: Path) -> None:
    assert "of their domain" not in shown(page)
    first, second, third = list(NAMES)[:3]
    tests = [
        run_folder.record_of(tmp_path, op_id, Status.SUCCESS, stage_reached=Stage.COMPARE, domain_share=share)
        for op_id, share in ((first, 0.039), (second, 0.5), (third, 0.0021))
    ]
    said = f"half of 3 computing ops saw at most 3.9 % of their domain, {summary.title(tests[2])} 0.21 %"
    assert summary.domain_line(tests) == said
    assert summary.domain_line(tests[:1]) == f"1 computing op saw 3.9 % of its domain, {summary.title(tests[0])}"
    assert said in " ".join(shown(dataclasses.replace(page, tests=tests), width=200).split())
    assert "3.9 % of its domain" in summary.result_text(tests[0])


def last(of: summary.Run) -> str:
    return shown(of, width=200).rstrip().splitlines()[-1].removeprefix("next      ")


FIRST, SECOND = list(NAMES)[:2]
SAME = "pytest --model 'a b.py' --op-by-op-on-fail"
FAILED = ModelFailure(model="a b", framework="jax", status=ModelStatus.BUILD_FAILED, error="ValueError: no weights")
ENDINGS: dict[str, tuple[str, dict[str, Any], str]] = {
    "red": ("opscope show {id}", {}, "complete"),
    "stopped at a failure, by -x": ("opscope show {id}", {}, "interrupted"),
    "out of budget": ("pytest --op-by-op --resume run", {}, "out_of_budget"),
    "interrupted": ("pytest --op-by-op --resume run", {"status": Status.SUCCESS}, "interrupted"),
    "killed": (
        "pytest --op-by-op --resume run",
        {"status": Status.NOT_RUN, "error": "killed by SIGKILL"},
        "complete",
    ),
    "not prepared": (SAME, {"status": Status.SUCCESS, "failed": (FAILED,)}, "complete"),
    "not prepared, begun by a program": (
        "opscope report run",
        {"status": Status.SUCCESS, "failed": (FAILED,), "typed": ("opscope.harness.run.api.run_op_by_op", "f")},
        "complete",
    ),
    "wrong as one program": (
        "pytest --model 'a b.py' --op-by-op --workflow full",
        {"status": Status.SUCCESS, "whole": True},
        "complete",
    ),
    "nothing selected": (
        "pytest --op-by-op --run-dir run --collect-only -q",
        {"status": Status.SKIPPED, "error": DESELECTED},
        "complete",
    ),
    "compiled only": ("opscope report run", {"status": Status.PASSED}, "complete"),
    "green": ("opscope report run", {"status": Status.SUCCESS}, "complete"),
    "no op": ("opscope report run", {"status": None}, "complete"),
    "some shares": ("opscope report run", {"status": Status.SUCCESS}, "partial"),
}
"""How a run ends -> the command that follows, what makes it that ending, its outcome."""


@pytest.mark.parametrize("kind", ENDINGS)
def test_the_last_line_is_the_command_that_one_types_next(page: summary.Run, tmp_path: Path, kind: str) -> None:
    command, made, outcome = ENDINGS[kind]
    origin = page.record.origin.model_copy(update={"command_line": made.get("typed", tuple(shlex.split(SAME)))})
    tests: Sequence[OpTest] = page.tests
    if "status" in made:
        status, error = made["status"], made.get("error")
        tests = [run_folder.record_of(tmp_path, FIRST, status, error=error)] if status is not None else []
    failed = run_folder.record_of(tmp_path, SECOND, Status.RUN_FAILED, failed_stage=Stage.RUN, error="no")
    ended = dataclasses.replace(
        page,
        record=page.record.model_copy(update={"outcome": outcome, "origin": origin}),
        header=page.header.model_copy(update={"failed": made.get("failed", ())}),
        tests=tests,
        whole=[failed] if made.get("whole") else [],
        folder=tmp_path,
    )
    assert last(ended) == command.format(id=SECOND)


def test_a_run_in_which_all_is_right_is_compared_with_the_one_before(page: summary.Run, tmp_path: Path) -> None:
    right = [test for test in page.tests if not test.fails_run]
    green = dataclasses.replace(page, tests=right, folder=tmp_path)
    earlier = run_folder.write(tmp_path / ".opscope" / "runs" / "before")
    old = page.record.model_copy(update={"started": page.record.started - timedelta(days=1), "outcome": "complete"})
    other = old.model_copy(update={"origin": Origin(options={"backend": "null", "arch": "e150", "seed": 7})})
    for record in (page.record, other, old.model_copy(update={"outcome": "running"})):
        store.write_run(earlier, record)
        assert last(green) == "opscope report run", "none to compare with"
    store.write_run(earlier, old)
    assert last(green) == "opscope diff .opscope/runs/before run"
    runs = {"run": page.record, ".opscope/runs/before": old}
    given = {
        folder: {**record.origin.options, "run_dir": str(tmp_path / folder), "inputs": f"{tmp_path / folder}/m.npz"}
        for folder, record in runs.items()
    }
    called, before = (
        record.model_copy(update={"origin": record.origin.model_copy(update={"options": given[folder]})})
        for folder, record in runs.items()
    )
    store.write_run(earlier, before)
    assert last(green) == "opscope report run", "the other had arrays of its own"
    assert last(dataclasses.replace(green, record=called)) == "opscope diff .opscope/runs/before run"
    store.write_run(earlier, old)
    (tmp_path / "run" / store.SELECTION_FILE).write_text("{}")
    assert last(green) == "opscope report run", "of selected ops, by a program"


def test_a_first_run_that_is_right_and_has_its_page_is_followed_by_what_keeps_it_right(
    page: summary.Run, tmp_path: Path
) -> None:
    right = [test for test in page.tests if not test.fails_run]
    places = {**page.places, "report": str(tmp_path / "run" / "report.html")}
    green = dataclasses.replace(page, tests=right, folder=tmp_path, places=places)
    assert last(green) == "opscope nightly --init"
    (night := tmp_path / NIGHT_FILE).parent.mkdir()
    night.touch()
    assert last(green) == "opscope gate"


def test_ops_that_were_selected_and_are_right_are_followed_by_all(page: summary.Run, tmp_path: Path) -> None:
    def typed(line: str, again: str = "") -> summary.Run:
        options = {**page.record.origin.options, **({ANSWERS: {"run": again, "ops": []}} if again else {})}
        origin = page.record.origin.model_copy(update={"command_line": tuple(shlex.split(line)), "options": options})
        return dataclasses.replace(page, record=page.record.model_copy(update={"origin": origin}), tests=right)

    right = [test for test in page.tests if not test.fails_run]
    page = dataclasses.replace(page, folder=tmp_path)
    (tmp_path / "run" / store.SELECTION_FILE).write_text("{}")
    whole = "pytest --model 'a b.py' --op-by-op"
    for flags in ("-k 'dot and add'", "-kdot", "--ops=dot", "--ops dot --run-dir run", "--lf", "x.py::dot[1]"):
        assert last(typed(f"{whole} {flags}")) == whole, flags
    assert last(typed("pytest --op-by-op --resume run -k dot")) == "opscope report run"
    again = "pytest --op-by-op --op 1a --run-dir earlier"
    assert last(typed(again, "earlier")) == "opscope report run", "no such run"
    store.write_run(run_folder.write(tmp_path / ".opscope" / "runs" / "earlier"), typed(f"{whole} -n 2").record)
    assert last(typed(again, "earlier")) == f"{whole} -n 2"


def test_a_share_of_a_sweep_is_followed_by_the_next_and_the_last_by_all_joined(
    page: summary.Run, tmp_path: Path
) -> None:
    def share(word: str, line: str = "run_op_by_op") -> Any:
        options = {**page.record.origin.options, "shard": word}
        changes = {"options": options, "command_line": tuple(line.split())}
        origin = page.record.origin.model_copy(update=changes)
        return page.record.model_copy(update={"outcome": "complete", "origin": origin})

    right = [test for test in page.tests if not test.fails_run]
    line = "pytest --op-by-op --shard {0}/3 --run-dir share-{0}"
    last_one = dataclasses.replace(page, record=share("3/3"), tests=right, folder=tmp_path)
    typed = dataclasses.replace(last_one, record=share("3/3", line.format(3)))
    for name, word in (("share-1", "1/3"), ("of another sweep", "2/4")):
        store.write_run(run_folder.write(tmp_path / name), share(word))
    assert last(typed) == line.format(2), "one has not come"
    assert last(last_one) == "opscope report run", "by a program"
    with_equals = dataclasses.replace(typed, record=share("3/3", "pytest --op-by-op --shard=3/3"))
    assert last(with_equals) == "pytest --op-by-op --shard=2/3"
    unfinished = share("2/3").model_copy(update={"outcome": "out_of_budget"})
    store.write_run(second := run_folder.write(tmp_path / "share-2"), unfinished)
    assert last(typed) == line.format(2), "one has not ended"
    store.write_run(second, share("2/3"))
    assert last(typed) == last(last_one) == "opscope merge share-1 share-2 run --into joined"
    (tmp_path / "joined").mkdir()
    assert last(typed) == "opscope report run", "they are joined"


def test_old_runs_that_hold_much_are_said(page: summary.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = dataclasses.replace(page, folder=tmp_path)
    for name in ("a", "b"):
        folder = tmp_path / ".opscope" / "runs" / name
        folder.mkdir(parents=True)
        (folder / "report.html").write_bytes(bytes(1000))
    assert "opscope clean" not in shown(here)
    monkeypatch.setattr(what_next, "MOST_BYTES", 1999)
    assert "clean     opscope clean: the runs in .opscope/runs hold about 0.0 GB" in shown(here)
    monkeypatch.setattr(what_next, "MOST_BYTES", 2000)
    assert "opscope clean" not in shown(here)
