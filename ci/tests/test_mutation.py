"""Mutants of our own source: what is drawn, what each changes, and that a copy of the checkout notices one."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

if not (find_spec("mutmut") and find_spec("coverage")):  # to import them takes each worker longer than these tests
    pytest.skip("mutmut comes with the extra `dev`", allow_module_level=True)

from ci.mutation import equivalent, mutants, trial
from ci.mutation.__main__ import MOST_SECONDS, report, tried
from ci.mutation.covering import Covering
from ci.mutation.mutants import MODULE, Statements
from ci.mutation.trial import CAUGHT, SURVIVED, UNDECIDED, Outcome

SOURCE = '''LIMIT = 3


def inside(a: int, b: int = 2) -> bool:
    """1 < 2 is no code."""
    if a < LIMIT and (
        b == 4 or not a
    ):
        return a in (1, 2)
    return a is not None
'''


@pytest.fixture
def every(tmp_path: Path) -> list[mutants.Mutant]:
    (tmp_path / "file.py").write_text(SOURCE)
    return list(mutants.of_file(tmp_path, "file.py"))


def test_comparisons_numbers_and_words_are_turned(every: list[mutants.Mutant], tmp_path: Path) -> None:
    changed = sorted({(mutant.function, *mutant.lines(tmp_path)) for mutant in every})
    assert changed == [
        (MODULE, "LIMIT = 3", "LIMIT = 4"),
        (MODULE, "def inside(a: int, b: int = 2) -> bool:", "def inside(a: int, b: int = 3) -> bool:"),
        ("inside", "b == 4 or not a", "b != 4 or not a"),
        ("inside", "b == 4 or not a", "b == 4 and not a"),
        ("inside", "b == 4 or not a", "b == 4 or a"),
        ("inside", "b == 4 or not a", "b == 5 or not a"),
        ("inside", "if a < LIMIT and (", "if a < LIMIT or ("),
        ("inside", "if a < LIMIT and (", "if a <= LIMIT and ("),
        ("inside", "return a in (1, 2)", "return a in (1, 3)"),
        ("inside", "return a in (1, 2)", "return a in (2, 2)"),
        ("inside", "return a in (1, 2)", "return a not in (1, 2)"),
        ("inside", "return a is not None", "return a is None"),
    ]
    for mutant in every:
        compile(mutant.texts(tmp_path)[1], "file.py", "exec")


def test_a_size_that_reshaping_works_out_and_that_of_a_cache_have_no_mutant(tmp_path: Path) -> None:
    source = "@lru_cache(maxsize=16)\ndef f(x):\n    return x.reshape(-1, 16)[-1]\n"
    (tmp_path / "file.py").write_text(source)
    changed = sorted(mutant.lines(tmp_path)[1] for mutant in mutants.of_file(tmp_path, "file.py"))
    assert changed == ["return x.reshape(-1, 16)[-2]", "return x.reshape(-1, 17)[-1]"]


def test_a_time_does_not_hit_its_limit_exactly(tmp_path: Path) -> None:
    """So `<` and `<=` are the same beside a clock; what else is compared there has its mutants."""
    source = """import time
def late(since, limit, count):
    until = time.monotonic() + limit
    while time.time() - since < limit and count < 3:
        if count == until or not until >= since:
            return until is None
"""
    (tmp_path / "file.py").write_text(source)
    changed = sorted(mutant.lines(tmp_path)[1] for mutant in mutants.of_file(tmp_path, "file.py"))
    assert changed == [
        "if count != until or not until >= since:",
        "if count == until and not until >= since:",
        "if count == until or until >= since:",
        "return until is not None",
        "while time.time() - since < limit and count < 4:",
        "while time.time() - since < limit and count <= 3:",
        "while time.time() - since < limit or count < 3:",
    ]


def test_a_draw_stays_as_it_is_while_a_file_changes_elsewhere(every: list[mutants.Mutant], tmp_path: Path) -> None:
    sample = [mutant.name for mutant in mutants.draw(every, 6, 1)]
    assert sample != [mutant.name for mutant in mutants.draw(every, 6, 2)]
    (tmp_path / "file.py").write_text("'Two'\nMORE = None\n" + SOURCE)
    again = mutants.draw(reversed([*mutants.of_file(tmp_path, "file.py")]), 6, 1)
    assert [mutant.name for mutant in again] == sample
    assert len({mutant.name for mutant in every}) == len(every)


def test_a_mutant_that_only_some_of_its_tests_could_try_is_not_decided(
    every: list[mutants.Mutant], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counts as not noticed, and a run goes on with what an earlier one stored."""
    tests = {"test_a.py::a": 1.0, "test_a.py::b": MOST_SECONDS, "test_a.py::c": 1.0, "test_gone.py::d": 0.1}
    known = Covering(tests, {"file.py": {"inside": {m.statement: [0, 1, 2, 3] for m in every if m.line > 1}}})
    asked: list[list[str]] = []

    def attempt(folder: Path, path: str, mutated: str, some: list[str], limit: float) -> Outcome:
        asked.append(some)
        return Outcome(SURVIVED, "", 1.0)

    monkeypatch.setattr(trial, "attempt", attempt)
    (tmp_path / "test_a.py").touch()
    inside = [mutant for mutant in every if mutant.function == "inside"]
    outcomes = tried([tmp_path], inside, known, tmp_path / "outcomes.jsonl", again=False)
    assert {each.ending for each in outcomes.values()} == {UNDECIDED}
    assert asked == [["test_a.py::a", "test_a.py::c"]] * len(inside)
    assert tried([tmp_path], inside, known, tmp_path / "outcomes.jsonl", again=False) == outcomes
    assert len(asked) == len(inside)
    assert report(tmp_path, outcomes, 0) == 0
    tried([tmp_path], inside, known, tmp_path / "outcomes.jsonl", again=True)
    assert len(asked) == 2 * len(inside)


