"""The stored StableHLO conformance cases, scored per op in three classes: `python -m tests.conformance`.

- `device`: all its types are the device's, or 64-bit integers that only say a place. Compiled with
  `--unsupported-types=fail`, so that no host op can be in the binary.
- `host`: the rest, compiled with `fallback`.
- `never`: the result is what the hardware gives and the specification does not want, by a fact that is named.

A case is right at its own tolerance (`own`), or, where the device's number format cannot that, at the row of the
harness's tolerance table for the loosest of its ops (`row`).
"""

from __future__ import annotations

import argparse
import collections
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from opscope.base.op_families import op_family
from opscope.compiler import api
from opscope.compiler.errors import StageFailure
from opscope.compiler.options import OPTIMIZATION_LEVELS
from opscope.compiler.target import binary
from opscope.compiler.tests import programs
from opscope.harness.backends.base import Target
from opscope.harness.backends.reference import Reference
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.verdict.check import check
from opscope.harness.verdict.tolerance import TABLE, Tolerance, tolerance
from opscope.simulator.api import Device, DeviceError

NAN_IN_16_BITS = "a NaN that is rounded to 16 bits becomes infinity in the packer"
DENORMAL = "denormals are zero, in operands and in results"
NAN_IS_A_NUMBER = "float16 has no NaN on the device, and the matrix unit no Inf or NaN: their patterns are numbers"


@dataclass(frozen=True)
class Score:
    """What became of one case."""

    number: int
    ops: tuple[str, ...]
    kind: str
    """`device`, `host` or `never`."""
    verdict: str
    """`own`, `row` or `wrong`; of a `never`, empty."""
    why: str = ""
    """What is wrong, or the hardware's fact."""

    @property
    def right(self) -> bool:
        """Whether the numbers are right."""
        return self.verdict in ("own", "row")


def scores(take: Callable[[int], bool] = lambda number: True, level: int = 0, board: str = "n150") -> Iterator[Score]:
    """Runs the cases whose number `take` accepts, compiled for a board at an optimization level."""
    device, target = Device(board), Reference().target(ResultOptions(arch=board))
    for case, source, inputs, expected in programs.conformance():
        if take(case["n"]):
            yield score_of(case, source, inputs, expected, device, target, level)


def score_of(case: Any, source: str, inputs: Any, expected: Any, device: Device, target: Target, level: int) -> Score:
    """Runs one case, compiled at an optimization level, and compares its results with the stored ones."""
    number, ops, kind = case["n"], tuple(case["ops"]), "device"
    options, board = api.CompileOptions(optimization_level=level), device.system
    try:
        try:
            data = api.compile(source, board, options)
            assert not host_ops(data)
        except StageFailure as failure:
            if failure.kind != "never":
                return Score(number, ops, kind, "wrong", str(failure))
            kind, data = "host", api.compile(source, board, replace(options, unsupported_types="fallback"))
        shapes = [desc.shape for desc in api.describe_io(data).inputs]
        # the archive stores scalars as vectors of one element
        arrays = [a.reshape(shape) for a, shape in zip(inputs, shapes, strict=True)]
        outputs = device.load(data).run(arrays).outputs
    except (StageFailure, DeviceError) as failure:
        return Score(number, ops, kind, "wrong", str(failure).splitlines()[0])
    wanted = [e.reshape(o.shape) for o, e in zip(outputs, expected, strict=True)]
    wrong = [own(o, e, *check) for o, e, check in zip(outputs, wanted, case["checks"], strict=True)]
    if not any(wrong):
        return Score(number, ops, kind, "own")
    if kind == "host" and api.ran_on(data) == "host":
        return Score(number, ops, kind, "wrong", " ".join(wrong))
    row = loosest(ops, wanted, target)
    if all(check(e, o, row).passed for o, e in zip(outputs, wanted, strict=True)):
        return Score(number, ops, kind, "row", row.name)
    facts = [_fact(o, e, row, arrays) for o, e in zip(outputs, wanted, strict=True)]
    if all(fact is not None for fact in facts):
        return Score(number, ops, "never", "", "; ".join(dict.fromkeys(fact for fact in facts if fact)))
    return Score(number, ops, kind, "wrong", " ".join(wrong))


def host_ops(data: bytes) -> int:
    """How many host ops a binary has."""
    return sum(op.kernel == "host_op" for program in binary.read(data).programs for op in program.operations)


def own(got: np.ndarray, want: np.ndarray, kind: str, options: dict[str, float]) -> str:
    """What is wrong by the case's own check; empty if nothing is."""
    if got.dtype != want.dtype:
        return f"type {got.dtype}, not {want.dtype}"
    if kind == "expect_eq" or want.dtype.kind in "biu":
        return "" if np.array_equal(got, want) else "not equal"
    if want.dtype.kind == "c":
        parts = [own(getattr(got, p).copy(), getattr(want, p).copy(), kind, options) for p in ("real", "imag")]
        return " ".join(part for part in parts if part)
    a, b = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    special = ~finite & ~np.isnan(b)
    if not np.array_equal(np.isnan(a), np.isnan(b)) or not np.array_equal(a[special], b[special]):
        return "NaN or infinity elsewhere"
    if kind == "expect_almost_eq":
        far = float(np.abs(a[finite] - b[finite]).max(initial=0.0))
        return "" if far <= options.get("tolerance", 1e-3) else f"{far:.2g} off"
    ulp = _steps(got, want)[finite].max(initial=0)
    return "" if ulp <= options.get("max_ulp_difference", 3) else f"{int(ulp)} units off"


