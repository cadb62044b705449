"""`opscope publish --json`."""

from __future__ import annotations

from opscope.wire.answer import Answer


class Published(Answer):
    """What became of the runs."""

    database: str
    """Its URL, without a password."""
    rows: dict[str, int] | None
    """Table -> rows, of the run; null if it is not one alone that was published."""
    runs: dict[str, dict[str, int]]
    """Run folder -> table -> rows."""
    from_spool: tuple[str, ...]
    """Ids of the runs that arrived from the spool."""
    refused: tuple[str, ...]
    """Folders of the runs that the database refused, now or before."""


PRINTS = Published
