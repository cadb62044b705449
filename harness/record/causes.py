"""Groups failures by their cause, so that a page tells each cause once with its ops below it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Cause(NamedTuple, Generic[T]):
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

    def with_counts(self, text: str) -> str:
        """A text about the cause, after the numbers of its ops and uses where it has several ops."""
        return f"{self.ops} ops, {self.uses} uses: {text}" if self.ops > 1 else text


def by_cause(failures: Iterable[T], cause: Callable[[T], Hashable], uses: Callable[[T], int]) -> list[Cause[T]]:
    """The causes of some failures, the one with the most uses first; `cause` returns what is equal for equal causes."""
    groups: dict[Hashable, list[T]] = {}
    for failure in failures:
        groups.setdefault(cause(failure), []).append(failure)
    causes = [Cause(tuple(group), len(group), sum(map(uses, group))) for group in groups.values()]
    return sorted(causes, key=lambda one: -one.uses)


def parts_within(causes: Iterable[Cause[T]], most: int) -> list[Cause[T]]:
    """The causes with `most` failures in all: later ones are left out, but no cause loses its first failure."""
    shown: list[Cause[T]] = []
    left = most
    for one in causes:
        if left <= 0:
            break
        shown.append(one._replace(failures=one.failures[:left]))
        left -= len(one.failures)
    return shown
