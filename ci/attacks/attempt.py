"""What one attempt of an attack ended in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Ending = Literal["noticed", "no effect", "silent", "traceback", "stuck", "spoiled"]

HARMLESS: frozenset[Ending] = frozenset({"noticed", "no effect"})
"""noticed: one line or one row says what is wrong. no effect: every verdict is what it was without the attempt.

The other endings are defects. silent: another verdict and nothing said. traceback: an exception that nobody explained,
or a dead caller. stuck: no end within the limit. spoiled: something beside the target changed.
"""


@dataclass(frozen=True)
class Attempt:
    """One attempt: what was done to what, how it ended, and the output that shows it (kept for bad endings)."""

    kind: str
    detail: str
    ending: Ending
    shown: str = ""

    @property
    def defect(self) -> bool:
        """True if opscope should have done better."""
        return self.ending not in HARMLESS
