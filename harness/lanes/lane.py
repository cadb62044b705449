"""A lane: the parent's side of one isolated child that climbs ops, one in flight.

The child runs `opscope.harness.lanes.worker.serve` (`opscope.base.children`). If it crashes, exceeds a limit, exits or
writes garbage to its socket, that becomes the record of the op in flight, with its stage, and the next op gets a fresh
child. So it does after an op that left its child changed. This module imports neither numpy nor jax.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.base import damage, stored
from opscope.base.children import forked
from opscope.base.children.child import CappedLog
from opscope.base.children.ending import FROM_OUTSIDE, Cause, ChildEnded, Deadline, Ending, killed_from_outside
from opscope.base.children.frames import RETURNED
from opscope.base.damage import Damaged
from opscope.base.machine import memory_limit
from opscope.base.temporary_folder import remove
from opscope.base.visible_text import counted, cut
from opscope.harness.cache import export_folder
from opscope.harness.lanes import crash_cause, left_ir, memory, scratch, worker_ahead
from opscope.harness.lanes.flight import Flight, Ready
from opscope.harness.lanes.leftovers import Leftovers, leftovers
from opscope.harness.lanes.protocol import OpsToSend
from opscope.harness.lanes.scratch import Place
from opscope.harness.lanes.stage_marks import SeenMarks
from opscope.harness.record.errors import InputError
from opscope.harness.record.explanation import SECONDS
from opscope.harness.record.optest import RunContext, release_in, unrun_test
from opscope.harness.record.records import OpRow, OpTest
from opscope.harness.record.stages import FAILED, Stage, Status

if TYPE_CHECKING:
    from opscope.base.children.child import Child

_START_ATTEMPTS = 2
_MORE = "--op-memory 8GiB"
_SPENT = 0.75
"""Share of its memory or thread limit that a child may still hold when an op has ended."""


_LINES = 10_000
"""So many of the last lines of a child's output may name the cause of its end; its stack may follow."""

_CLOSING = 2.0
"""Seconds that a backend may take to close."""

_EXPLAINED = 60.0
"""Seconds after an explanation's own limit at which a child that explains a wrong result is taken for hung."""


@dataclass(frozen=True)
class LaneConfig:
    """The settings of a lane."""

    context: RunContext
    export_dirs: Mapping[str, str]
    """Export folder per model (`ManifestHeader.models` and `.export_dirs`); it may change, as `mend` does."""
    op_timeout: float = 120.0
    """Seconds that an op may take, without the child's start."""
    memory_limit: int | None = None
    """Bytes of resident memory that the child and its children may hold; None means three quarters of the machine's."""
    thread_limit: int = 512
    start_timeout: float = 120.0
    log: Path | None = None
    """The file for the child's output, limited in size. With None, only its last lines are kept, in memory."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to the child's environment."""
    mend: Callable[[OpRow, Damaged], OpRow] | None = None
    """Makes the damaged files of an op again and returns its row, or raises what it is given. With None, or where that
    does not help, the op is `not_run`."""
    final_dirs: dict[str, str] = field(default_factory=dict)
    """Where the export folder of a model under construction will be once it is complete."""
    alone: bool = True
    """Whether the run has no other backend, so that it ends if a release cannot be used here. Else its ops fail."""
    refused: str = ""
    """Why a release cannot be used here, if that is known already (`Ready.refused`)."""
    check: Callable[[], None] = lambda: None
    """Called while the child works; raises what is to end it."""
    scratch: Place | None = None
    """The folder of the run for what the backend's library writes, where it needs one. With None, this process's."""


