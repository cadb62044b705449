"""The ladder: takes one op through a backend's stages and compares the result; the first failure is the verdict.

Split (done before) -> the backend's stages -> compare. If the op fails, `climb` returns a record and does not raise.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.base.damage import Damaged
from opscope.base.stablehlo.python_calls import why_not_run
from opscope.base.stored import checked, gone
from opscope.base.temporary_folder import TemporaryFolder
from opscope.harness.backends import life
from opscope.harness.backends.base import Backend, BackendError, Declined, Job, StageCrashError, StageError, Target
from opscope.harness.lanes import (
    canary,
    drawn_numbers,
    dumped,
    explained,
    failed_ir,
    mesh_run,
    repeated,
    second_opinion,
    stated_facts,
    whole_model,
)
from opscope.harness.lanes.equal_program import EqualProgram
from opscope.harness.lanes.result_digests import with_digests
from opscope.harness.prepare import domains
from opscope.harness.prepare.inputs import OtherValues, row_golden, row_inputs
from opscope.harness.record import artifacts, structure
from opscope.harness.record.measures import MEASURES
from opscope.harness.record.optest import DOUBT, RunContext, backend_label, build_test, now
from opscope.harness.record.records import WHOLE_MODEL, OpRow, OpTest, ResultCheck, StageTime, Structure
from opscope.harness.record.stages import DETERMINISTIC, WHOLLY_COMPILED, Stage, Status, failed_status
from opscope.harness.record.store import artifact_dir
from opscope.harness.verdict.compare import compare_op
from opscope.harness.verdict.overwritten_inputs import InputSnapshot

if TYPE_CHECKING:
    from opscope.harness.lanes.second_opinion import Opinion
    from opscope.harness.verdict.intermediates import Watch


@dataclass(frozen=True)
class Listener:
    """What a climb calls on its way."""

    on_stage: Callable[[Stage], None] = lambda stage: None
    """Called before each stage."""
    before_compare: Callable[[], None] = lambda: None
    """Called when the backend's part is over."""
    before_explaining: Callable[[OpTest], None] = lambda test: None
    """Called with the record of a failure of which only the explanation or its IR is missing."""


NOBODY = Listener()


