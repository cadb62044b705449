"""A history: a night of each release of a compiler, run afterwards and published, in the order of the releases.

Each release is a backend of its own (`tt@0.1.2`) and a night of its own; all of them are one series. A release that is
published already is not run again, one that was cut short goes on.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import click
import sqlalchemy as sa

from opscope.base.digest import json_digest
from opscope.base.live import progress
from opscope.base.results_folder import make_folder
from opscope.base.visible_text import counted
from opscope.harness.backends import registry
from opscope.harness.cache import package_index
from opscope.harness.cache.claims import alone_in, in_use
from opscope.harness.record.errors import InputError
from opscope.harness.record.one_failure import UNLOADED, failure_of_all
from opscope.harness.record.optest import backend_label, release_in
from opscope.harness.record.run_folders import runs_root
from opscope.harness.record.store import load_run, write_whole
from opscope.reports.compare.lowered_differently import compare_lowered, folder_of_run
from opscope.reports.compare.night_views import night_view, series_of
from opscope.reports.compare.outcomes import Outcome, RunView
from opscope.reports.database.reading import exists, read_database
from opscope.reports.database.rows import RELEASE
from opscope.reports.database.schema import NIGHTS, RUNS
from opscope.reports.database.schema_nights import NIGHT_CHANGES, NIGHT_SERIES
from opscope.reports.nightly import delivery, running
from opscope.reports.nightly.config import Config
from opscope.reports.nightly.night_folder import RECORD, folder_of, record_of
from opscope.reports.nightly.running import SweepResult, Watch
from opscope.reports.nightly.sweeps import sweeps
from opscope.reports.records import lowered
from opscope.reports.records.night_record import NightRecord, read_night

WHERE = "--backend"
UNDATED = datetime(2000, 1, 1, tzinfo=UTC)
"""Where the first release of which nobody knows the date stands."""
STEP = timedelta(minutes=1)
"""Between releases whose dates do not say their order."""


class Release(NamedTuple):
    """One release of a compiler."""

    backend: str
    """Without the release: `tt`, `pjrt:NAME`."""
    version: str

    @property
    def name(self) -> str:
        """The backend at that release, `tt@0.1.2`."""
        return f"{self.backend}@{self.version}"


class Night(NamedTuple):
    """What came of the night of one release."""

    release: Release
    night_id: str
    seconds: float
    """0 if it was published before."""
    problem: str
    """Why it did not run; empty if it is in the database."""


@dataclass(frozen=True)
class Line:
    """One release in the table of a history."""

    release: str
    made: str
    statuses: Mapping[str, int]
    """Status -> ops, of those that were attempted."""
    right: int
    changes: Mapping[str, int] = field(default_factory=dict)
    """Label of `opscope diff` -> ops, since the release before."""
    lower_differently: int | None = None
    """Ops, since the release before; None if one of the two has kept no IR."""
    night_id: str = ""
    """What `opscope diff` takes: the release with these models, board and options."""


# --- which releases


def asked_releases(words: str, since: datetime | None = None) -> list[Release]:
    """The releases that `tt@0.1.1..0.1.3,pjrt:NAME@1.0..` means, by backend, the oldest first.

    A range lacks an end or both: `tt@..0.1.2`, `tt`; it has no release candidates but those that it names. With
    `since`, those that were made then or later. Raises InputError for a backend of which no release can be had, and for
    a release that there is not.
    """
    known: dict[str, list[str]] = {}
    meant: dict[str, set[str]] = {}
    for word in filter(None, (each.strip() for each in words.split(","))):
        name, _, versions = word.partition("@")
        if name not in known:
            known[name] = _known(word, name)
        first, dots, last = versions.partition(registry.RANGE)
        if not dots:
            last = first
        if wrong := [end for end in (first, last) if end and end not in known[name]]:
            hint = ", ".join(f"{name}@{version}" for version in reversed(_released(known[name])[-8:]))
            raise InputError(f"{WHERE} {word}", f"releases of {registry.distribution(name)}", wrong[0], hint)
        named = [*filter(None, (first, last))]
        asked = _released(known[name], named) or known[name]
        begin, end = asked.index(first or asked[0]), asked.index(last or asked[-1])
        if begin > end:
            hint = f"{name}@{last}{registry.RANGE}{first}"
            raise InputError(f"{WHERE} {word}", "the older release first", versions, hint)
        asked = asked[begin : end + 1]
        if since is not None:  # the newest first: what is older than one that is too old is not fetched
            newest = [Release(name, version) for version in reversed(asked)]
            young = takewhile(lambda release: (made := fetched(release)) is not None and made >= since, newest)
            asked = [release.version for release in young]
        meant.setdefault(name, set()).update(asked)
    releases = [Release(name, version) for name, order in known.items() for version in order if version in meant[name]]
    if not releases and since is not None:
        raise InputError("--since", "releases made since then", f"none since {since:%Y-%m-%d}", "an earlier date")
    if not releases:
        raise InputError(WHERE, "releases", "none", "tt@0.1.1..0.1.3")
    return releases


def _known(word: str, name: str) -> list[str]:
    """The releases of a backend that pip knows, the oldest first; where it knows none now, those in the cache."""
    distribution = registry.distribution(name)
    if not distribution:
        hint = f"{', '.join(registry.names_with_releases())} or pjrt:NAME, with @A..B"
        raise InputError(f"{WHERE} {word}", "a backend of which releases can be had", name, hint)
    try:
        return package_index.known_releases(f"{WHERE} {word}", distribution)
    except InputError:
        if not (kept := registry.kept_releases(name)):
            raise
        text = f"{WHERE} {word}: pip finds no index of {distribution}; only releases in the cache: {', '.join(kept)}"
        click.echo(text, err=True)
        return kept


def _released(known: Sequence[str], named: Sequence[str] = ()) -> list[str]:
    """The releases without those before a release that are not named."""
    return [version for version in known if version in named or not package_index.is_preview(version)]


def fetched(release: Release) -> datetime | None:
    """Fetches a release if it is not there; when it was made, None if that is not known or it cannot be had."""
    progress.step(f"{release.name} · fetching")
    with suppress(InputError):  # the night says why it cannot be had
        registry.check_name(release.name)
    return registry.release_date(release.backend, release.version)


# --- its nights


@dataclass(frozen=True)
class History:
    """What is asked of each release, and where its nights go."""

    models: tuple[str, ...]
    arch: str
    workers: int
    options: Mapping[str, Any]
    url: str
    root: Path
    releases: tuple[Release, ...]
    """Of each backend, the oldest first."""

    def config(self, release: Release) -> Config:
        """The configuration of a release's night."""
        content = {"models": [*self.models], "architectures": [self.arch], "options": dict(self.options)}
        return Config(
            path=Path("opscope history"),
            content={**content, "backends": [release.name]},
            models=self.models,
            backends=(release.name,),
            archs=(self.arch,),
            workers=self.workers,
            options={**self.options, "keep_ir": True},
            name=f"history-{backend_label(release.name)}-{json_digest(content, digits=6)}",
        )

    def night(self, release: Release) -> NightRecord:
        """The night of a release: as it was begun before, else one between those of the releases around it."""
        config = self.config(release)
        night = record_of(config, UNDATED).model_copy(update={"release": release.version})
        place = folder_of(self.root, night) / RECORD
        if place.is_file():
            return read_night(place)
        return night.model_copy(update={"started": self._start(release)})

    def _start(self, release: Release) -> datetime:
        """When the release was made, moved so that nights stand in the order of the releases."""
        order = [each for each in self.releases if each.backend == release.backend]
        place = order.index(release)
        starts = self._starts(release.backend)
        before = max((starts[each.version] for each in order[:place] if each.version in starts), default=None)
        after = min((starts[each.version] for each in order[place + 1 :] if each.version in starts), default=None)
        made = fetched(release)
        if made is None:
            made = before or (after - STEP if after is not None else UNDATED)
        if before is not None and made <= before:
            made = before + STEP
        if after is not None and made >= after:
            made = after - STEP if before is None else before + (after - before) / 2
        return made.replace(microsecond=0)

    def _starts(self, backend: str) -> dict[str, datetime]:
        """Release -> the start of its night, of those of a backend in the database."""
        if not exists(self.url):
            return {}
        query = sa.select(NIGHTS.c.release, NIGHTS.c.started, RUNS.c.backend).where(NIGHTS.c.kind == RELEASE)
        with read_database(self.url, "--database") as connection:
            rows = connection.execute(query.join(RUNS, RUNS.c.night_id == NIGHTS.c.night_id)).all()
        label = backend_label(backend)
        return {row.release: row.started for row in rows if row.backend == f"{label}@{release_in(row.backend)}"}

    def is_published(self, night: NightRecord) -> bool:
        """Whether the database has the whole night."""
        if not exists(self.url):
            return False
        with read_database(self.url, "--database") as connection:
            query = sa.select(NIGHT_SERIES.c.status).where(NIGHT_SERIES.c.night_id == night.night_id)
            statuses = connection.scalars(query).all()
        return bool(statuses) and set(statuses) == {"complete"}

    def run(self, release: Release, watch: Watch, ended: Callable[[SweepResult], None]) -> Night:
        """Runs the night of a release, if the database does not have it, and publishes it."""
        night = self.night(release)
        folder = folder_of(self.root, night)
        make_folder(folder)
        if in_use(folder):
            click.echo(f"{release.name}: another process runs it; waiting until that has ended", err=True)
        with alone_in(folder):
            return self._run(release, night, folder, watch, ended)

    def _run(
        self, release: Release, night: NightRecord, folder: Path, watch: Watch, ended: Callable[[SweepResult], None]
    ) -> Night:
        """As `run`, where no other process runs the same release."""
        if self.is_published(night):
            return Night(release, night.night_id, 0.0, "")
        try:
            registry.check_name(release.name)
        except InputError as error:  # nothing is written: the night has its date from the release
            return Night(release, night.night_id, 0.0, str(error))
        write_whole(folder / RECORD, night.model_dump_json(indent=1) + "\n", "a writable folder")
        config = self.config(release)
        [result] = running.run(sweeps(config), config, night, self.root, watch, ended)
        if result.outcome not in running.FINISHED:
            return Night(release, night.night_id, result.seconds, result.line or result.outcome)
        tests = load_run(result.run_dir).tests
        if (failure := failure_of_all(tests)) is not None and UNLOADED in str(failure.error_message):
            # That says nothing of ops: none of them fails since this release. Another day it may load.
            shutil.rmtree(result.run_dir)
            return Night(release, night.night_id, result.seconds, str(failure.error_message))
        progress.step(f"{release.name} · keeping the IR of {counted(len(tests), 'op')}")
        lowered.keep(result.run_dir, tests)
        progress.step(f"{release.name} · publishing {counted(len(tests), 'op')}")
        delivered = delivery.publish([result.run_dir], self.url, self.root)
        problem = delivered.away or next(iter((*delivered.refused, *delivered.lost)), "")
        return Night(release, night.night_id, result.seconds, problem)

    # --- what came of them

    def view(self, connection: sa.Connection, night_id: str) -> RunView:
        """The ops of a release's night."""
        return night_view(connection, night_id, series_of(connection, night_id)[0])

    def lines(self, nights: Sequence[Night]) -> list[Line]:
        """The table of the nights that are in the database, each release compared with the one before it."""
        lines: list[Line] = []
        before: dict[str, tuple[RunView, Path]] = {}
        with read_database(self.url, "--database") as connection:
            for night in nights:
                if night.problem:
                    continue
                progress.step(f"{night.release.name} · comparing with the release before")
                view = self.view(connection, night.night_id)
                changes = sa.select(NIGHT_CHANGES.c.label, sa.func.count()).where(
                    NIGHT_CHANGES.c.night_id == night.night_id, NIGHT_CHANGES.c.label != "FIRST"
                )
                run_id = connection.scalar(sa.select(RUNS.c.run_id).where(RUNS.c.night_id == night.night_id))
                folder = folder_of_run(str(run_id), runs_root(self.root))
                earlier = before.get(night.release.backend)
                compared = compare_lowered(earlier[0], view, earlier[1], folder) if earlier is not None else None
                before[night.release.backend] = view, folder
                statuses = Counter(op.status for op in view.ops.values() if op.attempted)
                lines.append(
                    Line(
                        night.release.name,
                        f"{view.started:%Y-%m-%d}" if view.started.year > UNDATED.year else "",
                        dict(sorted(statuses.items())),
                        sum(op.right for op in view.ops.values()),
                        {
                            str(label): int(ops)
                            for label, ops in connection.execute(changes.group_by(NIGHT_CHANGES.c.label))
                        },
                        compared.differing if compared is not None and compared.compared else None,
                        night.night_id,
                    )
                )
        return lines


