"""Results of a night by series, from the database, or from the run folders if the database cannot be reached."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import sqlalchemy as sa

from opscope.base.labels import BROKEN, COMPLETE, PARTIAL
from opscope.harness.record.errors import InputError
from opscope.harness.record.store import read_run
from opscope.reports.compare.diff import Diff, compare
from opscope.reports.compare.first_sentence import SeriesFacts, of_missing, of_view, place_asked_for
from opscope.reports.compare.night_diff import since_night_before
from opscope.reports.compare.night_views import night_view, series_of
from opscope.reports.compare.outcomes import Outcome, RunView, from_folder
from opscope.reports.compare.owned import own_diff
from opscope.reports.database.owners import Rule
from opscope.reports.database.reading import read_database
from opscope.reports.database.schema_nights import LEDGER, NIGHT_SERIES
from opscope.reports.database.series_names import series_name
from opscope.reports.nightly.night_folder import RECORD, runs_of
from opscope.reports.records.night_record import NIGHTS, NightRecord


@dataclass(frozen=True)
class SeriesResult:
    """The results of one series of a night: a backend, a board and options."""

    series: str
    status: str
    """`complete`, `partial` or `broken`."""
    missing: str
    """What is missing, as text."""
    previous: str
    """The night that it is compared with; empty if there is none."""
    view: RunView | None
    """Its ops; None if there is no run."""
    diff: Diff | None
    models: Mapping[str, int]
    """The ledger of models: asked, ran, build_failed, ..."""
    place: str = ""
    """What was asked for; empty if there is a run."""

    @property
    def name(self) -> str:
        """What the series is called."""
        return self.view.name if self.view is not None else self.place

    @property
    def ops(self) -> Iterable[Outcome]:
        """Its ops; empty if there is no run."""
        return self.view.ops.values() if self.view is not None else ()

    @property
    def facts(self) -> SeriesFacts:
        """What the first sentence tells of it."""
        if self.view is None:
            return of_missing(self.series, self.place, self.previous)
        return of_view(self.view, self.diff, self.missing)

    @property
    def attempted(self) -> int:
        """Number of attempted ops."""
        return sum(op.attempted for op in self.ops)

    @property
    def right(self) -> int:
        """Number of right ops."""
        return sum(op.right for op in self.ops)

    @property
    def failing(self) -> list[Outcome]:
        """The ops that go wrong, that no limitation names and no note acknowledges, without flaky ones."""
        failing = [op for op in self.ops if op.bad and not op.expected and not op.flaky]
        return [op for op in failing if self.view is None or not self.view.acknowledges(op.cause)]

    @property
    def known(self) -> int:
        """Number of expected failures."""
        return sum(op.bad and bool(op.expected) for op in self.ops)


def from_database(url: str, night_id: str, rules: Sequence[Rule] = ()) -> list[SeriesResult]:
    """The night from the database at `url`. Raises InputError if it cannot be read."""
    with read_database(url, "--database") as connection:
        return read_night_of(connection, night_id, rules)


def read_night_of(connection: sa.Connection, night_id: str, rules: Sequence[Rule] = ()) -> list[SeriesResult]:
    """The night from an open database; empty if it is not there."""
    query = sa.select(NIGHT_SERIES).where(NIGHT_SERIES.c.night_id == night_id).order_by(NIGHT_SERIES.c.series)
    with_runs = set(series_of(connection, night_id))
    results = []
    for row in connection.execute(query).mappings():
        series, previous = row["series"], row["previous_night"]
        diff = view = None
        if series in with_runs and previous:
            diff = own_diff(since_night_before(connection, previous, night_id, series), rules)
            view = diff.b
        elif series in with_runs:
            view = night_view(connection, night_id, series)
        models = {name: row[name] for name in LEDGER}
        asked = "" if view else place_asked_for(connection, row["backend"], row["arch"], series)
        results.append(SeriesResult(series, row["status"], row["missing"], previous, view, diff, models, asked))
    return results


# --- without a database


def from_folders(
    merged: Mapping[str, Path], night: NightRecord, root: Path, rules: Sequence[Rule] = ()
) -> list[SeriesResult]:
    """The night from the run folders of its cells, each compared with the newest earlier night in this folder.

    `merged` maps a cell to the run folder of all its shards.
    """
    earlier = _earlier(night, root)
    results = []
    for run_dir in merged.values():
        view = from_folder(run_dir)
        missing = [f"model {name}" for name in night.models if name not in view.models]
        if view.outcome not in ("complete", "out_of_budget"):
            missing.append(f"run {view.run_id} is {view.outcome}")
        view = replace(view, missing=tuple(missing))
        before = earlier.get(view.series)
        diff = own_diff(compare(before, view), rules) if before is not None else None
        models = dict.fromkeys(LEDGER, 0) | {"asked": len({*night.models, *view.models}), "ran": len(view.models)}
        models["models_missing"] = models["asked"] - models["ran"]
        status = BROKEN if view.broken else PARTIAL if missing else COMPLETE
        name = before.run_id if before is not None else ""
        results.append(SeriesResult(view.series, status, ", ".join(missing), name, view, diff, models))
    keys_with_runs = {
        (result.view.backend, result.view.arch, result.view.origin["options"].get("data_format"))
        for result in results
        if result.view
    }
    for backend, arch, data_format in dict.fromkeys((cell[:3]) for cell in night.cells()):
        if not any(key[:2] == (backend, arch) and data_format in ("", key[2]) for key in keys_with_runs):
            names = [f"model {name}" for name in night.models]
            models = dict.fromkeys(LEDGER, 0) | {"asked": len(names), "models_missing": len(names)}
            series = " ".join(filter(None, (backend, arch, data_format)))
            had = [view.board for view in earlier.values() if (view.backend, view.arch) == (backend, arch)]
            place = series_name(backend, had[0] if had else arch, series)
            results.append(SeriesResult(series, PARTIAL, ", ".join(names), "", None, None, models, place))
    return results


def _earlier(night: NightRecord, root: Path) -> dict[str, RunView]:
    """Series -> its run of the newest earlier night of the same name in this folder."""
    newest: dict[str, RunView] = {}
    for path in sorted((root / NIGHTS).glob(f"*/{RECORD}"), reverse=True):
        try:
            other_night = NightRecord.model_validate_json(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue  # another opscope's: it is only not compared with
        if other_night.name != night.name or other_night.started >= night.started:
            continue
        joined = [run.parent for run in path.parent.glob("*/run.json")]
        for run_dir in joined or runs_of(root, other_night):
            try:
                if read_run(run_dir).outcome == "running":
                    continue
                view = from_folder(run_dir)
            except InputError:
                continue
            if not view.broken:
                newest.setdefault(view.series, view)
        if newest:
            return newest
    return newest