def _steps(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """How many floats lie between two arrays of equal type, element by element."""

    def place(x: np.ndarray) -> np.ndarray:
        bits = np.ascontiguousarray(x).view(f"i{x.dtype.itemsize}").astype(np.float64)
        return np.where(bits < 0, -(bits + 2.0 ** (8 * x.dtype.itemsize - 1)), bits)

    return np.abs(place(a) - place(b))


def loosest(ops: Iterable[str], results: Sequence[np.ndarray], target: Target) -> Tolerance:
    """The row of the tolerance table that allows most, of the rows for a case's ops and results."""
    names = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "float64": "f64"}
    rows = [TABLE["exact"]]
    for array in results:
        element = names.get(array.dtype.name, "i32")
        for op in ops:
            ulp = target.error_bound(op) if target.error_bound else None
            rows.append(tolerance(target, op_family(op), element, op_name=op, ulp=ulp))
    return max(rows, key=lambda row: row.relative_l2)


def _fact(got: np.ndarray, want: np.ndarray, row: Tolerance, inputs: Sequence[np.ndarray]) -> str | None:
    """The hardware's facts by which a result differs; empty if it is right, None where they do not explain it."""
    if check(want, got, row).passed:
        return ""
    if want.dtype.name not in ("bfloat16", "float16", "float32"):
        return None
    g, w, facts = got.astype(np.float64), want.astype(np.float64), []
    lost = np.isnan(w) & np.isinf(g) & (want.dtype.itemsize == 2)
    small, special = _denormal(want), np.zeros(want.shape, bool)
    for array in inputs:
        if array.shape == want.shape and array.dtype == want.dtype:
            small |= _denormal(array)
            special |= ~np.isfinite(array.astype(np.float64))
    read = np.isnan(w) & np.isfinite(g) & special & (want.dtype.itemsize == 2)
    flushed = small & (g == 0)
    facts = [NAN_IN_16_BITS] * bool(lost.any()) + [DENORMAL] * bool((flushed & (w != 0)).any())
    facts += [NAN_IS_A_NUMBER] * bool(read.any())
    explained = np.where(lost | flushed | read, got, want).astype(want.dtype)
    return "; ".join(facts) if check(explained, got, row).passed else None


def _denormal(array: np.ndarray) -> np.ndarray:
    return (array != 0) & (np.abs(array.astype(np.float64)) < float(ml_dtypes.finfo(array.dtype).tiny))


def per_op(rated: Iterable[Score]) -> dict[str, collections.Counter[str]]:
    """Op -> counts of `device`, `device right`, `by row`, `host`, `host right`, `never`. A constant is no op here
    unless it is all that a case has.
    """
    table: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for score in rated:
        names = [op for op in score.ops if op not in _FILLING] or list(score.ops) or ["stablehlo.constant"]
        for op in names:
            counts = table[op]
            counts[score.kind] += 1
            counts[f"{score.kind} right"] += score.right
            counts["by row"] += score.verdict == "row"
    return dict(sorted(table.items()))


_FILLING = ("stablehlo.constant", "stablehlo.return")


def to_markdown(rated: list[Score], board: str = "n150") -> str:
    """The page docs/conformance.md, or that of another board."""
    total = collections.Counter(score.kind for score in rated)
    right = collections.Counter(score.kind for score in rated if score.right)
    by_row = sum(score.verdict == "row" for score in rated)
    lines = [
        "# The specification's cases",
        "",
        "`make conformance` writes this page: it runs the stored StableHLO conformance cases through compiler and",
        f"simulator ({board}) and compares the results with their expected values. A case counts for each op in it.",
        "`device` cases run without any host op; `host` cases have a type that the device lacks",
        "([compiler.md](compiler.md#types-that-the-device-lacks)). The result of a `never` is what the hardware",
        "computes; the table at the end gives the reason. `by row`: right within the row of the tolerance table,",
        "because the device's number format cannot keep the tolerance of the case itself. What the netlists of",
        "TT-Buda's back end give when they run their own tests is in [netlists](netlist.md#a-netlists-own-test).",
        "",
        f"{len(rated)} cases: device {right['device']} of {total['device']} right ({by_row} by row), "
        f"host {right['host']} of {total['host']} right, never {total['never']}.",
        "",
        "| op | device | by row | host | never | right |",
        "|---|---|---|---|---|---|",
    ]
    for op, c in per_op(rated).items():
        ran = c["device"] + c["host"]
        share = f"{100 * (c['device right'] + c['host right']) / ran:.0f} %" if ran else ""
        cells = [_of(c["device right"], c["device"]), str(c["by row"] or ""), _of(c["host right"], c["host"])]
        lines.append(f"| `{op}` | {' | '.join(cells)} | {c['never'] or ''} | {share} |")
    lines += ["", "## Never, and wrong", "", "| case | ops | class | why |", "|---|---|---|---|"]
    for score in rated:
        if not score.right:
            ops = ", ".join(op.split(".")[1] for op in score.ops[:4])
            lines.append(f"| {score.number} | {ops} | {score.kind} | {score.why} |")
    return "\n".join(lines) + "\n"


def _of(right: int, count: int) -> str:
    return f"{right}/{count}" if count else ""


def main() -> None:
    """Prints the page: of every case, or of every Nth with `--every N`."""
    parser = argparse.ArgumentParser(prog="python -m opscope.compiler.tests.conformance", description=main.__doc__)
    parser.add_argument("--every", type=int, default=1, metavar="N")
    parser.add_argument("--optimization-level", type=int, default=0, choices=OPTIMIZATION_LEVELS)
    parser.add_argument("--arch", default="n150", metavar="BOARD")
    options = parser.parse_args()
    if not programs.has_conformance():
        sys.exit("conformance: expected stablehlo_cases.zip beside the checkout, got none")
    rated = scores(lambda number: number % options.every == 0, options.optimization_level, options.arch)
    sys.stdout.write(to_markdown(list(rated), options.arch))


if __name__ == "__main__":
    main()
