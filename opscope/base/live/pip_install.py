"""Runs pip and says how far it is: `python -m opscope.base.live.pip_install ARGUMENTS`, which make calls.

Nothing but the standard library is imported: what we need is being installed.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing

from opscope.base.live.status_line import StatusLine, duration

EVERY = 10.0
"""Seconds between two lines where there is no terminal."""
COLLECTING = "Collecting "
NAME = re.compile(r"[\w.-]+")


def run(command: Sequence[str], say: Callable[[str], None], total: int = 0) -> tuple[int, list[str]]:
    """Runs a command line of pip; returns its exit code and its lines. Calls `say` at each step. Raises OSError.

    With `total`, how many packages there will be, `say` gets it too.
    """
    lines: list[str] = []
    collected = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip())
            if line.startswith(COLLECTING):
                collected += 1
                name = "".join(NAME.findall(line)[1:2])
                say(f"package {collected} of {total}, {name}" if total else f"package {collected}, {name}")
            elif line.startswith("Installing collected packages"):
                say(f"unpacking {line.count(',') + 1} packages")
    return process.returncode, lines


def main(arguments: Sequence[str]) -> int:
    """Runs `pip install` with the arguments; prints what it said only if it failed."""
    begun, step = time.monotonic(), "asking the index"

    def text() -> str:
        return f"installing · {step} · {duration(time.monotonic() - begun)}"

    def say(what: str) -> None:
        nonlocal step
        step = what

    terminal = sys.stderr if sys.stderr.isatty() else None
    command = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--progress-bar",
        "off",
        *arguments,
    ]
    with closing(StatusLine(text, terminal=terminal, write_line=lambda line: print(line, flush=True), minute=EVERY)):
        code, lines = run(command, say)
    if code:
        print("\n".join(lines), file=sys.stderr)
    else:
        print(f"installed in {duration(time.monotonic() - begun)}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
