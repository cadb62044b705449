"""Gets the records of a run's ops by one lane: from the journal, an earlier run or the lane, within the budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from opscope.base.children.ending import KILLED
from opscope.base.slots import Slots
from opscope.harness.climb import budget
from opscope.harness.climb.by_class import of_classes
from opscope.harness.climb.reruns import Reruns
from opscope.harness.climb.result_cache import ResultCache
from opscope.harness.engine.goldens import AwaitedGoldens, CutOff, NoGoldens
from opscope.harness.engine.ready_ops import OpsToCome
from opscope.harness.lanes.flight import Ready
from opscope.harness.lanes.protocol import AnyLane
from opscope.harness.limitations.limitations import ByName, Limitation, Verdict, judged
from opscope.harness.record import store
from opscope.harness.record.optest import RunContext, unrun_test
from opscope.harness.record.records import OpRow, OpTest
from opscope.harness.record.stages import Status


@dataclass(frozen=True)
class Terms:
    """What decides whether an op runs: kept verdicts, earlier records, the deadline, limitations and reruns."""

    cache: ResultCache | None = None
    """Kept verdicts. With None, every op is run."""
    recorded: Mapping[str, OpTest] = field(default_factory=dict)
    """Records that a resumed run already has, by op."""
    attempts: Mapping[str, int] = field(default_factory=dict)
    """Number of the next attempt at each op that ran before."""
    deadline: float | None = None
    """The time (time.time) after which no op is started."""
    limitations: Sequence[Limitation] = ()
    """The failures that are expected."""
    reruns: Reruns = field(default_factory=lambda: Reruns(0))
    """How often an op is run again if no limitation names its failure; one for all lanes of a backend."""
    goldens: AwaitedGoldens | None = None
    """The goldens that are still being made. With None, there are none."""
    lost: Mapping[str, str] = field(default_factory=dict)
    """Why there are no goldens of a model, by model: its ops cannot run."""
    slots: Slots | None = None
    """Of these a lane has one while it runs an op. With None, it needs none."""
    check: Callable[[], None] = lambda: None
    """Called while an op waits; raises what is to end it."""
    on_lane: Callable[[], None] = lambda: None
    """Called before an op needs the lane."""


class Climber:
    """Takes ops up the ladder in one lane and writes each record immediately; a context manager."""

    def __init__(self, context: RunContext, lane: AnyLane, journal: store.Journal, terms: Terms) -> None:
        self._context, self._lane, self._terms = context, lane, terms
        self._journal, self._reruns = journal, terms.reruns
        self._doubts = terms.cache.doubts if terms.cache is not None else None
        self._sent: dict[str, OpRow] = {}
        """Ops that were sent to a cluster, with their inputs and goldens, until they are climbed."""
        self._in_time = budget.clock(terms.deadline)
        self._limitations = ByName(terms.limitations, context.backend)
        self._last: tuple[OpTest, tuple[OpTest, Verdict]] | None = None
        self._others: list[Ready] = []
        """The reports of the reruns of an op."""

    def climb(self, row: OpRow) -> tuple[OpTest, Verdict]:
        """Returns the record of one op and its verdict. Raises InputError if every later op would fail the same way."""
        recorded = self._terms.recorded.get(row.op_id)
        if recorded is not None:
            return self._judged(recorded)
        attempt = self._terms.attempts.get(row.op_id, 1)
        ready = self._sent.pop(row.op_id, None)
        try:
            if ready is None:
                if row.uses and (reason := self._terms.lost.get(row.uses[0].model)) is not None:
                    raise NoGoldens(reason)
                ready = (
                    row
                    if self._terms.goldens is None
                    else self._terms.goldens.row(row, self._in_time, self._terms.check)
                )
            if KILLED.search(ready.no_golden):
                raise NoGoldens(ready.no_golden)
        except NoGoldens as error:
            late = isinstance(error, CutOff) and str(error).removeprefix("not_run: ").startswith(budget.REASON)
            reason = budget.REASON if late else str(error)
            unrun = unrun_test(row, self._context, Status.NOT_RUN, reason)
            test, verdict = self._judged(unrun.model_copy(update={"attempt": attempt}))
        else:
            test, verdict = self._judged(of_classes(ready, lambda row: self._test(row, attempt)))
        self._journal.append(test, self._text(test))
        return test, verdict

    def _text(self, test: OpTest) -> str:
        """The JSON of a record that is as the lane's child wrote it; empty for any other."""
        last = self._lane.last_text
        return last[1] if last is not None and last[0] is test else ""

    def _test(self, row: OpRow, attempt: int) -> OpTest:
        """Returns the record of an op on one class of inputs, and notes what it says of the golden."""
        test = self._kept_or_new(row, attempt)
        if self._doubts is not None:
            self._doubts.note(row, test)
        return test

    def _kept_or_new(self, row: OpRow, attempt: int) -> OpTest:
        """Returns the record of an op that has no record in this run yet."""
        terms = self._terms
        asked = self._doubts.asked(row) if self._doubts is not None else row
        kept = terms.cache.of_class(row, attempt) if terms.cache is not None else None
        if kept is not None and asked is not row and kept.status is Status.SUCCESS and not kept.second_authority:
            kept = None
        if kept is not None and (self._reruns.settled(kept) or not self._is_news(kept)):
            return kept
        terms.on_lane()
        if terms.slots is not None:
            terms.slots.hand_on()
            terms.slots.take(terms.check)
        if not self._lane.has_record(row) and not self._in_time():
            unrun = unrun_test(row, self._context, Status.NOT_RUN, budget.REASON)
            return unrun.model_copy(update={"attempt": attempt})
        test, self._others = self._lane.run(asked, attempt=attempt), []
        ready = self._lane.last_ready
        if self._is_news(test):
            test = self._reruns.label(test, lambda: self._once_more(asked, attempt), self._in_time)
        if terms.cache is not None and ready is not None:
            # With the report of the child that ran it, because sources may have changed since the run began.
            terms.cache.keep(row, test, ready, *self._others, text=self._text(test))
        return test

    def _is_news(self, test: OpTest) -> bool:
        """Whether no limitation names this failure."""
        return self._judged(test)[1].outcome == "fail"

    def _judged(self, test: OpTest) -> tuple[OpTest, Verdict]:
        """Judges a record by the current limitations; the one that was judged last is not judged again."""
        if self._last is None or self._last[0] is not test:
            self._last = test, judged(test, self._limitations.about(test))
        return self._last[1]

    def _once_more(self, row: OpRow, attempt: int) -> OpTest:
        """Runs an op again, in a child in which no other op has run."""
        self._lane.fresh()
        test = self._lane.run(row, attempt=attempt + 1)
        if self._lane.last_ready is not None:
            self._others.append(self._lane.last_ready)
        return test

    def arrivals(self, rows: Sequence[OpRow]) -> Iterator[OpRow]:
        """Yields the ops in the order in which their records arrive, if a cluster runs many at once.

        An op whose goldens are still being made is sent once they are there.
        """
        lane = self._lane
        waiting = {row.op_id: row for row in rows}
        for op_id in list(waiting):
            row = waiting[op_id]
            if not self.needs_lane(row) or (row.uses and row.uses[0].model in self._terms.lost):
                yield waiting.pop(op_id)
        to_come = OpsToCome(waiting.values(), self._terms.goldens, self.needs_lane)
        for op_id in lane.arrivals(to_come, self._terms.attempts, self._in_time):
            if op_id in to_come.ready:
                self._sent[op_id] = to_come.ready.pop(op_id)
            yield waiting.pop(op_id)
        if not self._in_time():  # nobody waits for goldens of ops that will not run
            self._sent |= waiting
        yield from waiting.values()

    def needs_lane(self, row: OpRow) -> bool:
        """Whether an op has to run, as far as that is known without reading a file."""
        terms = self._terms
        return row.op_id not in terms.recorded and (terms.cache is None or not terms.cache.has(row))

    def rest(self) -> None:
        """Gives the lane's slot back: there is no op to run just now."""
        if self._terms.slots is not None:
            self._terms.slots.give()

    @property
    def waited(self) -> float:
        """Seconds that the lane has waited for goldens."""
        return 0.0 if self._terms.goldens is None else self._terms.goldens.waited

    def start(self) -> None:
        """Starts the lane without waiting for it."""
        self._lane.start()

    def close(self) -> None:
        """Ends the lane."""
        self.rest()
        self._lane.close()
        if self._terms.cache is not None:
            self._terms.cache.close()

    def __enter__(self) -> Climber:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
