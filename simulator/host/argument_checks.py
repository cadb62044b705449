"""Checks of what a program gives to the functions of the API, each with one line for what does not fit."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from opscope.simulator.host.errors import PyBudaError


def count(where: str, value: Any, least: int) -> int:
    """Returns a number from `least` on. Raises PyBudaError."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise PyBudaError(f"{where}: expected a number from {least} on, got {value!r}")
    return value


def listed(where: str, value: Any, what: str, otherwise: str = "") -> list[Any]:
    """Returns the elements of a list, a tuple or an array. Raises PyBudaError for what is none."""
    if isinstance(value, str | dict) or not isinstance(value, Iterable):
        raise PyBudaError(f"{where}: expected a list of {what}, got {value!r}"[:300] + _hint(otherwise))
    try:
        return list(value)
    except TypeError as error:  # an array without dimensions
        raise PyBudaError(f"{where}: expected a list of {what}, got {error}") from None


def queues(where: str, value: Any) -> list[Any]:
    """Returns a list of queues. Raises PyBudaError for what nothing can be put into."""
    return [queue_of(where, queue) for queue in listed(where, value, "queues")]


def queue_of(where: str, value: Any) -> Any:
    """Returns a queue, or None for none. Raises PyBudaError for what nothing can be put into."""
    if value is not None and not callable(getattr(value, "put", None)):
        raise PyBudaError(f"{where}: expected a queue, such as queue.Queue(), got {value!r}"[:300])
    return value


def one_of(where: str, value: Any, kind: type, otherwise: str = "") -> Any:
    """Returns a value of a class of pybuda's, or None. Raises PyBudaError for any other."""
    if value is not None and not isinstance(value, kind):
        raise PyBudaError(f"{where}: expected a pybuda.{kind.__name__}, got {_shown(value)}" + _hint(otherwise))
    return value


def path_of(where: str, value: Any) -> Path:
    """Returns a path. Raises PyBudaError for what names no file."""
    if not isinstance(value, str | os.PathLike) or not str(value):
        raise PyBudaError(f"{where}: expected the name of a file, got {value!r}"[:300])
    return Path(value)


def _shown(value: Any) -> str:
    return repr(value)[:200] if isinstance(value, str | int | float) else type(value).__name__


def _hint(otherwise: str) -> str:
    return f"; try {otherwise}" if otherwise else ""
