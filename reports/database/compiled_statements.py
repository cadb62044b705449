"""Compiled statements, kept for all SQLite databases of a process.

SQLAlchemy keeps them for each engine, and each database that is opened has an engine of its own. Compiling takes a
third of the time of publishing a small run to a second database.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy.util import LRUCache


class CompiledStatements(LRUCache[Any, Any]):
    """A cache for the execution option `compiled_cache` of engines whose dialects are of one kind.

    SQLAlchemy's keys begin with the engine's own dialect object, which is unequal to that of any other engine.
    """

    def get(self, key: Any, default: Any = None) -> Any:
        """Looks up what was compiled for any engine of this kind of dialect."""
        return super().get((key[0].name, *key[1:]), default)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__((key[0].name, *key[1:]), value)


SQLITE_STATEMENTS = CompiledStatements(500)
