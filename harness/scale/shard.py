"""`--shard I/N`: the ops of a sweep that this job runs, divided by cost in the same way in every job.

The share follows from the manifest and from a file of costs that all jobs read, never from what one machine happens to
remember. Each run folder stores its own ops and a digest of the whole division, by which `opscope merge` recognises
shares that belong together.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from opscope.base.digest import json_digest
from opscope.harness.record import store
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import OpRow
from opscope.harness.scale import costs

SHARD_FILE = "shard.json"
"""In the run folder of a share."""

ELSEWHERE = "in another shard"
"""Reason in the record of an op that another job runs."""


@dataclass(frozen=True)
class Share:
    """One job's part of a sweep, as its run folder stores it."""

    index: int
    """Number of the share, from 1."""
    of: int
    division: str
    """Digest of who runs what; equal in all shares of one sweep."""
    ops: tuple[str, ...]
    """Ids of the ops of this share, in the order of the manifest."""
    seconds: float
    """The expected cost of the ops of this share."""
    all_seconds: float
    """The expected cost of all ops of the sweep."""


def divide(microseconds: Mapping[str, int], of: int) -> list[list[str]]:
    """`of` lists of op ids of nearly equal cost: the dearest first, each to the share that has least so far.

    Whole numbers and ids decide, so that every machine comes to the same lists. The costliest share exceeds the mean
    by at most one op (R. L. Graham, Bounds on Multiprocessing Timing Anomalies, 1969).
    """
    shares: list[list[str]] = [[] for _ in range(of)]
    heap = [(0, index) for index in range(of)]
    for op_id in sorted(microseconds, key=lambda op_id: (-microseconds[op_id], op_id)):
        load, index = heapq.heappop(heap)
        shares[index].append(op_id)
        heapq.heappush(heap, (load + microseconds[op_id], index))
    return shares


def share(rows: Collection[OpRow], text: str, measured: Mapping[str, float] | None = None) -> Share:
    """The share that `text` (`I/N`) names, of the ops that can be run."""
    index, of = (int(word) for word in text.split("/"))
    microseconds = costs.of_rows([row for row in rows if row.module is not None], measured)
    shares = divide(microseconds, of)
    owner = {op_id: position for position, ops in enumerate(shares, 1) for op_id in ops}
    division = json_digest([of, sorted(owner.items())], digits=16)
    own_ids = tuple(row.op_id for row in rows if owner.get(row.op_id) == index)
    return Share(
        index,
        of,
        division,
        own_ids,
        sum(microseconds[op_id] for op_id in own_ids) / 1e6,
        sum(microseconds.values()) / 1e6,
    )


def write(run_dir: Path, own_share: Share) -> None:
    """Writes RUN/shard.json. Raises InputError if the disk refuses it."""
    store.write_json(run_dir / SHARD_FILE, asdict(own_share))


def read(run_dir: Path) -> Share | None:
    """The share that a run is, or None for a whole run. Raises InputError for a file that is not a share."""
    path = run_dir / SHARD_FILE
    value = store.read_json(path, "a share of a sweep")
    try:
        return None if value is None else Share(**{**value, "ops": tuple(map(str, value["ops"]))})
    except (TypeError, KeyError) as error:
        raise InputError(
            str(path), "a share of a sweep", f"no such file ({error})", "running that share again"
        ) from error
