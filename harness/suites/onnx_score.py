"""The child that scores node tests of ONNX: from graph to device, each step judged by the stored answers.

A case that ends the process (the importer has asserts) is its own row; the parent starts a new child for the rest.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from opscope.base.children.inside import Parent
from opscope.base.visible_text import cut
from opscope.harness.backends import registry
from opscope.harness.backends.base import Backend, Job, StageError
from opscope.harness.judge.module_verdict import ModuleVerdict
from opscope.harness.prepare.golden import GoldenError, compile_module
from opscope.harness.prepare.onnx_suite.onnx_cases import INDEX, tensors
from opscope.harness.record.records import ResultCheck
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage
from opscope.harness.suites.faults import Fault, Score
from opscope.harness.verdict.target import Target

HOST = Target(card_type="host", float_format=None, math_fidelity="exact")
NAN_IS_LOST = (
    "a NaN of 16 or 8 bits is none on the device: the packer makes it infinity, and f16 and FP8 have numbers only"
)
LOSES_NAN = ("float16", "bfloat16", "float8_e5m2", "float8_e4m3fn")


class _AtFault(Exception):
    """Ends a case."""

    def __init__(self, fault: Fault, why: object) -> None:
        super().__init__(str(why))
        self.fault = fault


def score(parent: Parent) -> None:
    """Scores the task's `names` one by one.

    Sends `{"begins": name}`, `{"step": the part at work}` for each part, then `{"score": fields of Score}`.
    """
    warnings.simplefilter("ignore")
    task = parent.task()
    folder = Path(task["folder"])
    index = json.loads((folder / INDEX).read_text())

    at_work = Fault.FRONTEND

    def begin(part: Fault) -> None:
        nonlocal at_work
        at_work = part
        parent.send({"step": part})

    judge = _Judge(registry.load(task["backend"]), ResultOptions(**task["options"]), begin)
    for name in task["names"]:
        parent.send({"begins": name})
        begin(Fault.FRONTEND)
        row = Score(name, index[name]["op"], Fault.NONE)
        try:
            row = judge.judged(row, folder / name, index[name])
        except _AtFault as at_fault:
            row = replace(row, fault=at_fault.fault, why=cut(str(at_fault).strip(), 1000))
        except Exception as error:  # noqa: BLE001 - one case costs its own row, never those of the others
            row = replace(row, fault=at_work, why=_in_words(error))
        parent.send({"score": asdict(row)})


class _Judge:
    """Scores cases on one backend."""

    def __init__(self, backend: Backend, options: ResultOptions, begin: Callable[[Fault], None]) -> None:
        self._backend, self._options, self._begin = backend, options, begin
        self._target = backend.target(options)

    def judged(self, row: Score, folder: Path, entry: dict[str, Any]) -> Score:
        """Returns the score of a case without a fault. Raises _AtFault."""
        if entry["other"]:
            raise _AtFault(Fault.NEVER, f"{entry['other']}: StableHLO has tensors of numbers only")
        if entry["draws"]:
            raise _AtFault(Fault.NEVER, "the stored answer is one draw of many")
        inputs, wanted = tensors(folder, "input"), tensors(folder, "output")
        module, feed, by_xla = self._imported(folder, inputs, wanted, entry)
        verdict = ModuleVerdict(module, feed)
        imported_right = _agree(by_xla, wanted, entry, verdict, HOST)
        try:
            job = self._run(module, feed)
        except StageError as error:
            if not imported_right:
                raise _AtFault(Fault.IMPORTER, f"XLA: {_difference(by_xla, wanted)}") from None
            raise _AtFault(*_refusal(error)) from None
        within = _agree(job.outputs, wanted, entry, verdict, self._target)
        if not within and not imported_right:
            raise _AtFault(Fault.IMPORTER, f"XLA: {_difference(by_xla, wanted)}")
        if not within:
            mended = _without_lost_nan(job.outputs, wanted, feed)
            if mended is not None and _agree(mended, wanted, entry, verdict, self._target):
                raise _AtFault(Fault.NEVER, NAN_IS_LOST)
            raise _AtFault(Fault.DEVICE, _difference(job.outputs, wanted))
        if within == "suite" and not _accepted(_checks(verdict, wanted, job.outputs, self._target)):
            raise _AtFault(Fault.COMPARISON, "within the suite's tolerance, outside ours")
        return replace(row, ran_on=job.ran_on, within=within)

    def _run(self, module: bytes, feed: Sequence[np.ndarray]) -> Job:
        """The job after all stages, with host ops if the board lacks a type. Raises StageError."""
        try:
            return self._climbed(module, feed, self._options)
        except StageError as error:
            if getattr(error.__cause__, "kind", "") != "never":
                raise
        return self._climbed(module, feed, self._options.model_copy(update={"unsupported_types": "fallback"}))

    def _climbed(self, module: bytes, feed: Sequence[np.ndarray], options: ResultOptions) -> Job:
        job = Job("suite", module, [], options)
        for stage in self._backend.stages:
            self._begin(Fault.DEVICE if stage is Stage.RUN else Fault.COMPILER)
            if stage is Stage.RUN:
                job.inputs = [np.array(array, copy=True, order="C") for array in feed]
            try:
                self._backend.climb(stage, job)
            except StageError as error:
                error.stage = stage
                raise
        return job

    def _imported(
        self, folder: Path, inputs: list[np.ndarray], wanted: list[np.ndarray], entry: dict[str, Any]
    ) -> tuple[bytes, list[np.ndarray], list[np.ndarray]]:
        """The StableHLO of a case, the inputs that are left to it, and XLA's results. Raises _AtFault."""
        import onnx

        from opscope.models.frontends.through_onnx.bind import bind
        from opscope.models.frontends.through_onnx.lower import expanded_and_lowered

        self._begin(Fault.FRONTEND)
        model = onnx.load(folder / "model.onnx")
        values = dict(zip([info.name for info in model.graph.input], inputs, strict=True))
        bound = bind(model, values)
        feed = [values[info.name] for info in bound.graph.input]
        self._begin(Fault.IMPORTER)
        try:
            expanded, module = expanded_and_lowered(bound)
        except Exception as error:
            raise _AtFault(Fault.IMPORTER if _expands(bound) else Fault.FRONTEND, _in_words(error)) from error
        by_xla = _by_xla(module, feed)
        verdict = ModuleVerdict(module, feed)
        if not _agree(by_xla, wanted, entry, verdict, HOST) and not _rewritten_right(
            expanded, feed, wanted, entry, verdict
        ):
            raise _AtFault(Fault.FRONTEND, f"the graph after rewriting: {_difference(by_xla, wanted)}")
        return module, feed, by_xla


