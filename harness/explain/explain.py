"""The explanation of a wrong result: its worst elements and what made them, a heat map, a histogram, a hypothesis."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence

import numpy as np

from opscope.base import stored
from opscope.base.time_limit import TimeIsUpError, time_limit
from opscope.harness.explain.element_errors import ElementErrors, Judged, element_errors
from opscope.harness.explain.heat_cells import heat_map
from opscope.harness.explain.hypotheses.evidence import Evidence
from opscope.harness.explain.hypotheses.table import hypothesis
from opscope.harness.explain.operand_elements import OperandElements, number_text
from opscope.harness.record import explanation_picture, explanation_text
from opscope.harness.record.element_types import save, size_text
from opscope.harness.record.explanation import (
    JSON,
    PICTURE,
    SECONDS,
    TEXT,
    Explanation,
    Histogram,
    ResultExplanation,
    WorstElement,
)
from opscope.harness.record.records import ResultCheck
from opscope.harness.record.signature import shorten
from opscope.harness.verdict.places import index_of, name_of

WORST_SHOWN = 16
"""Worst elements that are kept."""
LARGEST = 1 << 26
"""Elements above which a result is only described by its reason: its errors would take too much memory and time."""
RESULT_BYTES = 16 << 20
"""Size of a device's result above which it is not stored."""
Write = Callable[[str, str | bytes], str | None]
"""Writes a file by its name; returns its place, None if the disk refuses it."""
EDGES = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, *(10.0**power for power in range(2, 10)))
"""Buckets of |z|: by fourths and doubling where limits lie, then by tens, up to the largest that there is."""


def explain(
    judged: Judged, checks: Sequence[ResultCheck], *, op_id: str, backend: str, seconds: float = SECONDS
) -> Explanation:
    """The explanation of the results that are wrong. Never raises what an op can cause: what could not be found out is
    said in a note."""
    results, note = [], ""
    wrong = [(number, check) for number, check in enumerate(checks) if not check.passed]
    try:
        with time_limit(seconds):
            judged = judged.meant()
            for number, check in wrong:
                results.append(_plain(judged, number, check))
                _refine(judged, number, check, results)
    except TimeIsUpError:
        note = f"the explanation ends here: it took {seconds:g} s"
    except Exception as error:  # noqa: BLE001  the verdict stands, whatever its explanation runs into
        note = f"not explained further: {type(error).__name__}: {shorten(str(error), 120)}"
    return Explanation(op_id=op_id, op_name=judged.op_name, backend=backend, results=tuple(results), note=note)


def _plain(judged: Judged, number: int, check: ResultCheck) -> ResultExplanation:
    """What is known without looking at elements."""
    golden = judged.golden[number] if number < len(judged.golden) else judged.got[number]
    output = judged.outputs[number] if number < len(judged.outputs) else None
    data_type = output.data_type if output is not None else golden.dtype.name
    return ResultExplanation(number=number, shape=golden.shape, data_type=data_type, reason=check.reason)


def _refine(judged: Judged, number: int, check: ResultCheck, results: list[ResultExplanation]) -> None:
    """Replaces the last of the results by one that holds more, step by step: what ends it early loses nothing."""

    def put(**fields: object) -> None:
        results[-1] = results[-1].model_copy(update=fields)

    if number >= len(judged.golden) or number >= len(judged.got):
        return
    golden, got = judged.golden[number], judged.got[number]
    if golden.shape != got.shape or golden.dtype != got.dtype:
        put(hypothesis=_of_another_shape(golden, got))
        return
    if golden.size > LARGEST:
        put(note=f"not looked at by element: {golden.size:,} elements")
        return
    errors = element_errors(judged, number, check)
    put(wrong=int(np.count_nonzero(errors.wrong)), count=golden.size, z_limit=errors.limit)
    put(
        heat=heat_map(errors.wrong, errors.z, judged.target.tiled) if golden.size > 1 else None,
        histogram=None if errors.z is None else histogram(errors.z),
    )
    put(worst=tuple(_worst(errors, judged, number)))
    put(hypothesis=hypothesis(Evidence(judged, number, errors)))


