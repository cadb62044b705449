"""The runs that belong to a run: the one before, which `opscope diff` can compare it with, and other shares."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

from opscope.harness.record.errors import InputError
from opscope.harness.record.origin import as_of_any_run
from opscope.harness.record.records import RunRecord
from opscope.harness.record.result_options import OPTIONS
from opscope.harness.record.run_folders import runs_root
from opscope.harness.record.store import RUN_FILE, SELECTION_FILE, read_run

LOOKED_AT = 32
"""So many of the newest runs are read."""


def earlier_run(run_dir: Path, record: RunRecord, root: Path | None = None) -> Path | None:
    """The newest run below `root` that began before this one and has ended, with the same backend, board and options
    and a model in common; None where there is none, or where ops of this run were deselected.

    A run that cannot be read, or whose ops were selected, is passed over.
    """
    if (run_dir / SELECTION_FILE).is_file():
        return None
    newest = sorted(runs_root(root).glob(f"*/{RUN_FILE}"), reverse=True)  # names begin with the time
    for folder in islice((path.parent for path in newest), LOOKED_AT):
        with contextlib.suppress(InputError):
            if not (folder / SELECTION_FILE).is_file() and _can_be_compared(read_run(folder), record):
                return folder
    return None


def _can_be_compared(earlier: RunRecord, record: RunRecord) -> bool:
    if earlier.outcome == "running" or earlier.started >= record.started or not {*earlier.models} & {*record.models}:
        return False
    options, others = record.origin.options, earlier.origin.options
    same = all(as_of_any_run(options, name) == as_of_any_run(others, name) for name in OPTIONS)
    return same and (earlier.backend, earlier.arch) == (record.backend, record.arch)


def shares_beside(run_dir: Path, record: RunRecord) -> Mapping[int, Path]:
    """The folders of the shares of the sweep that a run is a share of, by number, which lie beside it and are complete;
    of those that can be had twice, the last by name."""
    number, of = shard(record)
    found = {number: run_dir}
    newest = sorted(run_dir.absolute().parent.glob(f"*/{RUN_FILE}"), reverse=True)
    for folder in islice((path.parent for path in newest), LOOKED_AT):
        with contextlib.suppress(InputError):
            other = read_run(folder)
            if shard(other)[1] == of and other.models == record.models and other.outcome == "complete":
                found.setdefault(shard(other)[0], folder)
    return found


def shard(record: RunRecord) -> tuple[int, int]:
    """Which share of how many a run is; the only one without `--shard`."""
    number, _, of = str(record.origin.options.get("shard") or "1/1").partition("/")
    return int(number), int(of)
