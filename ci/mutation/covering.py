"""Which quick tests run which statement, child processes included: one run of them under coverage, kept in `build/`."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import coverage

from ci.mutation import tree
from ci.mutation.mutants import MODULE, Mutant, Statements

MEASURED = ("harness", "compiler", "reports")
"""The rooms whose lines are noted: those with mutants, and those that import them."""
IMPORTING = (*MEASURED, "simulator", "opscope")
"""The rooms whose files and tests may import a mutant's."""


@dataclass
class Covering:
    """What each test takes, and which tests run what."""

    seconds: dict[str, float]
    statements: dict[str, dict[str, dict[str, list[int]]]]
    """File -> function -> statement -> tests, as indices of `seconds`."""
    failed: list[str] = field(default_factory=list)
    """Tests that fail without a mutant; they are never asked."""

    def tests(self, mutant: Mutant) -> list[str]:
        """The tests that run a mutant's statement: of its file's name, of files that import it, then the fastest."""
        names, functions = list(self.seconds), self.statements.get(mutant.path, {})
        statements = functions.get(mutant.function, {})
        if mutant.function == MODULE:  # anything may depend on what is there after the import
            near = _importers(mutant.path)
            places = {mutant.path, *near, *(path for module in near for path in _importers(module))}
            numbers = {test for path in places for test in self._of_file(path)}
            numbers |= {number for number, test in enumerate(names) if test.partition("::")[0] in places}
        else:
            statements = statements or self._moved(mutant.function)
            numbers = set(statements.get(mutant.statement, ()))
            if mutant.statement not in statements:  # the statement is younger than the coverage run
                numbers = {test for tests in statements.values() for test in tests}
        stem = Path(mutant.path).stem if Path(mutant.path).stem != "__init__" else Path(mutant.path).parent.name
        chosen = [names[test] for test in numbers if names[test] not in self.failed]
        files = {*_importers(mutant.path), *(test for test in chosen if f"test_{stem}.py::" in test)}

        def distance(test: str) -> tuple[bool, bool, float, str]:
            return test not in files, test.partition("::")[0] not in files, self.seconds[test], test

        return sorted(chosen, key=distance)

    def joined(self, newer: Covering, files: Sequence[str]) -> Covering:
        """What is known, with a later run of the tests of some files in place of the former one."""
        old, new = list(self.seconds), list(newer.seconds)
        stale = {test for test in old if test.partition("::")[0] in files}
        seconds = {test: each for test, each in self.seconds.items() if test not in stale} | newer.seconds
        place = {test: number for number, test in enumerate(seconds)}
        statements: dict[str, dict[str, dict[str, list[int]]]] = {}
        for names, source in ((old, self.statements), (new, newer.statements)):
            for path, functions in source.items():
                for function, each in functions.items():
                    into = statements.setdefault(path, {}).setdefault(function, {})
                    for statement, tests in each.items():
                        again = {place[names[test]] for test in tests if names is new or names[test] not in stale}
                        into[statement] = sorted(again | set(into.get(statement, ())))
        return Covering(seconds, statements, [*(test for test in self.failed if test not in stale), *newer.failed])

    def _moved(self, function: str) -> dict[str, list[int]]:
        """The statements of a function that went to another file after the coverage run; none if two have its name."""
        places = [functions[function] for functions in self.statements.values() if function in functions]
        return places[0] if len(places) == 1 else {}

    def _of_file(self, path: str) -> set[int]:
        return {test for each in self.statements.get(path, {}).values() for tests in each.values() for test in tests}


@functools.cache
def _imports() -> dict[str, str]:
    """File of the rooms, tests included -> its lines that import."""
    files = [path for room in IMPORTING for path in (tree.ROOT / room).rglob("*.py")]
    return {
        path.relative_to(tree.ROOT).as_posix(): "\n".join(
            line for line in path.read_text().splitlines() if " import " in line or line.startswith("import ")
        )
        for path in files
    }


@functools.cache
def _importers(path: str) -> tuple[str, ...]:
    """Files that import a module by its whole name, or from its package."""
    module = "opscope." + path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    package, _, name = module.rpartition(".")
    own = re.compile(rf"{re.escape(module)}\b|from {re.escape(package)} import .*\b{name}\b")
    return tuple(file for file, lines in _imports().items() if own.search(lines))