class Lane:
    """One child at a time; a context manager. If an op fails, `run` returns a record and does not raise."""

    def __init__(self, config: LaneConfig) -> None:
        self.config = config
        self.starts = 0
        """Children started so far."""
        self._child: Child | None = None
        self._ready: Ready | None = None
        self._last_ready: Ready | None = None
        self.last_text: tuple[OpTest, str] | None = None
        """The last record that came from a child, and its JSON as the child wrote it."""
        self._context = config.context
        """The run's, with the card of the child's report."""
        self._marks = SeenMarks()
        """The stages that the op in flight has begun."""
        self._number = 0
        self._served = 0
        """Ops that the child has run."""
        self._leftovers = Leftovers()
        self.memory_limit = memory_limit(config.memory_limit)
        self._log = CappedLog(config.log)
        self._idle = False
        """Whether the child is ready, and no op is in flight."""
        self._closes = False
        """Whether the child's backend is to be closed."""
        self._refused = config.refused
        self._has_read: Ready | None = None
        """The child's report about its backend, with what it has read by now."""
        self._folder: Path | None = None
        """The child's own folder, where the backend's library may write."""

    def __enter__(self) -> Lane:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Starts a child if there is none, without waiting for it: its imports then overlap with other work.

        Where it will be a fork of a process that has loaded a backend's library, that process starts.
        """
        if self._child is None:
            start, _ = self._place()
            if start.server:
                forked.get_ready(worker_ahead.WORKER, start.ahead, start.server)
            else:
                self._start()

    def _place(self) -> tuple[worker_ahead.Start, Place | None]:
        """How the child starts, and the folder of the run for what its backend's library writes, if it needs one.

        Raises InputError if there is no room for that.
        """
        backend = self.config.context.backend
        if self._refused:
            return worker_ahead.Start(), None
        if not scratch.needed(backend) and not scratch.loads_once(backend):
            return worker_ahead.start_of(backend, None), None
        place = self.config.scratch or scratch.of_process()
        start = worker_ahead.start_of(backend, place)
        if not start.is_loaded():
            scratch.check_room(backend)
        return start, place

    def _start(self) -> None:
        """Starts a child. Where it is a fork, waits until the process is ready of which it is one."""
        from opscope.base.children.child import Child  # a lane whose verdicts are all kept starts none

        start, place = self._place()
        self.starts += 1
        self._served = 0
        environment = dict(self.config.environment)
        task: dict[str, Any] = {"context": self.config.context.as_json(), "refused": self._refused}
        if place is not None:
            self._folder = scratch.new_lane(place)
            environment["TMPDIR"] = str(self._folder / scratch.TEMPORARY)
            task["folder"] = str(self._folder)
            if self.starts == 1 and start.server:
                task["load_log"] = str(scratch.log_of(start.server))
        try:
            self._child = Child(
                worker_ahead.WORKER,
                memory=self.memory_limit,
                threads=self.config.thread_limit,
                environment=environment,
                log=self._log,
                ahead=start.ahead,
                server=start.server,
            )
        except OSError as error:
            self._stop()
            raise InputError(
                "lane", "a process that can be started", str(error), "`ulimit -a` and ending other programs"
            ) from None
        self._child.send(task)

    def ready(self) -> Ready:
        """Waits until the child has loaded its backend.

        Raises InputError if there is no such backend or board, or if the child does not start; of a release beside
        other backends only what any of them would refuse.
        """
        backend = self.config.context.backend
        try:
            return self._loaded()
        except InputError as error:
            if self.config.alone or self._refused or not release_in(backend) or error.where != f"--backend {backend}":
                raise
            self._refused = f"expected {error.expected}, got {error.got}"
            self._say(str(error))
            return self._loaded()

    def _loaded(self) -> Ready:
        """The report of a child that has loaded its backend. Raises InputError."""
        for attempt in range(_START_ATTEMPTS):
            if self._ready is not None and self._child is not None and not self._child.wait(0):
                self._stop()  # it ended while no op was in flight, so no op caused it
            if self._child is None:
                self._start()
            if self._ready is not None:
                break
            assert self._child is not None
            try:
                message = self._child.receive(Deadline(self.config.start_timeout), self.config.check)
            except ChildEnded as ended:
                self._stop()
                hung = ended.ending.cause is Cause.TIMEOUT and release_in(self.config.context.backend)
                if attempt + 1 < _START_ATTEMPTS and not hung:
                    continue
                last = crash_cause.of(ended.ending, self._log.tail(_LINES)) or self._log.last_line()
                got = f"{ended}{f': {last}' if last else ''}"
                hint = _MORE if ended.ending.cause is Cause.MEMORY else "`opscope doctor`"
                if ended.ending.from_outside:
                    got, hint = killed_from_outside(ended.ending.kind), "a machine, or a container, with more memory"
                place = f"--backend {self.config.context.backend}"
                raise InputError(place, "a worker that starts", got, hint) from None
            if "input_error" in message:
                self._stop()
                raise InputError(*message["input_error"])
            self._check_room()
            try:
                self._marks.of(*message["marks"])
                self._child.before_reading = self._marks.look
            except (OSError, ValueError) as error:
                self._stop()
                raise InputError("lane", "a process whose memory can be read", str(error), "`opscope doctor`") from None
            values = message["ready"]
            stages = tuple(Stage(stage) for stage in values["stages"])
            self._ready = Ready(**{**values, "stages": stages, "refused": self._refused})
            self._context = replace(self.config.context, card_type=self._ready.card_type)
            self._idle, self._closes = True, message.get("closes", False)
        assert self._ready is not None
        return self._ready

    @property
    def pid(self) -> int:
        """The number of the child's process; 0 if there is none."""
        return 0 if self._child is None else self._child.pid

    @property
    def last_ready(self) -> Ready | None:
        """The report of the child that ran the last op, even if it was replaced afterwards; None before the first."""
        return self._last_ready

    def run(self, row: OpRow, *, attempt: int = 1) -> OpTest:
        """Climbs one op, once there is memory for it, and returns its record.

        Raises InputError only where the lane cannot start at all.
        """
        mend = self.config.mend
        while True:
            try:
                return self._in_turn(row, attempt)
            except Damaged as error:
                try:
                    if mend is None:
                        raise
                    row, mend = mend(row, error), None
                except Damaged as final:
                    return lost_to_damage(row, self.config.context, final, attempt)

    def _in_turn(self, row: OpRow, attempt: int) -> OpTest:
        """Climbs an op once there is memory for it. Raises Damaged."""
        ready = self.ready()
        with memory.turn(row, self.memory_limit, self.config.check):
            served = self._served
            test = self._climbed(row, ready, attempt)
            if test.crash_kind == Cause.PROTOCOL and served:
                # Whatever an earlier op has left in the child may have written to the socket; a fresh one tells.
                self._say(
                    f"{row.op_id}: {test.error_message}, in a process that had run {counted(served, 'op')}; run again"
                )
                test = self._climbed(row, self.ready(), attempt)
        if test.crash_kind in FROM_OUTSIDE:
            # Somebody, or something, ended the process: the system does where there is too little memory for all.
            self._say(f"{row.op_id}: {test.error_message}, from outside; run again, alone")
            with memory.turn(row, self.memory_limit, self.config.check, alone=True):
                test = self._climbed(row, self.ready(), attempt)
        if test.crash_kind in FROM_OUTSIDE:
            reason = f"{killed_from_outside(test.crash_kind)}, at {test.failed_stage}"
            test = unrun_test(row, self.config.context, Status.NOT_RUN, reason).model_copy(update={"attempt": attempt})
        return test

    def _climbed(self, row: OpRow, ready: Ready, attempt: int) -> OpTest:
        """Climbs an op whose turn it is and returns its record."""
        assert self._child is not None
        self._number, self._last_ready = self._number + 1, ready
        self._log.mark()
        self._idle = False
        flight = Flight(row, self._context, ready, attempt, self._begun)
        failure: OpTest | None = None
        try:
            export_dir = self.config.export_dirs[row.uses[0].model]
            self._child.send(
                {
                    "number": self._number,
                    "text": row.model_dump_json(),
                    "export_dir": export_dir,
                    "expected": stored.expected(Path(export_dir), export_folder.files_of(row)),
                    "final_dir": self.config.final_dirs.get(row.uses[0].model),
                    "attempt": attempt,
                }
            )
            deadline, late = Deadline(self.config.op_timeout), False
            explaining: Deadline | None = None
            while True:
                message = self._child.receive(deadline, self.config.check)
                if _is_late(message, self._number):
                    late = True
                    continue
                if message.get("op") != self._number:
                    raise ChildEnded(Ending(Cause.PROTOCOL, f"unexpected frame {cut(str(message), 80)}"))
                if "explaining" in message:
                    # The verdict stands: its explanation has a limit of its own, and may cost the child, not the op.
                    failure = failure or _failure(message["explaining"], row)
                    deadline = explaining = explaining or Deadline(SECONDS + _EXPLAINED)
                elif "damaged" in message:
                    raise Damaged(*message["damaged"])
                elif "input_error" in message:
                    raise InputError(*message["input_error"])
                else:
                    return self._answered(flight, message, late)
        except (Damaged, InputError):
            self._stop()  # closed descriptors look like damage too: only a fresh child tells which it is
            raise
        except (ChildEnded, ValueError, KeyError) as error:
            if failure is not None:
                self._say(f"{row.op_id}: {error} while its failure was explained")
                self._stop()
                return failure
            ending = error.ending if isinstance(error, ChildEnded) else Ending(Cause.PROTOCOL, str(error))
            flight.rubbish = ending.cause is Cause.PROTOCOL
            written = None if self._folder is None else self._folder / scratch.TEMPORARY
            flight.came_to(left_ir.last_passed(written, ready.stages, ready.stage_files))
            left_ir.keep(written, ready.stage_files, flight.context, row.op_id)
            self._stop()
            return flight.ended(ending, self._log.tail(), crash_cause.of(ending, self._log.tail(_LINES)))
        except BaseException:
            self._stop()  # an op was in flight, and its answer must not be taken for the next op's
            raise

    def _begun(self, rubbish: bool) -> list[tuple[Stage, float]]:
        """The stages that the op in flight has begun; where its child sent `rubbish`, before that was read."""
        return self._marks.begun(self._number, before_reading=rubbish)

    def _answered(self, flight: Flight, message: Mapping[str, Any], late: bool) -> OpTest:
        """The record of an op whose child has answered. Ends the child if the next op needs another one.

        `late` says that an answer for an earlier op came before. Raises ValueError or KeyError if the message is no
        answer.
        """
        assert self._child is not None
        left = leftovers(message["changed"])
        if "read" in message:
            self._has_read = replace(flight.ready, read=message["read"])
        self._last_ready = self._has_read or flight.ready
        if message["text"] is None:
            test = flight.crashed("record", f"no record: {message['unreadable']}", self._log.tail())
        else:
            test = OpTest.model_validate_json(message["text"])
            self.last_text = test, message["text"]
            if test.op_id != flight.row.op_id:
                raise ValueError(f"record: expected one of {flight.row.op_id}, got one of {test.op_id}")
        if flight.ready.writes_diagnostics and test.status is Status.COMPILE_FAILED:
            self._append_output(test)
        believed = [change for change in left if change.verdict]
        if believed and (test.right or test.status in (Status.WRONG_RESULT, Status.GOLDEN_IN_DOUBT)):
            replaced = ", ".join(change.detail for change in believed)
            test = flight.crashed("code", f"no verdict: {replaced} by the backend", self._log.tail())
        lines = [change.text for change in left]
        self._idle = True
        if late or self._child.has_more():
            lines.append("answers: more than one")
            self._stop()
        elif self._leftovers.replaces(test.op_id, left):
            self._stop()
        else:
            self._served += 1
            self._stop_if_spent()
        if lines:
            self._say(f"{test.op_id} left behind {'; '.join(lines)}")
            test = test.model_copy(update={"left_behind": tuple(lines)})
        return test

    def _append_output(self, test: OpTest) -> None:
        """Adds what the child wrote during an op to its diagnostic."""
        output = self._log.tail(_LINES)
        if test.artifact is None or not output.strip():
            return
        with contextlib.suppress(OSError), Path(self.config.context.run_dir, test.artifact).open("a") as file:
            file.write(f"\noutput of the worker:\n{output}\n")

    def _say(self, text: str) -> None:
        """Writes a line to the log of the child's output."""
        self._log.write(f"[opscope: {text}]\n".encode(errors="backslashreplace"))

    def has_record(self, row: OpRow) -> bool:
        """Returns False: a record exists only once `run` has run the op."""
        return False

    def arrivals(
        self, ops: OpsToSend, attempts: Mapping[str, int], in_time: Callable[[], bool] = lambda: True
    ) -> Iterator[str]:
        """Returns nothing: records come one by one, from `run`."""
        return iter(())

    def fresh(self) -> None:
        """Makes the next op run in a new child, in which no other op has run."""
        self._stop()

    def close(self) -> None:
        """Ends the child. The lane may be used again."""
        self._stop()
        self._marks.close()
        self._log.close()

    def _check_room(self) -> None:
        """Raises InputError if a child holds so much memory before its first op that some op would certainly end it."""
        assert self._child is not None
        resident, _ = self._child.usage()
        if resident > self.memory_limit * _SPENT:
            self._stop()
            held, most = (f"{size >> 20:,} MiB" for size in (resident, self.memory_limit))
            place = f"--backend {self.config.context.backend}"
            raise InputError(place, "a worker with room for ops", f"{held} before the first, {most} allowed", _MORE)

    def _stop_if_spent(self) -> None:
        """Ends a child that holds so much memory or so many threads that the next op could exceed a limit."""
        assert self._child is not None
        resident, threads = self._child.usage()
        if resident > self.memory_limit * _SPENT or threads > self.config.thread_limit * _SPENT:
            self._stop()

    def _stop(self) -> None:
        """Ends the child. Its backend is closed before, unless an op is in flight or the child has died."""
        child, self._child, self._ready = self._child, None, None
        self._has_read = None
        folder, self._folder = self._folder, None
        closes, self._idle = self._idle and self._closes, False
        try:
            if child is not None and closes:
                with contextlib.suppress(ChildEnded):
                    child.send({"close": True})
                    deadline = Deadline(_CLOSING)
                    while RETURNED not in child.receive(deadline):
                        pass
        finally:
            if child is not None:
                child.kill()
            if folder is not None:
                remove(folder)


def _is_late(message: Mapping[str, Any], number: int) -> bool:
    """Whether a message belongs to an op that has already been answered for."""
    op = message.get("op")
    return isinstance(op, int) and 0 < op < number


def lost_to_damage(row: OpRow, context: RunContext, error: Damaged, attempt: int) -> OpTest:
    """The record of an op with a damaged file that cannot be made again; the damage is reported."""
    damage.found(error.where, error.got, f"{row.op_name} [{row.op_id}] has not run")
    return unrun_test(row, context, Status.NOT_RUN, str(error)).model_copy(update={"attempt": attempt})


def _failure(text: str, row: OpRow) -> OpTest:
    """The record of a failure that a child sent before it explains it. Raises ValueError for any other."""
    test = OpTest.model_validate_json(text)
    if test.op_id != row.op_id or test.status not in FAILED:
        raise ValueError(f"record: expected a failure of {row.op_id}, got {test.status} of {test.op_id}")
    return test
