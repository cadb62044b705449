"""A failing op's lines in pytest's FAILURES, as wide as the terminal."""

from __future__ import annotations

from typing import Any

from opscope.base.terminal import for_reader

AGAIN = "again: "
"""How the line begins that is a command, which stays whole."""


class FailureText(str):
    """The text of a report, that pytest prints by `toterminal`. Everything else sees the whole lines."""

    __slots__ = ()

    def toterminal(self, out: Any) -> None:
        """Prints the lines broken between words, where a terminal shows them; `out` is pytest's TerminalWriter."""
        for line in self.splitlines():
            for part in [line] if line.startswith(AGAIN) else for_reader(line):
                out.line(part)
