"""Isolation artefacts: ops that go wrong alone and right inside their model, or the other way round.

Alone is what `--workflow split` says of an op; inside is what `--workflow full` says of its values (harness/
intermediates.py). The one may come from the same run, from another run folder, or from the verdicts that are kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from opscope.harness.record import store
from opscope.harness.record.records import OpTest
from opscope.harness.record.stages import FAILED, Status

FILE = "isolation.json"
"""What a run of workflow `full` leaves, where verdicts on its ops alone are kept."""

ONLY_ALONE = "fails alone, passes in the model"
ONLY_INSIDE = "passes alone, fails in the model"
WORSE = ("right", "amplifies", "suspect", "jump")
"""Verdicts inside a model, the worst last."""


@dataclass(frozen=True)
class Artefact:
    """One op of one model whose two verdicts differ."""

    label: str
    op_id: str
    op_name: str
    model: str
    backend: str
    alone: str
    """Status alone, and why where it failed."""
    path: str
    """Where inside the model it is at its worst."""
    location: str
    inside: str
    """Verdict there."""
    error: float | None
    error_before: float | None


def artefacts(whole: Iterable[OpTest], run_dir: Path, alone: Mapping[tuple[str, str], OpTest]) -> list[Artefact]:
    """The ops of models that ran whole in `run_dir` that are told otherwise `alone`, by op id and backend.

    An op that is not sure inside (`suspect`), or that did not run alone, is left out.
    """
    found = []
    for test in whole:
        for line in _worst(run_dir, test):
            other = alone.get((line["op_id"], test.backend))
            if other is None or line["verdict"] == "suspect":
                continue
            inside_fails = line["verdict"] == "jump"
            if other.status in FAILED and other.status is not Status.NO_GOLDEN and not inside_fails:
                label = ONLY_ALONE
            elif other.status is Status.SUCCESS and inside_fails:
                label = ONLY_INSIDE
            else:
                continue
            why = f"{other.status.value}: {other.error_message}" if other.error_message else other.status.value
            found.append(
                Artefact(label, line["op_id"], line["op_name"], test.model_name, test.backend, why, line["path"],
                         line["location"], line["verdict"], line["error"], line["error_before"])
            )  # fmt: skip
    return sorted(found, key=lambda one: (one.label, one.model, one.op_id))


def _worst(run_dir: Path, test: OpTest) -> list[dict[str, Any]]:
    """Of each op of a model the place where it is at its worst."""
    if not test.intermediates or test.artifact is None:
        return []
    try:
        lines = [json.loads(line) for line in (run_dir / test.artifact).read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError):
        return []  # artifacts may be cleared away
    worst: dict[str, dict[str, Any]] = {}
    for line in lines:
        before = worst.get(line["op_id"])
        if before is None or WORSE.index(line["verdict"]) > WORSE.index(before["verdict"]):
            worst[line["op_id"]] = line
    return list(worst.values())


def by_op(tests: Iterable[OpTest]) -> dict[tuple[str, str], OpTest]:
    """Records of ops alone, by id and backend."""
    return {(test.op_id, test.backend): test for test in tests if test.workflow == "split"}


def write(run_dir: Path, found: Iterable[Artefact]) -> None:
    """Writes what a run of `full` found. Raises InputError where the disk refuses it."""
    store.write_whole(run_dir / FILE, json.dumps([asdict(one) for one in found], indent=1) + "\n")


def of_run(run_dir: Path, whole: Iterable[OpTest], tests: Iterable[OpTest]) -> list[Artefact]:
    """The artefacts of a run: as written when it ended, else by its own records of ops."""
    path = run_dir / FILE
    if path.is_file():
        return [Artefact(**one) for one in json.loads(path.read_text(encoding="utf-8"))]
    return artefacts(whole, run_dir, by_op(tests))


def lines(found: Iterable[Artefact]) -> list[tuple[str, str]]:
    """What a page tells of each: the label, and the rest."""
    told = []
    for one in found:
        place = f" ({one.location})" if one.location else ""
        told.append((one.label, f"{one.op_name} [{one.op_id}] in {one.model} on {one.backend}, {one.path}{place}: "
                                f"alone: {one.alone}; in the model: {one.inside}"))  # fmt: skip
    return told
