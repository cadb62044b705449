"""Does the verdict of a run refuse a stored StableHLO case that is right? All cases, by the answers stored with them.

`python -m ci.benchmarks.stored_cases --level 2 --every 1` runs the conformance cases (compiler/tests/conformance.py) on
n150 and judges their stored answers as a run judges goldens: a single op by its own error model, several as a part. A
line for each case that is refused although its score is right; it ends with 1 if there is one. Cases of `never` are
counted alone.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from opscope.compiler import api
from opscope.compiler.errors import StageFailure
from opscope.compiler.tests import conformance, programs
from opscope.harness.backends.reference import Reference
from opscope.harness.judge.module_verdict import ModuleVerdict
from opscope.harness.record.result_options import ResultOptions
from opscope.simulator.api import Device

BOARD = "n150"
STORED = {
    1178: "tan of float16: the stored answer is a unit above the nearest number, the device's a unit below, which cuts",
    1234: "a case of the check itself: its stored answer is 5.0001 where the operand 5 is returned",
    1235: "a case of the check itself: its stored answer is 5.1 where the operand 5 is returned",
}
"""Number of a case whose stored answer is not the one to expect -> why. A run's golden is XLA's, not the stored one."""


def refused(case: Any, source: str, inputs: Any, expected: Any, device: Device, level: int) -> str:
    """Why the verdict refuses a case's results; empty if it does not."""
    options = api.CompileOptions(optimization_level=level)
    try:
        data = api.compile(source, programs.BOARD, options)
    except StageFailure:
        data = api.compile(source, programs.BOARD, replace(options, unsupported_types="fallback"))
    shapes = [desc.shape for desc in api.describe_io(data).inputs]
    arrays = [array.reshape(shape) for array, shape in zip(inputs, shapes, strict=True)]
    outputs = device.load(data).run(arrays).outputs
    wanted = [answer.reshape(output.shape) for output, answer in zip(outputs, expected, strict=True)]
    target = Reference().target(ResultOptions(arch=BOARD, optimization_level=level))
    checks = ModuleVerdict(source.encode() if isinstance(source, str) else source, arrays).checks(
        wanted, outputs, target
    )
    return "; ".join(check.reason for check in checks if not check.passed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the refused cases and the counts; 1 if one is refused that is right."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--level", type=int, default=2, help="optimization level")
    parser.add_argument("--every", type=int, default=1, help="each so many cases")
    options = parser.parse_args(arguments)
    device, counts = Device(BOARD), Counter[str]()
    target = Reference().target(ResultOptions(arch=BOARD))
    for case, source, inputs, expected in programs.conformance():
        if case["n"] % options.every:
            continue
        scored = conformance.score_of(case, source, inputs, expected, device, target, options.level)
        reason = refused(case, source, inputs, expected, device, options.level) if scored.right else ""
        counts[
            "never" if scored.kind == "never" else "wrong" if not scored.right else "refused" if reason else "right"
        ] += 1
        if reason:
            print(f"{case['n']} {', '.join(case['ops'])} ({scored.kind}, {scored.verdict}): {reason}", flush=True)
    print(", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    return int(counts["refused"] > 0)


if __name__ == "__main__":
    sys.exit(main())
