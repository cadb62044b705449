"""Failures by cause, so that each is told once with its ops below it: the heaviest first, none without its numbers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, NamedTuple, TypeVar

SHORT = 8
"""Hex digits of the short id that stands for a cause wherever people read or type it."""
T = TypeVar("T")


def short(cause: str) -> str:
    """The short id of a cause."""
    return cause[:SHORT]


class Group(NamedTuple, Generic[T]):
    """Failures with one cause."""

    failures: tuple[T, ...]
    """In the order in which they were given."""
    ops: int
    """How many there are, those that a page leaves out among them."""
    uses: int
    """Of all of them together."""

    @property
    def first(self) -> T:
        """The failure that stands for the others."""
        return self.failures[0]

    def with_counts(self, text: str, cause: str = "") -> str:
        """A text about the cause, after its short id and, where it has several ops, the numbers of ops and uses."""
        counts = f"{self.ops} ops, {self.uses} uses" if self.ops > 1 else ""
        head = ", ".join(filter(None, (f"cause {short(cause)}" if cause else "", counts)))
        return f"{head}: {text}" if head else text


def by_cause(failures: Iterable[T], cause: Callable[[T], Hashable], uses: Callable[[T], int]) -> list[Group[T]]:
    """The causes of some failures, the one with the most uses first; `cause` returns what is equal for equal causes."""
    groups: dict[Hashable, list[T]] = {}
    for failure in failures:
        groups.setdefault(cause(failure), []).append(failure)
    causes = [Group(tuple(group), len(group), sum(map(uses, group))) for group in groups.values()]
    return sorted(causes, key=lambda one: -one.uses)


def parts_within(causes: Iterable[Group[T]], most: int) -> list[Group[T]]:
    """The causes with `most` failures in all: later ones are left out, but no cause loses its first failure."""
    shown: list[Group[T]] = []
    left = most
    for one in causes:
        if left <= 0:
            break
        shown.append(one._replace(failures=one.failures[:left]))
        left -= len(one.failures)
    return shown
