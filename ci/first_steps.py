"""What a stranger needs until the first verdict, night and gate: commands typed, seconds, megabytes, words read.

`python -m ci.first_steps` goes both ways in a bare environment: from a clone by `make`, and from a wheel to a compiler
of one's own in YAML, a night and a gate. Nothing of the user's settings, caches and packages is seen but pip's own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ci.guides import ROOT, build_wheel

DOCS = ROOT / "docs"
ANSWER = re.compile(r"[\d,]+ of [\d,]+|[\d,]+ unique ops = ")
"""What each goal ends with: how many ops are right."""


@dataclass(frozen=True)
class Goal:
    """What a stranger wants to see, and how."""

    name: str
    page: Path
    """The page that says so."""
    until: str
    """The words of that page after which a reader types the last command."""
    commands: tuple[str, ...]
    """What is typed after the goal before."""
    exit_codes: tuple[int, ...] = (0,)
    """Those of the last command that reach the goal: a verdict may be red."""


FROM_CLONE = (
    Goal(
        "clone to first verdict",
        ROOT / "README.md",
        "make sweep",
        ("git clone -q {clone} opscope", "cd opscope && make -s sweep MODEL=mnist_mlp"),
    ),
)
FROM_WHEEL = (
    Goal(
        "wheel to first verdict of one's own YAML compiler",
        DOCS / "index.md",
        "--backend mine.yaml",
        (
            "python3 -m venv env",
            "env/bin/pip install -q --disable-pip-version-check {wheel}",
            "env/bin/opscope backend new mine.yaml --stage 'compile=cp {{input}} {{output}}'",
            "env/bin/pytest --model mnist_mlp --op-by-op --backend mine.yaml",
        ),
        (0, 1),
    ),
    Goal(
        "then to the first night",
        DOCS / "index.md",
        "opscope nightly",
        ("env/bin/opscope nightly --init", "env/bin/opscope nightly"),
    ),
    Goal(
        "then to the first gate",
        DOCS / "guide" / "ci_owner.md",
        "opscope gate",
        ("env/bin/opscope gate",),
    ),
)


@dataclass(frozen=True)
class Steps:
    """What a goal took."""

    goal: Goal
    seconds: float
    megabytes: float
    """What the folder holds more than before: checkout, environment, caches, runs."""
    words: int
    """Read: of the page down to the last command, and what the commands print."""
    problem: str
    """What went otherwise; empty if the goal was reached."""


def followed(goals: tuple[Goal, ...], folder: Path, **places: Path) -> Iterator[Steps]:
    """Types the commands of the goals in turn, in a bare environment; ends with one that is missed."""
    bare = {"HOME": str(folder), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "dumb"}
    bare |= {
        name: value
        for name, value in os.environ.items()
        if name.lower().startswith(("pip_", "http", "no_proxy", "ssl_"))
    }
    held = 0.0
    for goal in goals:
        started, said, problem = time.monotonic(), "", ""
        for command in goal.commands:
            line = command.format(**places)
            done = subprocess.run(
                line,
                shell=True,
                cwd=folder,
                env=bare,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
            )
            said += done.stdout
            if done.returncode not in (goal.exit_codes if command is goal.commands[-1] else (0,)):
                problem = f"`{line}` ended with {done.returncode}: {done.stdout[-400:]}"
                break
        seconds = time.monotonic() - started
        if not problem and not ANSWER.search(said):
            problem = f"expected a count of ops at the end, got {said[-400:]!r}"
        size = megabytes(folder)
        yield Steps(goal, seconds, size - held, words_until(goal) + len(said.split()), problem)
        held = size
        if problem:
            return


def words_until(goal: Goal) -> int:
    """Words of the goal's page down to its last command. Raises ValueError if the page does not say it."""
    before, found, _ = goal.page.read_text(encoding="utf-8").partition(goal.until)
    if not found:
        raise ValueError(f"{goal.page.name}: expected `{goal.until}` in it, got none; try a command that it says")
    return len(before.split())


def megabytes(folder: Path) -> float:
    """What the files below a folder hold; links count nothing."""
    files = (Path(where) / name for where, _, names in os.walk(folder) for name in names)
    return sum(file.lstat().st_size for file in files if not file.is_symlink()) / 1e6


def main() -> int:
    """Prints a line for each goal: 1 if one was missed."""
    missed = False
    with tempfile.TemporaryDirectory() as made:
        scratch = Path(made)
        wheel = build_wheel(scratch)
        for goals, name in ((FROM_WHEEL, "wheel"), (FROM_CLONE, "clone")):
            folder = scratch / f"home-{name}"
            folder.mkdir()
            for steps in followed(goals, folder, wheel=wheel, clone=ROOT):
                typed = len(steps.goal.commands)
                figures = f"{typed} commands, {steps.seconds:.0f} s, {steps.megabytes:.0f} MB, {steps.words} words"
                print(f"{steps.goal.name}: {steps.problem or figures}", flush=True)
                missed |= bool(steps.problem)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
