"""The error that this room raises, in the same form as all errors of the project."""

from __future__ import annotations


class DashboardError(ValueError):
    """Something that the user can act on: one line `<where>: expected X, got Y; try Z`, exit code 2."""

    def __init__(self, where: str, expected: str, got: str, hint: str = "") -> None:
        line = f"{where}: expected {expected}, got {got}"
        super().__init__(f"{line}; try {hint}" if hint else line)
