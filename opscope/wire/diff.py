"""`opscope diff --json`."""

from __future__ import annotations

from pydantic import MISSING, Field, JsonValue, computed_field
from pydantic.dataclasses import dataclass

from opscope.harness.record.isolation import Artefact
from opscope.reports.compare import diff
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


class Change(Answer):
    """What differs between the runs besides their results."""

    what: str
    """`compiler`, `arch`, `option NAME`, `version NAME`, ..."""
    a: JsonValue
    b: JsonValue


class Rate(Answer):
    """Attempted and right ops and their share, 0 to 1, in unique ops and in uses: of the earlier run and of the later.

    Results of one place of execution never add to those of another.
    """

    scope: str
    """`all`, or `like for like`: ops that both runs attempted."""
    ran_on: str
    right_ops_a: int
    attempted_ops_a: int
    rate_ops_a: float | None
    right_uses_a: int
    attempted_uses_a: int
    rate_uses_a: float | None
    right_ops_b: int
    attempted_ops_b: int
    rate_ops_b: float | None
    right_uses_b: int
    attempted_uses_b: int
    rate_uses_b: float | None


class Cause(Answer):
    """The failures of a cause; flaky ops are separate."""

    cluster: str
    flaky: bool
    stage: str
    error: str
    labels: dict[str, int]
    ops: int
    uses: int
    models: tuple[str, ...]


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
    changes: tuple[Change, ...]
    counts: dict[str, int]
    """Label -> ops."""
    news: int
    """Rows that fail a gate."""
    rates: tuple[Rate, ...]
    rows: tuple[Row, ...]
    clusters: tuple[Cause, ...]
    notes: tuple[str, ...]
    isolation: tuple[Artefact, ...]
    """Ops whose verdicts differ, if one run has ops alone and the other models as one program."""
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
        changes=tuple(Change(**change) for change in compared.changes),
        counts=dict(compared.counts),
        news=compared.news,
        rates=tuple(Rate(**rate) for rate in compared.rates),
        rows=tuple(Row(**vars(row)) for row in compared.rows),
        clusters=tuple(Cause(**cause) for cause in compared.clusters),
        notes=compared.notes,
        isolation=compared.isolation,
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
