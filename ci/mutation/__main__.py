"""Breaks our source in small ways and counts what the quick tests notice: `python -m ci.mutation --count 300 --seed 1`.

A sample of mutants is drawn from the folders that decide verdicts, plans and what changed overnight. For each one, the
quick tests that run its statement (as a coverage run found, child processes included) run in a copy of the checkout
until one fails. A mutant may take so many of them; where they leave some out it is `not decided`, which counts as not
noticed. Mutants that no test can notice are marked in `equivalent.yaml` and not drawn. A stopped run goes on where it
was. The exit code is 1 if fewer than `--least` percent were noticed, or a mark fits nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from threading import Lock

from ci.mutation import covering, equivalent, known, mutants, tree, trial
from ci.mutation.mutants import Mutant
from ci.mutation.trial import CAUGHT, ENDINGS, NOT_RUN, SURVIVED, UNDECIDED, Outcome

MOST_SECONDS, MOST_FILES = 240.0, 60
"""Seconds of tests, by their time under coverage, and test files that one mutant may take."""
FIRST = 8
"""Tests that run alone at first: most mutants that fall at all fall to these, and few files are collected fast."""


def chosen(tests: Sequence[str], seconds: dict[str, float]) -> list[str]:
    """The first tests, as many as the limits allow."""
    picked: list[str] = []
    spent, files = 0.0, set[str]()
    for test in tests:
        if spent + seconds[test] <= MOST_SECONDS and len(files | {test.partition("::")[0]}) <= MOST_FILES:
            spent += seconds[test]
            files.add(test.partition("::")[0])
            picked.append(test)
    return picked or list(tests[:1])


def try_one(folder: Path, mutant: Mutant, coverage: covering.Covering) -> Outcome:
    """Runs the tests that cover a mutant, as many as the limits allow, the nearest ones first."""
    covering_tests = [test for test in coverage.tests(mutant) if (folder / test.partition("::")[0]).exists()]
    if not covering_tests:
        return Outcome(NOT_RUN)
    tests = chosen(covering_tests, coverage.seconds)
    _, mutated = mutant.texts(folder)
    outcome = Outcome(SURVIVED)
    for some in (tests[:FIRST], tests[FIRST:]):
        if some:
            usual = sum(coverage.seconds[test] for test in some)
            tried = trial.attempt(folder, mutant.path, mutated, some, limit=60 + 5 * usual)
            outcome = replace(tried, seconds=round(outcome.seconds + tried.seconds, 1))
        if outcome.ending != SURVIVED:
            return outcome
    left_out = len(covering_tests) - len(tests)
    ending = UNDECIDED if left_out else outcome.ending
    return replace(outcome, ending=ending, by=f"{len(tests)} tests" + f", {left_out} left out" * bool(left_out))


def control(folder: Path, outcomes: dict[Mutant, Outcome], coverage: covering.Covering) -> list[Mutant]:
    """The mutants whose test fails without them too: they have to be tried again without that test."""
    tests = sorted({each.by for each in outcomes.values() if each.ending == CAUGHT and "::" in each.by})
    usual = sum(coverage.seconds.get(test, 1) for test in tests)
    _, output = trial.run(folder, tests, limit=300 + 5 * usual) if tests else (0, "")
    unfit = set(trial.failures(output))
    coverage.failed.extend(unfit)
    return [mutant for mutant, each in outcomes.items() if each.by in unfit]


def tried(
    folders: Sequence[Path], sample: Sequence[Mutant], coverage: covering.Covering, stored: Path, again: bool
) -> dict[Mutant, Outcome]:
    """The outcome of each mutant of the sample, one at a time in each of the copies.

    Those that a stopped run stored are taken over; with `again` only those that were noticed.
    """
    lines = [json.loads(line) for line in stored.read_text().splitlines()] if stored.exists() else []
    before = {line["mutant"]: Outcome(**line["outcome"]) for line in lines}
    outcomes = {mutant: before[mutant.name] for mutant in sample if mutant.name in before}
    left = [each for each in sample if each not in outcomes or (again and outcomes[each].ending != CAUGHT)]
    free, turn = SimpleQueue[Path](), Lock()
    for folder in folders:
        free.put(folder)

    def work(mutant: Mutant) -> None:
        outcome = try_one(folder := free.get(), mutant, coverage)
        free.put(folder)
        with turn:
            outcomes[mutant] = outcome
            with stored.open("a") as journal:
                journal.write(json.dumps({"mutant": mutant.name, "outcome": outcome.__dict__}) + "\n")
            text = f"{mutant.path}:{mutant.line} {outcome.ending}: {outcome.by}"
            print(f"{len(outcomes)}/{len(sample)} {text} ({outcome.seconds} s)", flush=True)

    with ThreadPoolExecutor(len(folders)) as threads:
        list(threads.map(work, left))
    return {mutant: outcomes[mutant] for mutant in sample}


def report(folder: Path, outcomes: dict[Mutant, Outcome], marks: int) -> float:
    """Prints the survivors by file and the counts by folder; returns the percentage that was noticed."""
    survivors: dict[str, list[tuple[Mutant, Outcome]]] = defaultdict(list)
    rooms: dict[str, Counter[str]] = defaultdict(Counter)
    for mutant, outcome in outcomes.items():
        rooms["/".join(mutant.path.split("/")[:2])][outcome.ending] += 1
        if outcome.ending != CAUGHT:
            survivors[mutant.path].append((mutant, outcome))
    for path, each in sorted(survivors.items()):
        print(f"\n{path}")
        for mutant, outcome in sorted(each, key=lambda pair: pair[0].line):
            before, after = mutant.lines(folder)
            print(f"  {mutant.line} in {mutant.function} ({outcome.ending} {outcome.by})\n  - {before}\n  + {after}")
    print(f"\n| folder | mutants | {' | '.join(ENDINGS)} |\n|---|{'---|' * (1 + len(ENDINGS))}")
    for room, counts in sorted(rooms.items()):
        print(f"| {room} | {counts.total()} | {' | '.join(str(counts[ending]) for ending in ENDINGS)} |")
    noticed = sum(counts[CAUGHT] for counts in rooms.values())
    rate = 100 * noticed / max(len(outcomes), 1)
    print(f"{noticed} of {len(outcomes)} mutants noticed ({rate:.1f} %); {marks} of all are marked as equivalent")
    return rate


def main(arguments: Sequence[str] | None = None) -> int:
    """Draws the sample and tries each mutant."""
    parser = argparse.ArgumentParser(prog="python -m ci.mutation", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=300, help="mutants to draw (default: 300)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the draw (default: 1)")
    parser.add_argument("--least", type=float, default=85.0, help="percentage that has to be noticed (default: 85)")
    parser.add_argument("--only", nargs="*", default=mutants.FOLDERS, metavar="FOLDER", help="folders to draw from")
    parser.add_argument("--jobs", type=int, default=2, help="copies that are tried side by side (default: 2)")
    parser.add_argument("--keep-coverage", action="store_true", help="take the last coverage run, if there is one")
    parser.add_argument(
        "--refresh", nargs="+", default=[], metavar="TEST", help="test files to run anew under coverage"
    )
    parser.add_argument("--again", action="store_true", help="try those that were not noticed again")
    parser.add_argument("--known", action="store_true", help="only prove that mutants of known.yaml end as it says")
    options = parser.parse_args(arguments)
    copies = 1 if options.known else options.jobs
    folder, *more = [tree.make(tree.BUILD / f"tree-{number}") for number in range(copies)]
    if options.known:
        mistakes = list(known.mistakes(folder))
        print("\n".join(mistakes) or f"{known.TABLE.name}: all as expected")
        return int(bool(mistakes))
    coverage = covering.load() if options.keep_coverage else None
    if coverage is None or options.refresh:
        coverage = covering.measure(folder, options.jobs, options.refresh if coverage else (), coverage)
    everything = mutants.all_mutants(folder, options.only, tree.BUILD / "mutants.json")
    marked, unfit = equivalent.marked(folder, everything)
    sample = mutants.draw((each for each in everything if each not in marked), options.count, options.seed)
    started = time.monotonic()
    outcomes = tried([folder, *more], sample, coverage, tree.BUILD / f"outcomes-{options.seed}.jsonl", options.again)
    if unfit_tests := control(folder, outcomes, coverage):
        outcomes |= {mutant: try_one(folder, mutant, coverage) for mutant in unfit_tests}
    rate = report(folder, outcomes, len(marked))
    print(f"seed {options.seed}, {len(everything)} mutants in all, {time.monotonic() - started:.0f} s")
    for row in unfit:
        print(f"{equivalent.TABLE.name}: {row.path} {row.function}: {row.before!r} fits no mutant; take the row out")
    return int(rate < options.least or bool(unfit))


if __name__ == "__main__":
    sys.exit(main())
