"""Finds the ops of a manifest that a user names: by name, family, id or the beginning of an id."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Sequence

from opscope.base.op_families import op_family
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import OpRow


def matches_globs(row: OpRow, globs: Sequence[str]) -> bool:
    """Whether one of the patterns of `--ops` matches the op's name, with or without dialect, its family or its id."""
    names = {row.op_name, row.op_name.partition(".")[2], op_family(row.op_name), row.op_id}
    return any(fnmatch.fnmatchcase(name, glob) for glob in globs for name in names)


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