def measure(folder: Path, jobs: int, only: Sequence[str] = (), known: Covering | None = None) -> Covering:
    """Runs the quick tests of the copy under coverage and stores what each ran.

    `only` these files run, where any are named, and what they ran is added to what is `known`.
    """
    work = tree.BUILD / "coverage"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    config, journal = work / "coveragerc", work / "tests.jsonl"
    sources = "\n  ".join(f"{folder}/{room}/*" for room in MEASURED)
    config.write_text(
        f"[run]\ninclude =\n  {sources}\nomit = */tests/*\ndata_file = {work}/data\nparallel = true\n"
        "context = ${MUTATION_CONTEXT-}\nsigterm = true\npatch = _exit,fork\n"
        "disable_warnings = no-data-collected,couldnt-parse\n"
    )
    site = next((folder / ".venv").glob("lib/python*/site-packages"))
    shutil.copy2(Path(__file__).with_name("soft_kill.py"), site / "mutation_soft_kill.py")
    (site / "a2_mutation_soft_kill.pth").write_text("import mutation_soft_kill\n")
    environment = {**os.environ, "COVERAGE_PROCESS_START": str(config), "MUTATION_JOURNAL": str(journal)}
    options = f"-p ci.mutation.contexts -p no:benchmark -p no:cacheprovider -q -n {jobs} --dist worksteal"
    command = [tree.python(folder), "-m", "pytest", *options.split(), "-m", "not slow", *only]
    with (work / "output.txt").open("w") as output:
        subprocess.run(command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT)
    (site / "a2_mutation_soft_kill.pth").unlink()
    covered = read(folder)
    covered.failed = confirm_failures(folder, covered.failed)
    if known is not None:
        covered = known.joined(covered, only)
    (tree.BUILD / "covering.json").write_text(json.dumps(covered.__dict__))
    return covered


def read(folder: Path) -> Covering:
    """Puts together what the processes of a coverage run wrote; `failed` are those that failed under coverage."""
    work = tree.BUILD / "coverage"
    rows = [json.loads(line) for line in (work / "tests.jsonl").read_text().splitlines()]
    seconds = {row["test"]: row["seconds"] for row in rows}
    tests_of: dict[str, set[int]] = defaultdict(set)
    for number, test in enumerate(seconds):
        for context in next(row["contexts"] for row in rows if row["test"] == test):
            tests_of[context].add(number)
    measured = coverage.Coverage(data_file=str(work / "data"), config_file=False)
    measured.combine([str(work)])
    data = measured.get_data()
    by_file: dict[str, dict[str, dict[str, set[int]]]] = {}
    for file in (name for name in data.measured_files() if name.endswith(".py")):
        path = Path(file).relative_to(folder).as_posix()
        statements = Statements.of(Path(file).read_text())
        functions = by_file.setdefault(path, defaultdict(lambda: defaultdict(set)))
        for line, contexts in data.contexts_by_lineno(file).items():
            function, statement = statements.at(line)
            functions[function][statement].update(test for each in contexts for test in tests_of.get(each, ()))
    return Covering(
        seconds,
        {p: {f: {s: sorted(t) for s, t in ss.items()} for f, ss in fs.items()} for p, fs in by_file.items()},
        [row["test"] for row in rows if row["failed"]],
    )


def confirm_failures(folder: Path, tests: Sequence[str]) -> list[str]:
    """Those of `tests` that fail in the copy, without coverage and without a mutant."""
    if not tests:
        return []
    report = tree.BUILD / "control.txt"
    command = [tree.python(folder), "-m", "pytest", *tree.OPTIONS, *tests]
    with report.open("w") as output:
        subprocess.run(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
    lines = [line for line in report.read_text().splitlines() if line.startswith(("FAILED ", "ERROR "))]
    failed = [test for test in tests if any(line.split(" ", 1)[1].split(" - ")[0] == test for line in lines)]
    if failed:
        print(
            f"mutation: {len(failed)} tests fail without a mutant and are not asked:",
            *failed,
            sep="\n  ",
            file=sys.stderr,
        )
    return failed


def load() -> Covering | None:
    """What the last coverage run stored, or None."""
    path = tree.BUILD / "covering.json"
    return Covering(**json.loads(path.read_text())) if path.exists() else None
