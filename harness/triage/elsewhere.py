"""An op whose run is not in this folder: found through a results database, in a run folder here or a server's."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

from opscope.base.plugins import plugins
from opscope.base.results_folder import results_folder
from opscope.harness.record import store
from opscope.harness.record.errors import InputError
from opscope.harness.triage import fetch

PLACES = "opscope.op_places"
"""Entry points that know where runs lie: `(beginning of an op id, database or None, run id) -> list of dicts`."""
DATABASES = ("sqlite", "postgresql", "postgres")


@dataclass(frozen=True)
class Place:
    """A run that has the op."""

    op_id: str
    run_id: str
    run_dir: str
    """Its folder, on the machine `host`."""
    host: str
    artifact_url: str
    """The artifact server that the run was configured with, or empty."""

    @property
    def is_here(self) -> bool:
        """Whether its folder is on this machine, with this run in it."""
        try:
            return bool(self.run_dir) and store.read_run(Path(self.run_dir)).run_id == self.run_id
        except InputError:
            return False


def is_database(text: str) -> bool:
    """Whether `--from` names a database."""
    return text.partition(":")[0].partition("+")[0] in DATABASES


def known(word: str, database: str | None, run_id: str = "") -> list[Place]:
    """The runs in `database` (None: this folder's) that have an op whose id begins with `word`, failures first.

    Raises InputError: the database cannot be read, or `word` begins the ids of several ops.
    """
    places = [Place(**row) for point in plugins(PLACES) for row in point.load()(word, database, run_id)]
    op_ids = sorted({place.op_id for place in places})
    if word not in op_ids and len(op_ids) > 1:
        got = f"{word!r}, with which {len(op_ids)} ids begin"
        raise InputError("--from" if database else "ID", "the id of one op", got, ", ".join(op_ids[:3]))
    return [place for place in places if place.op_id == word or len(op_ids) == 1]


def run_here(places: list[Place]) -> tuple[str, Path] | None:
    """The op and the folder of the first run that is on this machine."""
    return next(((place.op_id, Path(place.run_dir)) for place in places if place.is_here), None)


def fetched(places: list[Place], out: Path | None, where: str) -> Path:
    """Fetches the repro folder of the first run whose server has it; returns where it is.

    Raises InputError that says where the run is, if no server is known or none has it.
    """
    refusals: list[InputError] = []
    for place in places:
        if place.artifact_url:
            target = out or results_folder() / "repro" / place.op_id
            try:
                return fetch.fetch(place.artifact_url, place.op_id, place.run_id, target, where)
            except InputError as error:
                refusals.append(error)
    if refusals:
        raise refusals[0]
    first = places[0]
    machine = "this machine, where it is no more" if first.host == platform.node() else first.host or "another machine"
    raise InputError(
        where,
        f"the run folder of {first.op_id} here, or a run with --artifact-url",
        f"run {first.run_id} in {first.run_dir or 'an unknown folder'} on {machine}",
        f"opscope artifacts serve there, and opscope repro {first.op_id} --from http://HOST:PORT",
    )
