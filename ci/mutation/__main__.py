"""Breaks our source in small ways and counts what the quick tests notice: `python -m ci.mutation --count 300 --seed 1`.

A sample of mutants is drawn from the folders that decide verdicts, plans and what changed overnight. For each one, the
quick tests that run its statement (as a coverage run found, child processes included) run in a copy of the checkout
until one fails. Mutants that no test can notice are marked in `equivalent.yaml` and not drawn. A stopped run goes on
where it was. The exit code is 1 if fewer than `--least` percent were noticed, or a mark fits nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ci.mutation import covering, equivalent, mutants, tree, trial
from ci.mutation.mutants import Mutant
from ci.mutation.trial import CAUGHT, Outcome

MOST_SECONDS, MOST_FILES = 30.0, 15
"""Seconds of tests, by their usual time, and test files that one mutant may take."""
FIRST = 8
"""Tests that run alone at first: most mutants that fall at all fall to these, and few files are collected fast."""


def chosen(tests: Sequence[str], seconds: dict[str, float]) -> list[str]:
    """The first tests, as many as the limits allow."""
    found: list[str] = []
    spent, files = 0.0, set[str]()
    for test in tests:
        if spent + seconds[test] <= MOST_SECONDS and len(files | {test.partition("::")[0]}) <= MOST_FILES:
            spent += seconds[test]
            files.add(test.partition("::")[0])
            found.append(test)
    return found or list(tests[:1])


def try_one(folder: Path, mutant: Mutant, known: covering.Covering) -> Outcome:
    """Runs the tests that cover a mutant, as many as the limits allow, the nearest ones first."""
    tests = chosen(known.tests(mutant), known.seconds)
    _, mutated = mutant.texts(folder)
    outcome = Outcome(trial.NOT_RUN)
    for some in (tests[:FIRST], tests[FIRST:]):
        if some:
            usual = sum(known.seconds[test] for test in some)
            tried = trial.attempt(folder, mutant.path, mutated, some, limit=60 + 5 * usual)
            outcome = replace(tried, seconds=round(outcome.seconds + tried.seconds, 1))
        if outcome.ending == CAUGHT:
            return outcome
    return replace(outcome, by=f"{len(tests)} tests" if tests else "")


def control(folder: Path, outcomes: dict[Mutant, Outcome], known: covering.Covering) -> list[Mutant]:
    """The mutants whose test fails without them too: they have to be tried again without that test."""
    tests = sorted({each.by for each in outcomes.values() if each.ending == CAUGHT and "::" in each.by})
    usual = sum(known.seconds.get(test, 1) for test in tests)
    _, output = trial.run(folder, tests, limit=300 + 5 * usual) if tests else (0, "")
    unfit = set(trial.failures(output))
    known.failed.extend(unfit)
    return [mutant for mutant, each in outcomes.items() if each.by in unfit]


def key(mutant: Mutant) -> list[object]:
    """What a stored outcome is found by."""
    return [mutant.path, mutant.line, mutant.column, mutant.order, mutant.statement]


def tried(folder: Path, sample: Sequence[Mutant], known: covering.Covering, stored: Path) -> dict[Mutant, Outcome]:
    """The outcome of each mutant of the sample; those that a stopped run stored are taken over."""
    lines = [json.loads(line) for line in stored.read_text().splitlines()] if stored.exists() else []
    before = {json.dumps(line["mutant"]): Outcome(**line["outcome"]) for line in lines}
    outcomes: dict[Mutant, Outcome] = {}
    for number, mutant in enumerate(sample, 1):
        outcome = before.get(json.dumps(key(mutant)))
        if outcome is None:
            outcome = try_one(folder, mutant, known)
            with stored.open("a") as journal:
                journal.write(json.dumps({"mutant": key(mutant), "outcome": outcome.__dict__}) + "\n")
            text = f"{mutant.path}:{mutant.line} {outcome.ending}: {outcome.by}"
            print(f"{number}/{len(sample)} {text} ({outcome.seconds} s)", flush=True)
        outcomes[mutant] = outcome
    return outcomes


def report(folder: Path, outcomes: dict[Mutant, Outcome], marks: int) -> float:
    """Prints the survivors by file and the counts by folder; returns the percentage that was noticed."""
    survivors: dict[str, list[tuple[Mutant, Outcome]]] = defaultdict(list)
    rooms: Counter[tuple[str, bool]] = Counter()
    for mutant, outcome in outcomes.items():
        noticed = outcome.ending == CAUGHT
        rooms["/".join(mutant.path.split("/")[:2]), noticed] += 1
        if not noticed:
            survivors[mutant.path].append((mutant, outcome))
    for path, each in sorted(survivors.items()):
        print(f"\n{path}")
        for mutant, outcome in sorted(each, key=lambda pair: pair[0].line):
            before, after = mutant.lines(folder)
            print(f"  {mutant.line} in {mutant.function} ({outcome.ending} {outcome.by})\n  - {before}\n  + {after}")
    print("\n| folder | mutants | noticed |\n|---|---|---|")
    for room in sorted({name for name, _ in rooms}):
        print(f"| {room} | {rooms[room, True] + rooms[room, False]} | {rooms[room, True]} |")
    noticed = sum(count for (_, yes), count in rooms.items() if yes)
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
    parser.add_argument("--jobs", type=int, default=2, help="processes of the coverage run (default: 2)")
    parser.add_argument("--keep-coverage", action="store_true", help="take the last coverage run, if there is one")
    parser.add_argument(
        "--refresh", nargs="+", default=[], metavar="TEST", help="test files to run anew under coverage"
    )
    parser.add_argument("--by-name", action="store_true", help="no coverage run: test_x.py for x.py, no others")
    options = parser.parse_args(arguments)
    folder = tree.make()
    known = covering.by_name(folder) if options.by_name else covering.load() if options.keep_coverage else None
    if known is None or options.refresh:
        known = covering.measure(folder, options.jobs, options.refresh if known else (), known)
    everything = mutants.all_mutants(folder, options.only, tree.BUILD / "mutants.json")
    marked, unfit = equivalent.marked(folder, everything)
    open_ = [each for each in everything if each not in marked and (not options.by_name or known.tests(each))]
    sample = mutants.draw(open_, options.count, options.seed)
    stored = tree.BUILD / f"outcomes-{'by-name-' * options.by_name}{options.seed}.jsonl"
    started = time.monotonic()
    outcomes = tried(folder, sample, known, stored)
    if again := control(folder, outcomes, known):
        outcomes |= {mutant: try_one(folder, mutant, known) for mutant in again}
    rate = report(folder, outcomes, len(marked))
    print(f"seed {options.seed}, {len(everything)} mutants in all, {time.monotonic() - started:.0f} s")
    for row in unfit:
        print(f"{equivalent.TABLE.name}: {row.path} {row.function}: {row.before!r} fits no mutant; take the row out")
    return int(rate < options.least or bool(unfit))


if __name__ == "__main__":
    sys.exit(main())
