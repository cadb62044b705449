"""Walks through a page of docs/guide: writes its files and runs its commands in an empty folder, as a reader would.

    ```yaml file=nightly.yaml      a file of that name
    ```console                     `$ command`, then lines that its output must contain in this order; `...` is any text
                                   `$ command   # exit code 1` must end with that code, any other command with 0

`python ci/walk.py docs/guide/ci_owner.md [FOLDER]` prints where the page is wrong; the exit code is 1 if it is.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```(?P<kind>\w+)(?P<more>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
EXIT = re.compile(r"\s+# exit code (\d+)$")
ANY = "..."
NEAR = ".{0,300}?"
"""What ANY stands for, at most."""
COLUMNS = 80
"""Width of the reader's terminal."""
WHOLE = re.compile(
    r"/|\b(pytest|opscope) |^(plugins|benchmark): |^[|#] |^\s+(%[\w:]+ = |func\.func |reducer\(|(stablehlo\.)?return )"
)
"""What a line has that may be wider: an address or a path, a command to copy, an op of MLIR, pytest's own header, what
is Markdown for the page of a job."""
TIMEOUT = 900.0
"""Seconds that one command may take."""
FOR_PEOPLE = re.compile(r"(?!.*--(csv|json|as-issue)\b)(opscope|pytest) ")
"""A command that prints for people; what others print has no width."""


@dataclass(frozen=True)
class File:
    """A file that the page asks the reader to write."""

    name: str
    text: str


@dataclass(frozen=True)
class Command:
    """A command that the page asks the reader to run."""

    line: str
    code: int
    expected: tuple[str, ...]
    """Expected lines of its output, in order; other lines may be between them."""


def steps(page: str) -> Iterator[File | Command]:
    """The files and commands of a page, in order."""
    for block in FENCE.finditer(page):
        name = re.search(r"file=(\S+)", block["more"])
        if name:
            yield File(name[1], block["text"])
        elif block["kind"] == "console":
            yield from _commands(block["text"])


def _commands(text: str) -> Iterator[Command]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, *expected = part.rstrip("\n").split("\n")
        code = EXIT.search(line)
        yield Command(
            EXIT.sub("", line),
            int(code[1]) if code else 0,
            tuple(expected_line for expected_line in expected if expected_line.strip()),
        )


def missing(expected: tuple[str, ...], output: str) -> str:
    """Returns the first expected line that is missing from the output, in order; empty if none is missing. Where the
    terminal broke a line does not matter."""
    text, place = " ".join(output.split()), 0
    for line in expected:
        parts = (re.escape(" ".join(part.split())) for part in line.split(ANY))
        hit = re.compile(NEAR.join(parts)).search(text, place)
        if hit is None and line.strip() != ANY:
            return line
        place = place if hit is None else hit.end()
    return ""


def too_wide(output: str) -> str:
    """Returns the first line that is wider than the terminal, but for what cannot be broken; empty if none is."""
    return next((line for line in output.splitlines() if len(line) > COLUMNS and not WHOLE.search(line)), "")


def walk(page: Path, folder: Path, environment: Mapping[str, str] | None = None) -> list[str]:
    """Writes the page's files and runs its commands in `folder`; stops at the first problem and returns it as lines."""
    variables = {**os.environ, **(environment or {})}
    variables["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{variables.get('PATH', '')}"
    variables["COLUMNS"] = str(COLUMNS)
    for step in steps(page.read_text(encoding="utf-8")):
        if isinstance(step, File):
            (folder / step.name).parent.mkdir(parents=True, exist_ok=True)
            (folder / step.name).write_text(step.text, encoding="utf-8")
            continue
        done = subprocess.run(
            ["bash", "-c", step.line],
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT,
            check=False,
        )
        if done.returncode != step.code:
            return [
                f"{page.name}: $ {step.line}",
                f"expected exit code {step.code}, got {done.returncode}",
                done.stdout,
            ]
        missing_line = missing(step.expected, done.stdout)
        if missing_line:
            return [f"{page.name}: $ {step.line}", f"expected a line `{missing_line}`, got none", done.stdout]
        if FOR_PEOPLE.match(step.line) and (wide := too_wide(done.stdout)):
            return [f"{page.name}: $ {step.line}", f"expected at most {COLUMNS} columns, got `{wide}`"]
    return []


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        problems = walk(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else Path(made))
    print("\n".join(problems))
    raise SystemExit(1 if problems else 0)
