"""`opscope show --json`: a run from its folder; an op, a model, a cause or a run from the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import MISSING, computed_field, create_model

from opscope.harness.record.isolation import Artefact
from opscope.harness.record.records import ImportCheck, Ledger, ModelFailure, OpTest, RunRecord
from opscope.harness.record.spared_work import Savings
from opscope.harness.record.stages import ModelStatus, Status
from opscope.wire.answer import Answer, Time
from opscope.wire.note import Note


class Books(Ledger):
    """The counts of a run on one backend, which must add up."""

    @computed_field
    @property
    def adds_up(self) -> bool:
        """Whether every unique op has one status and every op of every module is accounted for."""
        return super().adds_up


class Disagreement(Answer):
    """An op on which the backends of a run disagree."""

    op_id: str
    op_name: str
    alone: str
    """The backend that differs from all others; empty if there is none."""
    status: dict[str, Status]
    """Backend -> how the op ended."""


if TYPE_CHECKING:
    _Outcomes = Answer
else:
    _Outcomes = create_model(
        "_Outcomes", __base__=Answer, ran=(int, ...), **{str(each): (int | MISSING, MISSING) for each in ModelStatus}
    )


class Models(_Outcomes):
    """How many of the models that were asked for ran; how many failed in each way stays left out where none did."""

    asked: int
    failed: tuple[ModelFailure, ...]
    imports: tuple[ImportCheck, ...]


class StoredRun(Answer):
    """A run, from its folder."""

    run: RunRecord
    ledger: Books
    """That of the first backend, which is the only one of most runs."""
    ledgers: dict[str, Books]
    disagreements: tuple[Disagreement, ...]
    models: Models
    isolation: tuple[Artefact, ...]
    """Ops whose verdict changes when they run alone."""
    whole_models: tuple[OpTest, ...]
    """Models that ran as one program."""
    savings: Savings
    op_tests: tuple[OpTest, ...]


class _FromDatabase(Answer):
    notes: tuple[Note, ...]
    """What people wrote about the causes in it."""


class FailingOfRun(Answer):
    """An op that goes wrong in a published run."""

    op_id: str
    op_name: str
    types: str
    status: str
    stage: str
    error: str
    cluster: str
    """The cause."""
    known: str
    """The limitation that names it."""
    uses: int
    models: tuple[str, ...]
    repro: str
    owner: str


class PublishedRun(_FromDatabase):
    """A run that the database has."""

    what: Literal["run"]
    run_id: str
    backend: str
    arch: str
    on: str
    started: Time
    outcome: str
    models: tuple[str, ...]
    statuses: dict[str, int]
    failing: tuple[FailingOfRun, ...]


class OpNight(Answer):
    """An op in one night of a series."""

    label: str
    """The night's date and time, in its `zone`; the release of a night of one."""
    night_id: str
    zone: str
    backend: str
    arch: str
    data_format: str
    status: str
    failed_stage: str | None
    z_max: float | None
    """The largest error over its own scale (docs/verdicts.md)."""
    pcc: float | None
    cycles: int | None
    compile_ms: float | None
    ran_on: str
    card_type: str
    flaky: int
    expected: str
    """The limitation that names its failure; empty if none does."""
    error_signature: str | None
    cause: str
    error_message: str | None
    artifact: str
    """Full diagnostic, relative to the run's folder."""
    run_id: str
    repro: str
    on: str
    owner: str
    compiled_by: str | None
    """Whose program ran, where another made it than the backend is called after."""
    narrowed: tuple[str, ...]
    verdict_of: str
    """The release whose equal program it was that ran; empty if it was its own."""


class OpSince(Answer):
    """Since when an op goes wrong in a series."""

    on: str
    night: str
    range: str
    """The commits between that night and the one before it; empty where neither names one."""
    url: str


class Op(_FromDatabase):
    """The history of an op."""

    what: Literal["op"]
    op_id: str
    op_name: str
    op_kind: str
    signature: str
    op_params: dict[str, str]
    unsplittable: str
    once: tuple[str, ...]
    """Its former ids."""
    models: dict[str, int]
    """Model -> its uses there."""
    places: tuple[str, ...]
    since: tuple[OpSince, ...]
    history: tuple[OpNight, ...]
    """Newest first."""
    repro: str


class _Failing(Answer):
    op_id: str
    op_name: str
    signature: str
    uses: int
    status: str
    stage: str | None
    cluster: str
    """The cause."""
    message: str | None
    known: str
    """The limitation that names it."""
    flaky: int
    label: str
    repro: str
    owner: str


class Blocker(_Failing):
    """An op that keeps a model from being whole."""

    depth: int
    """How many stages it passed."""


class FailingOfCause(_Failing):
    """An op that goes wrong for a cause."""

    models: tuple[str, ...]


class ModelNight(Answer):
    """A model in one night of a series."""

    series: str
    label: str
    night_id: str
    zone: str
    backend: str
    arch: str
    data_format: str
    outcome: str
    reason: str
    ops: int
    right_ops: int
    bad_ops: int
    not_attempted: int
    whole: int
    readiness: float | None
    """The share of its ops that are right, 0 to 1."""
    on: str


class Since(Answer):
    """The oldest night of those in which a model has been as it is now, without a break."""

    whole: bool
    night: str
    range: str
    url: str
    text: str


class Rung(Answer):
    """How many ops of a model got as far as one stage and no further."""

    stage: str
    ops: int
    uses: int


class ModelLane(Answer):
    """A model in its newest night of a series."""

    series: str
    name: str
    since: Since | None
    newest: ModelNight
    ladder: tuple[Rung, ...]
    blockers: tuple[Blocker, ...]


class Model(_FromDatabase):
    """The readiness of a model."""

    what: Literal["model"]
    model: str
    lanes: tuple[ModelLane, ...]
    trend: tuple[ModelNight, ...]
    """Newest first."""


class EarlierLane(Answer):
    """A series whose newest night has a cause no more, with the last that had it."""

    series: str
    name: str
    night: str


class CauseLane(EarlierLane):
    """A cause in the newest night of a series."""

    night_id: str
    first_seen: str
    """A date."""
    models: tuple[str, ...]
    failing: tuple[FailingOfCause, ...]


class Cause(_FromDatabase):
    """A cause of failure."""

    what: Literal["cause"]
    cause: str
    error_message: str
    lanes: tuple[CauseLane, ...]
    before: tuple[EarlierLane, ...]


Details = Op | Model | Cause | PublishedRun
"""What the database knows of a name."""
PRINTS = StoredRun | Details