@pytest.mark.parametrize(
    ("runs", "ending", "by"),
    [
        ([(1, "FAILED test_a.py::a - x"), (1, "")], CAUGHT, "test_a.py::a"),
        ([(1, "FAILED test_a.py::a - x"), (0, ""), (0, "")], SURVIVED, "1 tests"),
        ([(1, "FAILED test_a.py::a - x"), (0, ""), (1, "FAILED test_b.py::b"), (1, "")], CAUGHT, "test_b.py::b"),
        ([(1, "ERROR test_a.py"), (0, ""), (1, "ERROR test_b.py"), (0, "")], SURVIVED, "0 tests"),
        ([(None, ""), (0, "")], CAUGHT, "no end within 9 s"),
        ([(None, ""), (None, "")], UNDECIDED, "no end within 9 s, nor did the tests pass without it"),
        ([(-9, ""), (0, "")], CAUGHT, "exit code -9"),
        ([(-9, ""), (-9, "")], UNDECIDED, "exit code -9, nor did the tests pass without it"),
    ],
)
def test_a_busy_machine_notices_no_mutant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs: list[tuple[int | None, str]], ending: str, by: str
) -> None:
    """A test fails twice, and what names no test has to pass without the mutant."""
    file, left, seen = tmp_path / "file.py", list(runs), list[str]()
    file.write_text("before")

    def run(folder: Path, words: list[str], limit: float) -> tuple[int | None, str]:
        seen.append(file.read_text())
        return left.pop(0)

    monkeypatch.setattr(trial, "run", run)
    outcome = trial.attempt(tmp_path, "file.py", "after", ["test_a.py::a", "test_b.py::b"], 9.0)
    assert (outcome.ending, outcome.by) == (ending, by)
    assert not left
    control = ["before"] if runs[0][0] in (None, -9) else []
    assert seen == ["after"] * (len(runs) - len(control)) + control
    assert file.read_text() == "before"


def test_the_tests_of_a_mutant_are_those_that_ran_its_statement(every: list[mutants.Mutant]) -> None:
    statement = "if a < LIMIT and ( b == 4 or not a ):"
    assert Statements.of(SOURCE).at(7) == ("inside", statement)
    tests = {"test_slow.py::a": 9.0, "test_quick.py::b": 1.0, "test_file.py::c": 2.0, "test_red.py::d": 0.1}
    ran = {"file.py": {"inside": {statement: [0, 1, 3], "return a in (1, 2)": [2]}}}
    known = Covering(tests, ran, failed=["test_red.py::d"])
    (both,) = {tuple(known.tests(m)) for m in every if m.statement == statement}
    assert both == ("test_quick.py::b", "test_slow.py::a")
    at_import = next(m for m in every if m.statement == "LIMIT = 3")
    assert known.tests(at_import) == ["test_file.py::c", "test_quick.py::b", "test_slow.py::a"]
    later = known.joined(
        Covering({"test_quick.py::e": 0.5}, {"file.py": {"inside": {statement: [0]}}}), ["test_quick.py"]
    )
    assert later.tests(next(m for m in every if m.statement == statement)) == ["test_quick.py::e", "test_slow.py::a"]


def test_a_mark_that_does_not_name_one_mutant_is_an_error(
    every: list[mutants.Mutant], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = [
        equivalent.Row("file.py", "inside", "return a is not None", "return a is None", "for this test"),
        equivalent.Row("file.py", "inside", "return a is not 1", "return a is 1", "fits nothing"),
    ]
    monkeypatch.setattr(equivalent, "rows", lambda: table)
    marked, unfit = equivalent.marked(tmp_path, every)
    assert [mutant.statement for mutant in marked] == ["return a is not None"]
    assert unfit == table[1:]