def _expands(model: Any) -> bool:
    """Whether the graph could be rewritten."""
    from opscope.models.frontends.through_onnx.expand import expand

    try:
        expand(model)
    except Exception:  # noqa: BLE001 - whatever it is, it is ours
        return False
    return True


def _rewritten_right(
    expanded: Any, feed: list[np.ndarray], wanted: list[np.ndarray], entry: dict[str, Any], verdict: ModuleVerdict
) -> bool:
    """Whether the standard's reference gets the stored answers from the rewritten graph, or cannot run it."""
    from opscope.models.frontends.through_onnx.reference import evaluator

    names = [info.name for info in expanded.graph.input]
    try:
        answers = evaluator(expanded).run(None, dict(zip(names, feed, strict=True)))
        arrays = [np.asarray(answer) for answer in answers]
    except Exception:  # noqa: BLE001 - the reference lacks some ops; the importer then stays suspect
        return True
    return bool(_agree(arrays, wanted, entry, verdict, HOST))


def _by_xla(module: bytes, feed: Sequence[np.ndarray]) -> list[np.ndarray]:
    try:
        return compile_module(module)(feed)
    except GoldenError as error:
        raise _AtFault(Fault.IMPORTER, f"XLA refuses the module: {error}") from error


def _checks(
    verdict: ModuleVerdict, wanted: Sequence[np.ndarray], got: Sequence[np.ndarray], target: Target
) -> list[ResultCheck]:
    """The checks of the results. Raises _AtFault if the comparison itself fails."""
    try:
        return verdict.checks(wanted, got, target)
    except Exception as error:
        raise _AtFault(Fault.COMPARISON, _in_words(error)) from error


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _accepted(checks: Sequence[ResultCheck]) -> bool:
    """Whether the harness's verdict takes all results."""
    return all(result.passed for result in checks)


def _agree(
    got: Sequence[np.ndarray],
    wanted: Sequence[np.ndarray],
    entry: dict[str, Any],
    verdict: ModuleVerdict,
    target: Target,
) -> str:
    """`suite` if the results are within the suite's tolerance, the verdict's row if within that, else empty."""
    if len(got) != len(wanted):
        return ""
    if all(_close(have, want, entry["rtol"], entry["atol"]) for have, want in zip(got, wanted, strict=True)):
        return "suite"
    checks = _checks(verdict, wanted, got, target)
    return checks[0].tolerance if _accepted(checks) else ""


def _close(got: np.ndarray, want: np.ndarray, rtol: float, atol: float) -> bool:
    """The suite's own comparison: NumPy's `assert_allclose`, equal types, NaN equal to NaN."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return False
    if got.dtype.kind in "biu":
        return bool(np.array_equal(got, want))
    wide = np.complex128 if got.dtype.kind == "c" else np.float64
    return bool(np.allclose(got.astype(wide), want.astype(wide), rtol=rtol, atol=atol, equal_nan=True))


def _difference(got: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> str:
    """The first result that differs, in words."""
    if len(got) != len(wanted):
        return f"expected {len(wanted)} results, got {len(got)}"
    for number, (have, want) in enumerate(zip(got, wanted, strict=True)):
        if (have.dtype, have.shape) != (want.dtype, want.shape):
            return f"result {number}: expected {want.dtype}{list(want.shape)}, got {have.dtype}{list(have.shape)}"
        unequal = (have != want) & ~((have != have) & (want != want))
        if unequal.any():
            at = tuple(int(i) for i in np.argwhere(unequal)[0])
            place = f"result {number} at {list(at)}"
            return f"{place}: expected {want[at]}, got {have[at]}; {int(unequal.sum())} of {want.size} differ"
    return "equal"


def _refusal(error: StageError) -> tuple[Fault, str]:
    stage = error.stage
    return (Fault.DEVICE if stage is Stage.RUN else Fault.COMPILER), f"{stage}: {error}"


def _without_lost_nan(
    got: Sequence[np.ndarray], wanted: Sequence[np.ndarray], feed: Sequence[np.ndarray]
) -> list[np.ndarray] | None:
    """The results as stored wherever a NaN of 16 or 8 bits reaches, in operand or result; None if there is none."""
    mended, any_lost = [], False
    for have, want in zip(got, wanted, strict=True):
        if have.dtype != want.dtype or have.shape != want.shape:
            return None
        reached = np.zeros(want.shape, np.bool_)
        for array in (want, *feed):
            if array.shape == want.shape and array.dtype.name in LOSES_NAN:
                reached |= np.isnan(array)
        any_lost |= bool(reached.any())
        mended.append(np.where(reached, want, have).astype(want.dtype))
    return mended if any_lost else None