@dataclass
class _ClimbState:
    """The state of one op's climb: the stages that it passed, and the fields of its record."""

    row: OpRow
    context: RunContext
    backend: Backend
    target: Target
    attempt: int
    listener: Listener
    export_dir: Path
    started: datetime = field(default_factory=now)
    reached: Stage = Stage.SPLIT
    stage: Stage = Stage.SPLIT
    """The one that it is in."""
    program: EqualProgram | None = None
    times: list[StageTime] = field(default_factory=list)
    job: Job | None = None
    results: list[ResultCheck] = field(default_factory=list)
    overwritten: tuple[int, ...] = ()
    watch: Watch | None = None
    compiled: dict[Stage | str, Any] = field(default_factory=dict)
    """The job's `state` from before it ran, for running it again."""
    drawn_again: list[list[Any]] = field(default_factory=list)
    """What a generator of random bits gave when it ran again."""
    on_devices: list[mesh_run.OnDevices] = field(default_factory=list)
    """With a mesh: what different devices computed."""
    scratch: ExitStack = field(default_factory=ExitStack)
    """What the end of the climb removes."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """The ops of the compiled program, of a backend that counts them itself."""

    @property
    def judged_by(self) -> Target:
        """What the op's own program computes in, if it says so, else what was asked for."""
        return (self.job and self.job.target) or self.target

    @cached_property
    def structure(self) -> Structure | None:
        """What is in the compiled program; None where no IR of it was left. No verdict depends on it."""
        try:
            return structure.of_job(self.job.ir_dir, self.counts) if self.job and self.job.ir_dir else None
        except Exception:  # noqa: BLE001  a compiler may write whatever it likes
            return None

    def count(self) -> None:
        """Asks the backend what is in the program that it has compiled."""
        if self.job is not None and self.job.ir_dir is not None:
            self.counts = self.backend.structure(self.job)

    def timed(self, stage: Stage, step: Callable[[], Any]) -> Any:
        """Runs `step` as `stage`: announces it, times it (also if it raises), and marks it as reached if it returns."""
        self.listener.on_stage(stage)
        begin = time.perf_counter()
        try:
            value = step()
        finally:
            self.times.append(StageTime(stage=stage, seconds=time.perf_counter() - begin))
        self.reached = stage
        return value

    def ended(self, status: Status, error: str | None = None, failed: Stage | None = None, **fields: Any) -> OpTest:
        """The record of the climb so far."""
        times = self.times
        if self.job is not None:
            fields = _chosen(self.row, self.job) | {"overwritten_inputs": self.overwritten} | fields
            fields["structure"] = self.structure if failed in WHOLLY_COMPILED else None
            times = _with_own_times(times, self.job.stage_seconds)
        if self.watch is not None:
            fields |= whole_model.value_fields(self.watch, self.row, self.context)
            times[:] = whole_model.times_without_comparing(self.watch, times)
        return build_test(
            self.row,
            self.context,
            status=status,
            stage_reached=self.reached,
            failed_stage=failed,
            started=self.started,
            error=error,
            attempt=self.attempt,
            stages=tuple(times),
            compile_depth=self.backend.compile_depths.get(self.reached, ""),
            **{
                "card_type": self.judged_by.card_type,
                "data_format": self.judged_by.float_format or "",
                "math_fidelity": self.judged_by.math_fidelity,
                **fields,
            },
        )

    def stored(self, stage: str, suffix: str, text: str) -> str | None:
        """Writes an artifact of the op. Returns its path relative to the run folder, or None if the disk refuses it."""
        name = artifacts.named(stage, backend_label(self.context.backend), suffix)
        return artifacts.write(self.context.run_dir, self.row.op_id, name, text)

    def leave_ir(self) -> None:
        """Stores the IR of a failed op."""
        if self.job is not None:
            took = sum(time.seconds for time in self.times)
            stages = stages_from(self.row.level, self.backend.stages)
            failed_ir.leave(self.row, self.job, self.backend, stages, self.context, took)

    def in_doubt(self, second: Opinion, wrong: Sequence[str], numbers: Mapping[str, Any]) -> OpTest:
        """The record of an op whose authorities part; `wrong` says how its result differs from the golden."""
        artifact = self.stored(Stage.COMPARE, ".txt", "\n".join([second.text, *wrong]) + "\n")
        message = second.text.removeprefix(DOUBT)
        return self.ended(Status.GOLDEN_IN_DOUBT, message, artifact=artifact, second_authority=second.text, **numbers)

    def by_others(self, second: Opinion, before: Stage) -> OpTest:
        """The record of an op whose golden has fallen, by what is in its place; `before` is where a wrong one ends."""
        assert self.job is not None
        wrong = mesh_run.reasons(second.checks, len(self.row.outputs))
        numbers = {"second_authority": second.text, **_numbers(with_digests(second.checks, self.job.outputs))}
        self.reached = before if wrong else Stage.COMPARE
        if not wrong:
            return self.ended(Status.SUCCESS, **numbers)
        artifact = self.stored(Stage.COMPARE, ".txt", "\n".join([second.text, *wrong]) + "\n")
        self.leave_ir()
        return self.ended(Status.WRONG_RESULT, wrong[0], Stage.COMPARE, artifact=artifact, **numbers)

    def failed(self, stage: Stage, error: Exception) -> OpTest:
        """Returns the record of an op that `stage` refused, and stores its full diagnostic as the artifact."""
        message, text, suffix = _diagnose(error)
        artifact = self.stored(stage, suffix, f"{message}\n\n{text}".rstrip() + "\n")
        for ending, content in error.files.items() if isinstance(error, StageError) else ():
            self.stored(stage, ending, content)
        more = {"stability": DETERMINISTIC} if isinstance(error, StageError) and error.of_backend else {}
        if isinstance(error, StageCrashError):
            test = self.ended(Status.CRASHED, message, stage, artifact=artifact, crash_kind=error.kind, **more)
        else:
            test = self.ended(failed_status(stage), message, stage, artifact=artifact, **more)
        self.listener.before_explaining(test)
        self.leave_ir()
        return test


class _EndedError(Exception):
    """The climb is over before there was anything to compare."""

    def __init__(self, status: Status, error: str | None = None, failed: Stage | None = None, **fields: Any) -> None:
        super().__init__(error or status)
        self.status, self.error, self.failed, self.fields = status, error, failed, fields


