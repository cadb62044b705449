"""Isolation artefacts: ops that fail alone and pass inside their model, or the other way round; pieces of a model that
fail although each of their ops is right alone.

The verdict alone comes from `--workflow split`; the verdict inside comes from `--workflow full` on the op's values
(harness/verdict/intermediates.py), or from a piece that holds the op. The former may be from the same run, another run
folder or kept verdicts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from opscope.base import damage
from opscope.harness.record import artifacts, store
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import OpTest
from opscope.harness.record.stages import FAILED, Status

FILE = "isolation.json"
"""Written by a run of workflow `full` or of pieces if verdicts on its ops alone are kept."""

ONLY_ALONE = "fails alone, passes in the model"
ONLY_INSIDE = "passes alone, fails in the model"
INTERACTION = "interaction"
"""Label of a piece that fails while all of its ops, several, are right alone: what goes wrong lies between them."""
WORSE = ("right", "amplifies", "suspect", "jump")
"""Verdicts inside a model, from best to worst."""


@dataclass(frozen=True)
class Artefact:
    """One op of one model whose two verdicts differ."""

    label: str
    op_id: str
    op_name: str
    model: str
    backend: str
    alone: str
    """The op's status when it runs alone, and the reason if it failed."""
    path: str
    """The place inside the model with the worst verdict."""
    location: str
    inside: str
    """The verdict at that place."""
    error: float | None
    error_before: float | None
    level: int | None = None
    """Of an interaction: the lowest optimization level at which it fails so. None where that is not known, and where
    its backend has no levels."""


def artefacts(whole: Iterable[OpTest], run_dir: Path, alone: Mapping[tuple[str, str], OpTest]) -> list[Artefact]:
    """The ops of whole models in `run_dir` whose verdict changes when they run alone.

    `alone` holds the records of ops alone, by op id and backend. Leaves out ops that are `suspect` inside their model
    and ops that did not run alone.
    """
    differing = []
    for test in whole:
        for line in _worst(run_dir, test):
            other = alone.get((line["op_id"], test.backend))
            if other is None or line["verdict"] == "suspect":
                continue
            inside_fails = line["verdict"] == "jump"
            if other.status in FAILED and other.status != Status.NO_GOLDEN and not inside_fails:
                label = ONLY_ALONE
            elif other.status == Status.SUCCESS and inside_fails:
                label = ONLY_INSIDE
            else:
                continue
            why = f"{other.status!s}: {other.error_message}" if other.error_message else str(other.status)
            differing.append(
                Artefact(
                    label,
                    line["op_id"],
                    line["op_name"],
                    test.model_name,
                    test.backend,
                    why,
                    line["path"],
                    line["location"],
                    line["verdict"],
                    line["error"],
                    line["error_before"],
                )
            )
    return sorted(differing, key=lambda artefact: (artefact.label, artefact.model, artefact.op_id))


def interactions(
    tests: Iterable[OpTest],
    alone: Mapping[tuple[str, str], OpTest],
    levels: Mapping[tuple[str, str], int | None] | None = None,
) -> list[Artefact]:
    """The failed pieces among some records all of whose ops are right alone. Leaves out those with an op that did not
    run alone. `levels`: where they begin, by id and backend, as far as that is known."""
    found = []
    for test in failed_pieces(tests):
        verdicts = [alone.get((held.op_id, test.backend)) for held in test.holds]
        if all(verdict is not None and verdict.right for verdict in verdicts):
            end = f"{test.status!s}: {test.error_message}" if test.error_message else str(test.status)
            count = f"each of its {len(verdicts)} ops right"
            place = test.locations[0] if test.locations else ""
            path = test.holds[-1].path
            found.append(
                Artefact(
                    INTERACTION,
                    test.op_id,
                    test.op_name,
                    test.model_name,
                    test.backend,
                    count,
                    path,
                    place,
                    end,
                    None,
                    None,
                    (levels or {}).get((test.op_id, test.backend)),
                )
            )
    return found


