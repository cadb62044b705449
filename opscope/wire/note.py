"""`opscope note --list --json`."""

from __future__ import annotations

from opscope.wire.answer import Answer


class Note(Answer):
    """What somebody wrote about a cause."""

    cause: str
    text: str
    author: str
    written: str
    """Date and time in UTC: `2026-11-20 09:30`."""
    until: str = ""
    """The last date for which the cause is acknowledged; empty if it is not."""

    def quiets(self, day: str) -> bool:
        """Whether the cause does not alarm in a night of that date."""
        return day <= self.until

    def over(self, day: str) -> bool:
        """Whether the cause alarms again in a night of that date."""
        return bool(self.until) and self.until < day

    def line(self, day: str) -> str:
        """The note in a line about a night of that date."""
        over = f"acknowledged until {self.until}, and alarms again: " if self.over(day) else ""
        until = f", acknowledged until {self.until}" if self.quiets(day) else ""
        return f"{over}{self.author}, {self.written} UTC{until}: {self.text}"


PRINTS = list[Note]
