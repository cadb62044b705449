"""Processor seconds that `opscope.judge` takes for a million elements: the least of three, of every elementwise op.

`python -m ci.benchmarks.judge_speed --steps | sort -r` has one line for each op and type, the slowest first. With
`--answers FILE` each full answer is written, by which two revisions can be compared.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import ml_dtypes
import numpy as np

from opscope import judge
from opscope.harness.formulas.nearest import rounded
from opscope.harness.formulas.pointwise import POINTWISE
from opscope.harness.formulas.stepwise import NEAREST, evaluations
from opscope.harness.ulp.swept_op import GROUPS, SweptOp, every

LIMIT = 0.2
"""Seconds that a verdict on a million elements may take."""
TYPES = {"f32": np.dtype(np.float32), "bf16": np.dtype(ml_dtypes.bfloat16), "f16": np.dtype(np.float16)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table; 1 if a verdict takes longer than the limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("ops", nargs="*", help="default: all")
    parser.add_argument("--dtype", action="append", choices=TYPES, help="default: f32 and bf16")
    parser.add_argument("--steps", action="store_true", help="also results of a formula's usual steps in float32")
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--answers", type=Path)
    options = parser.parse_args(arguments)
    taken, answers = dict[str, float](), dict[str, object]()
    for op in every(GROUPS["all"]):
        if options.ops and op.name not in options.ops:
            continue
        for name, inputs, output in _results(op, options.dtype or ["f32", "bf16"], options.steps, options.size):
            verdict = judge(op.op_name or op.name, inputs, output)  # imports what is imported when it is first needed
            for _ in range(options.times):
                start = time.process_time()
                verdict = judge(op.op_name or op.name, inputs, output)
                taken[name] = min(taken.get(name, np.inf), time.process_time() - start)
            answers[name] = verdict.as_json() if options.answers else None
            print(f"{taken[name]:.3f} s  {name}  {verdict.answer}", flush=True)
    over = sum(seconds > LIMIT for seconds in taken.values())
    print(f"{over} of {len(taken)} over {LIMIT} s; {sum(taken.values()):.1f} s in all", file=sys.stderr)
    if options.answers:
        options.answers.write_text(json.dumps(answers, indent=1))
    return int(over > 0)


def _results(
    op: SweptOp, types: Sequence[str], steps: bool, size: int
) -> Iterator[tuple[str, list[np.ndarray], np.ndarray]]:
    """Name, inputs and result of what is judged: the nearest numbers, and a formula's usual steps in float32."""
    for kind in types:
        dtype, rng = TYPES[kind], np.random.default_rng(1)
        normal = [2 * rng.standard_normal(size) for _ in range(op.operands)]
        domains = (lambda x: x, np.abs, np.tanh, lambda x: np.abs(np.tanh(x)), lambda x: 1 + np.abs(x))
        drawn = [[of(x).astype(dtype) for x in normal] for of in domains]
        inputs = min(drawn, key=lambda each: np.count_nonzero(~np.isfinite(op.exact(each))))
        yield f"{op.name} {kind} right", inputs, rounded(op.exact(inputs), dtype)
        if steps and kind == "f32" and not op.op_name:
            formula, wide = POINTWISE[op.name.partition("(")[0]], [x.astype(np.float64) for x in inputs]
            usual = lambda *x, formula=formula: formula.steps(*x, **dict(op.given))  # noqa: E731
            (made,) = next(iter(evaluations(usual, wide, dtype, NEAREST)))
            yield f"{op.name} {kind} steps", inputs, np.broadcast_to(made, inputs[0].shape).astype(dtype)


if __name__ == "__main__":
    sys.exit(main())
