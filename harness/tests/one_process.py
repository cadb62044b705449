"""Command lines one after another in a process that a session keeps: to start one takes longer than most of them."""

from __future__ import annotations

import atexit
import json
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

PROGRAM = """
import contextlib, io, json, os, pathlib, sys
import pytest
from opscope.harness.cli.main import main

asked, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
os.dup2(2, 1)

def code(words):
    if words[0] == "pytest":
        return int(pytest.main(words[1:]))
    try:
        main(words[1:])
    except SystemExit as end:
        return end.code or 0

def is_in(folder, module):
    file = getattr(module, "__file__", None)
    return file is not None and pathlib.Path(file).is_relative_to(folder)

for line in asked:
    folder, commands = json.loads(line)
    path, done = [*sys.path], []
    for words, environment in commands:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            done.append([code(words), out.getvalue(), err.getvalue()])
    os.chdir("/")
    sys.path[:] = path
    for name in [name for name, module in sys.modules.items() if is_in(folder, module)]:
        del sys.modules[name]
    answers.write(json.dumps(done) + "\\n")
    answers.flush()
"""


class OneProcess:
    """The process, which has no settings of a command, and no module of its folder, left for the next."""

    def __init__(self) -> None:
        command = [sys.executable, "-P", "-c", PROGRAM]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        atexit.register(self.end)

    def run(
        self, folder: Path, commands: Sequence[tuple[Sequence[str], Mapping[str, str]]], seconds: float = 120
    ) -> list[tuple[int, str, str]]:
        """Runs `pytest WORDS` or `opscope WORDS` in a folder, each with its whole environment.

        Returns the exit code, stdout and stderr of each. Raises RuntimeError where the process ends instead, or takes
        more than `seconds`.
        """
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answers is not None
        asked.write(json.dumps([str(folder), commands]) + "\n")
        asked.flush()
        line = answers.readline() if select.select([answers], [], [], seconds)[0] else ""
        if not line:
            self.end()
            the_process.cache_clear()
            raise RuntimeError(f"{commands}: expected to end within {seconds:g} s, and not the process with them")
        done: list[Any] = json.loads(line)
        return [(code, out, err) for code, out, err in done]

    def end(self) -> None:
        """Ends the process."""
        self._process.kill()
        with suppress(OSError):
            self._process.communicate()


@cache
def the_process() -> OneProcess:
    """That of this session."""
    return OneProcess()
