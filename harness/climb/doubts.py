"""Goldens in doubt: once one backend has met one, no backend's agreement with that golden is a success.

What a lane finds is kept in the cache under the golden's own key, so that it counts for kept verdicts and later runs;
within a run it also counts for ops that were right before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path

from opscope.base.digest import json_digest
from opscope.harness.cache import verdict_fingerprint
from opscope.harness.cache.json_store import JsonStore
from opscope.harness.record.optest import DOUBT
from opscope.harness.record.records import OpRow, OpTest
from opscope.harness.record.stages import Status

FOLDER = "authorities"
"""The subfolder of the cache folder."""


class Doubts:
    """The goldens in doubt that one cache folder knows."""

    def __init__(self, cache_dir: Path, values: Callable[[OpRow], list[str] | None]) -> None:
        """`values` gives the digests of an op's inputs and goldens, or None if they are not known."""
        self._store, self._values = JsonStore(cache_dir / FOLDER), values

    @cached_property
    def _code(self) -> str:
        """The digest of what makes verdicts, read once for all ops."""
        return verdict_fingerprint.of_verdicts("")

    @cached_property
    def _doubted(self) -> set[str]:
        """The keys of all goldens in doubt, listed once: most caches know none, and no op has to look for its own."""
        return {path.stem for path in self._store.root.glob("d?/*.json")}

    def applied(self, row: OpRow, test: OpTest) -> OpTest:
        """The record of an op by what is known of its golden; what it says itself of the golden is kept."""
        if row.second is not None:
            return test  # the lane has compared both authorities
        if test.second_authority.startswith(DOUBT):
            if (key := self._key(row)) not in self._doubted:
                self._store.put(key, {"text": test.second_authority, "values": self._values(row)})
                self._doubted.add(key)
            return test
        if test.status is not Status.SUCCESS or not self._doubted or (key := self._key(row)) not in self._doubted:
            return test
        if (entry := self._store.get(key)) is None:
            return test
        values, known = self._values(row), entry.get("values")
        if values is not None and known is not None and values != known:
            return test
        return in_doubt(test, str(entry.get("text", DOUBT)))

    def _key(self, row: OpRow) -> str:
        return "d" + json_digest(
            {
                "op": row.op_id,
                "provenance": row.provenance,
                "sources": [source.model_dump(exclude={"path"}) for source in row.sources],
                "code": self._code,
            },
            digits=31,
        )


def in_doubt(test: OpTest, text: str) -> OpTest:
    """The record of an op that is right by a golden which is in doubt."""
    message = text.removeprefix(DOUBT)
    return test.model_copy(
        update={
            "status": Status.GOLDEN_IN_DOUBT,
            "success": False,
            "error_message": message,
            "second_authority": text,
        }
    )


def found_later(tests: Sequence[OpTest]) -> Iterable[OpTest]:
    """New records of the ops of a run that were right before another backend's failure put their golden in doubt."""
    doubts = {test.op_id: test.second_authority for test in tests if test.second_authority.startswith(DOUBT)}
    for test in tests:
        if test.status is Status.SUCCESS and test.op_id in doubts and not test.second_authority:
            yield in_doubt(test, doubts[test.op_id]).model_copy(update={"attempt": test.attempt + 1})
