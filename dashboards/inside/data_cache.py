"""Superset's cache of chart data, by what the results database holds: a published night shows at once, and an answer
stays warm until then, however long nobody looks.
"""

from __future__ import annotations

from typing import Any

import data_version
from flask import g
from flask_caching.backends.base import BaseCache
from flask_caching.backends.filesystemcache import FileSystemCache


class DataCache(BaseCache):
    """A folder of answers; their keys begin with the version of the database at DATABASE of the configuration."""

    def __init__(self, answers: FileSystemCache, database: str) -> None:
        super().__init__(answers.default_timeout)
        self.answers, self.version = answers, data_version.of_database(database)

    @classmethod
    def factory(cls, app: Any, config: Any, args: list[Any], kwargs: dict[str, Any]) -> DataCache:
        """As flask-caching makes one."""
        return cls(FileSystemCache.factory(app, config, args, kwargs), config["DATABASE"])

    def get(self, key: str) -> Any:
        """The answer, if it is of the data of now."""
        version = self.version()
        value = self.answers.get(version + key)
        if value is None:
            _missed()[key] = version
        return value

    def has(self, key: str) -> bool:
        """Whether there is an answer of the data of now."""
        return bool(self.answers.has(self.version() + key))

    def set(self, key: str, value: Any, timeout: int | None = None) -> bool:
        """Keeps an answer for the version for which it was missed: a night may be published while the query runs.

        An answer that nobody looked for before its query ran (*Force refresh*) is of an unknown version: not kept.
        """
        version = _missed().pop(key, None)
        return version is not None and bool(self.answers.set(version + key, value, timeout))

    def delete(self, key: str) -> bool:
        """Forgets the answer of now."""
        return bool(self.answers.delete(self.version() + key))

    def clear(self) -> bool:
        """Forgets everything."""
        return bool(self.answers.clear())


def _missed() -> dict[str, str]:
    """Key -> the version for which this request missed it."""
    if "opscope_missed" not in g:
        g.opscope_missed = {}
    return g.opscope_missed