def climb(
    row: OpRow,
    backend: Backend,
    *,
    context: RunContext,
    export_dir: Path,
    attempt: int = 1,
    listener: Listener = NOBODY,
) -> OpTest:
    """Takes `row` as far as it gets and returns its record.

    `export_dir` holds the row's files. Option `until` ends the climb after that stage with `stopped`. Raises only
    exceptions that the op did not cause: Damaged for a file of its export folder, BackendError, KeyboardInterrupt,
    SystemExit.
    """
    state = _ClimbState(row, context, backend, backend.target(context.options), attempt, listener, export_dir)
    with state.scratch:
        try:
            test = _refused(state) or _judged(state)
            if (
                attempt > 1
                and test.failed_stage in (Stage.RUN, Stage.COMPARE)
                and repeated.may_vary(state.job, backend)
            ):
                return test.model_copy(update={"canary": canary.blames(backend, context.options)})
            return test
        except _EndedError as end:
            return state.ended(end.status, end.error, end.failed, **end.fields)


def _refused(state: _ClimbState) -> OpTest | None:
    """Takes the op through its stages; the record of the one that refused it, or None where all are passed."""
    backend, until = state.backend, state.context.options.until
    try:
        _begin(state)
        stages = stages_from(state.row.level, backend.stages)
        for stage in stages:
            if stage is Stage.RUN:
                state.count()
            if stage is Stage.RUN and backend.compile_only:
                break
            if stage is Stage.RUN and state.context.compiles_only:
                raise _EndedError(Status.STOPPED, "compiled only")
            state.stage = stage
            _take(state, stage)
            if until == stage:
                raise _EndedError(Status.STOPPED, f"stopped after {until}")
        if Stage.RUN not in stages:
            state.count()
    except (Damaged, BackendError, _EndedError):
        raise
    except OtherValues as reason:
        raise _EndedError(Status.NO_GOLDEN, str(reason)) from None
    except Declined as reason:
        raise _EndedError(Status.SKIPPED, f"{backend.name}: {reason}") from None
    except Exception as error:
        if isinstance(error, OSError) and (damaged := gone(error, state.export_dir)) is not None:
            raise damaged from None
        if (fault := life.fault_of_code(backend, error)) is not None:
            raise fault from error
        return state.failed(state.stage, error)
    return None


def _begin(state: _ClimbState) -> None:
    """Reads the op's module: what its stages begin with."""
    row, options = state.row, state.context.options
    if row.module is None:
        raise _EndedError(Status.COMPILE_FAILED, row.unsplittable or "no single-op module", Stage.SPLIT)
    if options.until == Stage.SPLIT:
        raise _EndedError(Status.STOPPED, "stopped after split")
    ir_dir = _ir_folder(state)
    module = checked(state.export_dir, row.module).read_bytes()
    if reason := why_not_run(module):
        raise Declined(f"it {reason}")
    if options.goldens_by:
        from opscope.harness.prepare import mlir

        if reason := mlir.unread(module):
            raise Declined(f"its StableHLO, by {options.goldens_by}, cannot be read here: {reason}")
    if row.op_name == WHOLE_MODEL:
        module = whole_model.tagged(module)
    state.job = Job(row.op_id, module, [], options, row.outputs, row.argument_types, ir_dir)
    state.job.several_devices = row.devices > 1


def _ir_folder(state: _ClimbState) -> Path | None:
    """Where the op's IR is written: with `--keep-ir` below its artifacts. Of a whole model it always is, since its
    structure is read from it; the climb removes it."""
    row, context = state.row, state.context
    if context.keep_ir:
        ir_dir = artifact_dir(Path(context.run_dir), row.op_id) / artifacts.ir_folder(backend_label(context.backend))
        ir_dir.mkdir(parents=True, exist_ok=True)
        return ir_dir
    if row.op_name != WHOLE_MODEL:
        return None
    try:
        return Path(state.scratch.enter_context(TemporaryFolder("ir")))
    except OSError:
        return None


def _take(state: _ClimbState, stage: Stage) -> None:
    """Takes the op through one stage of its backend."""
    row, job, backend, export_dir = state.row, state.job, state.backend, state.export_dir
    assert job is not None
    if stage is not Stage.RUN:
        state.timed(stage, lambda: backend.climb(stage, job))
        return
    if row.inputs and not row.sources:
        raise _EndedError(Status.NO_GOLDEN, row.no_golden or "there are no inputs to run it on")
    state.program = EqualProgram(row, backend, job, state.context, export_dir)
    if (earlier := state.program.taken()) is not None:
        state.reached = Stage.COMPARE
        raise _EndedError(Status.SUCCESS, **earlier)
    if row.shards:
        state.timed(stage, lambda: state.on_devices.extend(mesh_run.run(row, job, backend, export_dir)))
        state.overwritten = mesh_run.overwritten(state.on_devices)
    else:
        _run(state, job, backend, export_dir)


