"""`opscope readiness --json`."""

from __future__ import annotations

from opscope.reports.compare.whole_since import Since
from opscope.wire.answer import Answer, Time


class Missing(Answer):
    """An op that keeps the model from being whole."""

    op_id: str
    op_name: str
    op_kind: str
    types: str
    params: dict[str, str]
    uses: int
    status: str
    stage: str
    """The last stage that it passed."""
    depth: int
    """How many stages that is."""
    failed_stage: str
    cluster: str
    """The cause."""
    error: str
    known: str
    """The limitation that names it."""
    flaky: bool
    repro: str
    remark: str
    """What a note says of its cause."""
    acknowledged: bool
    """Whether that note acknowledges the cause."""
    owner: str


class Counted(Answer):
    """The model in one run, in unique ops."""

    run_id: str
    started: Time
    revision: str
    ops: int
    missing: int
    not_attempted: int
    right: int


class Night(Answer):
    """The model in one night, in unique ops."""

    night_id: str
    label: str
    outcome: str
    reason: str
    ops: int
    right_ops: int
    bad_ops: int
    not_attempted: int
    started: Time
    zone: str


class Readiness(Answer):
    """What keeps one model from being whole in a run, and how it was before."""

    model: str
    run_id: str
    missing: tuple[Missing, ...]
    history: tuple[Counted, ...]
    """Earlier runs and this one, oldest first."""
    nights: tuple[Night, ...]
    """Oldest first."""
    since: Since | None
    left_out: tuple[str, ...]
    """Ids of later runs of selected ops, which do not count."""


class SeriesOfNight(Answer):
    """The same for each series of a night."""

    series: tuple[Readiness, ...]


PRINTS = Readiness | SeriesOfNight
