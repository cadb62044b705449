"""Failures in pytest's own section are as wide as the terminal, and whole everywhere else."""

from __future__ import annotations

import io

import pytest
from _pytest._io import TerminalWriter

from opscope.harness.page.failure_text import FailureText

TEXT = "compile_failed at stablehlo-to-ttir: failed to legalize\nagain: pytest --op-by-op --model mixer --ops 54cf8"


def test_lines_are_broken_between_words_and_the_command_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    shown = io.StringIO()
    out = TerminalWriter(shown)
    text = FailureText(TEXT)
    text.toterminal(out)
    first, second, again = shown.getvalue().splitlines()
    assert (first, second) == ("compile_failed at stablehlo-to-ttir:", "failed to legalize")
    assert again == TEXT.splitlines()[1]
    assert str(text) == TEXT