def failed_pieces(tests: Iterable[OpTest]) -> list[OpTest]:
    """The records of pieces of several ops that failed for a reason of their own."""
    return [
        test for test in tests if len(test.holds) > 1 and test.status in FAILED and test.status is not Status.NO_GOLDEN
    ]


def _worst(run_dir: Path, test: OpTest) -> list[dict[str, Any]]:
    """For each op of a model, the place with the worst verdict."""
    if not test.intermediates or test.artifact is None:
        return []
    try:
        text = artifacts.read(run_dir, test.artifact, test.run_id).decode()
        lines = [json.loads(line) for line in text.splitlines()]
    except FileNotFoundError:
        return []  # artifacts may be cleared away
    except (OSError, ValueError) as error:
        got = error.got if isinstance(error, damage.Damaged) else getattr(error, "strerror", "") or str(error)
        damage.found(run_dir / test.artifact, got, "its model is not compared with its ops")
        return []
    worst: dict[str, dict[str, Any]] = {}
    for line in lines:
        before = worst.get(line["op_id"])
        if before is None or WORSE.index(line["verdict"]) > WORSE.index(before["verdict"]):
            worst[line["op_id"]] = line
    return list(worst.values())


def by_op(tests: Iterable[OpTest]) -> dict[tuple[str, str], OpTest]:
    """Records of ops alone, by id and backend."""
    return {(test.op_id, test.backend): test for test in tests if test.workflow == "split"}


def write(run_dir: Path, artefacts: Iterable[Artefact]) -> None:
    """Writes the artefacts of a run. Raises InputError if the disk refuses the file."""
    store.write_json(run_dir / FILE, {"artefacts": [asdict(artefact) for artefact in artefacts]})


def of_run(run_dir: Path, whole: Iterable[OpTest], tests: Iterable[OpTest]) -> list[Artefact]:
    """The artefacts of a run: read from its file if one was written when it ended, else computed from its records."""
    written = _written(run_dir)
    return between(run_dir, whole, tests, by_op(tests)) if written is None else written


def _written(run_dir: Path) -> list[Artefact] | None:
    """What a run's file holds; None if there is none, or it is damaged, which is said."""
    try:
        values = store.read_json(run_dir / FILE, "isolation artefacts")
        if values is not None:
            # Older runs hold the list itself.
            return [Artefact(**each) for each in (values["artefacts"] if isinstance(values, dict) else values)]
    except (InputError, TypeError, KeyError) as error:
        damage.found(run_dir / FILE, error.got if isinstance(error, InputError) else "no isolation artefacts")
    return None


def between(
    run_dir: Path, whole: Iterable[OpTest], tests: Iterable[OpTest], alone: Mapping[tuple[str, str], OpTest]
) -> list[Artefact]:
    """The artefacts of a run's whole models and of its pieces, by the records of ops alone. Of the level where an
    interaction begins counts what the run has found."""
    pieces = failed_pieces(tests)
    known = (_written(run_dir) if pieces else None) or []
    levels = {(one.op_id, one.backend): one.level for one in known}
    return [*artefacts(whole, run_dir, alone), *interactions(pieces, alone, levels)]


def lines(artefacts: Iterable[Artefact]) -> list[tuple[str, str]]:
    """The label and the text of each artefact, as a run's page shows them."""
    labelled = []
    for artefact in artefacts:
        place = f" ({artefact.location})" if artefact.location else ""
        inside = (
            f"{artefact.op_name} [{artefact.op_id}] in {artefact.model} on {artefact.backend}, {artefact.path}{place}"
        )
        where = "together" if artefact.label == INTERACTION else "in the model"
        verdicts = f"alone: {artefact.alone}; {where}: {artefact.inside}"
        level = "" if artefact.level is None else f", from level {artefact.level} on"
        labelled.append((artefact.label, f"{inside}: {verdicts}{level}"))
    return labelled
