"""Selects the runs of a command: a folder, an id below .opscope/runs, an id in the database, or the newest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import sqlalchemy as sa

from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import release_in
from opscope.harness.record.run_folders import runs_root
from opscope.harness.record.selection import count_deselected
from opscope.harness.record.store import RUN_FILE, SELECTION_FILE, has_run, load_run, read_run
from opscope.reports.compare.night_views import night_view
from opscope.reports.compare.outcomes import RunView, from_database, from_folder
from opscope.reports.database.newest import begun, latest
from opscope.reports.database.notes import read_notes
from opscope.reports.database.reading import database_url, exists, how_to_publish, read_database
from opscope.reports.database.rows import RAN, RELEASE, SELECTION, series_text
from opscope.reports.database.schema import MODELS, NIGHTS, RUNS
from opscope.reports.records.night_record import membership


@dataclass(frozen=True)
class Listed:
    """A run in a list to choose from."""

    run_id: str
    started: datetime
    series: str
    models: frozenset[str]
    folder: Path | None = None
    night: str = ""
    """The night to read instead, if the run is one of several in its series (shards, or runs again)."""
    backends: tuple[str, ...] = ()
    selection: bool = False
    """Whether the user left out ops (`--ops`, `-k`), so that it does not say how its models are."""

    def series_of(self, backend: str) -> str:
        """The series of what the run says of one of its backends."""
        return f"{backend}{self.series.removeprefix(','.join(self.backends))}"

    def follows(self, other: Listed) -> bool:
        """Whether it can be compared with `other`: an earlier run of the same series, with a model in common."""
        return other.started < self.started and other.series == self.series and bool(other.models & self.models)


def left_out_line(runs: Sequence[Listed], stopped: Sequence[str] = ()) -> str:
    """Says which runs of selected ops were left out, the newest first, and which series; empty if there is none."""
    parts = [", ".join(stopped)] if stopped else []
    if runs:
        newest = f"run {runs[0].run_id}" if len(runs) == 1 else f"{len(runs)} runs, the newest of them {runs[0].run_id}"
        parts.insert(0, f"{newest}, because only some ops were selected (--ops, -k)")
    return f"left out: {'; '.join(parts)}" if parts else ""


@dataclass(frozen=True)
class Runs:
    """Where runs are read: the database if there is one, else the folders below .opscope/runs."""

    connection: sa.Connection | None
    root: Path

    def folder(self, run: str) -> Path | None:
        """The folder that `run` names: a path, or a folder below .opscope/runs whose name is no id in the database."""
        for folder in (Path(run), self.root / run):
            if has_run(folder) and (folder != self.root / run or not self._published(run)):
                return folder
        return None

    def view(self, run: str, where: str = "RUN", backend: str = "") -> RunView:
        """The run that `run` names: a folder, an id in the database, or a folder below .opscope/runs.

        `backend`: only what it says of one of its backends.
        """
        folder = self.folder(run)
        if folder is not None:
            return self._noted(from_folder(folder, backend))
        return from_database(self.database(run, where), run, where, backend)

    def views(self, run: str, where: str = "RUN") -> list[RunView]:
        """The run that `run` names, apart for each of its backends: what one can says nothing of another."""
        whole = self.view(run, where)
        several = len(whole.backends) > 1
        return [self.view(run, where, backend) for backend in whole.backends] if several else [whole]

    def database(self, run: str, where: str = "RUN") -> sa.Connection:
        """The database that may have `run`. Raises InputError where there is none."""
        if self.connection is None:
            got = "a folder without run.json" if Path(run).is_dir() else f"`{run}` and no database"
            newest = None if release_in(run) else next((f"{each.folder}" for each in self.listed()), None)
            raise InputError(where, "a run folder or the id of a published run", got, newest or how_to_publish(run))
        return self.connection

    def _published(self, run: str) -> bool:
        return (
            self.connection is not None
            and run in self.connection.scalars(sa.select(RUNS.c.run_id).where(RUNS.c.run_id == run)).all()
        )

    def read(self, listed: Listed, backend: str = "") -> RunView:
        """The ops of a listed run, or those of one of its backends.

        A shard gives those of its whole night, since it left out what the others ran.
        """
        if listed.folder is not None:
            return self._noted(from_folder(listed.folder, backend))
        assert self.connection is not None
        if listed.night:
            return night_view(self.connection, listed.night, listed.series_of(backend) if backend else listed.series)
        return from_database(self.connection, listed.run_id, backend=backend)

    def _noted(self, view: RunView) -> RunView:
        """A run of a folder with the notes of the database."""
        return view if self.connection is None else replace(view, notes=read_notes(self.connection))

    def listed(self) -> list[Listed]:
        """Every run that has ended, newest first; a running one has no result yet. Runs of releases are of no time, and
        one that is dated later than now is none of the newest.

        Of runs that started together, the one with the most models comes first.
        """
        runs = _in_database(self.connection) if self.connection is not None else list(_in_folders(self.root))
        return sorted(runs, key=lambda run: (run.started, len(run.models), run.run_id), reverse=True)

    def counting(self) -> list[Listed]:
        """The runs that say how models are, newest first: all but those that `left_out` names."""
        return [run for run, aside in self._sorted_out() if not aside]

    def left_out(self) -> list[Listed]:
        """The runs of selected ops all of whose models an earlier run of the series tried whole, newest first."""
        return [run for run, aside in self._sorted_out() if aside]

    def _sorted_out(self) -> list[tuple[Listed, bool]]:
        """Every run that has ended, newest first, and whether it is left out."""
        whole: dict[str, set[str]] = {}  # series -> models that a run so far tried whole
        runs = []
        for run in reversed(self.listed()):
            models = whole.setdefault(run.series, set())
            runs.append((run, run.selection and run.models <= models))
            if not run.selection:
                models |= run.models
        return runs[::-1]

    def newest(self) -> Listed:
        """The newest run. Raises InputError if there is none."""
        runs = self.listed()
        if not runs:
            raise InputError("RUN", "a run", "none", "pytest --model mnist_mlp --op-by-op")
        return runs[0]

    def before(self, run_id: str, started: datetime, series: str, models: Sequence[str]) -> list[Listed]:
        """Earlier runs of the same series with a model in common, the newest first, without those left out.

        Where `series` is that of one backend, a run of several has it too.
        """
        this = Listed(run_id, started, series, frozenset(models))
        return [
            run
            for run in self.counting()
            if run.run_id != run_id
            and (this.follows(run) or any(this.follows(replace(run, series=run.series_of(b))) for b in run.backends))
        ]

    def pair(self) -> tuple[Listed, Listed]:
        """The two newest comparable runs, the older first. Raises InputError where no two are."""
        both = self._sorted_out()
        runs, aside = ([run for run, left in both if left is which] for which in (False, True))
        for place, late in enumerate(runs):
            for early in runs[place + 1 :]:
                if late.follows(early):
                    return early, late
        got = f"{len(runs)} run" if len(runs) == 1 else f"{len(runs)} runs" if runs else "none"
        if aside:
            got = f"{got}, and {len(aside)} of selected ops only"
        elif len(runs) > 1:
            got = f"{got}, no two of which share backend, board, options and a model"
        again = "pytest --model mnist_mlp --op-by-op"
        hint = f"opscope diff {both[1][0].run_id} {both[0][0].run_id}" if len(both) > 1 else again
        raise InputError("opscope diff", "two comparable runs", got, hint)


@contextmanager
def open_runs(url: str | None, *, needed: bool = False, named: Sequence[str | None] = ()) -> Iterator[Runs]:
    """The runs of the database at `url` (default: this folder's), or of the folders where there is no database.

    `needed`: whether a missing database is an error also where none was named; `named`: what the command is about.
    Where that is folders alone, a default database that cannot be read is none.
    """
    target = database_url(url)
    if url is None and not needed and not exists(target):
        yield Runs(None, runs_root())
        return
    with ExitStack() as stack:
        connection = None
        try:
            connection = stack.enter_context(read_database(target))
        except InputError:
            if url is not None or needed or not named or not all(name and has_run(Path(name)) for name in named):
                raise
        yield Runs(connection, runs_root())


def _in_database(connection: sa.Connection) -> list[Listed]:
    models: dict[str, set[str]] = {}
    ran = sa.select(MODELS.c.run_id, MODELS.c.model).where(MODELS.c.outcome == RAN)
    for run_id, model in connection.execute(ran):
        models.setdefault(run_id, set()).add(model)
    query = sa.select(RUNS.c.run_id, RUNS.c.backend, RUNS.c.started, RUNS.c.series, RUNS.c.night_id, NIGHTS.c.kind)
    query = query.outerjoin(NIGHTS, NIGHTS.c.night_id == RUNS.c.night_id)
    ended = (RUNS.c.outcome != "running") & (NIGHTS.c.kind.is_(None) | (NIGHTS.c.kind != RELEASE))
    ended &= (RUNS.c.started <= latest()) & begun(RUNS.c.night_id)
    rows = connection.execute(query.where(ended)).all()
    of_night = Counter((row.night_id, row.series) for row in rows)
    return [
        Listed(
            run_id,
            started,
            series,
            frozenset(models.get(run_id, ())),
            None,
            night_id if of_night[night_id, series] > 1 else "",
            tuple(backend.split(",")),
            kind == SELECTION,
        )
        for run_id, backend, started, series, night_id, kind in rows
    ]


def _in_folders(root: Path) -> Iterator[Listed]:
    for path in sorted(root.glob(f"*/{RUN_FILE}")):
        try:
            record = read_run(path.parent)
        except InputError:
            continue  # another schema, or no run of ours: it can still be named
        if record.outcome != "running" and record.started <= latest() and not _is_of_release(path.parent):
            key = series_text(record.backend, record.arch, record.origin.options)
            selection = _is_selection(path.parent)
            models, backends = frozenset(record.models), tuple(record.backend.split(","))
            yield Listed(record.run_id, record.started, key, models, path.parent, "", backends, selection)


def _is_of_release(run_dir: Path) -> bool:
    """Whether a run is of a night of a release."""
    try:
        member = membership(run_dir)
    except InputError:
        return False
    return member is not None and bool(member.night.release)


def _is_selection(run_dir: Path) -> bool:
    """Whether ops were deselected in a run. The file alone does not say so: `--op` writes it beside a whole run too."""
    if not (run_dir / SELECTION_FILE).is_file():
        return False
    try:
        return bool(count_deselected(load_run(run_dir).tests))
    except InputError:
        return False
