"""Finds the ops of a manifest that a user names: by name, family, id or the beginning of an id; and tells the runs in
which only some ops were selected."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterable, Sequence
from typing import Protocol

from opscope.base.children.ending import KILLED
from opscope.base.op_families import op_family
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import ModelFailure, OpRow
from opscope.harness.record.stages import ModelStatus, Status

DESELECTED = "deselected"
"""The error of a record whose op `--ops`, `-k`, `--lf` or the name of a test did not select."""


class Ended(Protocol):
    """What says of a record whether its op was selected."""

    @property
    def status(self) -> str:
        """A status of the ledger."""
        ...

    @property
    def error_message(self) -> str | None:
        """Why the op ended so."""
        ...


def count_deselected(tests: Iterable[Ended]) -> int:
    """Number of ops that the user left out of a run. It says nothing of its models as a whole, if there is one."""
    return sum(test.status == Status.SKIPPED and test.error_message == DESELECTED for test in tests)


def none_ran(tests: Iterable[Ended]) -> bool:
    """Whether a run has ops, and none of them was so much as attempted."""
    statuses = {str(test.status) for test in tests}
    return bool(statuses) and statuses <= {Status.SKIPPED, Status.NOT_RUN}


def kills(tests: Iterable[Ended], failures: Iterable[ModelFailure]) -> list[str]:
    """Of the ops and models of a run that have not run because somebody, or the system, killed their processes: how."""
    reasons = [test.error_message or "" for test in tests if test.status == Status.NOT_RUN]
    reasons += [failure.error for failure in failures if failure.status is ModelStatus.NOT_RUN]
    return [reason for reason in reasons if KILLED.search(reason)]


def none_selected(tests: Iterable[Ended]) -> bool:
    """Whether a run has ops, and its user left all of them out."""
    reasons = {test.status == Status.SKIPPED and test.error_message == DESELECTED for test in tests}
    return reasons == {True}


def matches_globs(row: OpRow, globs: Sequence[str]) -> bool:
    """Whether one of the patterns of `--ops` matches the op's name, with or without dialect, its family or its id."""
    names = {row.op_name, row.op_name.partition(".")[2], op_family(row.op_name), row.op_id}
    return any(fnmatch.fnmatchcase(name, glob) for glob in globs for name in names)


def refuse_unmatched(rows: Sequence[OpRow], globs: Sequence[str]) -> None:
    """Raises InputError if none of the patterns of `--ops` matches an op of a run that has ops: nothing would run."""
    if rows and globs and len(errors := unmatched_globs(rows, globs)) == len(globs):
        raise errors[0]


def unmatched_globs(rows: Sequence[OpRow], globs: Sequence[str]) -> tuple[InputError, ...]:
    """An error for each pattern of `--ops` that matches no op, with the names that are closest to it."""
    errors = []
    for glob in globs:
        if any(matches_globs(row, [glob]) for row in rows):
            continue
        names = sorted({name for row in rows for name in (row.op_name.partition(".")[2], op_family(row.op_name))})
        word = glob.strip("*").rpartition(".")[2]
        near = ", ".join(difflib.get_close_matches(word, names, n=3, cutoff=0.6))
        hint = near or "--collect-only -q, which lists the ops"
        errors.append(InputError("--ops", "the name, family or id of an op of the run", repr(glob), hint))
    return tuple(errors)


def find_op_ids(rows: Sequence[OpRow], op_ids: Sequence[str], where: str = "--op") -> set[str]:
    """The full ids of the ops that `where` names, each by its id or the beginning of it. Raises InputError."""
    runnable = {row.op_id for row in rows if row.module is not None}
    selected = set()
    for word in op_ids:
        hits = {op_id for op_id in runnable if op_id.startswith(word)} if word else set()
        if word in runnable:
            hits = {word}
        if len(hits) != 1:
            got = f"{word!r}, with which {len(hits)} ids begin" if hits else repr(word)
            near = ", ".join(sorted(hits)[:3] or difflib.get_close_matches(word, runnable, n=3, cutoff=0.6))
            raise InputError(where, "the id of an op of the run", got, near or "--run-dir RUN --collect-only -q")
        selected |= hits
    return selected
