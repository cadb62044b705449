"""Calls of opscope for attacks, and the ending of an attempt that consists of calls."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ci.attacks.attempt import Attempt, Ending

ACTING = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Categories of characters that a terminal obeys or hides."""


UNEXPLAINED = ("Traceback (most recent call last)", "INTERNALERROR")
"""What an output holds that shows an exception which nobody explained."""


@dataclass(frozen=True)
class Called:
    """How a call ended; `code` is None if it had to be stopped."""

    words: Sequence[str]
    code: int | None
    text: str
    """Both outputs; bytes that are no UTF-8 are surrogates."""

    @property
    def acts(self) -> str:
        """The characters in the output that act on a terminal."""
        return "".join(sorted({c for c in self.text if c not in "\n\t" and unicodedata.category(c) in ACTING}))


def opscope(folder: Path, *words: str, seconds: float = 120, environment: Mapping[str, str] | None = None) -> Called:
    """Runs `opscope WORDS` in `folder`."""
    command = [sys.executable, "-P", "-m", "opscope.harness.cli.main", *words]
    return call(folder, ["opscope", *words], command, seconds, environment)


def pytest(folder: Path, *words: str, seconds: float = 120, environment: Mapping[str, str] | None = None) -> Called:
    """Runs `pytest WORDS` in `folder`. Its exit code for bad usage, 4, is given as that of commands, 2."""
    command = [str(Path(sys.executable).with_name("pytest")), "-p", "no:cacheprovider", "-q", *words]
    called = call(folder, ["pytest", *words], command, seconds, environment)
    return replace(called, code=2) if called.code == 4 else called


def call(
    folder: Path,
    words: Sequence[str],
    command: Sequence[str],
    seconds: float,
    environment: Mapping[str, str] | None = None,
) -> Called:
    """Runs a command, which is shown as `words`; ends it and what it started after so many seconds."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env={**os.environ, **(environment or {})},
    )
    try:
        out, _ = process.communicate(timeout=seconds)
        code: int | None = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, code = process.communicate()[0], None
    return Called(words, code, out.decode("utf-8", "surrogateescape"))


def judged(kind: str, detail: str, calls: Sequence[Called], spoiled: str = "", silent: str = "") -> Attempt:
    """The attempt that consists of `calls`: its worst ending. `spoiled`: what changed; `silent`: what was not said."""
    ending: Ending = "noticed" if any(call.code for call in calls) else "no effect"
    shown = spoiled or silent
    if silent:
        ending = "silent"
    for call in calls:
        text = f"{' '.join(call.words)}: exit {call.code}\n{call.text[-600:]!r}"
        if spoiled or call.acts:
            ending, shown = "spoiled", spoiled or f"{call.acts!r} in {text}"
        elif any(word in call.text for word in UNEXPLAINED) or (call.code is not None and call.code not in (0, 1, 2)):
            return Attempt(kind, detail, "traceback", text)
        elif call.code is None:
            return Attempt(kind, detail, "stuck", text)
    return Attempt(kind, detail, ending, shown)
