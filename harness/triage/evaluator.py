"""Goldens outside the lanes: XLA in a child process, which may crash without taking the caller along."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from opscope.base.children.child import Child
from opscope.base.children.ending import ChildEnded, Deadline
from opscope.base.machine import memory_limit
from opscope.harness.prepare.authorities import golden_author
from opscope.harness.record.records import OpRow

SECONDS = 120.0
"""How long one golden may take."""


class Evaluator:
    """A child that computes goldens, started at the first request; a context manager. Safe for threads."""

    def __init__(self, goldens_by: str | None = None, seconds: float = SECONDS) -> None:
        """`goldens_by`: the release of XLA that computes them; None for the installed one."""
        self._seconds, self._author = seconds, goldens_by
        self._child: Child | None = None
        self._lock = threading.Lock()

    def with_golden(self, row: OpRow, export_dir: Path) -> OpRow:
        """`row` with goldens computed from its module and inputs, which lie in `export_dir`; written there too.

        Where XLA refuses, crashes or takes too long, the row says so (`no_golden`).
        """
        request = {"row": row.model_dump(mode="json"), "export_dir": str(export_dir)}
        with self._lock:
            answer = self._ask(request)
        golden = tuple(answer.get("golden", ()))
        return row.model_copy(update={"golden": golden, "term_sizes": (), "no_golden": answer.get("error", "")})

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._child is not None and not self._child.wait(0):
            self.close()  # it ended since its last answer
        self._child = self._child or Child(
            "opscope.harness.triage.evaluator_child:serve",
            memory=memory_limit(None),
            environment=golden_author.variables(self._author),
        )
        self._child.send(request)
        try:
            return self._child.receive(Deadline(self._seconds))
        except ChildEnded:
            self.close()
            return {"error": "XLA crashed on it, took too long or needed too much memory"}

    def close(self) -> None:
        """Ends the child."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
