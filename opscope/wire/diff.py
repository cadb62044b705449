"""`opscope diff --json`."""

from __future__ import annotations

from pydantic import MISSING, Field, computed_field
from pydantic.dataclasses import dataclass

from opscope.harness.record.isolation import Artefact
from opscope.reports.compare import diff
from opscope.reports.compare.changed_programs import ChangedProgram
from opscope.reports.compare.lowered_differently import Lowered
from opscope.reports.compare.outcomes import RunView
from opscope.wire.answer import CONFIG, Answer, Time


class Run(Answer):
    """One of the two runs, or nights."""

    run_id: str
    place: str
    """Where it was read from: the run folder, `database`, or `night`."""
    started: Time
    backend: str
    arch: str
    models: tuple[str, ...]
    outcome: str
    ops: int


class Commits(Answer):
    """The commits between the runs."""

    range: str
    from_: str = Field(serialization_alias="from")
    to: str
    url: str
    """The page that compares them; empty where the remote is not known."""


@dataclass(config=CONFIG, frozen=True)
class Row(diff.Row):
    """One op in two runs; fields in `_a` belong to the earlier run, fields in `_b` to the later."""

    @computed_field
    @property
    def news(self) -> bool:
        """Whether the row fails a gate."""
        return super().news


@dataclass(config=CONFIG, frozen=True)
class LoweredDifferently(Lowered):
    """What the compilers of two runs lower, compute and abort differently."""

    @computed_field
    @property
    def sentence(self) -> str:
        """In one line."""
        return super().sentence


class Series(Answer):
    """Two runs, or two nights of a series, compared."""

    a: Run
    b: Run
    since: Commits | None
    changes: tuple[diff.Change, ...]
    counts: dict[str, int]
    """Label -> ops."""
    news: int
    """Rows that fail a gate."""
    rates: tuple[diff.Rate, ...]
    rows: tuple[Row, ...]
    clusters: tuple[diff.Cluster, ...]
    notes: tuple[str, ...]
    isolation: tuple[Artefact, ...]
    """Ops whose verdicts differ, if one run has ops alone and the other models as one program."""
    programs: tuple[ChangedProgram, ...]
    """Whole models of which the compiler made another program."""
    lowered: LoweredDifferently | MISSING = MISSING
    """Left out where neither run has kept an IR, and with --cause."""


class _Said(Answer):
    sentence: str
    """What happened, in one sentence."""


class Diff(Series, _Said):
    """Two runs compared."""


class Nights(_Said):
    """Nights compared, series by series."""

    series: tuple[Series, ...]


def series_of(compared: diff.Diff, lowered: Lowered | None) -> Series:
    """The comparison as `--json` prints it, with what the two compilers lower differently."""
    since, more = compared.since, {}
    if lowered is not None and lowered.sentence:
        more["lowered"] = LoweredDifferently(**vars(lowered))
    return Series(
        a=_named(compared.a),
        b=_named(compared.b),
        since=since and Commits(range=since.text, from_=since.old.revision, to=since.new.revision, url=since.url),
        changes=compared.changes,
        counts=dict(compared.counts),
        news=compared.news,
        rates=compared.rates,
        rows=tuple(Row(**vars(row)) for row in compared.rows),
        clusters=compared.clusters,
        notes=compared.notes,
        isolation=compared.isolation,
        programs=compared.programs,
        **more,
    )


def _named(run: RunView) -> Run:
    return Run(
        run_id=run.run_id,
        place=run.place,
        started=run.started,
        backend=run.backend,
        arch=run.arch,
        models=run.models,
        outcome=run.outcome,
        ops=len(run.ops),
    )


PRINTS = Diff | Nights
