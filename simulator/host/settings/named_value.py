"""Enumerations that are written into files by name."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

from opscope.simulator.host.errors import PyBudaError

E = TypeVar("E", bound="NamedValue")


class NamedValue(Enum):
    """A member has a name, which files hold, and TT-Buda's number."""

    @classmethod
    def from_json(cls: type[E], text: str) -> E:
        """Returns the member of that name; case does not matter. Raises PyBudaError."""
        for member in cls:
            if isinstance(text, str) and member.name.lower() == text.lower():
                return member
        raise PyBudaError(f"{cls.__name__}: expected {', '.join(m.name for m in cls)}, got {text!r}")

    def to_json(self) -> str:
        """Returns its name."""
        return self.name
