"""The error of this room, in the form that all of them have."""

from __future__ import annotations


class DashboardError(ValueError):
    """Something that the user can act on: one line `<where>: expected X, got Y; try Z`, exit code 2."""

    def __init__(self, where: str, expected: str, got: str, hint: str = "") -> None:
        line = f"{where}: expected {expected}, got {got}"
        super().__init__(f"{line}; try {hint}" if hint else line)
