"""Whether the tool itself works: mutants of which it is known how they end, each with the test that tells (`--known`).

The tests pass in the copy as it is; each mutant of `known.yaml` is noticed by its test, but for those whose test is
known to miss them; afterwards the copy is as it was. No coverage run is needed.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import yaml

from ci.mutation import equivalent, trial
from ci.mutation.equivalent import Row

TABLE = Path(__file__).with_name("known.yaml")


def mistakes(folder: Path) -> Iterator[str]:
    """Tries each row of the table in the copy; one line for each that ends otherwise."""
    rows = {Row(**{"reason": "", **row["mutant"]}): row for row in yaml.load(TABLE.read_text(), yaml.CSafeLoader)}
    code, output = trial.run(folder, sorted({row["test"] for row in rows.values()}), limit=300)
    if code != 0:
        yield f"{TABLE.name}: expected tests that pass without a mutant, got exit code {code}:\n{output}"
        return
    for row, mutants in equivalent.fitting(folder, rows).items():
        if len(mutants) != 1:
            yield f"{TABLE.name}: expected one mutant {row.path} {row.function}: {row.after!r}, got {len(mutants)}"
            continue
        test, expected = rows[row]["test"], rows[row]["ending"]
        got = trial.attempt(folder, row.path, mutants[0].texts(folder)[1], [test], limit=120)
        print(f"{row.path} {row.function}: {got.ending} ({got.by}, {got.seconds} s)", flush=True)
        if got.ending != expected or (expected == trial.CAUGHT and not got.by.startswith(test)):
            yield f"{TABLE.name}: {row.path} {row.after!r}: expected {expected} by {test}, got {got.ending} ({got.by})"
    command = ["git", "-C", str(folder), "status", "--porcelain", "--untracked-files=no"]
    if changed := subprocess.run(command, capture_output=True, text=True, check=True).stdout:
        yield f"{folder}: expected the copy as it was, got changes of\n{changed}"
