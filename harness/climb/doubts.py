"""Goldens in question: once authorities have contradicted one for a backend, no other is right by it unasked.

What a lane finds is kept in the cache under the golden's own key, by who raised it. It is no verdict: an op whose
golden is in question runs again, and its lane asks the authorities that are none of its backend's code. Within a run it
also counts for ops that were right before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path

from opscope.base.digest import json_digest
from opscope.harness.cache import verdict_fingerprint
from opscope.harness.cache.json_store import JsonStore
from opscope.harness.record.optest import DOUBT, REFUTED
from opscope.harness.record.records import OpRow, OpTest, SecondAuthority
from opscope.harness.record.stages import Status

FOLDER = "authorities"
"""The subfolder of the cache folder."""
QUESTIONED = SecondAuthority(by="", text="")
"""Tells a lane to ask about a golden whatever the result is."""


class Doubts:
    """The goldens in question that one cache folder knows."""

    def __init__(self, cache_dir: Path, values: Callable[[OpRow], list[str] | None], *, reads: bool = True) -> None:
        """`values` gives the digests of an op's inputs and goldens, or None if they are not known. Unless it `reads`,
        what earlier runs have found does not count."""
        self._store, self._values, self._reads = JsonStore(cache_dir / FOLDER), values, reads

    @cached_property
    def _code(self) -> str:
        """The digest of what makes verdicts, read once for all ops."""
        return verdict_fingerprint.of_verdicts("")

    @cached_property
    def _known(self) -> set[str]:
        """The keys of all goldens in question, listed once: most caches know none, and no op looks for its own."""
        return {path.stem for path in self._store.root.glob("d?/*.json")} if self._reads else set()

    def asked(self, row: OpRow) -> OpRow:
        """The row as a lane gets it: marked where its golden is in question."""
        if row.second is not None or not self._known or (key := self._key(row)) not in self._known:
            return row
        entry = self._store.get(key) or {}
        values, known = self._values(row), entry.get("values")
        same = values is None or known is None or values == known
        return row.model_copy(update={"second": QUESTIONED}) if same else row

    def note(self, row: OpRow, test: OpTest) -> None:
        """Keeps what the authorities have said of a golden for the sake of a backend."""
        if row.second is not None or not test.second_authority.startswith((DOUBT, REFUTED)):
            return  # nothing contradicts the golden, or its form has every lane ask
        key = self._key(row)
        raised = (self._store.get(key) or {}).get("raised", {}) if key in self._known else {}
        if raised.get(test.backend) != test.second_authority:
            raised = {**raised, test.backend: test.second_authority}
            self._store.put(key, {"raised": raised, "values": self._values(row)})
            self._known.add(key)

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
    """The record of an op that is right by a golden which is in doubt, or has fallen."""
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
    doubts = {t.op_id: t.second_authority for t in tests if t.second_authority.startswith((DOUBT, REFUTED))}
    for test in tests:
        if test.status is Status.SUCCESS and test.op_id in doubts and not test.second_authority:
            yield in_doubt(test, doubts[test.op_id]).model_copy(update={"attempt": test.attempt + 1})