def _judged(state: _ClimbState) -> OpTest:
    """The verdict of an op that has passed all stages, where there are numbers to compare."""
    row, job, backend = state.row, state.job, state.backend
    assert job is not None
    if backend.compile_only:
        job.ran_on, job.outputs = "none", []
    stated_facts.check(job)
    if state.reached is not Stage.RUN and job.ran_on == "none":
        raise _EndedError(Status.STOPPED)  # with the last stage that there is
    if job.ran_on == "none" and job.outputs:
        hint = "job.ran_on = 'host', 'simulator' or 'silicon' beside job.outputs"
        raise BackendError("results and job.ran_on 'none'", "job.ran_on of what computed the results", hint)
    if job.ran_on == "none":
        raise _EndedError(Status.STOPPED, f"{backend.name} computes nothing: there are no numbers to compare")
    if not row.golden and not drawn_numbers.are_judged(row):
        raise _EndedError(Status.NO_GOLDEN, row.no_golden or "there is no golden")
    if own := second_opinion.own_golden(row, second_opinion.accused(backend, state.context.backend)):
        raise _EndedError(Status.NO_GOLDEN, own)
    test = _compared(state, job)
    if state.program is not None:
        state.program.keep(test)
    return test


def stages_from(level: str, stages: Sequence[Stage]) -> Sequence[Stage]:
    """The stages that a module of this level still has to pass."""
    return stages[stages.index(Stage.TTNN_TO_FLATBUFFER) :] if level == "ttnn" else stages


def _run(state: _ClimbState, job: Job, backend: Backend, export_dir: Path) -> None:
    """Runs the stage `run` on fresh copies of the inputs, and notes which of them the backend overwrote."""
    job.inputs = row_inputs(state.row, export_dir)
    single = state.row.op_name != WHOLE_MODEL and not state.row.holds
    job.domain_share = domains.share(state.row.op_name, job.inputs) if single else None
    before = InputSnapshot(job.inputs)
    if state.row.op_name == WHOLE_MODEL:
        state.watch = job.watch = whole_model.watch(state.row, export_dir, job, state.target)
    state.compiled = dict(job.state)
    state.timed(Stage.RUN, lambda: backend.climb(Stage.RUN, job))
    after = job.inputs if job.inputs_after is None else job.inputs_after
    state.overwritten = before.overwritten(after)
    if state.compiled and job.ran_on != "none" and drawn_numbers.are_judged(state.row):
        state.drawn_again = drawn_numbers.drawn_again(state.row, job, backend, export_dir, state.compiled)
    job.inputs, job.inputs_after = [], None


def _compared(state: _ClimbState, job: Job) -> OpTest:
    """Compares the results and returns the record with the verdict."""
    row, before = state.row, state.reached
    state.listener.before_compare()
    try:
        checks: list[ResultCheck] | None = state.timed(Stage.COMPARE, lambda: _checks(state, job))
    except Damaged:
        raise
    except Exception as error:  # noqa: BLE001  a result that cannot be compared is a wrong result
        if isinstance(error, OSError) and (damaged := gone(error, state.export_dir)) is not None:
            raise damaged from None
        return state.failed(Stage.COMPARE, error)
    if checks is None:
        state.reached = before
        return state.ended(Status.NO_GOLDEN, drawn_numbers.no_distribution(row, state.export_dir))
    numbers = _numbers(checks)
    wrong = mesh_run.reasons(checks, len(row.outputs))
    if state.on_devices:  # the first devices that part are dumped and explained, or else the first of all
        row, checks = mesh_run.first_wrong(row, job, state.on_devices, checks)
    if state.context.dump_tensors == "all" or (wrong and state.context.dump_tensors == "failing"):
        dumped.dump(row, job, state.context, state.export_dir)
    test, plain = None, None
    if wrong:
        state.reached = before
        plain = state.stored(Stage.COMPARE, ".txt", "\n".join(wrong) + "\n")
        test = state.ended(Status.WRONG_RESULT, wrong[0], Stage.COMPARE, artifact=plain, **numbers)
        state.listener.before_explaining(test)
    second = None
    if row.golden and not state.on_devices:
        code = second_opinion.accused(state.backend, state.context.backend)
        second = second_opinion.of(row, job, state.judged_by, state.export_dir, code, wrong=test is not None)
    if second is not None and second.no_golden:
        state.reached = before
        return state.ended(Status.NO_GOLDEN, second.no_golden, artifact=plain, second_authority=second.text)
    if second is not None and second.in_doubt:
        state.reached = Stage.COMPARE
        return state.in_doubt(second, wrong, numbers)
    if second is not None and second.checks:
        return state.by_others(second, before)
    opinion = second.text if second else ""
    if test is not None:
        return _explained(state, row, checks, test.model_copy(update={"second_authority": opinion}), plain)
    if row.golden and not state.on_devices and state.watch is None:
        if job.options.batch_invariance:
            from opscope.harness.lanes import batch  # which reads modules

            numbers |= batch.fields(row, job, state.backend, state.export_dir, checks)
        numbers |= repeated.fields(row, job, state.backend, state.export_dir, state.compiled, numbers["results"])
    return state.ended(Status.SUCCESS, second_authority=opinion, **numbers)