def _of_another_shape(golden: np.ndarray, got: np.ndarray) -> str:
    """The hypothesis for a result of another shape or type that holds the right values."""
    if golden.size != got.size or golden.size == 0:
        return ""
    with np.errstate(all="ignore"):
        right, device = (array.astype(np.complex128) for array in (golden, got))
        near = 1e-2 * float(np.sqrt(np.mean(np.abs(np.nan_to_num(right)) ** 2)))
        if np.allclose(right.ravel(), device.ravel(), rtol=1e-2, atol=near * 1e-2, equal_nan=True):
            return f"another {'type' if golden.shape == got.shape else 'shape'}: the values are right"
        if golden.shape[::-1] == got.shape and np.allclose(
            right.T, device, rtol=1e-2, atol=near * 1e-2, equal_nan=True
        ):
            return "transposed: the values are right, with their dims in reverse order"
    return ""


def _worst(errors: ElementErrors, judged: Judged, number: int) -> list[WorstElement]:
    """The worst elements; of equally wrong ones the first, at most a few of each tile."""
    size = errors.wrong.astype(np.float32) if errors.z is None else np.abs(errors.z)
    flat = np.ravel(size)
    count = min(WORST_SHOWN, int(np.count_nonzero(flat)))
    if not count:
        return []
    kept = np.argpartition(flat, flat.size - count)[flat.size - count :]
    kept = kept[np.lexsort((kept, -flat[kept]))]
    if float(flat[kept[-1]]) == float(flat[kept[0]]):  # all alike: the first ones say as much and are easier to find
        kept = np.flatnonzero(flat == flat[kept[0]])[:count]
    operands = (
        None if judged.operands is None else OperandElements(judged.op_name, dict(judged.params), judged.operands)
    )
    worst = []
    for place in map(int, kept):
        index = index_of(place, errors.golden.shape)
        terms, note = ((), "") if operands is None else operands.of(index, number)
        worst.append(
            WorstElement(
                index=index,
                place=name_of(place, errors.golden.shape) if judged.target.tiled else "",
                expected=number_text(errors.golden[index]),
                got=number_text(errors.got[index]),
                z=None if errors.z is None else float(f"{errors.z[index]:.6g}"),
                terms=terms,
                terms_note=note,
            )
        )
    return worst


def histogram(z: np.ndarray) -> Histogram:
    """How many elements have which |z|."""
    size = np.abs(np.ravel(z))
    most = max(1.0, float(size.max(initial=0.0)))
    edges = [edge for edge in EDGES if edge <= most]
    bucket = np.searchsorted(edges, size, side="right") - 1
    low = np.ravel(z) < 0
    counts = [np.bincount(bucket[chosen], minlength=len(edges)) for chosen in (low, ~low)]
    return Histogram(edges=tuple(edges), low=tuple(map(int, counts[0])), high=tuple(map(int, counts[1])))


def store(explanation: Explanation, got: Sequence[np.ndarray], write: Write) -> str | None:
    """Writes an explanation with its picture and the device's results; returns where its text is.

    `write` takes a file's name and content and returns its place, None if the disk refuses it.
    """
    results = []
    for result in explanation.results:
        fields: dict[str, str] = {}
        if result.number < len(got):
            array, name = got[result.number], f"result-{result.number}.npy"
            said = f"the device's result is not stored: {size_text(array.nbytes)}"
            if array.nbytes <= RESULT_BYTES and write(name, _npy(array)) is not None:
                fields = {"file": name}
            else:
                fields = {"note": "; ".join(filter(None, (result.note, said)))}
        results.append(result.model_copy(update=fields))
    explanation = explanation.model_copy(update={"results": tuple(results)})
    write(JSON, stored.sealed(explanation.model_dump_json(), JSON) + b"\n")
    write(PICTURE, explanation_picture.picture(explanation).encode())
    return write(TEXT, explanation_text.text(explanation))


def _npy(array: np.ndarray) -> bytes:
    """The bytes of a .npy file."""
    buffer = io.BytesIO()
    save(buffer, array)
    return buffer.getvalue()
