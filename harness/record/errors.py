"""Errors that a user can act on, and the one line in which a command prints them."""

from __future__ import annotations

import difflib
import os
import re
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path

from opscope.base.visible_text import visible
from opscope.harness.record.masking import mask_secrets


class InputError(ValueError):
    """Bad input: printed as one line `<where>: expected X, got Y; try Z`, exit code 2, never a traceback, without the
    secrets that are in it."""

    def __init__(self, where: str, expected: str, got: str, hint: str = "") -> None:
        words = tuple(map(mask_secrets, (where, expected, got, hint)))
        self.where, self.expected, self.got, self.hint = words
        line = "{}: expected {}, got {}".format(*words)
        super().__init__(visible(f"{line}; try {self.hint}" if hint else line))


class Refused(ValueError):
    """Bad input that another room refuses in words of its own, which may have no `expected`."""


def refuse_closed_stdout() -> None:
    """Raises InputError if this process was started without a stdout (`>&-`). What is written to a stderr that is
    closed goes nowhere."""
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for good
    if sys.stdout is None:
        raise InputError("stdout", "one that can be written", "a closed one", "> FILE, or > /dev/null")


PYTEST = "pytest --op-by-op"
"""How pytest's options of a run are called in a refusal."""


def resuming(run_dir: Path | str) -> str:
    """The command line that goes on with a run, as a shell takes it."""
    return f"{PYTEST} --resume {shlex.quote(str(run_dir))}"


def interrupted(run_dir: Path | None) -> str:
    """The line of Ctrl-C after the ops of a run, or before there is a run."""
    if run_dir is None:
        return f"{PYTEST}: interrupted while preparing; no op has run"
    return f"{PYTEST}: interrupted while the run was ended; try {resuming(run_dir)}"


USAGES = {PYTEST: "pytest --model MODEL --op-by-op, whose options `opscope config --explain NAME` explains"}
"""Programs that are no command of opscope -> how they are called rightly."""
_COMMAND = re.compile(r"^opscope(?: [a-z][a-z-]*)*: ")


def refusal(program: str, error: Exception, usage: str = "") -> str:
    """The line that a user reads: `opscope VERB: <where>: expected X, got Y; try Z`.

    `program` is the command as it was called, `usage` how it is called rightly, for an error that knows no way out.
    Raises `error` itself if it is no refusal of ours: a fault of the program
    keeps its traceback.
    """
    text = " ".join(str(error).split())
    if isinstance(error, OSError):
        name = "" if error.filename is None else f"{error.filename}: "
        text = f"{name}expected to read and write files, got: {error.strerror or text}"
    elif "expected " not in text and not isinstance(error, Refused):
        raise error
    text = _COMMAND.sub("", text).removeprefix(f"{program.split()[-1]}: ")
    hint = "" if "; try " in text else f"; try {usage or USAGES.get(program, program)}"
    return visible(f"{program}: {mask_secrets(text)}{hint}")


def closest(word: str, known: Iterable[str], most: int | None = None) -> str:
    """The known names closest to `word`, for the `try` part of an error.

    If none is close, returns all of them, or the last `most` (the newest, for ids that begin with a date).
    """
    names = sorted({*known})
    near = difflib.get_close_matches(word, names, n=3, cutoff=0.4)
    return ", ".join(near or (names if most is None else names[-most:][::-1]))