def _checks(state: _ClimbState, job: Job) -> list[ResultCheck] | None:
    """Each result held to its golden, or to the distribution that it is drawn from; None if that is not known."""
    row, export_dir = state.row, state.export_dir
    if row.shards:
        return mesh_run.compared(row, job, state.on_devices, state.judged_by, export_dir)
    if not row.golden:
        return drawn_numbers.checks(row, job, state.drawn_again, state.judged_by, export_dir)
    operands = explained.operands_of(row, job, export_dir)
    checks = compare_op(row, row_golden(row, export_dir), job.outputs, state.judged_by, operands, row.held_to)
    return with_digests(checks, job.outputs)


def _explained(
    state: _ClimbState, row: OpRow, checks: Sequence[ResultCheck], test: OpTest, plain: str | None
) -> OpTest:
    """The record of a wrong result with what explains it; `plain` is the artifact that says only how it is wrong."""
    assert state.job is not None
    state.leave_ir()
    if not row.golden:  # there is nothing to explain it by
        return test
    artifact, hypothesis = explained.explained(row, state.job, state.context, state.judged_by, checks, state.export_dir)
    # A model that ran whole has the figures of its values as its artifact.
    kept = test.artifact if artifact is None or test.artifact != plain else artifact
    return test.model_copy(update={"artifact": kept, "hypothesis": hypothesis})


def _numbers(checks: Sequence[ResultCheck]) -> dict[str, Any]:
    """What a record has of the checks of its results."""
    measured = [check.pcc for check in checks if check.pcc is not None]
    return {"results": tuple(checks), "pcc": min(measured, default=None), **_largest(checks)}


def _largest(checks: Sequence[ResultCheck]) -> dict[str, Any]:
    """Where the largest error over its scale is, and which question it failed; that of a wrong result first."""
    scored = [check for check in checks if check.z_max is not None]
    if not scored:
        return {}
    worst = max(scored, key=lambda check: (not check.passed, (check.z_max or 0.0) / (check.z_limit or 1.0)))
    place = ", ".join(filter(None, (str(worst.z_index) if worst.z_index else "", worst.z_place)))
    return {"z_max": worst.z_max, "z_place": place, "question": worst.question}


def _with_own_times(measured: list[StageTime], seconds: Mapping[Stage, float]) -> list[StageTime]:
    """The times of a climb, those of a compiler that takes several stages in one call as it has measured them."""
    if not seconds:
        return measured
    own = [StageTime(stage=stage, seconds=taken) for stage, taken in seconds.items()]
    return own + [time for time in measured if time.stage in (Stage.RUN, Stage.COMPARE)]


def _chosen(row: OpRow, job: Job) -> dict[str, Any]:
    """The compiler's choices and the device's counts, for the record."""
    return {
        "inputs": tuple(job.input_descs) or row.inputs,
        "outputs": tuple(job.output_descs) or row.outputs,
        "ran_on": job.ran_on,
        "compiled_by": job.compiled_by,
        "narrowed": job.narrowed,
        **{name: getattr(job, name) for name in MEASURES},
        "pipeline": job.pipeline,
    }


def _diagnose(error: Exception) -> tuple[str, str, str]:
    """Message, full text and file suffix of an error that a stage raised."""
    if isinstance(error, StageError):
        return error.message, error.diagnostic, error.suffix
    kind = type(error).__name__
    return f"{kind}: {error}" if str(error) else kind, "".join(traceback.format_exception(error)), ".txt"