# --- the first release in which an op fails


class First(NamedTuple):
    """Since which release an op fails."""

    op: Outcome
    right: str
    """The last release tried in which it did not fail; empty if it failed in all of them."""
    failing: str
    """The first release in which it fails."""


def bisected(releases: Sequence[Release], failing: Callable[[Release], Mapping[str, Outcome] | None]) -> list[First]:
    """The first release in which each op fails that fails in the last of `releases`, all of one backend.

    `failing`: the ops that fail in a release, None if it cannot be run. Every op needs log2 of the releases; those that
    part at the same place need them together. An op that was mended in between is said to fail since it did so again.
    """
    order = list(releases)
    known: dict[Release, Mapping[str, Outcome]] = {}

    def ends() -> bool:
        """Whether there is a last release and a first one that can be run; others are dropped."""
        for place in (-1, 0):
            while order and order[place] not in known:
                result = failing(order[place])
                if result is None:
                    order.pop(place)
                else:
                    known[order[place]] = result
        return bool(order)

    if not ends():
        return []
    last = known[order[-1]]
    firsts = [First(op, "", order[0].name) for op_id, op in last.items() if op_id in known[order[0]]]
    parts = [(order[0], order[-1], [op_id for op_id in last if op_id not in known[order[0]]])]
    while parts:
        right, wrong, ops = parts.pop()
        if not ops:
            continue
        between = order[order.index(right) + 1 : order.index(wrong)]
        if not between:
            firsts += [First(last[op_id], right.name, wrong.name) for op_id in ops]
            continue
        middle = between[len(between) // 2]
        if middle not in known:
            result = failing(middle)
            if result is None:
                order.remove(middle)
                parts.append((right, wrong, ops))
                continue
            known[middle] = result
        parts.append((right, middle, [op_id for op_id in ops if op_id in known[middle]]))
        parts.append((middle, wrong, [op_id for op_id in ops if op_id not in known[middle]]))
    return sorted(firsts, key=lambda first: (first.op.op_name, first.op.op_id))
