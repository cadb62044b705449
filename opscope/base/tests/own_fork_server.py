"""A fork server of a test's own: where that of all others, which has imported what compiles, would be ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opscope.base.children import forked


@contextmanager
def own_fork_server() -> Iterator[None]:
    """Children are forks of new servers, which end with it; then those of before are there again."""
    before = forked._places
    forked._places = {"": forked._Place(forked._Kind())}
    try:
        yield
    finally:
        forked._close()
        forked._places = before
