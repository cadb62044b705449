"""Verdicts of programs that ran before: a release that makes an equal program of an op gets that verdict.

Only where what runs the program is no part of the release, which its backend says (`Backend.program`), and only right
verdicts: a wrong one has files that explain it, so the op runs again.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from opscope.base import stored
from opscope.base.digest import json_digest
from opscope.harness.backends import registry
from opscope.harness.cache import export_folder, op_key, verdict_fingerprint
from opscope.harness.cache.json_store import JsonStore
from opscope.harness.record.measures import MEASURES
from opscope.harness.record.records import TAKEN, OpRow, OpTest
from opscope.harness.record.result_options import Decides
from opscope.harness.record.stages import Status
from opscope.harness.record.structure import CALLS
from opscope.harness.verdict import tolerance

if TYPE_CHECKING:
    from opscope.harness.backends.base import Backend, Job
    from opscope.harness.record.optest import RunContext

_OF_THE_RUN = (
    "inputs",
    "outputs",
    "ran_on",
    "card_type",
    "data_format",
    "math_fidelity",
    "narrowed",
    "overwritten_inputs",
    "results",
    "pcc",
    "z_max",
    "z_place",
    "question",
    "second_authority",
    *MEASURES,
)
"""Fields of a record that running and comparing fill; the others are the release's own."""


class EqualProgram:
    """The place of an op's verdict among those of programs."""

    def __init__(self, row: OpRow, backend: Backend, job: Job, context: RunContext, export_dir: Path) -> None:
        """Of an op that has been compiled. There is no place where a verdict would not hold for equal programs."""
        self._store, self._key = JsonStore(Path(context.verdicts)), ""
        self._ir_dir = job.ir_dir
        # What runs the programs of a user's backend is not known from its class.
        asked = context.verdicts and not registry.is_users(context.backend)
        asked = asked and row.golden and not row.shards
        if not asked or not (program := backend.program(job)):
            return
        values = stored.digests_of(export_dir, export_folder.value_files(row))
        parts = {
            **op_key.of_row(row),
            "program": program,
            "values": values,
            "asked": context.options.decisive(Decides.COMPILATION, Decides.CLIMB),
            "judged by": _judge(context.backend),
        }
        self._key = json_digest(parts, digits=32) if values is not None else ""

    def taken(self) -> dict[str, Any] | None:
        """What running and comparing would put into the record, and where it is from; None if the op has to run."""
        entry = (self._store.get(self._key) if self._key else None) or {}
        try:
            test = OpTest.model_validate(entry["test"])
        except (KeyError, ValidationError):
            return None
        if self._ir_dir is not None and test.cycles is not None and "calls" not in entry:
            return None
        fields = {name: getattr(test, name) for name in _OF_THE_RUN}
        if self._ir_dir is not None and "calls" in entry:
            (self._ir_dir / CALLS).write_text(entry["calls"], encoding="utf-8")
        return {**fields, "cached_from": test.cached_from or f"{test.backend}{TAKEN}{test.run_id}"}

    def keep(self, test: OpTest) -> None:
        """Keeps the verdict of an op that has run, for equal programs of others.

        A model whose values inside were compared is not kept: they are its artifact.
        """
        if self._key and test.status is Status.SUCCESS and test.artifact is None:
            entry: dict[str, Any] = {"test": test.model_dump(mode="json")}
            if self._ir_dir is not None and (self._ir_dir / CALLS).is_file():
                entry["calls"] = (self._ir_dir / CALLS).read_text(encoding="utf-8")
            self._store.put(self._key, entry)


@cache
def _judge(backend: str) -> str:
    """What turns results into verdicts here."""
    return f"{tolerance.VERSION}-{verdict_fingerprint.of_verdicts(backend)}"
